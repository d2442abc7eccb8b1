/*
 * The spawner, asked as a keeper asks and as somebody who has taken one over would.
 *
 * The session is of tier none, whose box needs nothing of the machine: the walls of a box have
 * tests of their own (sandbox/box_test.c).
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "keeper/kit.h"
#include "keeper/session.h"
#include "keeper/spawner.h"
#include "keeper/spawner_protocol.h"
#include "sandbox/hosts.h"

enum { WAIT_MS = 10000 };

struct world {
	struct kit kit;
	struct session session;
	struct spawner *spawner;
	char title[64];
};

static struct world world;

static void write_config(void)
{
	cleanup_free char *text = mem_format("{\"format\":1,\"id\":\"spawnertest\",\"python\":"
					     "\"/usr/bin/python3\",\"tier\":\"none\",\"workspace\":"
					     "{\"path\":\"%s/workspace\",\"private\":true}}",
					     world.kit.path);

	assert_int_equal(mkdirat(world.kit.fd, "workspace", 0700), 0);
	assert_int_equal(file_replace(world.kit.fd, "session.json", text, strlen(text), 0600, NULL),
			 0);
}

static int open_world(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	kit_open(&world.kit, "spawner_test");
	setenv("XDG_RUNTIME_DIR", world.kit.path, 1);
	setenv("FUMEHOOD_LIBEXEC", world.kit.path, 1); /* where the guest's part would lie */
	assert_int_equal(mkdirat(world.kit.fd, "python", 0700), 0);
	write_config();
	world.session.dirfd = world.kit.fd;
	world.spawner = spawner_new(&world.session, world.title, sizeof(world.title), NULL);
	assert_non_null(world.spawner);
	assert_int_equal(config_read(world.kit.fd, &world.session.config, NULL), 0);
	assert_int_equal(session_prepare(&world.session, NULL), 0);
	return 0;
}

static int close_world(void **state)
{
	(void)state;
	box_free(world.session.box);
	spawner_free(world.spawner);
	free(world.session.python);
	free(world.session.cold_script);
	free(world.session.guest_folder);
	config_release(&world.session.config);
	kit_close(&world.kit);
	return 0;
}

static struct box *build(struct err *err)
{
	spawner_prepare(world.spawner);
	world.session.box = spawner_build(world.spawner, &world.session, err);
	return world.session.box;
}

static bool ends(int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};

	return poll(&end, 1, WAIT_MS) == 1;
}

static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void test_a_box_is_built_used_and_ended(void **state)
{
	static const char *const argv[] = {"/bin/sh", "-c", "exit 7", NULL};
	static const char *const envp[] = {NULL};
	const int fds[] = {-1, -1, -1};
	struct err err = ERR_INIT;
	struct box *box = build(&err);
	struct box_usage usage;
	int status = 0, got;
	cleanup_fd int init = -1;
	pid_t pid, ended;

	(void)state;
	assert_non_null(box);
	assert_int_equal(box_tier(box), TIER_NONE);
	assert_null(box_namespaces(box));
	assert_int_equal(box_filter(box), -1);
	init = pidfd_of(box_pid(box));
	assert_int_equal(box_exec(box, argv, envp, fds, 3, &pid, &err), 0);
	do {
		struct pollfd report = {.fd = box_socket(box), .events = POLLIN};

		poll(&report, 1, WAIT_MS);
		got = box_next_exit(box, &ended, &status, &err);
	} while (got == 0);
	assert_int_equal(got, 1);
	assert_int_equal(ended, pid);
	assert_int_equal(WEXITSTATUS(status), 7);
	box_read_usage(box, &usage);
	assert_int_equal(box_change_limits(box, &world.session.policy, &err), 0);
	box_free(box);
	world.session.box = NULL;
	assert_true(ends(init));
}

