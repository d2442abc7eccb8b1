/*
 * A confined process reads, writes, takes memory and ends; all else kills it. Each in a child, with
 * the same thing done by one that is not confined as control.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/decoder.h"

enum { MEMORY_BYTES = 64 << 20, GOOD = 42 };

/* Runs `body` in a child; its wait status. What it returns is its exit status. */
static int run(int (*body)(void), bool confined, bool writes_files)
{
	const struct decoder_limits limits = {
		.memory_bytes = MEMORY_BYTES, .cpu_s = 1, .writes_files = writes_files};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (confined && decoder_confine(&limits) != 0)
			_exit(1);
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int works(void)
{
	int fd = STDIN_FILENO; /* whatever that is, zero bytes can be read and written */
	char *memory = malloc(1 << 20);

	if (!memory || read(fd, memory, 0) < 0)
		return 1;
	memset(memory, 1, 1 << 20);
	memory = realloc(memory, 2 << 20);
	return memory ? GOOD : 2;
}

static int opens(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? GOOD : 1;
}

static int connects(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? GOOD : 1;
}

static int forks(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0 ? GOOD : 1;
}

static int executes(void)
{
	return syscall(SYS_execve, "", NULL, NULL) < 0 ? GOOD : 1;
}

static int makes_code(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0 ? GOOD : 1;
}

#ifdef __x86_64__
static int calls_x32(void)
{
	/* getpid by x32: a kernel without it says ENOSYS, and no filter is asked otherwise. */
	(void)syscall(0x40000000 + SYS_getpid);
	return GOOD;
}
#endif

static int takes_memory(void)
{
	return malloc(2 * (size_t)MEMORY_BYTES) ? GOOD : 1;
}

static int spins(void)
{
	for (volatile unsigned i = 0;; i++)
		if (i == UINT32_MAX)
			return GOOD;
}

static int file = -1;

static int writes_file(void)
{
	return write(file, "x", 1) == 1 ? GOOD : 1;
}

static void assert_exits(int status, int code)
{
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), code);
}

static void test_what_is_needed(void **state)
{
	(void)state;
	assert_exits(run(works, true, false), GOOD);
}

static void test_all_else_kills(void **state)
{
	static int (*const bodies[])(void) = {
		opens,     connects, forks, executes, makes_code,
#ifdef __x86_64__
		calls_x32,
#endif
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
		int status = run(bodies[i], true, false);

		assert_exits(run(bodies[i], false, false), GOOD);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("body %zu: status %#x", i, (unsigned)status);
	}
}

static void test_memory_and_time(void **state)
{
	int status;

	(void)state;
	assert_exits(run(takes_memory, false, false), GOOD);
	assert_exits(run(takes_memory, true, false), 1);
	status = run(spins, true, false);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void test_files(void **state)
{
	int status;

	(void)state;
	file = memfd_create("decoder-test", MFD_CLOEXEC);
	assert_true(file >= 0);
	assert_exits(run(writes_file, true, true), GOOD);
	status = run(writes_file, true, false);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGXFSZ);
	close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_needed),
		cmocka_unit_test(test_all_else_kills),
		cmocka_unit_test(test_memory_and_time),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
