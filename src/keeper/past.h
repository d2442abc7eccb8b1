/*
 * Looking back: what cells that have ended left, read from the journal.
 *
 * Each question is one pass over lines, most of which are passed over by their first bytes (type,
 * cell) without being parsed; nothing is kept in memory for questions that nobody asks. Every
 * answer is bounded.
 */
#ifndef FH_KEEPER_PAST_H
#define FH_KEEPER_PAST_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "digest/digest.h"
#include "notebook/notebook.h"

enum { PAST_ITEMS_MAX = 10000, PAST_TEXT_BYTES_MAX = 16 << 20 };

/* Sets `files`, `files_more` and `files_incomplete` in `body` to those of one cell's `finished`,
 * which comes behind event `since`. ERR_BUSY when it is not there yet. */
int past_files_of_cell(int dirfd, const char *cell, uint64_t since, struct json *body,
		       struct err *err);

/*
 * Sets `files`, an array, to what is different since event `since`: one item a path, with the cell
 * that was last at it. Created and deleted again: no item. `between` (may be NULL) has items of
 * after the last cell.
 */
int past_files(int dirfd, uint64_t since, const struct json *between, struct json *body,
	       struct err *err);

/*
 * Sets `images`, an array: first the displayed ones (cell, n, path in the session's directory),
 * then image files in the workspace that were created or changed (cell, path in the workspace),
 * both since event `since`. `section`: only those of cells in the section with this title; NULL:
 * all.
 */
int past_images(int dirfd, uint64_t since, const char *section, struct json *body, struct err *err);

/* Sets `cells`, an array of {cell, text} with the text for a model of each cell of the section
 * (NULL: of all) in this form, in their order; past PAST_TEXT_BYTES_MAX, `cells_more` counts the
 * rest. `session` is the id for the line about a cut; `notebook` (may be NULL) knows which cells
 * were undone. */
int past_outputs(int dirfd, const char *session, const struct notebook *notebook,
		 const char *section, const struct digest_params *form, struct json *body,
		 struct err *err);

#endif
