/*
 * fumehood run: code, a script or a notebook, in a session of its own or a named one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/fold.h"
#include "cli/live.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "client/store.h"

struct run {
	struct begin_options begin_options;
	const char *code;
	const char *output_path;
	bool json;
	bool text;
	bool allow_errors;
	bool quiet;
	uint64_t max_chars;
	struct source source;
	struct output output;
	struct begin begin;
	struct live live;
	int signal;  /* that ended it; 0: none */
	bool failed; /* a cell did, and that was not allowed */
};

/* Progress of a notebook whose output is not shown. */
static void show_progress(struct run *run, size_t done, size_t count)
{
	struct terminal *to = &run->live.show.err;
	cleanup_free char *line = done < count
					  ? mem_format("\r\033[Kcell %zu of %zu", done + 1, count)
					  : mem_string("\r\033[K");

	if (!run->live.show.errors_only || !to->colour)
		return;
	terminal_own(to, line, false);
	(void)terminal_flush(to, NULL);
	to->line_start = true;
}

/* Whether the rest of a notebook is run after this end of a cell. */
static bool goes_on(const struct run *run, const struct document_cell *cell, enum live_end end)
{
	if (end == LIVE_OK)
		return true;
	if (end == LIVE_ERROR && source_has_tag(cell, "raises-exception"))
		return true;
	return run->allow_errors && (end == LIVE_ERROR || end == LIVE_TIMEOUT);
}

static int run_document(struct run *run, struct err *err)
{
	static const char *const types[] = {
		[DOCUMENT_CODE] = "code",
		[DOCUMENT_MARKDOWN] = "markdown",
		[DOCUMENT_RAW] = "raw",
	};
	const struct document *document = &run->source.document;

	for (size_t i = 0; i < document->cell_count; i++) {
		const struct document_cell *cell = &document->cells[i];
		struct live_cell live_cell = {
			.id = cell->id,
			.code = cell->source,
			.code_len = cell->source_len,
			.metadata = cell->metadata,
			.timeout_s = run->begin_options.timeout_s,
		};
		enum live_end end;

		if (cell->type != DOCUMENT_CODE || source_skips(cell)) {
			if (live_note(&run->live, cell->id, types[cell->type], cell->source,
				      cell->source_len, cell->metadata, cell->attachments,
				      err) != 0)
				return -1;
			continue;
		}
		show_progress(run, i, document->cell_count);
		end = live_run(&run->live, &live_cell, &run->signal, err);
		show_progress(run, document->cell_count, document->cell_count);
		if (end == LIVE_FAULT)
			return -1;
		if (goes_on(run, cell, end))
			continue;
		run->failed = true;
		return 0;
	}
	return 0;
}

static int run_code(struct run *run, struct err *err)
{
	struct live_cell cell = {
		.code = buf_bytes(&run->source.code),
		.code_len = run->source.code.len,
		.timeout_s = run->begin_options.timeout_s,
		.allow_stdin = !run->source.is_stdin && fcntl(STDIN_FILENO, F_GETFD) >= 0,
	};
	enum live_end end = live_run(&run->live, &cell, &run->signal, err);

	if (end == LIVE_FAULT)
		return -1;
	run->failed = end != LIVE_OK;
	return 0;
}

/* The notebook of the session, folded from its journal: whole also if the keeper has died. */
static int write_output(struct run *run, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	cleanup_fd int dirfd =
		open(fh_directory(run->begin.session), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0)
		return err_sys(err, "cannot open %s", fh_directory(run->begin.session));
	if (fold_notebook(dirfd, UINT64_MAX, &bytes, NULL, err) != 0)
		return -1;
	return output_write(&run->output, &bytes, err);
}

/* Everything between the start of the session and its end. */
static int run_session(struct run *run, int signal_fd, struct err *err)
{
	struct fh_session *session = run->begin.session;
	enum live_mode mode = run->json ? LIVE_JSON : run->text ? LIVE_TEXT : LIVE_SHOW;
	bool quiet = run->output.to_stdout || run->quiet;
	struct fh_error error = FH_ERROR_INIT;
	struct err why = ERR_INIT;
	int outcome;

	if (fh_events(session, run->begin.created ? 0 : fh_hello_seq(session), &error) != 0)
		return say_take(err, &error);
	live_init(&run->live, session, mode, signal_fd,
		  run->begin.end == BEGIN_REMOVE ? NULL : fh_directory(session), quiet);
	run->live.show.in_notebook = run->output.path != NULL;
	run->live.lives_on = run->begin.end == BEGIN_LEAVE_RUNNING;
	run->live.max_chars = (size_t)run->max_chars;
	outcome = run->source.is_notebook ? run_document(run, err) : run_code(run, err);
	if (show_end(&run->live.show, &why) != 0 && outcome == 0) {
		*err = why;
		outcome = -1;
	}
	live_release(&run->live);
	if (run->output.path && write_output(run, &why) != 0 && outcome == 0) {
		*err = why;
		outcome = -1;
	}
	return outcome;
}

