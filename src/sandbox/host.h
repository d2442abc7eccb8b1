/*
 * What a plan has to know about this process and this kernel, looked up once before anything is
 * compiled.
 *
 * It is an argument, not a global, so that a test can compile the plan of an older kernel or of
 * another user.
 */
#ifndef FH_SANDBOX_HOST_H
#define FH_SANDBOX_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host {
	uid_t uid; /* the caller's effective ids: they become uid and gid 1000 inside */
	gid_t gid;
	bool mount_setattr; /* the kernel has mount_setattr(2): Linux 5.12 */
	/* Where the command line and the environment of this process lie (proc_pid_stat(5) fields
	 * 48 to 51): PID 1 is a copy of the keeper, and /proc/1/cmdline would show them inside. 0,
	 * 0 when unknown. */
	uintptr_t arg_start, arg_end, env_start, env_end;
};

void host_look(struct host *host);

/* The mount points strictly below `path` (absolute, no symlinks) from /proc/self/mountinfo, as
 * absolute paths in the order of that file. Returns a NULL-terminated array in one block, owned by
 * the caller (free()); NULL when there are none. Only needed where mount_setattr is missing. */
char **host_submounts(const char *path);

#endif
