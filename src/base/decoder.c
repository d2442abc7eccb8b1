/*
 * Resource limits first: the filter does not let setrlimit(2) through. See decoder.h.
 *
 * Why each call is there: glibc's malloc begins with getrandom, its qsort asks for the size of the
 * memory (sysinfo), and clock_gettime is a system call where the vdso has no clock.
 */
#include "base/decoder.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "decoder: the number of this architecture is missing here (linux/audit.h)"
#endif

#define ALLOW(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int limit(int resource, uint64_t value)
{
	const struct rlimit both = {(rlim_t)value, (rlim_t)value};

	return setrlimit((__rlimit_resource_t)resource, &both);
}

static int filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		/* x32 has numbers of its own, none of which is among these. */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(mremap),
		ALLOW(munmap),
		ALLOW(getrandom),
		ALLOW(sysinfo),
		ALLOW(clock_gettime),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int decoder_confine(const struct decoder_limits *limits)
{
	if (limit(RLIMIT_AS, limits->memory_bytes) != 0 || limit(RLIMIT_CPU, limits->cpu_s) != 0 ||
	    limit(RLIMIT_CORE, 0) != 0 || limit(RLIMIT_NOFILE, 0) != 0 ||
	    (!limits->writes_files && limit(RLIMIT_FSIZE, 0) != 0))
		return -1;
	return filter();
}
