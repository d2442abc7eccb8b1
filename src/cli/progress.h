/*
 * How far a notebook is: one line on a terminal, drawn over itself.
 *
 * It is drawn on stderr, and only where the output of the cells does not go to the same terminal.
 */
#ifndef FH_CLI_PROGRESS_H
#define FH_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/terminal.h"

enum { PROGRESS_TICK_MS = 250 }; /* how often it is worth drawing again */

struct progress {
	struct terminal *to; /* borrowed; NULL: nothing is drawn */
	size_t count;        /* cells of the notebook */
	size_t done;
	int64_t since_us; /* when the present cell began, monotonic */
	bool shown;
};

/* Begins; `to` NULL draws nothing. */
void progress_init(struct progress *progress, struct terminal *to, size_t count);

/* Cell number `index` (from 0) begins. */
void progress_begin(struct progress *progress, size_t index);

/* Draws it as it is now, unless the terminal is in the middle of a line. */
void progress_draw(struct progress *progress);

/* Takes it away, before something else is written there. */
void progress_erase(struct progress *progress);

/* The line's text; appends to `out`. */
void progress_text(size_t done, size_t count, int64_t cell_us, struct buf *out);

#endif