static void test_nothing_is_done_before_there_is_a_configuration(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_null(spawner_build(world.spawner, &world.session, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

/* What it builds is what the file said when it was first read. */
static void test_the_configuration_is_read_once(void **state)
{
	static const char other[] = "{\"format\":1,\"id\":\"spawnertest\",\"python\":\"/bin/true\","
				    "\"tier\":\"none\",\"workspace\":{\"path\":\"/etc\"}}";
	struct err err = ERR_INIT;
	cleanup_free char *expected = mem_format("%s/workspace", world.kit.path);

	(void)state;
	assert_non_null(build(&err));
	box_free(world.session.box);
	assert_int_equal(
		file_replace(world.kit.fd, "session.json", other, strlen(other), 0600, NULL), 0);
	assert_non_null(build(&err));
	assert_string_equal(box_workspace(world.session.box), expected);
}

static void test_no_process_from_elsewhere_is_taken_in(void **state)
{
	struct err err = ERR_INIT;
	struct box_guest guest;
	pid_t other = fork();
	cleanup_fd int pidfd = -1, no_pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	if (other == 0) {
		pause();
		_exit(0);
	}
	pidfd = pidfd_of(other);
	assert_non_null(build(&err));
	assert_int_equal(box_meet(world.session.box, pidfd, &guest, &err), -1);
	assert_int_equal(err.code, ERR_ENGINE);
	assert_non_null(strstr(err.text, "elsewhere"));
	assert_int_equal(box_meet(world.session.box, no_pidfd, &guest, &err), -1);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static void test_without_a_network_of_the_boxs_own_there_is_none(void **state)
{
	struct err err = ERR_INIT;
	uint16_t port = 0;

	(void)state;
	assert_non_null(build(&err));
	assert_int_equal(spawner_listen(world.spawner, &port, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
}

/* --- hosts --- */

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int listen_here(uint16_t *port)
{
	struct sockaddr_in address = loopback(0);
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

static void allow(const char *rule)
{
	struct hosts hosts = HOSTS_INIT;

	assert_int_equal(hosts_add(&hosts, rule, strlen(rule), NULL), 0);
	assert_int_equal(spawner_rules(world.spawner, &hosts, NULL), 0);
	hosts_release(&hosts);
}

static enum refusal dial(const struct hosts_target *target, const struct sockaddr_in *address,
			 int *fd)
{
	return SPAWNER_DIALER.dial(world.spawner, target, (const struct sockaddr *)address, fd);
}

static void test_only_what_the_rules_allow_is_dialled(void **state)
{
	struct hosts_target target;
	struct sockaddr_in address;
	cleanup_free char *rule = NULL;
	uint16_t port;
	cleanup_fd int listener = listen_here(&port);
	cleanup_fd int fd = -1;
	struct pollfd arrived = {.fd = listener, .events = POLLIN};

	(void)state;
	spawner_prepare(world.spawner);
	address = loopback(port);
	assert_int_equal(hosts_read_name("localhost", 9, &target), REFUSAL_NONE);
	target.port = port;
	assert_int_equal(dial(&target, &address, &fd), REFUSAL_NOT_ALLOWED);
	assert_int_equal(fd, -1);
	rule = mem_format("localhost:%u", port);
	allow(rule);
	assert_int_equal(dial(&target, &address, &fd), REFUSAL_NONE);
	assert_int_equal(poll(&arrived, 1, WAIT_MS), 1);
	/* the name is allowed, the address is nobody's that a name of ours leads to */
	assert_int_equal(inet_pton(AF_INET, "169.254.169.254", &address.sin_addr), 1);
	assert_int_not_equal(
		SPAWNER_DIALER.check(world.spawner, &target, (const struct sockaddr *)&address),
		REFUSAL_NONE);
	/* another port than was asked for */
	address = loopback((uint16_t)(port + 1));
	assert_int_not_equal(
		SPAWNER_DIALER.check(world.spawner, &target, (const struct sockaddr *)&address),
		REFUSAL_NONE);
}

static void test_only_what_the_rules_allow_is_looked_up(void **state)
{
	struct sockaddr_storage found[4];
	struct hosts_target target;
	struct pollfd answer = {.fd = -1, .events = POLLIN};

	(void)state;
	spawner_prepare(world.spawner);
	assert_int_equal(hosts_read_name("localhost", 9, &target), REFUSAL_NONE);
	target.port = 80;
	assert_int_equal(SPAWNER_DIALER.look_up(world.spawner, &target), -1);
	allow("localhost");
	answer.fd = SPAWNER_DIALER.look_up(world.spawner, &target);
	assert_true(answer.fd >= 0);
	assert_int_equal(poll(&answer, 1, WAIT_MS), 1);
	assert_true(SPAWNER_DIALER.read_found(answer.fd, found, 4) >= 1);
	close(answer.fd);
	/* bytes that no name has */
	memcpy(target.name, "local\nhost", 11);
	assert_int_equal(SPAWNER_DIALER.look_up(world.spawner, &target), -1);
}

/* --- ends --- */

static void test_its_death_is_noticed_and_the_box_goes(void **state)
{
	struct err err = ERR_INIT;
	cleanup_fd int init = -1;
	uint16_t port = 0;

	(void)state;
	assert_non_null(build(&err));
	init = pidfd_of(box_pid(world.session.box));
	kill(spawner_pid(world.spawner), SIGKILL);
	assert_true(ends(init));
	assert_int_equal(spawner_listen(world.spawner, &port, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
}

/* A keeper of its own, which is killed. */
static void test_the_keepers_death_is_its_end_and_the_boxs(void **state)
{
	struct pollfd told = {.events = POLLIN};
	cleanup_fd int init = -1;
	pid_t keeper, pid = 0;
	int ends_of_pipe[2];

	(void)state;
	assert_int_equal(pipe2(ends_of_pipe, O_CLOEXEC), 0);
	keeper = fork();
	if (keeper == 0) {
		world.spawner = spawner_new(&world.session, world.title, sizeof(world.title), NULL);
		pid = build(NULL) ? box_pid(world.session.box) : 0;
		(void)!write(ends_of_pipe[1], &pid, sizeof(pid));
		for (;;)
			pause();
	}
	told.fd = ends_of_pipe[0];
	assert_int_equal(poll(&told, 1, WAIT_MS), 1);
	assert_int_equal(read(ends_of_pipe[0], &pid, sizeof(pid)), sizeof(pid));
	assert_true(pid > 0);
	init = pidfd_of(pid);
	kill(keeper, SIGKILL);
	waitpid(keeper, NULL, 0);
	assert_true(ends(init));
	close(ends_of_pipe[0]);
	close(ends_of_pipe[1]);
}

/* Whoever sends what is no order is not the keeper. */
static void foreign(const void *bytes, size_t len)
{
	struct session own = {.dirfd = world.kit.fd};
	int pair[2], status;
	pid_t pid;

	assert_int_equal(socket_pair(SOCK_SEQPACKET, pair, NULL), 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		spawner_serve(pair[1], &own);
		_exit(0);
	}
	close(pair[1]);
	assert_int_equal(socket_send(pair[0], bytes, len, NULL, 0), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid); /* it ends, although we are still there */
	assert_int_equal(status, 0);
	close(pair[0]);
}

static void test_what_is_no_order_ends_it(void **state)
{
	struct spawner_order order = {.op = SPAWNER_OPS};

	(void)state;
	foreign("x", 1);
	foreign(&order, sizeof(order) - 1);
	foreign(&order, sizeof(order));
	order.op = UINT32_MAX;
	foreign(&order, sizeof(order));
}

int main(void)
{
#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
	const struct CMUnitTest tests[] = {
		WITH_WORLD(test_a_box_is_built_used_and_ended),
		WITH_WORLD(test_nothing_is_done_before_there_is_a_configuration),
		WITH_WORLD(test_the_configuration_is_read_once),
		WITH_WORLD(test_no_process_from_elsewhere_is_taken_in),
		WITH_WORLD(test_without_a_network_of_the_boxs_own_there_is_none),
		WITH_WORLD(test_only_what_the_rules_allow_is_dialled),
		WITH_WORLD(test_only_what_the_rules_allow_is_looked_up),
		WITH_WORLD(test_its_death_is_noticed_and_the_box_goes),
		WITH_WORLD(test_the_keepers_death_is_its_end_and_the_boxs),
		WITH_WORLD(test_what_is_no_order_ends_it),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
