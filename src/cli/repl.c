/*
 * fumehood repl: a prompt.
 *
 * On a terminal with the line editor (repl_editor.h); elsewhere line by line from stdin, as python
 * -i does it. Either way a cell is gathered until it is whole (repl_code.h) and then run as
 * `fumehood run` runs one (live.h). Between cells, events of the session are heard while a key is
 * waited for: late output of threads is shown above the line that is being typed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/graphics.h"
#include "cli/live.h"
#include "cli/options.h"
#include "cli/repl_code.h"
#include "cli/repl_editor.h"
#include "cli/repl_history.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "journal/cursor.h"

enum { COMPLETE_TIMEOUT_MS = 6000, CALL_TIMEOUT_MS = 60000, SHORT_ID = 8 };

static const char GREEN[] = "\033[32m";
static const char ERASE[] = "\r\033[J"; /* the line that is being typed */

struct repl {
	struct begin_options begin_options;
	bool quiet;
	bool editing; /* with the line editor */
	int signal_fd;
	struct begin begin;
	struct live live;
	struct repl_history history;
	struct repl_editor *editor;
	enum graphics graphics;
	struct buf typed; /* while the terminal was asked what it can do */
	struct buf code;  /* the lines of the cell so far */
	char prompt[REPL_PROMPT_BYTES_MAX];
	int64_t prompt_count; /* the execution count that it was made from */
	bool interrupted;     /* Ctrl-C at the prompt */
	int signal;           /* that ends it; 0: none */
	bool failed;          /* a program on stdin has ended itself with a failure */
	struct err fault;     /* that ends it */
};

enum repl_input { INPUT_CELL, INPUT_AGAIN, INPUT_OVER };

/* --- waiting for what is typed -----------------------------------------------------------------
 */

static enum repl_wait take_signal(struct repl *repl)
{
	int signal_number = signals_next(repl->signal_fd);

	if (!signal_number)
		return REPL_WAIT_REDRAW;
	if (signal_number == SIGINT)
		repl->interrupted = true;
	else
		repl->signal = signal_number;
	return REPL_WAIT_LEAVE;
}

/* Everything that a cell has printed is there, and the cursor is at the beginning of a line. */
static int settle(struct repl *repl, struct err *err)
{
	struct show *show = &repl->live.show;

	terminal_own(show->shared && show->other_last ? &show->err : &show->out, "", true);
	show->out.line_start = show->err.line_start = true;
	return show_end(show, err);
}

/* "In [3]: ", or "   ...: " for the further lines of a cell. */
static void set_prompt(struct repl *repl)
{
	char *prompt = repl->prompt;
	int width = snprintf(prompt, sizeof(repl->prompt),
			     "In [%lld]: ", (long long)repl->live.count.now + 1);

	if (repl->code.len)
		snprintf(prompt, sizeof(repl->prompt), "%*s", width, "...: ");
	repl->prompt_count = repl->live.count.now;
	if (repl->editing)
		repl_editor_prompt(repl->editor, prompt, repl->live.show.coloured ? GREEN : NULL);
}

/* Events that came while the line is typed. 1: something was written over it. */
static int hear(struct repl *repl)
{
	bool shown;

	if (live_idle(&repl->live, repl->editing ? ERASE : "", &shown, &repl->fault) != 0)
		return -1;
	if (shown && settle(repl, &repl->fault) != 0)
		return -1;
	/* Someone else has run a cell, or the interpreter is a new one. */
	if (repl->editing && repl->live.count.now != repl->prompt_count) {
		set_prompt(repl);
		if (!shown)
			(void)file_write_all(STDOUT_FILENO, ERASE, sizeof(ERASE) - 1, NULL);
		return 1;
	}
	return shown;
}

