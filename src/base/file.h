/*
 * Files: whole or not at all, and never through a path that someone else controls.
 *
 * file_replace() is the only way Fumehood overwrites a file: temp file beside it, write, fsync,
 * rename, fsync of the directory. file_open_beneath() is the only way it opens a path that a guest
 * or a client named: openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS.
 */
#ifndef FH_BASE_FILE_H
#define FH_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Appends the file's bytes to `out`; ERR_LIMIT when it is larger than `bytes_max`, ERR_INVALID when
 * it is no regular file. `dirfd` may be AT_FDCWD. */
int file_read(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *err);

/* Writes all bytes, resuming after short writes and EINTR. */
int file_write_all(int fd, const void *bytes, size_t len, struct err *err);

/* Replaces dirfd/name (a plain file name) durably. `mode` is a new file's (less the umask); an old
 * one keeps its mode and, where permitted, its owner. */
int file_replace(int dirfd, const char *name, const void *bytes, size_t len, mode_t mode,
		 struct err *err);

/* Opens a path relative to `dirfd`, refusing (ERR_DENIED) to leave it or to follow any symlink, and
 * (ERR_INVALID) anything but a regular file or a directory unless O_PATH is asked for; a FIFO does
 * not make it wait. Returns the descriptor (O_CLOEXEC), owned by the caller, or -1. */
int file_open_beneath(int dirfd, const char *path, int flags, mode_t mode, struct err *err);

/* mkdir -p with the given mode for what is made; the last part may exist. */
int file_make_dirs(const char *path, mode_t mode, struct err *err);

/* Removes a tree without following symlinks or crossing into other file systems. ENOENT is
 * success. */
int file_remove_tree(int dirfd, const char *name, struct err *err);

/* An exclusive lock by flock(2) on dirfd/name (made 0600 if absent). Returns the descriptor that
 * holds it (O_CLOEXEC), or -1 with ERR_BUSY when another open file holds it. */
int file_lock(int dirfd, const char *name, struct err *err);

/* Sets FD_CLOEXEC off so that a child inherits it. */
int file_inherit(int fd, struct err *err);

#endif
