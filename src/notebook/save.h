/*
 * Saving a notebook where someone else may be writing too.
 *
 * Temp file in the same directory, fsync, renameat2(RENAME_EXCHANGE) with the present file, and a
 * look at what was displaced: if it is not the file this writer put there last (size, mtime,
 * inode, and then content hash), someone changed it. Then it is exchanged back, the save goes to
 * `<stem>-<n>.ipynb` (first free n from 1) from now on, and the outcome says so. File systems
 * without exchange: rename, after the same look. fsync of the directory. All calls block: they
 * belong on a worker thread.
 */
#ifndef FH_NOTEBOOK_SAVE_H
#define FH_NOTEBOOK_SAVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct save;

/* A writer of dirfd/name. `adopt`: a file that is there already is ours (reopened session, or
 * --inplace: the file that was read); otherwise a present file counts as someone else's. `dirfd`
 * stays the caller's and must outlive the writer. A symlink at `name` is followed here, once, and
 * the file it leads to is written; later ones are not, so make the writer before a guest may
 * change the directory. NULL on failure. */
struct save *save_new(int dirfd, const char *name, bool adopt, struct err *err);
void save_free(struct save *save);

/* Writes the bytes durably; on failure the file is as it was. *moved (may be NULL) tells whether
 * this call found a foreign edit and moved to another name. Mode and owner of a present file are
 * kept, a new one is made by the umask. */
int save_write(struct save *save, const void *bytes, size_t len, bool *moved, struct err *err);

/* The file name in use now, in the directory of the file (a symlink may have led to another one);
 * borrowed, valid until the next save_write(). */
const char *save_name(const struct save *save);

#endif