/* Waits for stdin, with an eye on the session and on signals. */
static enum repl_wait wait_key(void *data)
{
	struct repl *repl = data;
	struct pollfd fds[] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = fh_fd(repl->live.session), .events = POLLIN},
		{.fd = repl->signal_fd, .events = POLLIN},
	};

	for (;;) {
		int heard = hear(repl);

		if (heard)
			return heard < 0 ? REPL_WAIT_LEAVE : REPL_WAIT_REDRAW;
		if (poll(fds, 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			err_sys(&repl->fault, "poll");
			return REPL_WAIT_LEAVE;
		}
		if (fds[2].revents)
			return take_signal(repl);
		if (fds[0].revents)
			return REPL_WAIT_KEY;
	}
}

static struct json *complete(void *data, const char *code, size_t len, size_t cursor)
{
	struct repl *repl = data;
	cleanup_json struct json *request = json_new_object();
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *reply = NULL;

	json_set_string(request, "op", "complete");
	json_set(request, "code", json_new_string(code, len));
	json_set_int(request, "cursor_pos", (int64_t)cursor);
	json_write(&text, request);
	fh_set_timeout(repl->live.session, COMPLETE_TIMEOUT_MS);
	/* No answer is no completion: a session that has gone says so by itself. */
	(void)fh_call(repl->live.session, buf_bytes(&text), text.len, &reply, NULL);
	fh_set_timeout(repl->live.session, CALL_TIMEOUT_MS);
	return reply ? json_parse(reply, strlen(reply), &JSON_LIMITS, NULL) : NULL;
}

/* --- reading a cell ----------------------------------------------------------------------------
 */

/* Without the editor; the prompt goes to stderr, as python's does. */
static enum repl_line read_plain(struct repl *repl)
{
	struct input *input = &repl->live.input;
	enum input_step step;

	if (input->tty)
		(void)file_write_all(STDERR_FILENO, repl->prompt, strlen(repl->prompt), NULL);
	input_ask(input, false);
	while ((step = input_next(input)) == INPUT_NONE) {
		enum repl_wait wait = wait_key(repl);

		if (wait == REPL_WAIT_LEAVE) {
			input_done(input);
			return REPL_LINE_LEFT;
		}
		if (wait == REPL_WAIT_KEY)
			input_read(input);
	}
	input_done(input);
	if (step == INPUT_END)
		return REPL_LINE_END;
	buf_append(&repl->code, buf_bytes(&input->answer), input->answer.len);
	buf_append_char(&repl->code, '\n');
	return REPL_LINE;
}

static enum repl_line read_line(struct repl *repl, size_t indent)
{
	set_prompt(repl);
	return repl->editing ? repl_editor_read(repl->editor, indent, &repl->code)
			     : read_plain(repl);
}

/* A new line for what comes next, where the user's Enter has not made one. */
static void leave_line(const struct repl *repl, const char *mark)
{
	cleanup_free char *text = mem_format("%s\n", mark);

	if (repl->editing || repl->live.input.tty)
		(void)file_write_all(STDERR_FILENO, text, strlen(text), NULL);
}

/* Ctrl-C at a prompt gives the line up; anything else that interrupts it ends the repl. */
static enum repl_input left_line(struct repl *repl)
{
	bool again = repl->interrupted;

	repl->interrupted = false;
	leave_line(repl, again ? "^C" : "");
	if (again && !repl->editing && !repl->live.input.tty)
		repl->signal = SIGINT;
	return again && !repl->signal ? INPUT_AGAIN : INPUT_OVER;
}

/* Gathers lines until they are a whole cell. */
static enum repl_input read_cell(struct repl *repl)
{
	size_t indent = 0;

	buf_clear(&repl->code);
	for (;;) {
		size_t before = repl->code.len;

		switch (read_line(repl, indent)) {
		case REPL_LINE_LEFT:
			return left_line(repl);
		case REPL_LINE_END:
			leave_line(repl, "");
			return repl->code.len ? INPUT_CELL : INPUT_OVER;
		case REPL_LINE:
			break;
		}
		/* What was recalled or pasted as several lines needs no empty one. */
		if (memchr(buf_bytes(&repl->code) + before, '\n', repl->code.len - before - 1))
			buf_append_char(&repl->code, '\n');
		if (repl_code_is_whole(buf_bytes(&repl->code), repl->code.len, &indent))
			return INPUT_CELL;
	}
}

