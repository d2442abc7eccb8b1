/*
 * A user namespace exists as long as a process or a descriptor refers to it, so a child is made in
 * a new one, its maps are written, its namespace is opened, and it is ended.
 */
#include "sandbox/idmap.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "sandbox/apply_mount.h"
#include "sandbox/kernel.h"

int idmap_write(pid_t pid, const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return apply_write(AT_FDCWD, path, text);
}

int idmap_write_one(pid_t pid, const char *name, unsigned inside, unsigned outside)
{
	char text[64];

	snprintf(text, sizeof(text), "%u %u 1", inside, outside);
	return idmap_write(pid, name, text);
}

int idmap_namespace_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int idmap_open(uid_t uid, gid_t gid, uid_t box_uid, gid_t box_gid)
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_CLEAR_SIGHAND};
	pid_t pid = kernel_clone3(&args);
	int fd = -1;
	int sys;

	if (pid == 0) {
		for (;;)
			syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	}
	if (pid < 0)
		return -1;
	if (idmap_write_one(pid, "uid_map", uid, box_uid) == 0 &&
	    idmap_write_one(pid, "gid_map", gid, box_gid) == 0)
		fd = idmap_namespace_of(pid);
	sys = errno;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	errno = sys;
	return fd;
}

/* --- the mounts of a plan --- */

struct maker {
	struct plan *plan;
	/* the namespace that was made last, and for whom */
	uid_t uid;
	gid_t gid;
	int user_ns;
};

static int user_namespace_for(struct maker *maker, uid_t uid, gid_t gid)
{
	if (maker->user_ns >= 0 && maker->uid == uid && maker->gid == gid)
		return maker->user_ns;
	if (maker->user_ns >= 0)
		close(maker->user_ns);
	maker->uid = uid;
	maker->gid = gid;
	maker->user_ns = idmap_open(uid, gid, maker->plan->host.box_uid, maker->plan->host.box_gid);
	return maker->user_ns;
}

/* Attributes, and the map with a user namespace >= 0. */
static int set_attributes(int mount, uint64_t attributes, int user_ns)
{
	struct mount_attr attr = {.attr_set = attributes};

	if (user_ns >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (unsigned)user_ns;
	}
	return (int)syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH | KERNEL_RECURSIVE, &attr,
			    sizeof(attr));
}

/* Gives all of what is the session's own to the box. */
static int give_away(const char *path, uid_t uid, gid_t gid)
{
	char *paths[] = {(char *)(uintptr_t)path, NULL};
	FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	const FTSENT *entry;
	int result = tree ? 0 : -1;

	while (tree && result == 0 && (entry = fts_read(tree))) {
		if (entry->fts_info != FTS_DP)
			result = lchown(entry->fts_path, uid, gid);
	}
	if (tree)
		fts_close(tree);
	return result;
}

static int no_map(const struct step *step, int sys, struct err *err)
{
	cleanup_buf struct buf shown = BUF_INIT;

	text_escape(&shown, step->source, strlen(step->source), false, false);
	err_set(err, ERR_SANDBOX,
		"sandbox: the workspace %.100s lies on a file system that cannot be mapped to the "
		"session's own uid (%s); use another place, or start Fumehood as its owner",
		buf_bytes(&shown), strerror(sys));
	return -1;
}

static int prepare(struct maker *maker, struct step *step, struct err *err)
{
	const struct plan *plan = maker->plan;
	cleanup_fd int source = kernel_open(AT_FDCWD, step->source, O_PATH, RESOLVE_NO_SYMLINKS);
	cleanup_fd int mount = -1;
	struct stat st;
	int user_ns;

	if (source < 0 || fstat(source, &st) < 0)
		return err_sys(err, "sandbox: %.150s", step->source);
	mount = kernel_open_tree(source);
	if (mount < 0)
		return err_sys(err, "sandbox: mount of %.150s", step->source);
	user_ns = user_namespace_for(maker, st.st_uid, st.st_gid);
	if (user_ns < 0)
		return err_sys(err, "sandbox: user namespace");
	if (st.st_uid == plan->host.box_uid)
		user_ns = -1; /* given away before */
	if (set_attributes(mount, step->attributes, user_ns) < 0) {
		if (step->strict && !step->own)
			return no_map(step, errno, err);
		if (step->own &&
		    give_away(step->source, plan->host.box_uid, plan->host.box_gid) < 0)
			return err_sys(err, "sandbox: giving the workspace to the session's uid");
		if (set_attributes(mount, step->attributes, -1) < 0)
			return err_sys(err, "sandbox: mount of %.150s", step->source);
	}
	step->mount = fd_take(&mount);
	return 0;
}

int idmap_prepare(struct plan *plan, struct err *err)
{
	struct maker maker = {.plan = plan, .user_ns = -1};
	int result = 0;

	for (size_t i = 0; i < plan->count && result == 0; i++) {
		if (plan->steps[i].kind == STEP_BIND && plan->steps[i].mapped)
			result = prepare(&maker, &plan->steps[i], err);
	}
	if (maker.user_ns >= 0)
		close(maker.user_ns);
	return result;
}
