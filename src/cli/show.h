/*
 * A cell's output for people: what `fumehood run` prints.
 *
 * stdout events go to stdout and stderr events to stderr as they come; results and displays as
 * their text/plain; an image as a line that says where it is; an exception as its traceback on
 * stderr. It is a fold over events that keeps only what it needs to count images.
 */
#ifndef FH_CLI_SHOW_H
#define FH_CLI_SHOW_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/graphics.h"
#include "cli/terminal.h"
#include "journal/event.h"

struct show_cell;

struct show {
	struct terminal out;
	struct terminal err;
	const char *directory; /* of the session, when it outlives this command; NULL: images are
				  not kept */
	bool errors_only;      /* only tracebacks, ends and notes (run --quiet) */
	bool in_notebook;      /* images are kept in the notebook that is written at the end */
	bool numbered;         /* results are headed "Out[n]: ", in red if coloured */
	bool coloured;
	enum graphics graphics; /* how images are shown beside their paths */
	struct show_cell *cells;
	size_t cell_count;
	bool shared;        /* stdout and stderr are the same terminal or file */
	bool other_last;    /* stderr was added to last */
	bool ours_ended;    /* the cell that has ended last is one of those that are shown */
	struct err failure; /* the first that was met */
};

/* `directory` is borrowed. */
void show_init(struct show *show, const char *directory, bool errors_only);
void show_release(struct show *show);

/* From now on events of this cell are shown; those of cells that others run are not. */
void show_add_cell(struct show *show, const char *cell);

/* Takes an event (values inline) and gathers what it prints. */
void show_event(struct show *show, const struct event *event);

/* Whether an exception is the orderly end of a program, sys.exit() or sys.exit(0): not shown. */
bool show_is_exit(const char *ename, const char *evalue);

/* Shows a prompt. */
void show_prompt(struct show *show, const char *prompt);

/* Writes what was gathered. ERR_IO when stdout or stderr cannot be written. */
int show_flush(struct show *show, struct err *err);

/* The same at the end of all output: resets colours. */
int show_end(struct show *show, struct err *err);

#endif
