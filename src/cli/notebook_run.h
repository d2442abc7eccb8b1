/*
 * Running a notebook from top to bottom: what of nbclient and papermill it takes.
 *
 *	gather ── parameters of the command line; the paths they make
 *	prepare ─ the document as it will be written, but for the outputs
 *	cells ─── each code cell in the session, the others as notes
 *	save ──── the file: after some cells, and at the end whatever came
 */
#ifndef FH_CLI_NOTEBOOK_RUN_H
#define FH_CLI_NOTEBOOK_RUN_H

#include "cli/begin.h"
#include "cli/live.h"
#include "cli/notebook_options.h"
#include "cli/output.h"
#include "cli/parameters.h"
#include "cli/progress.h"
#include "cli/transcript.h"

struct notebook_run {
	const struct notebook_options *options;    /* borrowed */
	const struct begin_options *begin_options; /* borrowed */
	struct document *document;                 /* borrowed, edited */
	struct output *output;                     /* borrowed */
	char *input_path;                          /* owned */
	char *output_path;                         /* owned; NULL: none */
	struct parameters parameters;
	struct transcript transcript;
	struct progress progress;
	size_t first; /* the cell to begin with */
	int64_t started_us;
	int64_t save_due_us; /* monotonic */
	int signal;          /* that ended it; 0: none */
	bool ended;          /* a cell ended it before the last one */
	bool failed;         /* ... and that was not by sys.exit() */
	size_t failed_at;    /* ... this one */
	int64_t failed_count;
};

#define NOTEBOOK_RUN_INIT \
	{ \
		.parameters = PARAMETERS_INIT, .document = NULL \
	}

void notebook_run_release(struct notebook_run *run);

/* Reads the parameters and fills the paths. `output_path` is that of -o, or NULL. */
int notebook_run_gather(struct notebook_run *run, const char *input_path, const char *output_path,
			struct err *err);

/* Edits the document. ERR_NOT_FOUND when there is no cell --from-cell. */
int notebook_run_prepare(struct notebook_run *run, struct document *document, struct err *err);

/* Runs it. *run says how it went; -1 when Fumehood itself failed. */
int notebook_run_cells(struct notebook_run *run, struct live *live, struct err *err);

/* Writes the file, if one was asked for. `directory`: of the session; NULL: nothing was run. */
int notebook_run_save(struct notebook_run *run, const char *directory, struct err *err);

/* The same at the end: with what papermill writes at the end, where that was asked for. */
int notebook_run_finish(struct notebook_run *run, const char *directory, struct err *err);

#endif