/* --- running it --------------------------------------------------------------------------------
 */

static void remember(struct repl *repl)
{
	struct err err = ERR_INIT;
	int added;

	if (!repl->editing)
		return;
	added = repl_history_add(&repl->history, buf_bytes(&repl->code), repl->code.len, &err);
	if (added < 0)
		say("%s", err.text);
	if (added && repl->history.count)
		repl_editor_remember(repl->editor, repl->history.entries[repl->history.count - 1]);
}

/* The empty lines that ended it are not part of the cell. */
static void trim(struct buf *code)
{
	const char *text = buf_bytes(code);
	size_t len = code->len;

	while (len && (text[len - 1] == '\n' || text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	buf_truncate(code, len);
}

/* What follows from the end of a cell. False: the repl is over. */
static bool goes_on(struct repl *repl, enum live_end end)
{
	const char *name = repl->live.last.ename;

	if (end == LIVE_STOPPED || end == LIVE_FAULT)
		return false;
	if (end != LIVE_ERROR || !name || strcmp(name, "SystemExit") != 0)
		return true;
	if (repl->editing || repl->live.input.tty) {
		say("the session lives on; exit or Ctrl-D leaves it");
		return true;
	}
	repl->failed = !show_is_exit(name, repl->live.last.evalue);
	return false;
}

static bool run_cell(struct repl *repl)
{
	struct live_cell cell = {.timeout_s = repl->begin_options.timeout_s, .allow_stdin = true};
	enum live_end end;

	cell.code = buf_bytes(&repl->code);
	cell.code_len = repl->code.len;
	end = live_run(&repl->live, &cell, &repl->signal, &repl->fault);
	if (end == LIVE_FAULT || settle(repl, &repl->fault) != 0)
		return false;
	if (repl->editing)
		(void)file_write_all(STDOUT_FILENO, "\n", 1, NULL);
	return goes_on(repl, end);
}

static void loop(struct repl *repl)
{
	enum repl_input input;

	while ((input = read_cell(repl)) != INPUT_OVER) {
		if (input == INPUT_AGAIN ||
		    repl_code_is_blank(buf_bytes(&repl->code), repl->code.len))
			continue;
		trim(&repl->code);
		remember(repl);
		if (repl_code_is_exit(buf_bytes(&repl->code), repl->code.len) || !run_cell(repl))
			return;
	}
}

/* --- beginning and end -------------------------------------------------------------------------
 */

static void cursor_cleanup(struct cursor **cursor)
{
	cursor_free(*cursor);
}

static int open_directory(const struct repl *repl)
{
	return open(fh_directory(repl->begin.session), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Takes the events behind `since`. Returns whether they say how far the session has counted. */
static bool count_since(int dirfd, uint64_t since, struct count *count)
{
	__attribute__((cleanup(cursor_cleanup))) struct cursor *cursor =
		cursor_open(dirfd, since, NULL);
	enum cursor_step step = CURSOR_EVENT;

	while (cursor && (step == CURSOR_EVENT || step == CURSOR_DAMAGED)) {
		cleanup_event struct event event = EVENT_INIT;

		step = cursor_next(cursor, &event, NULL);
		if (step == CURSOR_EVENT)
			count_take(count, &event);
	}
	return count->known;
}

/* How far a session that was there before has counted: from the end of its journal, which may be
 * long. */
static void count_before(struct repl *repl)
{
	uint64_t last = fh_hello_seq(repl->begin.session);
	cleanup_fd int dirfd = open_directory(repl);

	for (uint64_t window = 256; dirfd >= 0; window *= 16) {
		uint64_t since = last > window ? last - window : 0;

		count_release(&repl->live.count);
		repl->live.count = (struct count)COUNT_INIT;
		if (count_since(dirfd, since, &repl->live.count) || since == 0)
			break;
	}
}

static void say_hello(struct repl *repl)
{
	struct fh_session *session = repl->begin.session;
	cleanup_fd int dirfd = open_directory(repl);
	__attribute__((cleanup(cursor_cleanup))) struct cursor *cursor =
		dirfd < 0 ? NULL : cursor_open(dirfd, 0, NULL);
	cleanup_event struct event first = EVENT_INIT;
	const char *python = NULL, *tier = NULL;
	cleanup_buf struct buf text = BUF_INIT;

	if (cursor && cursor_next(cursor, &first, NULL) == CURSOR_EVENT) {
		python = json_get_string(json_get(first.body, "versions"), "python");
		tier = json_get_string(first.body, "tier");
	}
	buf_printf(&text, "Python %s, sandbox tier %s, session %.*s%s.\n", python ? python : "?",
		   tier ? tier : "?", fh_name(session) ? 128 : SHORT_ID,
		   fh_name(session) ? fh_name(session) : fh_id(session),
		   repl->begin.end == BEGIN_REMOVE ? " (removed at the end)" : "");
	buf_append_string(&text,
			  "TAB completes, name? explains, Ctrl-C interrupts, Ctrl-D leaves.\n\n");
	terminal_guest(&repl->live.show.out, buf_bytes(&text), text.len);
}

static int open_history(struct repl *repl, struct err *err)
{
	cleanup_free char *path = paths_state(err);
	cleanup_fd int dirfd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (path && dirfd < 0)
		return err_sys(err, "cannot open %s", path);
	return path ? repl_history_open(&repl->history, dirfd, "repl_history", err) : -1;
}

static int begin_editing(struct repl *repl, struct err *err)
{
	const struct repl_owner owner = {.data = repl, .wait = wait_key, .complete = complete};
	struct err why = ERR_INIT;

	repl->editor = repl_editor_new(&owner, buf_bytes(&repl->typed), repl->typed.len, err);
	if (!repl->editor)
		return -1;
	if (open_history(repl, &why) != 0)
		say("%s; what is typed is not kept", why.text);
	for (size_t i = 0; i < repl->history.count; i++)
		repl_editor_remember(repl->editor, repl->history.entries[i]);
	return 0;
}

static int run_session(struct repl *repl, struct err *err)
{
	struct fh_session *session = repl->begin.session;
	struct fh_error error = FH_ERROR_INIT;

	live_init(&repl->live, session, LIVE_SHOW, repl->signal_fd, fh_directory(session), false);
	repl->live.lives_on = true; /* a second Ctrl-C gives a new interpreter */
	repl->live.show.numbered = repl->editing || repl->live.input.tty;
	/* https://no-color.org */
	repl->live.show.coloured = repl->editing && !getenv("NO_COLOR");
	repl->live.show.graphics = repl->graphics;
	if (!repl->begin.created)
		count_before(repl);
	if (fh_events(session, repl->begin.created ? 0 : fh_hello_seq(session), &error) != 0)
		return say_take(err, &error);
	if (repl->editing && begin_editing(repl, err) != 0)
		return -1;
	if (repl->editing && !repl->quiet)
		say_hello(repl);
	if (show_flush(&repl->live.show, err) != 0)
		return -1;
	loop(repl);
	if (repl->fault.code == ERR_OK)
		return 0;
	*err = repl->fault;
	return -1;
}

static void repl_release(struct repl *repl)
{
	repl_editor_free(repl->editor);
	repl_history_release(&repl->history);
	buf_release(&repl->typed);
	buf_release(&repl->code);
}

static int run_all(struct repl *repl)
{
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	int outcome;

	if (signal_fd < 0 ||
	    (repl->editing && graphics_detect(&repl->graphics, &repl->typed, &err) != 0))
		return say_err(&err);
	repl->signal_fd = signal_fd;
	outcome = begin_session(&repl->begin, &repl->begin_options, NULL, NULL, signal_fd, &err);
	if (outcome != 0) {
		repl->signal = err.code == ERR_GONE ? signals_next(signal_fd) : 0;
		if (repl->signal)
			signals_die(repl->signal);
		return say_err(&err);
	}
	begin_say_tier(&repl->begin, &repl->begin_options);
	outcome = run_session(repl, &err);
	repl_editor_free(
		mem_take(repl->editor)); /* the terminal as it was, before anything is said */
	live_release(&repl->live);
	begin_finish(&repl->begin, outcome != 0 && err.code == ERR_GONE);
	if (outcome != 0 && err.sys == EPIPE)
		signals_die(SIGPIPE);
	if (outcome != 0)
		return say_err(&err);
	if (repl->signal)
		signals_die(repl->signal);
	return repl->failed ? EXIT_CELL_FAILED : 0;
}

static bool can_edit(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

static int command_repl(const struct command *command, int argc, char **argv)
{
	__attribute__((cleanup(repl_release))) struct repl repl = {
		.signal_fd = -1,
		.begin_options = BEGIN_OPTIONS_INIT,
		.begin = BEGIN_INIT,
		.history = REPL_HISTORY_INIT,
		.fault = ERR_INIT,
	};
	const struct option table[] = {
		{"quiet", 'q', OPTION_FLAG, &repl.quiet},
		BEGIN_OPTION_ROWS(repl.begin_options),
	};
	cleanup_options struct options options = {.words = NULL};
	struct err err = ERR_INIT;

	if (options_read(&options, table, sizeof(table) / sizeof(table[0]), argc, argv, &err) != 0)
		return say_usage(command, "%s", err.text);
	if (options.help)
		return say_help(command);
	if (options.word_count)
		return say_usage(command, "repl takes no %s; -s NAME uses a session",
				 options.words[0]);
	repl.editing = can_edit();
	return run_all(&repl);
}

const struct command COMMAND_REPL = {
	.name = "repl",
	.summary = "a prompt for Python in a session",
	.example = "fumehood repl -s work",
	.help = "Usage: fumehood repl [options]\n"
		"\n"
		"Runs what you type in a sandboxed session, cell by cell.\n"
		"\n"
		"  fumehood repl                       in a session of its own\n"
		"  fumehood repl -s work               in a session that lives on, or in a living "
		"one\n"
		"  fumehood repl -w . --python .venv   here, with the packages of .venv\n"
		"  fumehood repl < lines.py            line by line, as python -i reads stdin\n"
		"\n"
		"Options:\n"
		"  -q, --quiet          no greeting\n" BEGIN_OPTION_HELP "\n" POLICY_OPTION_HELP
		"\n",
	.help_end =
		"Keys: TAB completes. Up and down go through the lines of a cell and through the "
		"history,\n"
		"Ctrl-R searches it. Alt-Enter begins a new line. An empty line ends a block. "
		"Ctrl-C "
		"gives up\n"
		"the line or interrupts the cell; twice within 2 s it gives the session a new "
		"interpreter.\n"
		"Ctrl-D or exit leaves. name? and name?? explain; %magic and !command work where "
		"IPython is\n"
		"installed.\n"
		"\n"
		"Images are shown in terminals that can (kitty, Ghostty, Konsole, iTerm2, WezTerm, "
		"mintty, and\n"
		"those with sixels), and as paths; FUMEHOOD_IMAGES=path, kitty, iterm or sixel "
		"decides.\n"
		"\n"
		"Exit status: 0, 1 if a program on stdin ended itself with a failure, 2 for wrong "
		"usage,\n"
		"125 if Fumehood itself failed.\n",
	.run = command_repl,
};
