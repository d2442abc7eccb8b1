/*
 * The inside of a struct notebook, which notebook.c and notebook_asks.c fill and notebook_print.c
 * prints. Private to these three.
 */
#ifndef FH_NOTEBOOK_NOTEBOOK_INTERNAL_H
#define FH_NOTEBOOK_NOTEBOOK_INTERNAL_H

#include "journal/timeline.h"
#include "notebook/notebook.h"
#include "notebook/outputs.h"
#include "notebook/undone.h"

enum { CELL_ID_SIZE = 65 }; /* nbformat: 1 to 64 characters */

enum cell_type { CELL_CODE, CELL_MARKDOWN, CELL_RAW };

struct cell {
	enum cell_type type;
	char *key;             /* the `cell` of its events; NULL for notes and sections */
	char id[CELL_ID_SIZE]; /* in the file */
	bool id_made;          /* by this fold: gives way to an event that names it */
	bool printed;          /* `form` is up to date (and outputs.changed is false) */
	bool failed;           /* there was an `error` event */
	char *source;
	size_t source_len;
	struct json *metadata;    /* owned, fits the schema */
	struct json *attachments; /* shared with the event, may be NULL */
	struct json *given; /* outputs of another run, before those of this one; may be NULL */
	struct outputs outputs;
	int64_t execution_count; /* -1: none */
	bool untimed;
	const struct timeline_cell *place; /* NULL: no rollback concerns it */
	enum undone shown;
	const char *remark; /* of UNDONE_MARKED: the line that says it; else NULL */
	struct buf form;    /* as it stands in the file */
};

struct asking; /* notebook_asks.c */

struct notebook {
	struct cell **cells;
	size_t count;
	size_t cap;
	void *by_key;
	void *by_id;
	struct cell *recent; /* of the last event: a shortcut past by_key */
	struct displays displays;
	struct timeline *timeline;
	struct asking *asking;            /* asks without a verdict, the oldest first */
	enum notebook_rolled_back said;   /* in the `session` event */
	enum notebook_rolled_back wanted; /* NOTEBOOK_AS_SAID: that */
	struct json *metadata;
	unsigned ids_made;
	bool changed;
	bool untimed; /* new cells get no times */
};

/* A new cell at the end, with the id it asks for (may be NULL) if that is free. Borrowed; without
 * source and metadata, which every cell must be given. notebook.c */
struct cell *notebook_add(struct notebook *notebook, enum cell_type type, const char *id);

/* Looks at all cells again after fates, places or the wish have changed. notebook.c */
void notebook_review(struct notebook *notebook);

/* Takes an event of an ask, or one that may end asks. notebook_asks.c */
void notebook_apply_ask(struct notebook *notebook, const struct event *event);
void notebook_forget_asks(struct notebook *notebook);

/* Whether cells that were rolled back are printed, if they are treated so. notebook_print.c */
bool notebook_keeps(const struct notebook *notebook, enum notebook_rolled_back what);

#endif
