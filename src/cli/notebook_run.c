/*
 * Running a notebook. See notebook_run.h; gathering parameters is in notebook_gather.c.
 *
 * A cell that fails ends the run unless an option or its tag allows it; what comes after it is in
 * the file without outputs, because those of an earlier run would say what did not happen. Cells
 * that are not run on purpose (blank, tagged to be skipped) keep what they have, as in nbclient.
 */
#include "cli/notebook_run.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/papermill.h"
#include "cli/say.h"
#include "cli/source.h"

/* Between two saves of a run: a twentieth of the time at most goes into them. */
#define SAVE_EVERY_US ((int64_t)2000000)
enum { SAVE_SHARE = 20 };

static const char DEFAULT_SKIP_TAG[] = "skip-execution";

void notebook_run_release(struct notebook_run *run)
{
	transcript_release(&run->transcript);
	parameters_release(&run->parameters);
	free(run->input_path);
	free(run->output_path);
}

/* --- before ----------------------------------------------------------------------------------- */

static bool is_skipped(const struct notebook_run *run, const struct document_cell *cell)
{
	const char *tag = run->options->skip_tag ? run->options->skip_tag : DEFAULT_SKIP_TAG;

	return cell->type != DOCUMENT_CODE || source_skips(cell, tag);
}

/* The cell with this id, else of this number. */
static int find_cell(const struct document *document, const char *name, size_t *index,
		     struct err *err)
{
	uint64_t number;

	for (*index = 0; *index < document->cell_count; (*index)++)
		if (strcmp(document->cells[*index].id, name) == 0)
			return 0;
	if (name[strspn(name, "0123456789")] == '\0' && options_size(name, &number) == 0 &&
	    number > 0 && number <= document->cell_count) {
		*index = (size_t)number - 1;
		return 0;
	}
	return err_set(err, ERR_NOT_FOUND,
		       "--from-cell %.70s: the notebook has %zu cells, and none has this id", name,
		       document->cell_count);
}

static void forget_outputs(struct document_cell *cell)
{
	json_free(cell->outputs);
	cell->outputs = NULL;
	cell->execution_count = -1;
	json_remove(cell->metadata, "execution");
}

/* Only Python is run here: R would give an error that explains nothing, or, worse, none. */
static int check_language(const struct document *document, struct err *err)
{
	const char *language = document_language(document);

	if (!language || strncasecmp(language, "python", 6) == 0 ||
	    strncasecmp(language, "ipython", 7) == 0)
		return 0;
	return err_set(err, ERR_INVALID,
		       "the notebook is in %.40s, and only Python can be run (if its cells are "
		       "Python, say so in metadata.kernelspec.language)",
		       language);
}

int notebook_run_prepare(struct notebook_run *run, struct document *document, struct err *err)
{
	const struct notebook_options *options = run->options;

	if (!options->prepare_only && check_language(document, err) != 0)
		return -1;
	run->document = document;
	papermill_remove_marks(document);
	papermill_inject(document, &run->parameters);
	if (options->report_mode)
		papermill_hide_code(document);
	if (options->from_cell && find_cell(document, options->from_cell, &run->first, err) != 0)
		return -1;
	transcript_init(&run->transcript, document);
	run->transcript.untimed = options->no_record_timing;
	for (size_t i = 0; i < document->cell_count; i++) {
		struct document_cell *cell = &document->cells[i];

		run->transcript.cells[i].keep =
			options->prepare_only || i < run->first || is_skipped(run, cell);
		if (!run->transcript.cells[i].keep)
			forget_outputs(cell);
		if (options->no_record_timing)
			json_remove(cell->metadata, "execution");
	}
	run->started_us = clock_wall_us();
	if (options->papermill_metadata)
		papermill_begin(document, &run->parameters, run->input_path, run->output_path,
				run->started_us);
	return 0;
}

