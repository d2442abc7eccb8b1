/*
 * Id-mapped mounts: how a session with a uid of its own works in somebody's directory.
 *
 * A session that root has started runs under a uid that owns nothing (uids.h). Its workspace, and
 * the Python environment that it must see, are therefore shown to it through mounts that translate:
 * what belongs to the directory's owner on the disk belongs to the session inside, and what the
 * session makes belongs to that owner on the disk. Everybody else's files show as "nobody".
 *
 * Only root of the machine can make such mounts, and only beforehand: so the keeper opens and maps
 * them, and the box attaches what it is given.
 *
 * Sources: mount_setattr(2), "ID-mapped mounts"; Documentation/filesystems/idmappings.rst.
 */
#ifndef FH_SANDBOX_IDMAP_H
#define FH_SANDBOX_IDMAP_H

#include <sys/types.h>

#include "base/err.h"
#include "sandbox/plan.h"

/* Writes /proc/PID/NAME ("uid_map", "gid_map"): `text` has lines of three numbers, or one. The
 * process must be a child of the caller's that has not been reaped. May be called in a task that
 * shares the caller's memory: no allocation. 0, or -1 with errno. */
int idmap_write(pid_t pid, const char *name, const char *text);

/* As idmap_write(), for one id. */
int idmap_write_one(pid_t pid, const char *name, unsigned inside, unsigned outside);

/* The user namespace of such a process; a descriptor owned by the caller, or -1 with errno. */
int idmap_namespace_of(pid_t pid);

/* A user namespace in which `uid` and `gid` (of the disk) stand for the others (of the box).
 * Returns a descriptor owned by the caller, or -1 with errno. */
int idmap_open(uid_t uid, gid_t gid, uid_t box_uid, gid_t box_gid);

/*
 * For a plan whose box has other ids than the caller: opens the source of each bind that is marked
 * `mapped`, as a mount of its own in step->mount, attributes and id map applied. A file system that
 * cannot do it is an error for a `strict` one (ERR_SANDBOX, with what to do), unless it is the
 * session's `own`, which is given to the box's uid then; what is only read stays as it is.
 */
int idmap_prepare(struct plan *plan, struct err *err);

#endif
