/*
 * The filter is run twice: by filter_answer(), for every number there is, and by the kernel, in
 * children that try what is forbidden. The second proves the first.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/filter.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

static unsigned ask(enum filter_kind kind, int number, unsigned long long first,
		    unsigned long long second, unsigned long long third)
{
	struct filter filter;
	const unsigned long long args[6] = {first, second, third};

	filter_compile(&filter, kind);
	return filter_answer(&filter, ARCH, number, args);
}

static unsigned ask_open(enum filter_kind kind, unsigned flags, unsigned mode)
{
	struct filter filter;
	const unsigned long long args[6] = {0, 0, flags, mode};

	filter_compile(&filter, kind);
	return filter_answer(&filter, ARCH, SYS_openat, args);
}

static unsigned refused(int sys)
{
	return SECCOMP_RET_ERRNO | (unsigned)sys;
}

static void test_plain_calls_are_allowed(void **state)
{
	static const int numbers[] = {SYS_read,   SYS_write,      SYS_openat,  SYS_mmap,
				      SYS_execve, SYS_exit_group, SYS_futex,   SYS_getrandom,
				      SYS_clone,  SYS_pidfd_open, SYS_connect, SYS_rseq};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		assert_int_equal(ask(FILTER_BOX, numbers[i], 0, 0, 0), SECCOMP_RET_ALLOW);
}

static void test_a_keeper_may_less(void **state)
{
	static const int never[] = {SYS_execve,    SYS_execveat, SYS_kill,   SYS_tgkill,
				    SYS_setresuid, SYS_capset,   SYS_ptrace, SYS_fchmodat,
				    SYS_fchownat,  SYS_setns,    SYS_unshare};
	static const int sockets[] = {SYS_socket, SYS_connect, SYS_bind, SYS_listen};
	static const int always[] = {
		SYS_openat,  437 /* openat2 */, SYS_renameat2,         SYS_fchmod, SYS_fchown,
		SYS_accept4, SYS_setfsuid,      SYS_inotify_add_watch, SYS_recvmsg};
	const unsigned thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;

	(void)state;
	for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
		assert_int_equal(ask(FILTER_KEEPER, never[i], 0, 0, 0), refused(EPERM));
	for (size_t i = 0; i < sizeof(sockets) / sizeof(*sockets); i++)
		assert_int_equal(ask(FILTER_KEEPER, sockets[i], AF_UNIX, SOCK_STREAM, 0),
				 refused(EACCES));
	for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
		assert_int_equal(ask(FILTER_KEEPER, always[i], 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_KEEPER, SYS_clone, thread, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_KEEPER, SYS_clone, SIGCHLD, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_KEEPER, SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0),
			 refused(EPERM));
	assert_int_equal(ask(FILTER_KEEPER, SYS_clone, thread | CLONE_NEWNET, 0, 0),
			 refused(EPERM));
	assert_int_equal(ask(FILTER_KEEPER, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_KEEPER, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC),
			 refused(EPERM));
	assert_int_equal(ask(FILTER_KEEPER, SYS_mprotect, 0, 4096, PROT_EXEC), refused(EPERM));
	assert_int_equal(ask(FILTER_KEEPER, SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_KEEPER, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0),
			 refused(EACCES));
	/* a kind of its own: the others are what they were */
	assert_int_equal(ask(FILTER_BOX, SYS_execve, 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_DEGRADED, SYS_kill, 1, 0, 0), SECCOMP_RET_ALLOW);
}

static void test_each_number_has_an_answer(void **state)
{
	static const enum filter_kind kinds[] = {FILTER_BOX, FILTER_ZYGOTE, FILTER_DEGRADED,
						 FILTER_KEEPER};

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		struct filter filter;
		const unsigned long long none[6] = {0};

		filter_compile(&filter, kinds[k]);
		assert_in_range(filter.count, 50, FILTER_CODE_MAX);
		for (int number = -1; number < 5000; number++) {
			unsigned answer = filter_answer(&filter, ARCH, number, none);

			if (number < 0 || number > 470)
				assert_int_equal(answer, refused(ENOSYS));
			else
				assert_true(answer == SECCOMP_RET_ALLOW ||
					    (answer & 0xFFFF0000U) == SECCOMP_RET_ERRNO);
		}
	}
}

