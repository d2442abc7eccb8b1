/*
 * fumehood run: code, a script or a notebook, in a session of its own or a named one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/deadline.h"
#include "cli/fold.h"
#include "cli/live.h"
#include "cli/notebook_run.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "cli/went_back.h"
#include "client/store.h"

struct run {
	struct begin_options begin_options;
	struct notebook_options notebook_options;
	const char *code;
	const char *path;        /* of the file; NULL: none */
	const char *const *argv; /* the words behind it, NULL-terminated; NULL: none */
	const char *output_path;
	double startup_timeout_s; /* 0: none */
	bool json;
	bool text;
	bool quiet;
	uint64_t max_chars; /* UINT64_MAX: not given */
	bool marks;
	struct live_returns returns;
	const char *files; /* --files */
	struct source source;
	struct output output;
	struct begin begin;
	struct live live;
	struct notebook_run notebook;
	int signal;  /* that ended it; 0: none */
	bool failed; /* a cell did, and that was not allowed */
};

static int run_notebook(struct run *run, struct err *err)
{
	int outcome = notebook_run_cells(&run->notebook, &run->live, err);

	run->signal = run->notebook.signal;
	run->failed = run->notebook.failed;
	return outcome;
}

/* The script's path as the session can see it: from the workspace where it lies in there, else as
 * it is on the host. NULL: there is no script, or its name cannot be told. */
static const char *script_file(const struct run *run)
{
	const char *path = run->source.path, *workspace = run->begin.workspace;
	size_t len = workspace && strcmp(workspace, "/") != 0 ? strlen(workspace) : 0;

	if (!path)
		return NULL;
	if (!text_is_utf8(path, strlen(path))) {
		say("__file__ is not set: the path of the script is not UTF-8");
		return NULL;
	}
	if (workspace && strncmp(path, workspace, len) == 0 && path[len] == '/')
		return path + len + 1;
	return path;
}

static int run_code(struct run *run, struct err *err)
{
	struct live_cell cell = {
		.file = script_file(run),
		.argv = run->argv,
		.code = buf_bytes(&run->source.code),
		.code_len = run->source.code.len,
		.timeout_s = run->begin_options.timeout_s,
		.allow_stdin = !run->source.is_stdin && fcntl(STDIN_FILENO, F_GETFD) >= 0,
	};
	enum live_end end = live_run(&run->live, &cell, &run->signal, err);

	if (end == LIVE_FAULT)
		return -1;
	/* sys.exit() and sys.exit(0) end a script well. */
	run->failed = end != LIVE_OK && !(end == LIVE_ERROR && show_is_exit(run->live.last.ename,
									    run->live.last.evalue));
	return 0;
}

/* -o: the notebook that was run; of code, that of the session. Folded from the journal: whole also
 * if the keeper has died. */
static int write_output(struct run *run, struct err *err)
{
	const char *directory = fh_directory(run->begin.session);
	cleanup_buf struct buf bytes = BUF_INIT;
	cleanup_fd int dirfd = -1;

	if (!run->output.path)
		return 0;
	if (run->source.is_notebook)
		return notebook_run_finish(&run->notebook, directory, err);
	dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, "cannot open %s", directory);
	if (fold_notebook(dirfd, UINT64_MAX, NOTEBOOK_AS_SAID, &bytes, NULL, err) != 0)
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
	run->live.marks = run->marks;
	run->live.returns = run->returns;
	outcome = run->source.is_notebook ? run_notebook(run, err) : run_code(run, err);
	if (show_end(&run->live.show, &why) != 0 && outcome == 0) {
		*err = why;
		outcome = -1;
	}
	live_release(&run->live);
	if (write_output(run, &why) != 0 && outcome == 0) {
		*err = why;
		outcome = -1;
	}
	return outcome;
}

/* Starts or opens the session. */
static int begin(struct run *run, int signal_fd, struct err *err)
{
	cleanup_deadline struct deadline deadline = DEADLINE_INIT;
	cleanup_buf struct buf metadata = BUF_INIT;
	double seconds = run->startup_timeout_s;
	int outcome;

	if (run->source.is_notebook)
		json_write(&metadata, run->source.document.metadata);
	if (seconds > 0 && deadline_open(&deadline, signal_fd, seconds, err) != 0)
		return -1;
	outcome = begin_session(&run->begin, &run->begin_options, run->source.directory,
				run->source.is_notebook ? buf_bytes(&metadata) : NULL,
				seconds > 0 ? deadline.fd : signal_fd, err);
	if (outcome == 0)
		begin_say_tier(&run->begin, &run->begin_options);
	if (outcome == 0 || err->code != ERR_GONE)
		return outcome;
	run->signal = signals_next(signal_fd);
	if (!run->signal && deadline_passed(&deadline))
		err_set(err, ERR_TIMEOUT,
			"the session was not ready within %g s "
			"(--startup-timeout)",
			seconds);
	return outcome;
}

