/*
 * The notebook file of a run: the notebook that was read, with what the session's journal says of
 * its cells.
 *
 * The session's own notebook has all that ever ran in the session, in the order in which it ran;
 * this one has the cells of one file in the file's order, whatever ran where. It is a fold over the
 * journal, so it is whole also when the keeper has died.
 */
#ifndef FH_CLI_TRANSCRIPT_H
#define FH_CLI_TRANSCRIPT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "notebook/document.h"

/* What became of a cell of the document. */
struct transcript_cell {
	char *run; /* its id in the session, owned; NULL: it did not run there */
	bool keep; /* it did not run: what the file says of its outputs stays */
};

struct transcript {
	struct document *document;     /* borrowed */
	struct transcript_cell *cells; /* owned; one for each of the document */
	bool untimed;                  /* without metadata.execution */
};

/* Cells added to or removed from the document afterwards go through transcript_insert(). */
void transcript_init(struct transcript *transcript, struct document *document);
void transcript_release(struct transcript *transcript);

/* document_insert() for both. */
void transcript_insert(struct transcript *transcript, size_t index, enum document_cell_type type,
		       const char *source, struct json *metadata);

/* The cell has run under this id. */
void transcript_ran(struct transcript *transcript, size_t index, const char *run);

/* What transcript_find() found. */
struct transcript_found {
	size_t missing; /* code cells that have not run as they are */
	size_t undone;  /* code cells that have run, but were rolled back or lost with a death */
	bool lost;      /* the variables were lost after the last of them ran */
};

/*
 * Looks in the journal for the last run of each code cell before `end`: under its id, or its id
 * with the number that a repeated run gets, and with the same code.
 */
int transcript_find(struct transcript *transcript, size_t end, int dirfd,
		    struct transcript_found *found, struct err *err);

/* Appends the file. `dirfd`: of the session; -1: nothing was run. */
int transcript_fold(const struct transcript *transcript, int dirfd, struct buf *out,
		    struct err *err);

#endif
