/*
 * The content of files, kept once for as many snapshots as name it (snapshot.h).
 *
 * All of it lies in one file without a name (O_TMPFILE) in the session's directory. So there is
 * nothing to make or remove for each small file, nothing is left when the process is killed, and
 * no other process finds it. It needs no fsync(2): the memory whose files it keeps dies with the
 * same process, and after that nobody could ask for them.
 *
 * Space is given out in units; what is given back is used again, and store_trim() returns it to the
 * disk. A large file is copied by copy_file_range(2), which on btrfs and XFS only notes that both
 * have the same blocks (ioctl_ficlonerange(2)).
 *
 * Any thread may call these functions; those that copy hold no lock meanwhile.
 *
 * Sources: open(2), copy_file_range(2), fallocate(2).
 */
#ifndef FH_FILES_STORE_H
#define FH_FILES_STORE_H

#include <stdint.h>

#include "base/err.h"

enum { STORE_UNIT_BYTES = 4096 };

struct store;
struct store_object; /* the bytes of a file, as they were; never changed */

/* `folder`: where its file is made; borrowed. `bytes_max`: what all objects may take, rounded up to
 * units. NULL with *err. */
struct store *store_new(int folder, uint64_t bytes_max, struct err *err);

/* Each keep asks for one more free. */
struct store *store_keep(struct store *store);
void store_free(struct store *store); /* NULL is fine */

/* What the objects take on the disk, with holes that are not trimmed yet. */
uint64_t store_bytes(const struct store *store);

/* Copies the first `bytes` bytes of a file that is open for reading. NULL with ERR_LIMIT (more than
 * bytes_max), ERR_NO_SPACE (the disk), ERR_GONE (the file is shorter by now) or ERR_IO. The caller
 * drops the object. */
struct store_object *store_put(struct store *store, int fd, uint64_t bytes, struct err *err);

/* One more user of the object; returns it. */
struct store_object *store_object_keep(struct store *store, struct store_object *object);

/* Cheap: the disk is not touched. NULL is fine. */
void store_object_drop(struct store *store, struct store_object *object);

uint64_t store_object_bytes(const struct store_object *object);

/* Whether a file that is open for reading has just these bytes: 1, 0, or -1 with *err. */
int store_object_is(struct store *store, const struct store_object *object, int fd,
		    struct err *err);

/* Writes them into a new and empty file that is open for writing. -1 with *err. */
int store_object_copy(struct store *store, const struct store_object *object, int fd,
		      struct err *err);

/* Makes them the content of a file that is open for both, without writing what is the same already.
 * A reader meanwhile sees some of both. -1 with *err: the file may have some of both. */
int store_object_write_over(struct store *store, const struct store_object *object, int fd,
			    struct err *err);

/* Gives what nobody uses back to the disk: some microseconds for each hole, so for a thread of its
 * own. */
void store_trim(struct store *store);

#endif