static int run_all(struct run *run)
{
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	int outcome;

	if (signal_fd < 0)
		return say_err(&err);
	if (begin(run, signal_fd, &err) != 0) {
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

/* --- the command line ------------------------------------------------------------------------- */

/* What only a notebook can have, and what it cannot have at once. */
static int check_notebook_usage(const struct command *command, struct run *run, const char *path)
{
	const struct notebook_options *options = &run->notebook_options;
	const char *given = notebook_options_given(options);

	if (!run->code && path && source_is_notebook(path)) {
		if (options->inplace && run->output_path)
			return say_usage(command, "--inplace and -o exclude each other");
		if (options->prepare_only && !options->inplace && !run->output_path)
			return say_usage(command, "--prepare-only needs -o FILE or --inplace");
		if (options->record_timing && options->no_record_timing)
			return say_usage(command,
					 "--record-timing and --no-record-timing exclude each "
					 "other");
		if (options->from_cell && !run->begin_options.session)
			return say_usage(command,
					 "--from-cell goes on in the session of --session NAME");
	} else if (given) {
		return say_usage(command, "--%s is for a notebook (FILE.ipynb)", given);
	}
	if (options->cwd && run->begin_options.workspace)
		return say_usage(command, "--cwd and --workspace exclude each other");
	if (options->cwd)
		run->begin_options.workspace = options->cwd;
	run->begin_options.running_only = options->from_cell != NULL;
	return 0;
}

/* FILE -- WORD...: what stands behind `--` is for the script. Without a file before it, it only
 * ends the options. */
static void take_words(struct run *run, const struct options *options)
{
	size_t used = run->code || options->words_before ? options->words_before : 1;

	if (!run->code)
		run->path = options->words[0];
	if (options->word_count > used && used >= options->words_before)
		run->argv = options->words + used;
}

static int check_usage(const struct command *command, const struct run *run,
		       const struct options *options)
{
	if (!run->code && !run->path)
		return say_usage(command, "run needs -c CODE, a file, or - for stdin");
	if (run->code && options->words_before)
		return say_usage(command, "run takes -c CODE or a file, not both");
	if (options->words_before > 1)
		return say_usage(command,
				 "run takes one file, not also %s; what the script is to get in "
				 "sys.argv stands behind --",
				 options->words[1]);
	if (run->argv && run->path && source_is_notebook(run->path))
		return say_usage(command,
				 "a notebook takes no arguments; -p NAME VALUE is a parameter");
	for (size_t i = 0; run->argv && run->argv[i]; i++)
		if (!text_is_utf8(run->argv[i], strlen(run->argv[i])))
			return say_usage(command, "the arguments behind -- are UTF-8");
	if (run->marks && !run->text)
		return say_usage(command, "--marks is a form of --text");
	if (run->json && run->text)
		return say_usage(command, "--json and --text exclude each other");
	if (run->returns.atomic && run->returns.try_only)
		return say_usage(command, "--atomic and --try exclude each other");
	if (run->returns.try_only && run->path && source_is_notebook(run->path))
		return say_usage(
			command,
			"--try is for code or a script: each cell of a notebook would lack "
			"what those before it did");
	if (run->files && !run->returns.atomic && !run->returns.try_only)
		return say_usage(command, "--files goes with --atomic or --try");
	if (run->output.to_stdout && (run->json || run->text))
		return say_usage(command, "-o - and --json or --text exclude each other");
	if (run->max_chars == 0)
		return say_usage(command, "--max-chars is more than 0");
	return 0;
}

static void run_release(struct run *run)
{
	notebook_run_release(&run->notebook);
	source_release(&run->source);
	output_release(&run->output);
}

/* Reads what is to be run and opens what is to be written. */
static int open_files(struct run *run, const char *path, struct err *err)
{
	struct notebook_run *notebook = &run->notebook;
	const char *output_path = run->output_path;

	if (!run->code && source_is_notebook(path)) {
		notebook->options = &run->notebook_options;
		notebook->begin_options = &run->begin_options;
		notebook->output = &run->output;
		if (notebook_run_gather(notebook, path, output_path, err) != 0)
			return -1;
		path = notebook->input_path;
		output_path = notebook->output_path;
	}
	if (source_read(&run->source, run->code, path, err) != 0 ||
	    output_open(&run->output, output_path, err) != 0)
		return -1;
	return run->source.is_notebook ? notebook_run_prepare(notebook, &run->source.document, err)
				       : 0;
}

static int command_run(const struct command *command, int argc, char **argv)
{
	__attribute__((cleanup(run_release))) struct run run = {
		.max_chars = UINT64_MAX,
		.source = SOURCE_INIT,
		.output = OUTPUT_INIT,
		.begin_options = BEGIN_OPTIONS_INIT,
		.begin = BEGIN_INIT,
		.notebook = NOTEBOOK_RUN_INIT,
	};
	const struct option table[] = {
		{"code", 'c', OPTION_TEXT, &run.code},
		{"output", 'o', OPTION_TEXT, &run.output_path},
		{"json", 'j', OPTION_FLAG, &run.json},
		{"text", '\0', OPTION_FLAG, &run.text},
		{"max-chars", '\0', OPTION_COUNT, &run.max_chars},
		{"marks", '\0', OPTION_FLAG, &run.marks},
		{"atomic", '\0', OPTION_FLAG, &run.returns.atomic},
		{"try", '\0', OPTION_FLAG, &run.returns.try_only},
		{"files", '\0', OPTION_TEXT, &run.files},
		{"quiet", 'q', OPTION_FLAG, &run.quiet},
		{"startup-timeout", '\0', OPTION_SECONDS, &run.startup_timeout_s},
		NOTEBOOK_OPTION_ROWS(run.notebook_options),
		BEGIN_OPTION_ROWS(run.begin_options),
	};
	cleanup_options struct options options = {.words = NULL};
	struct err err = ERR_INIT;
	int wrong;

	if (options_read(&options, table, sizeof(table) / sizeof(table[0]), argc, argv, &err) != 0)
		return say_usage(command, "%s", err.text);
	if (options.help)
		return say_help(command);
	if (run.files && went_back_files(run.files, &run.returns.files, &err) != 0)
		return say_usage(command, "%s", err.text);
	run.output.to_stdout = run.output_path && strcmp(run.output_path, "-") == 0;
	take_words(&run, &options);
	wrong = check_usage(command, &run, &options);
	if (!wrong)
		wrong = check_notebook_usage(command, &run, run.path);
	if (wrong)
		return wrong;
	if ((run.text && begin_max_chars(&run.max_chars, run.marks, &err) != 0) ||
	    open_files(&run, run.path, &err) != 0)
		return say_err(&err);
	if (run.notebook_options.prepare_only)
		return notebook_run_finish(&run.notebook, NULL, &err) == 0 ? 0 : say_err(&err);
	return run_all(&run);
}

const struct command COMMAND_RUN = {
	.name = "run",
	.summary = "run code, a script or a notebook",
	.example = "fumehood run -c 'print(1 + 1)'",
	.help = "Usage: fumehood run [options] -c CODE | FILE.py | FILE.ipynb | - [-- ARG...]\n"
		"\n"
		"Runs Python in a sandboxed session and prints its output as it comes.\n"
		"\n"
		"  fumehood run -c 'print(1 + 1)'              some code\n"
		"  fumehood run analysis.py -- --fast 2026     a script and its sys.argv[1:]\n"
		"  fumehood run report.ipynb -o done.ipynb     a notebook from top to bottom\n"
		"  fumehood run report.ipynb -p year 2026 -o 'report_{year}.ipynb'\n"
		"                                              with a parameter\n"
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
		"  -o, --output FILE    write the notebook to FILE (- for stdout); {NAME} in it "
		"is\n"
		"                       the value of a parameter\n"
		"  -j, --json           print the events, one JSON object a line\n"
		"      --text           print each cell's text for a language model instead\n"
		"      --max-chars N    longest such text (default 8000)\n"
		"      --marks          such texts with each output under a mark ([stdout], ...), "
		"see\n"
		"                       fumehood help text\n"
		"  -q, --quiet          print errors only\n"
		"      --atomic         undo each cell that fails: the session is as before it\n"
		"      --try            undo it in any case: run, report, go back\n"
		"      --files yes|no   with these: files of the workspace go back, too (default: "
		"yes "
		"in a\n"
		"                       private workspace)\n"
		"      --startup-timeout TIME\n"
		"                       give up when the session is not ready by "
		"then\n" BEGIN_OPTION_HELP "\n",
	.help_end = NOTEBOOK_OPTION_HELP
	"\n" POLICY_OPTION_HELP "\n"
	"Code of -c and - works in a private folder, a file in the folder it lies in.\n"
	"Without --session and --keep nothing is left of the session at the end.\n"
	"Ctrl-C interrupts the cell; twice within 2 s it ends the session.\n"
	"\n"
	"Exit status: 0, 1 if a cell failed, 2 for wrong usage, 125 if Fumehood itself "
	"failed.\n",
	.run = command_run,
};
