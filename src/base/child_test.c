/*
 * Children: they have what was named and nothing else, and a failing start says why.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/file.h"
#include "base/mem.h"

/* Runs a shell script with stdout in a pipe; its output in `out`, its wait status as result. */
static int run(const char *script, const struct child_params *base, struct buf *out)
{
	const char *const argv[] = {"sh", "-c", script, NULL};
	struct child_params params = *base;
	struct child child = {.pid = -1, .pidfd = -1};
	struct err err = ERR_INIT;
	char bytes[4096];
	ssize_t count;
	int pipe_fds[2];
	int fds[3];

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	fds[0] = -1;
	fds[1] = pipe_fds[1];
	fds[2] = 2;
	params.path = "/bin/sh";
	params.argv = argv;
	params.fds = fds;
	params.fd_count = 3;
	if (child_start(&params, &child, &err) < 0)
		fail_msg("%s", err.text);
	close(pipe_fds[1]);
	while ((count = read(pipe_fds[0], bytes, sizeof(bytes))) > 0)
		buf_append(out, bytes, (size_t)count);
	close(pipe_fds[0]);
	if (params.orphan)
		return 0;
	assert_true(child.pidfd >= 0);
	assert_int_equal(fcntl(child.pidfd, F_GETFD), FD_CLOEXEC);
	return child_wait(&child);
}

static void check_run(const char *script, const struct child_params *base, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT;

	assert_int_equal(run(script, base, &out), 0);
	assert_string_equal(buf_bytes(&out), want);
}

static void test_status(void **state)
{
	const struct child_params params = {.path = NULL};
	cleanup_buf struct buf out = BUF_INIT;
	int status = run("exit 7", &params, &out);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	status = run("kill -9 $$", &params, &out);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void test_environment_and_directory(void **state)
{
	static const char *const ENVP[] = {"FIRST=1", "SECOND=two words", NULL};
	const struct child_params given = {.envp = ENVP, .directory = "/usr"};
	const struct child_params own = {.path = NULL};

	(void)state;
	check_run("echo \"$FIRST,$SECOND,$HOME\"; pwd", &given, "1,two words,\n/usr\n");
	setenv("CHILD_TEST", "mine", 1);
	check_run("echo $CHILD_TEST", &own, "mine\n");
}

/* Open descriptors without FD_CLOEXEC do not get in; stdin is /dev/null. */
static void test_descriptors(void **state)
{
	const struct child_params params = {.path = NULL};
	int stray = dup2(open("/dev/zero", O_RDONLY | O_CLOEXEC), 77);

	(void)state;
	assert_int_equal(stray, 77);
	check_run("cd /proc/self/fd; for i in *; do test -e $i && echo $i; done; readlink 0; cat",
		  &params, "0\n1\n2\n/dev/null\n");
	close(stray);
}

/* Closes `fd` and returns a copy that is out of the way of the low numbers. */
static int move_up(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, 50);

	close(fd);
	return moved;
}

/* Targets that are sources of others: descriptors 3 to 7 turned round. */
static void test_permuted_descriptors(void **state)
{
	enum { COUNT = 8 };
	static const char *const ARGV[] = {
		"sh", "-c", "for i in 3 4 5 6 7; do eval \"cat <&$i\"; done", NULL};
	static const int FDS[COUNT] = {0, 1, 2, 7, 6, 5, 4, 3};
	const struct child_params params = {
		.path = "/bin/sh", .argv = ARGV, .fds = FDS, .fd_count = COUNT};
	int saved[COUNT];
	int output[2];
	char text[16] = "";
	struct child child;
	int result;

	(void)state;
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	output[0] = move_up(output[0]);
	output[1] = move_up(output[1]);
	for (int i = 0; i < COUNT; i++)
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
	/* Each of 3 to 7 is the end of a pipe that holds its number. */
	for (int i = 3; i < COUNT; i++) {
		char digit = (char)('0' + i);
		int ends[2];

		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		ends[0] = move_up(ends[0]);
		assert_int_equal(write(ends[1], &digit, 1), 1);
		close(ends[1]);
		dup2(ends[0], i);
		close(ends[0]);
	}
	dup2(output[1], 1);
	result = child_start(&params, &child, NULL);
	for (int i = 1; i < COUNT; i++) {
		if (saved[i] >= 0)
			dup2(saved[i], i);
		else
			close(i);
		close(saved[i]);
	}
	close(saved[0]);
	close(output[1]);
	assert_int_equal(result, 0);
	assert_int_equal(child_wait(&child), 0);
	assert_int_equal(read(output[0], text, sizeof(text) - 1), 5);
	assert_string_equal(text, "76543");
	close(output[0]);
}

static void test_signals(void **state)
{
	const struct child_params params = {.path = NULL};
	sigset_t set, before, after;

	(void)state;
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGRTMIN, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &before);
	check_run("grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2", &params,
		  "0000000000000000\n0000000000000000\n");
	/* Ours are as they were. */
	sigprocmask(SIG_SETMASK, &before, &after);
	assert_int_equal(sigismember(&after, SIGUSR1), 1);
	assert_int_equal(sigismember(&after, SIGINT), 0);
	assert_ptr_equal(signal(SIGINT, SIG_DFL), SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGRTMIN, SIG_DFL);
}

