/*
 * What a guest gives up before it runs foreign code: its identity, capabilities, the right to gain
 * new ones, and resources beyond its limits. Called between fork and the first line of the session,
 * in this order; the calls are raw and allocate nothing.
 *
 * The box belongs to somebody else's user namespace: entering it gives every capability inside it
 * (user_namespaces(7)), so dropping them here is what makes the guest an ordinary process.
 */
#include "guest.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/rseq.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILTER_CODE_MAX = 4096, LANDLOCK_RESTRICT_SELF = 446 /* the same everywhere */ };
enum { BOX_ID = 1000, CAPABILITY_MAX = 64, MEMLOCK_BYTES = 8 * 1024 * 1024 };

static int failed(const char **step, const char *name)
{
	*step = name;
	return -errno;
}

/* A zygote run by an ordinary user is uid 1000 inside already, by the box's map. One run by root
 * is not mapped at all and takes the only identity that the box has. Raw system calls: glibc's
 * wrappers signal threads. */
int lockdown_user(const char **step)
{
	if (getuid() == BOX_ID && geteuid() == BOX_ID)
		return 0;
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return failed(step, "setgroups");
	if (syscall(SYS_setresgid, BOX_ID, BOX_ID, BOX_ID) < 0)
		return failed(step, "setresgid");
	if (syscall(SYS_setresuid, BOX_ID, BOX_ID, BOX_ID) < 0)
		return failed(step, "setresuid");
	return 0;
}

void lockdown_group(const int *tasks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		(void)!write(tasks[i], "0", 1);
}

int lockdown_privileges(const char **step)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	/* EINVAL marks the end of the kernel's list; EPERM means that there was nothing to drop. */
	for (int i = 0; i < CAPABILITY_MAX; i++)
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0 && errno == EINVAL)
			break;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return failed(step, "ambient capabilities");
	if (syscall(SYS_capset, &header, none) < 0)
		return failed(step, "capset");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return failed(step, "no_new_privs");
	return 0;
}

/* Soft and hard limit alike; never above a hard limit that is there already. */
static int limit(__rlimit_resource_t resource, uint64_t value)
{
	struct rlimit current;

	if (getrlimit(resource, &current) < 0)
		return -1;
	if (current.rlim_max != RLIM_INFINITY && value > current.rlim_max)
		value = current.rlim_max;
	current = (struct rlimit){.rlim_cur = value, .rlim_max = value};
	return setrlimit(resource, &current);
}

int lockdown_limits(const struct lockdown_limits *limits, const char **step)
{
	if (limit(RLIMIT_CORE, 0) < 0)
		return failed(step, "limit of core files");
	if (limit(RLIMIT_MEMLOCK, MEMLOCK_BYTES) < 0)
		return failed(step, "limit of locked memory");
	if (limits->processes_max && limit(RLIMIT_NPROC, limits->processes_max) < 0)
		return failed(step, "limit of processes");
	if (limits->files_max && limit(RLIMIT_NOFILE, limits->files_max) < 0)
		return failed(step, "limit of open files");
	if (limits->file_bytes_max && limit(RLIMIT_FSIZE, limits->file_bytes_max) < 0)
		return failed(step, "limit of file size");
	return 0;
}

int lockdown_ruleset(int ruleset, const char **step)
{
	if (ruleset >= 0 && syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0U) < 0)
		return failed(step, "Landlock");
	return 0;
}

int lockdown_filter(int memfd, const char **step)
{
	struct sock_filter code[FILTER_CODE_MAX];
	ssize_t size = pread(memfd, code, sizeof(code), 0);
	struct sock_fprog program = {.filter = code};

	if (size <= 0 || (size_t)size % sizeof(*code) != 0) {
		errno = size < 0 ? errno : EINVAL;
		return failed(step, "system call filter");
	}
	program.len = (unsigned short)((size_t)size / sizeof(*code));
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return failed(step, "system call filter");
	return 0;
}

static char *thread_pointer(void)
{
	char *pointer = NULL;

#if defined(__x86_64__)
	__asm__("mov %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
	__asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
	return pointer;
}

/*
 * The kernel forgets rseq for a child that shares memory (vfork), and a fork of that child inherits
 * the forgetting: sched_getcpu() then gives one frozen number. glibc 2.35 and later tell where the
 * area lies; 0x53053053 is the signature that glibc registers with on x86
 * (sysdeps/unix/sysv/linux/x86/bits/rseq.h).
 */
void lockdown_rseq(void)
{
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned int *size = dlsym(RTLD_DEFAULT, "__rseq_size");
	char *pointer = thread_pointer();
	struct rseq *area;
#if defined(__x86_64__)
	const unsigned int signature = 0x53053053;
#else
	const unsigned int signature = 0xd428bc00;
#endif

	if (!offset || !size || *size == 0 || !pointer)
		return;
	area = (struct rseq *)(void *)(pointer + *offset);
	area->rseq_cs = 0;
	/* A kernel without rseq, or one that has kept the registration, says so; both are fine. */
	(void)syscall(SYS_rseq, area, (*size + 31U) & ~31U, 0, signature);
}
