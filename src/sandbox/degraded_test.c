/*
 * The tier without namespaces, with a positive control for each thing that it forbids: what the
 * script does inside must work when the test does it.
 *
 * Root is refused there, so a test started by root becomes "nobody" first.
 */
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/box_kit.h"
#include "sandbox/landlock.h"

enum { NOBODY = 65534 };

static int set_up(void **state)
{
	struct kit *kit = mem_zalloc(sizeof(*kit));

	kit_init(kit);
	kit->tier = TIER_DEGRADED;
	*state = kit;
	return 0;
}

static int tear_down(void **state)
{
	kit_release(*state);
	free(*state);
	return 0;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_files(void **state)
{
	struct kit *kit = *state;
	char secret[] = "/tmp/fumehood-secret-XXXXXX";
	cleanup_free char *script = NULL;
	int fd = mkstemp(secret);

	assert_true(fd >= 0);
	write_text(secret, "secret\n");
	kit_start(kit);
	assert_string_equal(
		kit_output(kit, "echo hello >made; cat made; pwd -P | tail -c 20 | wc -c"),
		"hello\n20\n");
	script = mem_format("exec 2>/dev/null; cat %s || echo no; ls /proc >/dev/null || echo no; "
			    "ls /tmp || echo no; "
			    "echo x >%s || echo no; touch /dev/shm/x || echo no; ls ..  || echo no",
			    secret, secret);
	assert_string_equal(kit_output(kit, script), "no\nno\nno\nno\nno\nno\n");
	assert_string_equal(kit_output(kit, "ls /usr/bin/env"), "/usr/bin/env\n");
	assert_int_equal(access(secret, R_OK), 0);
	unlink(secret);
	close(fd);
}

static void test_signals(void **state)
{
	struct kit *kit = *state;
	cleanup_free char *script = mem_format(
		"kill -0 %d 2>/dev/null && echo reached; kill -0 $$ && echo own", (int)getpid());

	kit_start(kit);
	assert_string_equal(kit_output(kit, script), "own\n");
	assert_int_equal(kill(getpid(), 0), 0);
}

/* A socket that anyone may connect to. */
static void test_sockets(void **state)
{
	static const char program[] =
		"import socket,sys\n"
		"def attempt(*a, to=None, send=None):\n"
		"    try:\n"
		"        s = socket.socket(*a)\n"
		"        if to: s.connect(to)\n"
		"        if send: s.sendto(b'x', send)\n"
		"        return 'ok'\n"
		"    except OSError as e: return e.errno\n"
		"path = sys.argv[1]\n"
		"print(attempt(socket.AF_UNIX, socket.SOCK_STREAM, to=path),\n"
		"      attempt(socket.AF_UNIX, socket.SOCK_DGRAM, send=path),\n"
		"      attempt(socket.AF_INET, socket.SOCK_STREAM),\n"
		"      attempt(socket.AF_INET6, socket.SOCK_DGRAM),\n"
		"      attempt(socket.AF_NETLINK, socket.SOCK_RAW),\n"
		"      len(socket.socketpair()))\n";
	struct kit *kit = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_free char *file = mem_format("%s/try.py", kit->dir);
	cleanup_free char *script = NULL;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* In the workspace itself, where no rule on files stands before it. */
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", kit->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	write_text(file, program);
	kit_start(kit);
	script = mem_format("/usr/bin/python3 -I -S try.py %s", address.sun_path);
	assert_string_equal(kit_output(kit, script), "13 13 97 97 95 2\n");
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	close(client);
	close(fd);
}

/* What has left its parent and its session is found and ended with the box. */
static void test_nothing_stays(void **state)
{
	struct kit *kit = *state;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	kit_start(kit);
	kit_spawn(kit, "for i in 1 2 3; do (setsid sh -c 'sleep 1000 & sleep 1000' &) done; exit 0",
		  ends[1]);
	close(ends[1]);
	box_free(kit->box);
	kit->box = NULL;
	assert_true(kit_closes(ends[0]));
	close(ends[0]);
}

static void test_report(void **state)
{
	struct kit *kit = *state;
	struct json *layers;
	unsigned held = 0;

	kit_start(kit);
	assert_int_equal(box_tier(kit->box), TIER_DEGRADED);
	assert_string_equal(box_workspace(kit->box), kit->dir);
	assert_null(box_namespaces(kit->box));
	layers = box_layers(kit->box);
	for (size_t i = 0; i < json_length(layers); i++)
		held += json_get_bool(json_at(layers, i), "holds", false);
	assert_in_range(held, 3, 6);
	json_free(layers);
}

static void test_older_kernel(void **state)
{
	struct kit *kit = *state;
	struct err err = ERR_INIT;

	kit->host.landlock_abi = 5;
	assert_null(box_start_on(&kit->host, &kit->policy, TIER_DEGRADED, &err));
	assert_int_equal(err.code, ERR_SANDBOX);
	assert_non_null(strstr(err.text, "ABI 6 (Linux 6.12), and here is ABI 5"));
	kit->host.landlock_abi = landlock_abi();
	kit->host.uid = 0;
	kit->host.other_uids = true;
	assert_null(box_start_on(&kit->host, &kit->policy, TIER_DEGRADED, &err));
	assert_non_null(strstr(err.text, "ordinary user"));
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_signals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sockets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_report, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_older_kernel, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	int status = 1;
	pid_t pid;

	if (landlock_abi() < 6) {
		puts("skipped: Landlock ABI 6 is needed (Linux 6.12)");
		return 77;
	}
	if (geteuid() != 0)
		return run_all();
	pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			_exit(1);
		_exit(run_all());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
