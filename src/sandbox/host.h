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
	bool other_uids; /* root, and there are ids that are not its own */
	uid_t uid;       /* the caller's effective ids */
	gid_t gid;
	/* What uid and gid 1000 of the box are outside: the caller's own, or for root others. */
	uid_t box_uid;
	gid_t box_gid;
	/* A user namespace that is to be the parent of the box's: that of the zygote whose guests
	 * shall enter. -1: the caller's own. Borrowed. */
	int family;
	bool without_zygote; /* nobody's guests shall enter */
	uid_t outer_uid;     /* what that one calls box_uid and box_gid */
	gid_t outer_gid;
	bool mount_setattr; /* the kernel has mount_setattr(2): Linux 5.12 */
	int landlock_abi;   /* 0: the kernel has no Landlock */
	/* Where the command line and the environment of this process lie (proc_pid_stat(5) fields
	 * 48 to 51): PID 1 is a copy of the keeper, and /proc/1/cmdline would show them inside. 0,
	 * 0 when unknown. */
	uintptr_t arg_start, arg_end, env_start, env_end;
};

void host_look(struct host *host);

/* How many processes and threads of this user there are now, by /proc; some may be missed. */
uint64_t host_tasks(uid_t uid);

/* The mount points strictly below `path` (absolute, no symlinks) from /proc/self/mountinfo, as
 * absolute paths in the order of that file. Returns a NULL-terminated array in one block, owned by
 * the caller (free()); NULL when there are none. Only needed where mount_setattr is missing. */
char **host_submounts(const char *path);

#endif