static void test_another_architecture_ends_the_process(void **state)
{
	struct filter filter;
	const unsigned long long none[6] = {0};

	(void)state;
	filter_compile(&filter, FILTER_BOX);
	assert_int_equal(filter_answer(&filter, AUDIT_ARCH_I386, SYS_getpid, none),
			 SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
	assert_int_equal(ask(FILTER_BOX, 0x40000000 + SYS_getpid, 0, 0, 0),
			 SECCOMP_RET_KILL_PROCESS);
#endif
}

static void test_namespaces(void **state)
{
	static const unsigned flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					 CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		assert_int_equal(ask(FILTER_BOX, SYS_clone, flags[i] | SIGCHLD, 0, 0),
				 refused(EPERM));
		/* the high half is not looked at by the kernel */
		assert_int_equal(ask(FILTER_BOX, SYS_clone, flags[i] | 0xFFFFFFFF00000000ULL, 0, 0),
				 refused(EPERM));
		assert_int_equal(ask(FILTER_BOX, SYS_unshare, flags[i], 0, 0), refused(EPERM));
		assert_int_equal(ask(FILTER_ZYGOTE, SYS_unshare, flags[i], 0, 0), refused(EPERM));
	}
	assert_int_equal(ask(FILTER_BOX, SYS_unshare, 0x80, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_unshare, CLONE_FILES, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_clone, CLONE_VM | CLONE_THREAD, 0, 0),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_clone3, 0, 0, 0), refused(ENOSYS));
	assert_int_equal(ask(FILTER_BOX, SYS_setns, 0, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_ZYGOTE, SYS_setns, 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_DEGRADED, SYS_setns, 0, 0, 0), refused(EPERM));
}

static void test_sockets(void **state)
{
	(void)state;
	for (unsigned family = 0; family < 64; family++) {
		unsigned answer = ask(FILTER_BOX, SYS_socket, family, SOCK_STREAM, 0);
		bool known = family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
			     family == AF_NETLINK;

		assert_int_equal(answer, known ? SECCOMP_RET_ALLOW : refused(EAFNOSUPPORT));
	}
	assert_int_equal(ask(FILTER_BOX, SYS_socket, AF_NETLINK, SOCK_RAW, 6 /* XFRM */),
			 refused(EAFNOSUPPORT));
	assert_int_equal(ask(FILTER_BOX, SYS_socket, AF_INET, SOCK_STREAM, 132 /* SCTP */),
			 refused(EPROTONOSUPPORT));
	assert_int_equal(ask(FILTER_BOX, SYS_socket, AF_INET6, SOCK_STREAM, 6), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_socket, AF_UNIX, SOCK_DGRAM, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_socketpair, 30 /* TIPC */, SOCK_STREAM, 0),
			 refused(EAFNOSUPPORT));
}

static void test_sockets_without_namespaces(void **state)
{
	(void)state;
	assert_int_equal(ask(FILTER_DEGRADED, SYS_connect, 0, 0, 0), refused(EACCES));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socket, AF_UNIX, SOCK_DGRAM, 0), refused(EACCES));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socket, AF_INET, SOCK_STREAM, 0),
			 refused(EAFNOSUPPORT));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socket, AF_NETLINK, SOCK_RAW, 0),
			 refused(EOPNOTSUPP));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0),
			 refused(EACCES));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socketpair, AF_UNIX, SOCK_STREAM, 0),
			 SECCOMP_RET_ALLOW);
	/* AF_UNIX takes SOCK_RAW for SOCK_DGRAM */
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socketpair, AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0),
			 refused(EACCES));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0),
			 SECCOMP_RET_ALLOW);
}