static void test_session(void **state)
{
	const struct child_params same = {.path = NULL};
	const struct child_params fresh = {.new_session = true};
	cleanup_free char *ours = mem_format("%d\n", (int)getsid(0));

	(void)state;
	check_run("cut -d' ' -f6 </proc/$$/stat", &same, ours);
	check_run("test $(cut -d' ' -f6 </proc/$$/stat) = $$ && echo own", &fresh, "own\n");
}

static void test_orphan(void **state)
{
	const struct child_params params = {.orphan = true, .new_session = true};
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_free char *ours = mem_format("%d\n", (int)getpid());

	(void)state;
	run("cut -d' ' -f4 </proc/$$/stat", &params, &out);
	assert_true(out.len > 1);
	assert_string_not_equal(buf_bytes(&out), ours);
	/* There is no child to wait for. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

static void check_failure(const struct child_params *params, int sys)
{
	struct child child = {.pid = 5, .pidfd = 5};
	struct err err = ERR_INIT;

	assert_int_equal(child_start(params, &child, &err), -1);
	assert_int_equal(err.sys, sys);
	assert_int_equal(child.pid, 5);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

static void test_failures(void **state)
{
	static const char *const ARGV[] = {"x", NULL};
	static const int FDS[] = {-1, -1, -1};
	static const int BAD_FDS[] = {-1, 99, -1};
	struct child_params params = {.argv = ARGV, .fds = FDS, .fd_count = 3};

	(void)state;
	for (int orphan = 0; orphan < 2; orphan++) {
		params.orphan = orphan;
		params.path = "/none/such";
		check_failure(&params, ENOENT);
		params.path = "fumehood-no-such-program";
		check_failure(&params, ENOENT);
		params.path = "/etc/passwd";
		check_failure(&params, EACCES);
		params.path = "/bin/true";
		params.directory = "/none";
		check_failure(&params, ENOENT);
		params.directory = NULL;
		params.fds = BAD_FDS;
		check_failure(&params, EBADF);
		params.fds = FDS;
	}
}

/* A directory in PATH that has no such program, a file that may not run, then the right one. */
static void test_path_search(void **state)
{
	static const char *const ARGV[] = {"tool", NULL};
	static const int FDS[] = {-1, -1, -1};
	struct child_params params = {.path = "tool", .argv = ARGV, .fds = FDS, .fd_count = 3};
	char root[] = "/tmp/child_test.XXXXXX";
	cleanup_free char *old = mem_string(getenv("PATH"));
	cleanup_free char *path = NULL;
	cleanup_free char *good = NULL;
	cleanup_free char *bad = NULL;
	struct child child;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(root));
	bad = mem_format("%s/bad/tool", root);
	good = mem_format("%s/good/tool", root);
	path = mem_format("relative::/none:/etc/passwd:%s/bad:%s/good", root, root);
	*strrchr(bad, '/') = '\0';
	*strrchr(good, '/') = '\0';
	assert_int_equal(mkdir(bad, 0700), 0);
	assert_int_equal(mkdir(good, 0700), 0);
	bad[strlen(bad)] = '/';
	good[strlen(good)] = '/';
	fd = open(bad, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	setenv("PATH", path, 1);
	check_failure(&params, EACCES);
	fd = open(good, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	assert_int_equal(file_write_all(fd, "#!/bin/sh\nexit 3\n", 17, NULL), 0);
	close(fd);
	assert_int_equal(child_start(&params, &child, NULL), 0);
	assert_int_equal(WEXITSTATUS(child_wait(&child)), 3);
	setenv("PATH", old ? old : "/usr/bin:/bin", 1);
	file_remove_tree(AT_FDCWD, root, NULL);
}

static void test_pidfd(void **state)
{
	static const char *const ARGV[] = {"cat", NULL};
	struct child_params params = {.path = "cat", .argv = ARGV, .fd_count = 3};
	struct child child;
	struct pollfd waiting = {.events = POLLIN};
	int pipe_fds[2];
	int fds[3] = {-1, -1, -1};

	(void)state;
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	fds[0] = pipe_fds[0];
	params.fds = fds;
	assert_int_equal(child_start(&params, &child, NULL), 0);
	waiting.fd = child.pidfd;
	assert_int_equal(poll(&waiting, 1, 0), 0);
	close(pipe_fds[1]);
	assert_int_equal(poll(&waiting, 1, 10000), 1);
	assert_int_equal(child_wait(&child), 0);
	assert_int_equal(child.pidfd, -1);
	assert_int_equal(child_wait(&child), -1);
	close(pipe_fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_environment_and_directory),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_permuted_descriptors),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_session),
		cmocka_unit_test(test_orphan),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_path_search),
		cmocka_unit_test(test_pidfd),
	};

	/* Whatever the caller's has in it that we may not enter. */
	setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
