/* What is left when a keeper or an init dies, after many boxes, and when the kernel refuses. */
#include "sandbox/box_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/probe.h"

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

/* Runs a keeper in a child, kills it with SIGKILL, and asserts that everything that held the pipe
 * has gone. */
static void kill_keeper(struct kit *kit)
{
	int pair[2];
	int status;
	pid_t keeper;
	char byte;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	keeper = fork();
	if (keeper == 0) {
		close(pair[0]);
		kit_start(kit);
		kit_spawn(kit,
			  "(setsid sh -c 'trap \"\" HUP TERM; sleep 1000' &); sh -c 'kill -STOP "
			  "$$' & "
			  "echo >&3; sleep 1000",
			  pair[1]);
		close(pair[1]);
		pause();
		_exit(0);
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], &byte, 1), 1);
	assert_int_equal(kill(keeper, SIGKILL), 0);
	assert_int_equal(waitpid(keeper, &status, 0), keeper);
	assert_true(kit_closes(pair[0]));
	close(pair[0]);
}

static void test_keeper_killed(void **state)
{
	kill_keeper(*state);
}

static void test_keeper_killed_none(void **state)
{
	struct kit *kit = *state;

	kit->policy.floor = TIER_NONE;
	kill_keeper(kit);
}

/* PID 1 ends from outside: the keeper hears of it, every call says so, and nothing is left inside.
 */
