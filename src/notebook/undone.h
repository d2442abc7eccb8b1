/*
 * How a notebook shows cells whose effect on the variables was undone.
 *
 * A person who opens the file, and a program that runs it from top to bottom, should not take such
 * a cell for part of the state. Those that someone had undone are left out unless they are wanted;
 * those that were lost with a death stay, since nobody asked for their loss, and say so. Both marks
 * are there for a reader that cannot see the other: tags are shown by notebook editors on request
 * and heard by tools (papermill, nbconvert, jupytext), the line of output is shown everywhere.
 */
#ifndef FH_NOTEBOOK_UNDONE_H
#define FH_NOTEBOOK_UNDONE_H

#include <stdbool.h>

#include "base/json.h"
#include "journal/timeline.h"

#define UNDONE_TAG "rolled-back"

enum undone { UNDONE_NOT, UNDONE_OMITTED, UNDONE_MARKED };

/* How the cell is to be shown. `cell` may be NULL: as it is. `keep`: none is left out. */
enum undone undone_of(const struct timeline_cell *cell, bool keep);

/* The line that says it, without LF; for a cell that is UNDONE_MARKED. */
const char *undone_remark(const struct timeline_cell *cell);

/* A copy of the cell's metadata with the tag and {"fumehood":{"rolled_back":{"by"}}}; `by` is
 * "rollback", "reset", "atomic", "try" or "died". The caller owns it. */
struct json *undone_metadata(const struct timeline_cell *cell, const struct json *metadata);

#endif
