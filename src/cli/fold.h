/*
 * Folds over a stored journal, without its keeper: the notebook, and the text of a cell for a
 * model.
 */
#ifndef FH_CLI_FOLD_H
#define FH_CLI_FOLD_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "digest/digest.h"
#include "journal/event.h"
#include "notebook/notebook.h"

struct cursor;

/* The events of a stored journal, one after the other, with their values inline. */
struct fold_reader {
	int dirfd;             /* borrowed */
	struct cursor *cursor; /* owned */
	uint64_t damaged;      /* lines that are no events and were passed over */
};

#define FOLD_READER_INIT \
	{ \
		.dirfd = -1, .cursor = NULL, .damaged = 0 \
	}

/* From the first event. ERR_NOT_FOUND when there is no journal in `dirfd`. */
int fold_open(struct fold_reader *reader, int dirfd, struct err *err);
void fold_close(struct fold_reader *reader);
#define cleanup_fold __attribute__((cleanup(fold_close)))

/* The next event into *event (EVENT_INIT before; the caller releases it): 1, 0 at the end, -1. */
int fold_next(struct fold_reader *reader, struct event *event, struct err *err);

/* Appends the notebook of the journal in `dirfd` up to event `until` (UINT64_MAX: all), with `what`
 * of the cells that were rolled back. *damaged (may be NULL) counts lines that are no events.
 * ERR_NOT_FOUND when there is no journal. */
int fold_notebook(int dirfd, uint64_t until, enum notebook_rolled_back what, struct buf *out,
		  uint64_t *damaged, struct err *err);

/*
 * Appends the text of `cell`, or of the cell that was run last (NULL), in this form; of a cell that
 * has answered an ask behind a line about that. `cell` may also be the id of an ask, and without it
 * what came last may be one that has no answer: then there is the line alone. ERR_NOT_FOUND when
 * there is no such cell.
 */
int fold_text(int dirfd, const char *cell, const struct digest_params *form, struct buf *out,
	      struct err *err);

/*
 * The texts of all cells of the sections with this title, in order: [{"cell","text"}], as op
 * `outputs` has them. The caller owns the array. NULL with ERR_NOT_FOUND when there is no such
 * cell.
 */
struct json *fold_section(int dirfd, const char *section, const struct digest_params *form,
			  struct err *err);

#endif
