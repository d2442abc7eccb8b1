/*
 * A listening socket in another network namespace: as whoever runs the tests, and as an ordinary
 * user; and in a box, where a program inside reaches it and nothing else does.
 */
#include "sandbox/box_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/netns.h"

enum { ORDINARY_ID = 65534 };

/* ---- without a box ---- */

static int connect_here(uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&in, sizeof(in)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* In namespaces of its own: says that the loopback is up, learns the port, says hello there. */
static int inhabitant(int pipe_fd)
{
	struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	uint16_t port;
	int fd;
	char byte = 'u';

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) < 0 || write(pipe_fd, &byte, 1) != 1)
		return 2;
	close(fd);
	if (read(pipe_fd, &port, sizeof(port)) != sizeof(port))
		return 3;
	fd = connect_here(port);
	if (fd < 0 || write(fd, "hello", 5) != 5 || read(fd, &byte, 1) != 1)
		return 4;
	return byte == '!' ? 0 : 5;
}

static int open_namespace(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Listens among the inhabitants of `pid`, is greeted and answers; 0, or the step that failed. */
static int visit(pid_t pid, int pipe_fd)
{
	struct pollfd poll_fd = {.events = POLLIN};
	int user = open_namespace(pid, "user");
	int net = open_namespace(pid, "net");
	int dumpable = prctl(PR_GET_DUMPABLE);
	uint16_t port = 0;
	char text[6] = "";
	int fd;

	if (user < 0 || net < 0)
		return 10;
	poll_fd.fd = netns_listen(user, net, &port, NULL);
	if (poll_fd.fd < 0 || port == 0)
		return 11;
	/* We are where and what we were. */
	if (connect_here(port) >= 0 || prctl(PR_GET_DUMPABLE) != dumpable)
		return 12;
	if (write(pipe_fd, &port, sizeof(port)) != sizeof(port) || poll(&poll_fd, 1, 10000) != 1)
		return 13;
	fd = accept4(poll_fd.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || recv(fd, text, 5, MSG_WAITALL) != 5 || strcmp(text, "hello") != 0)
		return 14;
	return write(fd, "!", 1) == 1 ? 0 : 15;
}

static int exchange(void)
{
	int pair[2];
	char byte;
	int status;
	int visited;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return 20;
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		_exit(inhabitant(pair[1]));
	}
	close(pair[1]);
	visited = read(pair[0], &byte, 1) == 1 ? visit(pid, pair[0]) : 21;
	close(pair[0]);
	if (waitpid(pid, &status, 0) != pid)
		return 22;
	if (visited)
		return visited;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 23;
}

static int exchange_as_ordinary_user(void)
{
	if (geteuid() == 0) {
		if (setresgid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID) < 0 ||
		    setresuid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID) < 0)
			return 30;
		/* What execve(2) would give back. */
		prctl(PR_SET_DUMPABLE, 1);
	}
	return exchange();
}

static void *idle(void *data)
{
	char byte;

	return read(*(int *)data, &byte, 1) == 1 ? data : NULL;
}

/* As the keeper is: with threads, which setns(2) itself would not stand. */
static int exchange_with_threads(void)
{
	pthread_t thread;
	int pair[2];
	int result;

	if (pipe2(pair, O_CLOEXEC) < 0 || pthread_create(&thread, NULL, idle, &pair[0]) != 0)
		return 40;
	result = exchange();
	close(pair[1]);
	pthread_join(thread, NULL);
	close(pair[0]);
	return result;
}

static void test_exchange(void **state)
{
	(void)state;
	kit_in_child(exchange);
	kit_in_child(exchange_as_ordinary_user);
	kit_in_child(exchange_with_threads);
}

static int refuses(void)
{
	struct err err = ERR_INIT;
	uint16_t port = 0;
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int before = dup(null);

	if (netns_listen(null, here, &port, &err) != -1 || port != 0)
		return 1;
	if (!strstr(err.text, "enter the user namespace"))
		return 2;
	close(before);
	/* No descriptor is left behind. */
	return dup(null) == before ? 0 : 3;
}

static void test_refusal(void **state)
{
	(void)state;
	kit_in_child(refuses);
}

/* ---- with a box ---- */

static int set_up(void **state)
{
	static struct kit kit;

	kit_init(&kit);
	*state = &kit;
	return 0;
}

static int tear_down(void **state)
{
	kit_release(*state);
	return 0;
}

static void test_box(void **state)
{
	struct kit *kit = *state;
	const int *namespaces;
	uint16_t port = 0;
	char *script;
	int listener, fd;
	struct err err = ERR_INIT;

	kit_start(kit);
	assert_int_equal(box_seal(kit->box, NULL), 0);
	namespaces = box_namespaces(kit->box);
	listener = netns_listen(namespaces[0], namespaces[3], &port, &err);
	if (listener < 0)
		fail_msg("%s", err.text);
	assert_int_equal(connect_here(port), -1);
	/* The kernel completes the connection and keeps the bytes until somebody accepts. */
	script = mem_format("exec /bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/%u && printf hello >&3'",
			    port);
	kit_output(kit, script);
	free(script);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	{
		char text[8] = "";

		assert_int_equal(recv(fd, text, 5, MSG_WAITALL), 5);
		assert_string_equal(text, "hello");
	}
	close(fd);
	/* The same port a second time is taken, and that is said. */
	assert_int_equal(netns_listen(namespaces[0], namespaces[3], &port, &err), -1);
	assert_non_null(strstr(err.text, "bind"));
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exchange),
		cmocka_unit_test(test_refusal),
		cmocka_unit_test_setup_teardown(test_box, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
