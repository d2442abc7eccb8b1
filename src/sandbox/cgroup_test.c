/*
 * Control groups: where we are, by the texts of other machines; and groups of this one, for real
 * where it lets us. What a group limits is tried in box_group_test.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_arm.h"
#include "sandbox/cgroup_find.h"

#define HYBRID_MOUNTS \
	"30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" \
	"31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n" \
	"33 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" \
	"34 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

static void test_parse(void **state)
{
	static const struct {
		const char *self, *mounts, *controller, *where; /* NULL: nowhere */
	} cases[] = {
		{"5:memory:/a/b\n0::/u\n", HYBRID_MOUNTS, "memory", "/sys/fs/cgroup/memory:/a/b"},
		{"5:memory:/\n0::/\n", HYBRID_MOUNTS, "memory", "/sys/fs/cgroup/memory:"},
		{"5:memory:/a/b\n0::/u\n", HYBRID_MOUNTS, "", "/sys/fs/cgroup/unified:/u"},
		{"7:cpu,cpuacct:/x\n", HYBRID_MOUNTS, "cpuacct", "/sys/fs/cgroup/cpu,cpuacct:/x"},
		{"7:cpu,cpuacct:/x\n", HYBRID_MOUNTS, "cpuac", NULL},
		{"7:pids:/x\n", HYBRID_MOUNTS, "pids", NULL},
		{"0::/user.slice/s.scope\n",
		 "25 20 0:22 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n", "",
		 "/sys/fs/cgroup:/user.slice/s.scope"},
		/* In a container the group of the container is the root of what is mounted. */
		{"5:memory:/docker/1/job\n",
		 "33 30 0:30 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		 "memory", "/sys/fs/cgroup/memory:/job"},
		{"5:memory:/docker/12\n",
		 "33 30 0:30 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		 "memory", NULL},
		{"0::/../other\n", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "",
		 NULL},
		{"0::/a b\n", "25 20 0:22 / /mnt/c\\040d rw - cgroup2 cgroup2 rw\n", "",
		 "/mnt/c d:/a b"},
		{"", HYBRID_MOUNTS, "memory", NULL},
		{":::\n0\n::", " - cgroup\n - \n25 20 - cgroup2\n1 2 3 4 5 - cgroup2 x\n", "",
		 NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;
		cleanup_free char *where = NULL;
		bool found = cgroup_place_parse(cases[i].self, cases[i].mounts, cases[i].controller,
						&place);

		if (found)
			where = mem_format("%s:%s", place.mount, place.path);
		if (!cases[i].where)
			assert_false(found);
		else if (!where || strcmp(where, cases[i].where) != 0)
			fail_msg("case %zu: %s", i, where ? where : "nowhere");
		if (found)
			assert_int_equal(place.version, *cases[i].controller ? 1 : 2);
	}
}

static void test_words(void **state)
{
	(void)state;
	assert_true(cgroup_has_word("cpuset cpu io memory pids\n", "cpu"));
	assert_true(cgroup_has_word("pids\n", "pids"));
	assert_false(cgroup_has_word("cpuset\n", "cpu"));
	assert_false(cgroup_has_word("", "cpu"));
}

/* --- for real ------------------------------------------------------------- */

static const struct cgroup_limits LIMITS = {.memory_bytes = 64 << 20, .processes = 20, .cpus = 0.5};

/* NULL when this machine, or this user, has none. */
static struct cgroup *make(void)
{
	struct err err = ERR_INIT;
	struct cgroup *group = cgroup_new(&LIMITS, &err);

	if (!group) {
		assert_int_equal(err.code, ERR_UNSUPPORTED);
		assert_true(strlen(err.text) > 10);
		print_message("skipped: cannot simulate control groups: %s\n", err.text);
	}
	return group;
}

/* Other tests make and sweep groups at the same time, beside ours: so none is counted, and each is
 * looked for by its name. */
static bool is_there(const char *name)
{
	cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;

	if (!cgroup_place_find("memory", &place) && !cgroup_place_find("", &place))
		return false;
	for (;;) {
		cleanup_free char *path = mem_format("%s%s/%s", place.mount, place.path, name);
		char *slash = strrchr(place.path, '/');

		if (access(path, F_OK) == 0)
			return true;
		if (!slash)
			return false;
		*slash = '\0';
	}
}

/* A child that waits; it ends when its pipe does. */
static pid_t start_child(int *end)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		char byte;

		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	close(ends[0]);
	*end = ends[1];
	return pid;
}

static void test_life(void **state)
{
	struct cgroup *group = make();
	cleanup_free char *name = NULL;
	struct cgroup_usage usage;
	struct err err = ERR_INIT;
	int end, status;
	pid_t pid;

	(void)state;
	if (!group) {
		skip();
		return;
	}
	assert_true(cgroup_controllers(group) & CGROUP_MEMORY);
	name = mem_string(cgroup_name(group));
	assert_true(is_there(name));
	pid = start_child(&end);
	assert_false(cgroup_has(group, pid));
	assert_int_equal(cgroup_add(group, pid, &err), 0);
	assert_true(cgroup_has(group, pid));
	assert_false(cgroup_has(group, getpid()));
	cgroup_read(group, &usage);
	assert_int_equal(usage.memory_kills, 0);
	assert_int_equal(usage.refusals, 0);
	assert_true(usage.memory_bytes < 64 << 20);

	/* Freeing it kills whoever is left. */
	cgroup_free(group);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(end);
	assert_false(is_there(name));
}

/* Becomes `uid` and joins with each of the descriptors. The exit status says what came of it. */
static void __attribute__((noreturn)) join(uid_t uid, const int *fds, size_t count, int end)
{
	int failed = uid != geteuid() && setresuid(uid, uid, uid) < 0;
	char byte;

	for (size_t i = 0; i < count; i++)
		failed |= write(fds[i], "0", 1) != 1;
	(void)!write(end, "", 1);
	(void)!read(end, &byte, 1);
	_exit(failed);
}

static void test_join(void **state)
{
	const uid_t uid = geteuid() == 0 ? 65533 : geteuid();
	struct cgroup *group = make();
	struct err err = ERR_INIT;
	int fds[CGROUP_TASKS_MAX], none[CGROUP_TASKS_MAX], ends[2], status;
	size_t count = 0, count_none = 0;
	char byte, text[16];
	pid_t pid;

	(void)state;
	if (!group || cgroup_version(group) != 1) {
		print_message("skipped: cannot simulate groups of version 1\n");
		cgroup_free(group);
		skip();
		return;
	}
	assert_int_equal(cgroup_open_tasks(group, uid, fds, &count, &err), 0);
	assert_true(count > 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		join(uid, fds, count, ends[1]);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_true(cgroup_has(group, pid));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);

	/* They move nobody of another uid, whoever writes; where they would, there are none. */
	if (geteuid() == 0) {
		snprintf(text, sizeof(text), "%d", (int)getpid());
		assert_int_equal(write(fds[0], text, strlen(text)), -1);
		assert_int_equal(errno, EACCES);
		assert_false(cgroup_has(group, getpid()));
		assert_int_equal(cgroup_open_tasks(group, 0, none, &count_none, &err), -1);
		assert_int_equal(err.code, ERR_UNSUPPORTED);
	}
	while (count > 0)
		close(fds[--count]);
	cgroup_free(group);
}

static void test_gone(void **state)
{
	struct cgroup *group = make();
	struct err err = ERR_INIT;
	int end, status;
	pid_t pid;

	(void)state;
	if (!group) {
		skip();
		return;
	}
	pid = start_child(&end);
	close(end);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(cgroup_add(group, pid, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_false(cgroup_has(group, pid));
	cgroup_free(group);
}

static void test_change(void **state)
{
	struct cgroup *group = make();
	const struct cgroup_limits steps[] = {
		{.memory_bytes = 256 << 20, .processes = 5, .cpus = 2},
		{.memory_bytes = 32 << 20, .processes = 50, .cpus = 0.1},
		{.memory_bytes = 512 << 20, .swap = true},
		{.memory_bytes = 0},
		{.memory_bytes = 48 << 20},
	};

	(void)state;
	if (!group) {
		skip();
		return;
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		struct err err = ERR_INIT;

		if (cgroup_change(group, &steps[i], &err) != 0)
			fail_msg("step %zu: %s", i, err.text);
	}
	cgroup_free(group);
}

/* One sweep is not always enough: another test's may be about the same group at that moment. */
enum { SWEEPS = 1000 };

/* Makes a group in a child and ends it with SIGKILL, so that the group has no owner: its name. */
static void leave_group(char name[64], const struct cgroup *ours)
{
	int ends[2], status;
	pid_t pid;

	memset(name, 0, 64);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct cgroup *others = cgroup_new(&LIMITS, NULL);

		if (!others || write(ends[1], cgroup_name(others), strlen(cgroup_name(others))) < 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ends[1]);
	assert_true(read(ends[0], name, 63) > 0);
	close(ends[0]);

	/* While its owner lives nobody removes it. */
	(void)cgroup_sweep_beside(ours);
	(void)cgroup_sweep_all();
	assert_true(is_there(name));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* A group whose owner has died is removed by the next, one whose owner lives is not. */
static void test_sweep(void **state)
{
	struct cgroup *ours = make();
	char name[64];

	(void)state;
	if (!ours) {
		skip();
		return;
	}
	leave_group(name, ours);
	for (int i = 0; i < SWEEPS && is_there(name); i++)
		(void)cgroup_sweep_beside(ours);
	assert_false(is_there(name));
	leave_group(name, ours);
	for (int i = 0; i < SWEEPS && is_there(name); i++)
		(void)cgroup_sweep_all();
	assert_false(is_there(name));
	assert_true(is_there(cgroup_name(ours)));
	cgroup_free(ours);
}

/*
 * The hybrid trap: a hierarchy of version 2 is mounted here, but version 1 has its controllers.
 * Groups are then of version 1. And what version 2 needs besides controllers is tried in it.
 */
static void test_version_2_without_controllers(void **state)
{
	cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT, old = CGROUP_PLACE_INIT;
	struct cgroup_arm arms[CGROUP_ARMS_MAX];
	struct err err = ERR_INIT;
	struct cgroup *group;

	(void)state;
	if (!cgroup_place_find("", &place) || !cgroup_place_find("memory", &old)) {
		print_message("skipped: cannot simulate a hybrid system\n");
		skip();
		return;
	}
	assert_int_equal(CGROUP_KIND_V2.parents(arms, &err), 0);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	group = make();
	if (!group) {
		skip();
		return;
	}
	assert_int_equal(cgroup_version(group), 1);
	cgroup_free(group);
}

static void test_words_of_the_doctor(void **state)
{
	cleanup_buf struct buf detail = BUF_INIT;
	bool works = cgroup_try(&detail);

	(void)state;
	assert_non_null(strstr(buf_bytes(&detail), works ? "limits of memory" : "version"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_version_2_without_controllers),
		cmocka_unit_test(test_words_of_the_doctor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
