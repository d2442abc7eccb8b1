/*
 * System calls that have no wrapper everywhere, one inline function each.
 *
 * They are what runs between clone3 and "ready", so each is one raw system call: no allocation, no
 * lock, no cancellation point, and no broadcast to other threads (glibc's setresuid() signals every
 * thread it knows of; a cloned child still sees the parent's list). They return as syscall(2) does:
 * -1 and errno.
 *
 * <linux/mount.h> and glibc's <sys/mount.h> cannot both be included; this folder uses the kernel's.
 */
#ifndef FH_SANDBOX_KERNEL_H
#define FH_SANDBOX_KERNEL_H

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum {
	KERNEL_RECURSIVE = 0x8000, /* AT_RECURSIVE, <linux/fcntl.h> */
	KERNEL_DETACH = 2,         /* MNT_DETACH of umount2(2) */
	KERNEL_FS_FLAG = 0,        /* FSCONFIG_SET_FLAG */
	KERNEL_FS_STRING = 1,      /* FSCONFIG_SET_STRING */
	KERNEL_FS_CREATE = 6,      /* FSCONFIG_CMD_CREATE */
	KERNEL_ID = 1000,          /* uid and gid inside the box */
};

/* openat2(2): `resolve` is a set of RESOLVE_*. */
static inline int kernel_open(int dirfd, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC), .resolve = resolve};

	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

/* A detached copy of the mounts at an open O_PATH descriptor and below it. */
static inline int kernel_open_tree(int fd)
{
	return (int)syscall(SYS_open_tree, fd, "",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | KERNEL_RECURSIVE);
}

/* Attaches a detached mount on top of an open O_PATH descriptor. */
static inline int kernel_move_mount(int mount, int target)
{
	return (int)syscall(SYS_move_mount, mount, "", target, "",
			    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* Adds MOUNT_ATTR_* to the mount at `fd`, with `recursive` also to those below. Linux 5.12. */
static inline int kernel_mount_setattr(int fd, int recursive, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};
	int flags = AT_EMPTY_PATH | (recursive ? KERNEL_RECURSIVE : 0);

	return (int)syscall(SYS_mount_setattr, fd, "", flags, &attr, sizeof(attr));
}

/* mount(2) for a bind (`source` is a path) or a change of an existing mount (NULL). */
static inline int kernel_mount(const char *source, const char *target, unsigned long flags)
{
	return (int)syscall(SYS_mount, source, target, NULL, flags, NULL);
}

static inline int kernel_fsopen(const char *type)
{
	return (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
}

static inline int kernel_fsconfig(int fd, int command, const char *key, const char *value)
{
	return (int)syscall(SYS_fsconfig, fd, command, key, value, 0);
}

static inline int kernel_fsmount(int fd, uint64_t attributes)
{
	return (int)syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, (unsigned)attributes);
}

static inline int kernel_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int kernel_clone3(struct clone_args *args)
{
	return (int)syscall(SYS_clone3, args, sizeof(*args));
}

/* fork(2) without atfork handlers. All arguments are 0, so their order, which differs by machine,
 * is no matter. */
static inline pid_t kernel_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
}

/* close_range(2), Linux 5.9; before it one by one. */
static inline void kernel_close_range(unsigned first, unsigned last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	for (unsigned fd = first; fd <= last && fd < 65536; fd++)
		close((int)fd);
}

static inline int kernel_pidfd_signal(int pidfd, int number)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

static inline int kernel_set_ids(unsigned id)
{
	if (syscall(SYS_setresgid, id, id, id) < 0)
		return -1;
	return (int)syscall(SYS_setresuid, id, id, id);
}

static inline int kernel_drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}, {0, 0, 0}};

	return (int)syscall(SYS_capset, &head, none);
}

static inline void __attribute__((noreturn)) kernel_exit(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

#endif