/* What is the user's, and has no namespace and no rule of Landlock's before it. */
static void test_what_is_the_users(void **state)
{
	static const int calls[] = {SYS_shmget,   SYS_shmat,    SYS_shmctl,   SYS_semget,
				    SYS_semop,    SYS_semctl,   SYS_msgget,   SYS_msgsnd,
				    SYS_msgrcv,   SYS_msgctl,   SYS_mq_open,  SYS_mq_unlink,
				    SYS_fchmodat, SYS_fchownat, SYS_setxattr, SYS_removexattr};
	static const int of_self[] = {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler,
				      SYS_sched_setparam, SYS_sched_setattr};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		assert_int_equal(ask(FILTER_DEGRADED, calls[i], 0, 0, 0), refused(EPERM));
		assert_int_equal(ask(FILTER_BOX, calls[i], 0, 0, 0), SECCOMP_RET_ALLOW);
	}
	for (size_t i = 0; i < sizeof(of_self) / sizeof(*of_self); i++) {
		assert_int_equal(ask(FILTER_DEGRADED, of_self[i], 0, 0, 0), SECCOMP_RET_ALLOW);
		assert_int_equal(ask(FILTER_DEGRADED, of_self[i], 77, 0, 0), refused(EPERM));
		assert_int_equal(ask(FILTER_BOX, of_self[i], 77, 0, 0), SECCOMP_RET_ALLOW);
	}
	assert_int_equal(ask(FILTER_DEGRADED, SYS_setpriority, 0, 0, 19), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_DEGRADED, SYS_setpriority, 0, 77, 19), refused(EPERM));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_setpriority, 2, 0, 19), refused(EPERM));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_ioprio_set, 1, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_DEGRADED, SYS_ioprio_set, 3, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_inotify_init1, 0, 0, 0), refused(ENOSYS));
	assert_int_equal(ask(FILTER_BOX, SYS_prlimit64, 1, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_shmget, 0, 65536, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_shmget, 0, 65537, 0), refused(EINVAL));
	assert_int_equal(ask(FILTER_BOX, SYS_shmget, 0, 1ULL << 32, 0), refused(EINVAL));
}

/* Files that run as their owner. */
static void test_modes(void **state)
{
	const unsigned makes = O_CREAT | O_WRONLY;

	(void)state;
	assert_int_equal(ask(FILTER_BOX, SYS_fchmod, 3, 0755, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_fchmod, 3, 02755, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_fchmod, 3, 04755, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_DEGRADED, SYS_fchmod, 3, 0755, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_DEGRADED, SYS_fchmod, 3, 04755, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_fchmodat, 3, 0, 04755), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, 452, 3, 0, 04755), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_mknodat, 3, 0, S_IFREG | 04755), refused(EPERM));
	assert_int_equal(ask_open(FILTER_BOX, makes, 0644), SECCOMP_RET_ALLOW);
	assert_int_equal(ask_open(FILTER_BOX, makes, 04644), refused(EPERM));
	assert_int_equal(ask_open(FILTER_BOX, O_TMPFILE | O_WRONLY, 04644), refused(EPERM));
	/* without O_CREAT it is no mode, but whatever the register holds */
	assert_int_equal(ask_open(FILTER_BOX, O_DIRECTORY, 04644), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, 437, 0, 0, 0), refused(ENOSYS));
}

static void test_options_of_sockets(void **state)
{
	(void)state;
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, IPPROTO_TCP, 31), refused(ENOPROTOOPT));
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, IPPROTO_TCP, 1), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, IPPROTO_UDP, 100),
			 refused(ENOPROTOOPT));
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, IPPROTO_UDP, 103), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, SOL_SOCKET, 26), refused(ENOPROTOOPT));
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, SOL_SOCKET, 52), refused(ENOPROTOOPT));
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, SOL_SOCKET, SO_REUSEADDR),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_setsockopt, 3, IPPROTO_IPV6, 26), SECCOMP_RET_ALLOW);
}

