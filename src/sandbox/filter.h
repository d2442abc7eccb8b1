/*
 * The system call filter: a deny-list compiled to classic BPF, for seccomp(2).
 *
 * A general interpreter needs most of what an ordinary process may call, so the list names what it
 * must not: what makes namespaces or mounts, what has kernel attack surface and no use here
 * (io_uring, bpf, userfaultfd, keyrings), what reaches into other processes, what is counted for
 * the whole machine, files that would run as their owner outside, and all socket families but
 * four. What did not exist when this was written is answered ENOSYS, which programs
 * take as "an older kernel": so a new system call is not open by default. Errors are chosen so that
 * programs fall back: ENOSYS for clone3 lets the C library use clone, whose flags can be looked at
 * (those of clone3 lie behind a pointer, which no filter can follow).
 *
 * Two things are not refused but end the process (SIGSYS): a call by another architecture's table
 * (int 0x80), since its numbers mean something else, and x32.
 *
 * Compiled by our own code, not libseccomp: "above the newest number known" cannot be said there,
 * and a session starts in less time than that library needs for one list.
 *
 * Sources: seccomp(2), Documentation/userspace-api/seccomp_filter.rst, syscalls(2).
 */
#ifndef FH_SANDBOX_FILTER_H
#define FH_SANDBOX_FILTER_H

#include <linux/filter.h>
#include <stddef.h>

enum filter_kind {
	FILTER_BOX,    /* in a box of its own namespaces */
	FILTER_ZYGOTE, /* the same, and setns(2), by which it puts guests into boxes */
	/* Without namespaces: no connection to anything, no System V objects, no change of the
	 * user's other processes; and none, by name, of the modes, owners and attributes of files,
	 * which Landlock does not know (fumehood_guest/modes.py changes them by descriptor) */
	FILTER_DEGRADED,
	/* A keeper, which has no namespaces either and stays what it is: no program, no process, no
	 * new code, no socket but pairs, no signal to anybody, no other ids; of files nothing by
	 * name that Landlock does not know */
	FILTER_KEEPER,
};

enum { FILTER_CODE_MAX = 1024 };

struct filter {
	struct sock_filter code[FILTER_CODE_MAX];
	unsigned short count;
};

/* Compiles the list. Pure; cannot fail (the size is checked by an assert). About 10 us. */
void filter_compile(struct filter *filter, enum filter_kind kind);

/* The filter's program in a sealed memfd, for a process that is to apply it itself. Returns a
 * descriptor owned by the caller, or -1 with errno. */
int filter_memfd(const struct filter *filter);

/* Applies it to the calling thread and what it starts; no_new_privs must be set. Only a raw system
 * call. 0, or -1 with errno: ENOSYS or EINVAL when the kernel has no filters. */
int filter_apply(const struct filter *filter);

/* What the filter answers, as the kernel would run it: SECCOMP_RET_* with its data. For tests and
 * `fumehood sandbox explain`; `arch` is an AUDIT_ARCH_*. */
unsigned filter_answer(const struct filter *filter, unsigned arch, int number,
		       const unsigned long long args[static 6]);

#endif