/* --from-cell: the cells before have run in this session, or so it should be. */
static int take_over(struct notebook_run *run, struct live *live, struct err *err)
{
	const char *directory = fh_directory(live->session);
	cleanup_fd int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct transcript_found found;

	if (dirfd < 0)
		return err_sys(err, "cannot open %s", directory);
	if (transcript_find(&run->transcript, run->first, dirfd, &found, err) != 0)
		return -1;
	if (found.missing > 0)
		say("%zu cells before cell %zu have not run in this session as they are now",
		    found.missing, run->first + 1);
	if (found.undone > 0)
		say("%zu cells before cell %zu have run, but were rolled back or lost: what they "
		    "did "
		    "is not in the variables",
		    found.undone, run->first + 1);
	if (found.lost)
		say("the interpreter was new after the cells before cell %zu: their variables are "
		    "lost",
		    run->first + 1);
	return 0;
}

/* --- during ----------------------------------------------------------------------------------- */

/* Whether the rest of the notebook is run after this end of a cell. */
static bool goes_on(const struct notebook_run *run, const struct live *live,
		    const struct document_cell *cell, enum live_end end)
{
	const struct notebook_options *options = run->options;
	const char *ename = live->last.ename;

	if (end == LIVE_OK)
		return true;
	if ((end != LIVE_ERROR && end != LIVE_TIMEOUT) || options->force_raise_errors)
		return false;
	if (end == LIVE_TIMEOUT) {
		if (!live->last.kept) /* the interpreter had to be killed */
			return false;
		if (options->interrupt_on_timeout && !ename)
			return true; /* it has caught the interrupt and ended */
		if (!options->interrupt_on_timeout)
			return options->allow_errors;
	}
	return options->allow_errors || document_has_tag(cell, "raises-exception") ||
	       (ename && options->allow_error_names &&
		notebook_options_listed(options->allow_error_names, ename));
}

/* Names the failure in one line; the traceback has been shown. */
static void say_failure(const struct notebook_run *run, const struct live *live, size_t index,
			enum live_end end)
{
	static const char *const ends[] = {
		[LIVE_OK] = "",
		[LIVE_ERROR] = "failed",
		[LIVE_TIMEOUT] = "ran out of time",
		[LIVE_INTERRUPTED] = "was interrupted",
		[LIVE_DIED] = "took the interpreter down",
		[LIVE_STOPPED] = "was stopped",
		[LIVE_FAULT] = "",
	};
	const char *evalue = live->last.evalue ? live->last.evalue : "";
	cleanup_buf struct buf why = BUF_INIT;

	if (end == LIVE_ERROR && live->last.ename) {
		buf_printf(&why, ": %s", live->last.ename);
		if (evalue[0])
			buf_printf(&why, ": %.*s", (int)strcspn(evalue, "\n"), evalue);
	}
	say("cell %zu of %zu (%s) %s%s%s%s", index + 1, run->document->cell_count,
	    run->document->cells[index].id, ends[end], buf_bytes(&why),
	    live->lives_on && live->last.kept ? "; go on with --from-cell " : "",
	    live->lives_on && live->last.kept ? run->document->cells[index].id : "");
}

/* A cell that is not run goes into the session's notebook as it is. */
static int pass_over(struct notebook_run *run, struct live *live, size_t index, struct err *err)
{
	static const char *const types[] = {
		[DOCUMENT_CODE] = "code",
		[DOCUMENT_MARKDOWN] = "markdown",
		[DOCUMENT_RAW] = "raw",
	};
	const struct document_cell *cell = &run->document->cells[index];
	int64_t now = clock_wall_us();

	if (run->options->papermill_metadata)
		papermill_cell(run->document, index, PAPERMILL_COMPLETED, now, now);
	return live_note(live, cell->id, types[cell->type], cell->source, cell->source_len,
			 cell->metadata, cell->attachments, err);
}