static void test_arguments(void **state)
{
	(void)state;
	assert_int_equal(ask(FILTER_BOX, SYS_kill, (unsigned)-1, 9, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_kill, ~0ULL, 9, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_kill, 2, 9, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_kill, (unsigned)-2, 9, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_ioctl, 0, 0x5412, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_ioctl, 0, 0x1234567800005412ULL, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_ioctl, 0, 0x5401, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_personality, 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_personality, 0xFFFFFFFFU, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(ask(FILTER_BOX, SYS_personality, 0x0400000, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, SYS_ptrace, 0, 0, 0), refused(EPERM));
	assert_int_equal(ask(FILTER_BOX, 425, 0, 0, 0), refused(ENOSYS));
}

/* --- by the kernel --- */

/* Runs `body` under the filter in a child; its wait status. */
static int under(enum filter_kind kind, int (*body)(void))
{
	struct filter filter;
	int status = 0;
	pid_t pid;

	filter_compile(&filter, kind);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_apply(&filter) < 0)
			_exit(100);
		_exit(body());
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			return __LINE__ & 0x3F ? __LINE__ & 0x3F : 1; \
	} while (0)

static int try_forbidden(void)
{
	CHECK(unshare(CLONE_NEWUSER) < 0 && errno == EPERM);
	CHECK(syscall(SYS_clone3, NULL, 64) < 0 && errno == ENOSYS);
	CHECK(syscall(425, 8, NULL) < 0 && errno == ENOSYS);
	CHECK(syscall(SYS_userfaultfd, 1) < 0 && errno == EPERM);
	CHECK(syscall(SYS_keyctl, 0, -3, 0) < 0 && errno == EPERM);
	CHECK(socket(40, SOCK_STREAM, 0) < 0 && errno == EAFNOSUPPORT);
	CHECK(kill(-1, 0) < 0 && errno == EPERM);
	CHECK(syscall(4999) < 0 && errno == ENOSYS);
	return 0;
}

static int try_allowed(void)
{
	int pair[2];
	pid_t pid;
	int status = -1;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
	      MAP_FAILED);
	pid = fork();
	if (pid == 0)
		_exit(7);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	return 0;
}

#if defined(__x86_64__)
static int call_by_other_table(void)
{
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
	return result > 0 ? 0 : 1;
}

static int call_x32(void)
{
	return syscall(0x40000000L + SYS_getpid) > 0 ? 0 : 1;
}
#endif

static void test_kernel_agrees(void **state)
{
	(void)state;
	assert_int_equal(under(FILTER_BOX, try_forbidden), 0);
	assert_int_equal(under(FILTER_BOX, try_allowed), 0);
	assert_int_equal(under(FILTER_ZYGOTE, try_forbidden), 0);
#if defined(__x86_64__)
	assert_true(WIFSIGNALED(under(FILTER_BOX, call_by_other_table)));
	assert_int_equal(WTERMSIG(under(FILTER_BOX, call_x32)), SIGSYS);
#endif
}

static void test_memfd(void **state)
{
	struct filter filter;
	struct filter again = {.count = 0};
	int fd;

	(void)state;
	filter_compile(&filter, FILTER_BOX);
	fd = filter_memfd(&filter);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, again.code, sizeof(again.code), 0),
			 filter.count * sizeof(*filter.code));
	assert_memory_equal(again.code, filter.code, filter.count * sizeof(*filter.code));
	assert_true(pwrite(fd, "x", 1, 0) < 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_calls_are_allowed),
		cmocka_unit_test(test_each_number_has_an_answer),
		cmocka_unit_test(test_a_keeper_may_less),
		cmocka_unit_test(test_another_architecture_ends_the_process),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_sockets_without_namespaces),
		cmocka_unit_test(test_what_is_the_users),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_options_of_sockets),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_kernel_agrees),
		cmocka_unit_test(test_memfd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
