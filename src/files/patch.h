/*
 * The difference of two texts in the unified form, which patch(1) and `git apply` read.
 *
 * Lines are compared by Myers' algorithm ("An O(ND) Difference Algorithm and Its Variations",
 * 1986), bounded: what differs in more than PATCH_EDITS_MAX lines is shown as all of the old and
 * all of the new, which is as right and no longer to make. Pure.
 */
#ifndef FH_FILES_PATCH_H
#define FH_FILES_PATCH_H

#include <stdbool.h>

#include "base/buf.h"

enum { PATCH_EDITS_MAX = 2000, PATCH_CONTEXT = 3 };

struct patch_file {
	const char *path;      /* any bytes; quoted as git does where it must be */
	const struct buf *old; /* NULL: there was none */
	const struct buf *new; /* NULL: there is none any more */
	bool binary;           /* not to be shown by lines; found out otherwise too (NUL) */
};

/* Appends the file's part of a patch. */
void patch_write(struct buf *out, const struct patch_file *file);

#endif
