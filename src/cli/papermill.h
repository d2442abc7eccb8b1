/*
 * What papermill does to a notebook before and after it is run.
 *
 * The names (tags, metadata, the anchor) are papermill's, so that its other tools and nbconvert
 * templates find what they look for.
 */
#ifndef FH_CLI_PAPERMILL_H
#define FH_CLI_PAPERMILL_H

#include <stdint.h>

#include "cli/parameters.h"
#include "cli/transcript.h"

enum papermill_status {
	PAPERMILL_PENDING,
	PAPERMILL_COMPLETED,
	PAPERMILL_FAILED,
};

/*
 * Puts the parameters in: a code cell tagged injected-parameters instead of the one that is there,
 * else behind the first cell tagged `parameters`, else at the top. Says what papermill warns of:
 * no such cell, and parameters that it does not name.
 */
void papermill_inject(struct document *document, const struct parameters *parameters);

/* Removes the marks of an earlier failure. */
void papermill_remove_marks(struct document *document);

/* Hides the source of every code cell (--report-mode). */
void papermill_hide_code(struct document *document);

/* Marks the cell that failed: a markdown cell at the top that leads to one before it. */
void papermill_mark(struct transcript *transcript, size_t failed, int64_t execution_count);

/* Clears metadata.papermill of every cell to pending, and begins the notebook's. Paths may be
 * NULL. */
void papermill_begin(struct document *document, const struct parameters *parameters,
		     const char *input_path, const char *output_path, int64_t now_us);

/* Times (wall clock) and outcome of a cell; and of the notebook: sys.exit(0) is an exception too.
 */
void papermill_cell(struct document *document, size_t index, enum papermill_status status,
		    int64_t started_us, int64_t finished_us);
void papermill_end(struct document *document, bool exception, int64_t started_us, int64_t now_us);

#endif