static void test_init_killed(void **state)
{
	struct kit *kit = *state;
	struct err err = ERR_INIT;
	const char *const argv[] = {"/bin/true", NULL};
	int pair[2];
	int status;
	pid_t pid;

	kit_start(kit);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	kit_spawn(kit, "sleep 1000", pair[1]);
	close(pair[1]);
	assert_int_equal(kill(box_pid(kit->box), SIGKILL), 0);
	assert_true(kit_closes(pair[0]));
	close(pair[0]);
	while (box_next_exit(kit->box, &pid, &status, &err) >= 0)
		continue;
	assert_int_equal(err.code, ERR_GONE);
	assert_int_equal(box_exec(kit->box, argv, NULL, NULL, 0, &pid, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_int_equal(box_seal(kit->box, &err), -1);
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static size_t count_bytes(const char *path)
{
	cleanup_buf struct buf text = BUF_INIT;

	assert_int_equal(file_read(AT_FDCWD, path, 16 << 20, &text, NULL), 0);
	return text.len;
}

static void test_nothing_leaks(void **state)
{
	struct kit *kit = *state;
	size_t fds = count_entries("/proc/self/fd");
	size_t mounts = count_bytes("/proc/self/mountinfo");

	for (int i = 0; i < 200; i++) {
		kit_start(kit);
		if (i % 20 == 0)
			kit_output(kit, "(sleep 1000 >/dev/null 2>&1 &); true");
		box_free(kit->box);
		kit->box = NULL;
	}
	assert_int_equal(count_entries("/proc/self/fd"), fds);
	assert_int_equal(count_bytes("/proc/self/mountinfo"), mounts);
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

/* The caller's signal mask, handlers and children are untouched. */
static void test_caller_untouched(void **state)
{
	struct kit *kit = *state;
	sigset_t before;
	sigset_t after;

	signal(SIGCHLD, SIG_IGN);
	sigprocmask(SIG_SETMASK, NULL, &before);
	kit_start(kit);
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int number = 1; number < 32; number++)
		assert_int_equal(sigismember(&before, number), sigismember(&after, number));
	assert_string_equal(kit_output(kit, "echo alive"), "alive\n");
	box_free(kit->box);
	kit->box = NULL;
	signal(SIGCHLD, SIG_DFL);
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -1;
	return close(fd);
}

/* Starts a box that must be refused; returns 0 when the text names `what` and the way out. */
static int refused(const char *what)
{
	struct policy policy;
	struct err err = ERR_INIT;
	struct box *box;

	policy_init(&policy);
	policy.workspace = "/tmp";
	box = box_start(&policy, TIER_FULL, -1, &err);
	if (!box && err.code == ERR_SANDBOX && strstr(err.text, what) &&
	    strstr(err.text, "--tier none"))
		return 0;
	print_message("%s\n", box ? "it was not refused" : err.text);
	return 1;
}

enum { CANNOT_SIMULATE = 77 };

static int without_user_namespaces(void)
{
	struct probe probes[PROBES_MAX];
	size_t count;

	if (kit_enter_namespaces(0) < 0 ||
	    write_text("/proc/sys/user/max_user_namespaces", "0") < 0)
		return CANNOT_SIMULATE;
	if (refused("user namespace: No space left on device; raise it with \"sysctl "
		    "user.max_user_namespaces"))
		return 1;
	count = probe_run(probes);
	for (size_t i = 0; i < count; i++) {
		if (probes[i].holds || !probes[i].detail[0] || !probes[i].cure[0])
			return 2;
	}
	return 0;
}

static int without_network_namespaces(void)
{
	struct probe probes[PROBES_MAX];
	size_t count;
	size_t held = 0;

	if (kit_enter_namespaces(0) < 0 || write_text("/proc/sys/user/max_net_namespaces", "0") < 0)
		return CANNOT_SIMULATE;
	if (refused("network namespace: No space left on device"))
		return 1;
	count = probe_run(probes);
	for (size_t i = 0; i < count; i++)
		held += probes[i].holds;
	return held == count - 1 ? 0 : 2;
}

/* As in a container: part of /proc is covered, so the kernel refuses a new and uncovered one. */
static int with_masked_proc(void)
{
	if (kit_enter_namespaces(CLONE_NEWNS) < 0 ||
	    mount("tmpfs", "/proc/sys", "tmpfs", 0, NULL) < 0)
		return CANNOT_SIMULATE;
	return refused("mount a new proc at /proc: Operation not permitted; a container");
}

static void simulate(int (*body)(void), const char *name)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		status = body();
		fflush(NULL);
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_SIMULATE) {
		print_message("skipped: cannot simulate %s here\n", name);
		skip();
	}
	assert_int_equal(status, 0);
}

static void test_no_user_namespaces(void **state)
{
	(void)state;
	simulate(without_user_namespaces, "a kernel without user namespaces");
}

static void test_no_network_namespaces(void **state)
{
	(void)state;
	simulate(without_network_namespaces, "a kernel without network namespaces");
}

static void test_masked_proc(void **state)
{
	(void)state;
	simulate(with_masked_proc, "a container with a masked /proc");
}

static void test_workspace_gone(void **state)
{
	struct kit *kit = *state;
	struct err err = ERR_INIT;

	kit->policy.workspace = "/no/such";
	assert_null(box_start(&kit->policy, TIER_FULL, -1, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_null(box_start(&kit->policy, TIER_FULL, -1, NULL));
}

static void test_probes(void **state)
{
	struct probe probes[PROBES_MAX];
	size_t count = probe_run(probes);

	(void)state;
	assert_int_equal(count, 7);
	for (size_t i = 0; i < count; i++) {
		if (!probes[i].holds)
			fail_msg("%s: %s", probes[i].name, probes[i].detail);
		assert_int_equal(probes[i].detail[0], '\0');
		assert_non_null(probes[i].effect);
		assert_non_null(probes[i].cure);
	}
}

static void test_probe_of_landlock(void **state)
{
	struct probe_landlock found;

	(void)state;
	if (!probe_landlock(&found)) {
		assert_true(strlen(found.detail) > 10);
		print_message("skipped: cannot simulate Landlock: %s\n", found.detail);
		skip();
	}
	assert_true(found.abi >= 1);
	assert_string_equal(found.detail, "");
	/* Nothing of it is left here. */
	assert_int_equal(access("/", R_OK), 0);
	assert_true(probe_landlock(&found));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_keeper_killed),         TEST(test_keeper_killed_none),
		TEST(test_init_killed),           TEST(test_nothing_leaks),
		TEST(test_caller_untouched),      TEST(test_no_user_namespaces),
		TEST(test_no_network_namespaces), TEST(test_masked_proc),
		TEST(test_workspace_gone),        TEST(test_probes),
		TEST(test_probe_of_landlock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