static int run_all(struct run *run)
{
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	cleanup_buf struct buf metadata = BUF_INIT;
	int outcome;

	if (signal_fd < 0)
		return say_err(&err);
	if (run->source.is_notebook)
		json_write(&metadata, run->source.document.metadata);
	outcome = begin_session(&run->begin, &run->begin_options, run->source.directory,
				run->source.is_notebook ? buf_bytes(&metadata) : NULL, signal_fd,
				&err);
	if (outcome != 0) {
		run->signal = err.code == ERR_GONE ? signals_next(signal_fd) : 0;
		if (run->signal)
			signals_die(run->signal);
		return say_err(&err);
	}
	outcome = run_session(run, signal_fd, &err);
	begin_finish(&run->begin, outcome != 0 && err.code == ERR_GONE);
	if (outcome != 0 && err.sys == EPIPE)
		signals_die(SIGPIPE);
	if (outcome != 0)
		return say_err(&err);
	if (run->signal && run->signal != SIGINT)
		signals_die(run->signal);
	return run->failed ? EXIT_CELL_FAILED : 0;
}

static int check_usage(const struct command *command, const struct run *run,
		       const struct options *options)
{
	if (!run->code && options->word_count == 0)
		return say_usage(command, "run needs -c CODE, a file, or - for stdin");
	if (run->code && options->word_count)
		return say_usage(command, "run takes -c CODE or a file, not both");
	if (options->word_count > 1)
		return say_usage(command, "run takes one file, not also %s", options->words[1]);
	if (run->json && run->text)
		return say_usage(command, "--json and --text exclude each other");
	if (run->output.to_stdout && (run->json || run->text))
		return say_usage(command, "-o - and --json or --text exclude each other");
	if (run->max_chars == 0)
		return say_usage(command, "--max-chars is more than 0");
	return 0;
}

static void run_release(struct run *run)
{
	source_release(&run->source);
	output_release(&run->output);
}

static int command_run(const struct command *command, int argc, char **argv)
{
	__attribute__((cleanup(run_release))) struct run run = {
		.max_chars = 8000,
		.source = SOURCE_INIT,
		.output = OUTPUT_INIT,
		.begin = BEGIN_INIT,
	};
	const struct option table[] = {
		{"code", 'c', OPTION_TEXT, &run.code},
		{"output", 'o', OPTION_TEXT, &run.output_path},
		{"json", 'j', OPTION_FLAG, &run.json},
		{"text", '\0', OPTION_FLAG, &run.text},
		{"max-chars", '\0', OPTION_COUNT, &run.max_chars},
		{"allow-errors", '\0', OPTION_FLAG, &run.allow_errors},
		{"quiet", 'q', OPTION_FLAG, &run.quiet},
		BEGIN_OPTION_ROWS(run.begin_options),
	};
	cleanup_options struct options options = {.words = NULL};
	struct err err = ERR_INIT;
	int wrong;

	if (options_read(&options, table, sizeof(table) / sizeof(table[0]), argc, argv, &err) != 0)
		return say_usage(command, "%s", err.text);
	if (options.help)
		return say_out(command->help, strlen(command->help));
	run.output.to_stdout = run.output_path && strcmp(run.output_path, "-") == 0;
	wrong = check_usage(command, &run, &options);
	if (wrong)
		return wrong;
	if (source_read(&run.source, run.code, options.words[0], &err) != 0 ||
	    output_open(&run.output, run.output_path, &err) != 0)
		return say_err(&err);
	return run_all(&run);
}

const struct command COMMAND_RUN = {
	.name = "run",
	.summary = "run code, a script or a notebook",
	.example = "fumehood run -c 'print(1 + 1)'",
	.help = "Usage: fumehood run [options] -c CODE | FILE.py | FILE.ipynb | -\n"
		"\n"
		"Runs Python in a sandboxed session and prints its output as it comes.\n"
		"\n"
		"  fumehood run -c 'print(1 + 1)'              some code\n"
		"  fumehood run analysis.py                    a script, in its own folder\n"
		"  fumehood run report.ipynb -o done.ipynb     a notebook from top to bottom\n"
		"  echo 'print(1)' | fumehood run -            code from stdin\n"
		"  fumehood run -s work -c 'x = 1'             in a session that lives on, so that "
		"...\n"
		"  fumehood run -s work -c 'print(x)'          ... this prints 1\n"
		"  fumehood run -w data:ro -c 'import os; os.listdir()'\n"
		"                                              with a folder that can only be "
		"read\n"
		"\n"
		"Options:\n"
		"  -c, --code CODE      code to run\n"
		"  -o, --output FILE    write the session's notebook to FILE (- for stdout)\n"
		"  -j, --json           print the events, one JSON object a line\n"
		"      --text           print each cell's text for a language model instead\n"
		"      --max-chars N    longest such text (default 8000)\n"
		"      --allow-errors   FILE.ipynb: go on after a cell that "
		"failed\n"
		"  -q, --quiet          print errors only\n" BEGIN_OPTION_HELP "\n"
		"Code of -c and - works in a private folder, a file in the folder it lies in.\n"
		"Without --session and --keep nothing is left of the session at the end.\n"
		"Ctrl-C interrupts the cell; twice within 2 s it ends the session.\n"
		"\n"
		"Exit status: 0, 1 if a cell failed, 2 for wrong usage, 125 if Fumehood itself "
		"failed.\n",
	.run = command_run,
};