/* Runs one cell and decides: 1 the next one, 0 the end, -1. */
static int run_cell(struct notebook_run *run, struct live *live, size_t index, struct err *err)
{
	const struct document_cell *cell = &run->document->cells[index];
	const struct live_cell live_cell = {
		.id = cell->id,
		.code = cell->source,
		.code_len = cell->source_len,
		.metadata = cell->metadata,
		.timeout_s = run->begin_options->timeout_s,
	};
	enum live_end end;
	bool more;

	progress_begin(&run->progress, index);
	end = live_run(live, &live_cell, &run->signal, err);
	progress_erase(&run->progress);
	if (live->last.cell)
		transcript_ran(&run->transcript, index, live->last.cell);
	more = end != LIVE_FAULT && goes_on(run, live, cell, end);
	if (run->options->papermill_metadata)
		papermill_cell(run->document, index, more ? PAPERMILL_COMPLETED : PAPERMILL_FAILED,
			       live->last.started_us, live->last.finished_us);
	if (end == LIVE_FAULT)
		return -1;
	if (more)
		return 1;
	run->ended = true;
	if (end == LIVE_ERROR && show_is_exit(live->last.ename, live->last.evalue)) {
		if (index + 1 < run->document->cell_count)
			say("cell %zu of %zu (%s) ended the notebook by sys.exit()", index + 1,
			    run->document->cell_count, cell->id);
		return 0;
	}
	run->failed = true;
	run->failed_at = index;
	run->failed_count = live->last.execution_count;
	say_failure(run, live, index, end);
	return 0;
}

/* Whoever watches the file sees it grow. */
static int save_when_due(struct notebook_run *run, const struct live *live, struct err *err)
{
	int64_t begun = clock_monotonic_us();
	int64_t pause;

	if (!run->output->save || begun < run->save_due_us)
		return 0;
	if (notebook_run_save(run, fh_directory(live->session), err) != 0)
		return -1;
	pause = SAVE_SHARE * (clock_monotonic_us() - begun);
	run->save_due_us = clock_monotonic_us() + (pause > SAVE_EVERY_US ? pause : SAVE_EVERY_US);
	return 0;
}

int notebook_run_cells(struct notebook_run *run, struct live *live, struct err *err)
{
	const struct document *document = run->document;
	bool draws = !run->options->no_progress_bar && live->mode == LIVE_SHOW &&
		     (live->show.errors_only || !live->show.shared);
	int more = 1;

	run->started_us = clock_wall_us();
	progress_init(&run->progress, draws ? &live->show.err : NULL, document->cell_count);
	live->progress = &run->progress;
	run->save_due_us = clock_monotonic_us() + SAVE_EVERY_US;
	if (run->options->from_cell && take_over(run, live, err) != 0)
		return -1;
	for (size_t i = run->first; more == 1 && i < document->cell_count; i++) {
		if (is_skipped(run, &document->cells[i])) {
			if (pass_over(run, live, i, err) != 0)
				return -1;
			continue;
		}
		more = run_cell(run, live, i, err);
		if (more == 1 && save_when_due(run, live, err) != 0)
			return -1;
	}
	return more < 0 ? -1 : 0;
}

/* --- after ------------------------------------------------------------------------------------ */

int notebook_run_save(struct notebook_run *run, const char *directory, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	cleanup_fd int dirfd = -1;

	if (!run->output->path)
		return 0;
	if (directory) {
		dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dirfd < 0)
			return err_sys(err, "cannot open %s", directory);
	}
	if (transcript_fold(&run->transcript, dirfd, &bytes, err) != 0)
		return -1;
	return output_write(run->output, &bytes, err);
}

int notebook_run_finish(struct notebook_run *run, const char *directory, struct err *err)
{
	if (run->options->papermill_metadata && directory)
		papermill_end(run->document, run->ended, run->started_us, clock_wall_us());
	if (run->options->error_cells && run->failed)
		papermill_mark(&run->transcript, run->failed_at, run->failed_count);
	return notebook_run_save(run, directory, err);
}
