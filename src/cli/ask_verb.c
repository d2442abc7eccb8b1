/*
 * `fumehood ask`: reads the options, begins the session, lets the loop (agent/loop.h) do the rest,
 * and shows or relays its lines.
 *
 * A stdout that nobody reads any more ends it like a signal, at once and not at the next line:
 * whoever has started us may have been killed while the model thinks. One descriptor is readable
 * when a signal has come or the reader of stdout has gone, and all that waits, waits for it.
 */
#include "cli/ask_verb.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/loop.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/settings.h"
#include "base/text.h"
#include "cli/ask_backend.h"
#include "cli/ask_boxes.h"
#include "cli/ask_show.h"
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/options_file.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "serve/ask_body.h"

enum { EXIT_CANCELLED = 130, DEFAULT_SEED = 1 };
#define NOT_GIVEN UINT64_MAX

/* The daemon refuses by the same limits what it would start this program for in vain. */
static_assert((int)ASK_INSTRUCTION_BYTES_MAX == (int)AGENT_INSTRUCTION_BYTES_MAX, "one limit");
static_assert((int)ASK_PROGRAMS_MAX == (int)ATTEMPTS_MAX / 2, "one limit");
static_assert(2 * (int)ASK_CHECKS_MAX == (int)CHECKS_MAX, "one limit");

struct ask_options {
	struct begin_options begin;
	struct ask_backend_options backend;
	struct option_list expect, assertions;
	const char *effort, *input, *system, *template, *temperature, *attempts, *seed;
	const char *file; /* with more of these */
	double time_s;
	uint64_t programs, tokens; /* NOT_GIVEN */
	bool json, quiet, own; /* own: a workspace of its own, not the current directory */
};

struct asking {
	struct ask_options options;
	struct options_file file; /* what of the options points into */
	struct settings settings;
	struct agent_params params;
	struct checks checks;
	struct prompts prompts;
	struct source instruction;
	struct backend *backend;
	struct begin begin;
	struct ask_boxes boxes;
	struct box_source source;
	struct ask_show show;
	bool broken; /* stdout is */
};

/* --- lines ------------------------------------------------------------------------------------ */

static int print_json(const struct json *line)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, line);
	buf_append_char(&text, '\n');
	return file_write_all(STDOUT_FILENO, buf_bytes(&text), text.len, NULL);
}

static void take_line(void *context, const struct json *line)
{
	struct asking *asking = context;

	if (!asking->options.json) {
		ask_show_line(&asking->show, line);
	} else if (!asking->broken && print_json(line) != 0) {
		asking->broken = true;
		kill(getpid(), SIGTERM);
	}
}

/* Says a fault, with --json also as the last line. */
static int fault(const struct asking *asking, const struct err *err)
{
	if (asking->options.json && !asking->broken) {
		cleanup_json struct json *line = json_new_object();

		json_set_string(line, "type", "error");
		json_set_string(line, "code", err_name(err->code));
		json_set_string(line, "message", err->text);
		(void)print_json(line);
	}
	return say_err(err);
}

/* --- being told to end ------------------------------------------------------------------------ */

/* Readable when a signal has come, or nobody can read stdout any more. The caller owns it. */
static int cancel_open(int signal_fd, struct err *err)
{
	cleanup_fd int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event signals = {.events = EPOLLIN}, errors = {.events = 0};

	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, signal_fd, &signals) != 0)
		return err_sys(err, "cannot wait for signals");
	/* A file has no reader that could go: EPERM. */
	(void)epoll_ctl(fd, EPOLL_CTL_ADD, STDOUT_FILENO, &errors);
	return fd_take(&fd);
}

static bool is_cancelled(int cancel_fd)
{
	struct pollfd fd = {.fd = cancel_fd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

/* --- time ------------------------------------------------------------------------------------- */

/* Sets the end of the time to what --time says from `since_us` on, monotonic. The backend looks at
 * it whenever it waits for a server that loads its model. */
static void set_deadline(struct asking *asking, int64_t since_us)
{
	const double seconds = asking->options.time_s, years = 1e9; /* some thirty */

	if (seconds > 0 && seconds < years)
		asking->params.deadline_us = since_us + (int64_t)(seconds * 1e6);
}

/* --- the session ------------------------------------------------------------------------------ */

static bool has_overlays(const struct fh_session *session)
{
	const char *hello = fh_hello(session);
	cleanup_json struct json *json = json_parse(hello, strlen(hello), &JSON_LIMITS, NULL);
	const char *tier = json_get_string(json, "tier");

	return tier && strcmp(tier, "full") == 0;
}

/* Begins it: a new one ends with this process, but its directory stays. */
static int begin(struct asking *asking, int cancel_fd, struct err *err)
{
	struct fh_error error = FH_ERROR_INIT;
	struct begin_options options = asking->options.begin;
	struct fh_session *session;

	options.keep = false;
	if (begin_session(&asking->begin, &options, asking->options.own ? NULL : ".", NULL,
			  cancel_fd, err) != 0)
		return -1;
	if (!options.session)
		asking->begin.end = BEGIN_KEEP;
	begin_say_tier(&asking->begin, &options);
	session = asking->begin.session;
	if (fh_events(session, fh_hello_seq(session), &error) != 0)
		return say_take(err, &error);
	ask_boxes_init(&asking->boxes, &options, &asking->begin, &asking->source);
	asking->params.session = session;
	asking->params.fresh = asking->begin.created;
	/* An older session has a state, or files, that only it can show; and without namespaces
	 * there are no overlays. */
	asking->params.boxes =
		asking->begin.created && has_overlays(session) ? &asking->source : NULL;
	return 0;
}

/* `asked_us`: when the time of all began, monotonic. */
static int run(struct asking *asking, int cancel_fd, int64_t asked_us)
{
	cleanup_json struct json *result = NULL;
	struct err err = ERR_INIT;
	enum agent_end end = AGENT_FAULT;
	int64_t begun_us;
	int status, outcome;

	asking->params.cancel_fd = cancel_fd;
	begun_us = clock_monotonic_us();
	outcome = begin(asking, cancel_fd, &err);
	/* That a session was started is not the model's time. */
	set_deadline(asking, asked_us + clock_monotonic_us() - begun_us);
	if (outcome == 0)
		end = agent_ask(&asking->params, &result, &err);
	if (end == AGENT_FAULT && err.code == ERR_GONE && is_cancelled(cancel_fd))
		status = EXIT_CANCELLED;
	else if (end == AGENT_FAULT)
		status = fault(asking, &err);
	else
		status = end == AGENT_SUCCESS     ? 0
			 : end == AGENT_CANCELLED ? EXIT_CANCELLED
						  : EXIT_CELL_FAILED;
	if (result && asking->options.json && !asking->broken && print_json(result) != 0)
		asking->broken = true;
	if (result && !asking->options.json && ask_show_result(&asking->show, result, &err) != 0)
		asking->broken = true;
	begin_finish(&asking->begin, end == AGENT_FAULT && err.code == ERR_GONE);
	if (asking->broken)
		signals_die(SIGPIPE);
	return status;
}

/* --- the command line ------------------------------------------------------------------------- */

static int read_checks(struct asking *asking, struct err *err)
{
	const struct option_list *expect = &asking->options.expect;
	const struct option_list *assertions = &asking->options.assertions;

	for (size_t i = 0; i < expect->count; i++)
		if (checks_add(&asking->checks, CHECK_EXPECT, expect->items[i], err) != 0)
			return -1;
	for (size_t i = 0; i < assertions->count; i++)
		if (checks_add(&asking->checks, CHECK_ASSERT, assertions->items[i], err) != 0)
			return -1;
	return 0;
}

static int read_prompts(struct asking *asking, struct err *err)
{
	const struct ask_options *options = &asking->options;
	cleanup_buf struct buf text = BUF_INIT;

	prompts_init(&asking->prompts);
	if (options->template &&
	    (file_read(AT_FDCWD, options->template, PROMPT_BYTES_MAX, &text, err) != 0 ||
	     prompts_read(&asking->prompts, buf_bytes(&text), text.len, options->template, err) !=
		     0))
		return -1;
	if (!options->system)
		return 0;
	buf_clear(&text);
	if (options->system[0] != '@')
		buf_append_string(&text, options->system);
	else if (file_read(AT_FDCWD, options->system + 1, PROMPT_BYTES_MAX, &text, err) != 0)
		return -1;
	if (!text_is_utf8(buf_bytes(&text), text.len) || memchr(buf_bytes(&text), 0, text.len))
		return err_set(err, ERR_USAGE, "--system is not UTF-8 text");
	prompts_set_system(&asking->prompts, buf_bytes(&text));
	return 0;
}

static int read_number(const char *option, const char *text, double min, double max, double *number,
		       struct err *err)
{
	char *end = NULL;

	if (!text)
		return 0;
	*number = strtod(text, &end);
	if (*text && *end == '\0' && *number >= min && *number <= max)
		return 0;
	return err_set(err, ERR_USAGE, "%s is a number from %g to %g, not %s", option, min, max,
		       text);
}

static int read_limits(struct asking *asking, struct err *err)
{
	const struct ask_options *options = &asking->options;
	struct agent_params *params = &asking->params;
	const char *effort = options->effort;
	double seed = DEFAULT_SEED;

	if (!effort)
		effort = settings_text(&asking->settings, SETTING_ASK_EFFORT);
	if (effort_from_name(effort, &params->effort) != 0)
		return err_set(err, ERR_USAGE, "--effort is low, medium or high, not %s", effort);
	plan_limits_of(params->effort, &params->limits);
	if (options->programs != NOT_GIVEN &&
	    (options->programs < 1 || options->programs > ATTEMPTS_MAX / 2))
		return err_set(err, ERR_USAGE, "--programs is 1 to %d", ATTEMPTS_MAX / 2);
	if (options->tokens == 0)
		return err_set(err, ERR_USAGE, "--tokens is 1 or more");
	if (options->programs != NOT_GIVEN)
		params->limits.programs = (unsigned)options->programs;
	params->limits.tokens = options->tokens == NOT_GIVEN ? 0 : options->tokens;
	params->seconds = options->time_s;
	params->run_seconds = options->begin.timeout_s > 0 ? options->begin.timeout_s : AGENT_RUN_S;
	if (read_number("--temperature", options->temperature, 0, 2, &params->temperature, err) !=
		    0 ||
	    read_number("--seed", options->seed, 0, INT32_MAX, &seed, err) != 0)
		return -1;
	params->seed = (int64_t)seed;
	if ((double)params->seed != seed)
		return err_set(err, ERR_USAGE, "--seed is a whole number, not %s", options->seed);
	if (options->attempts && strcmp(options->attempts, "show") != 0 &&
	    strcmp(options->attempts, "hide") != 0)
		return err_set(err, ERR_USAGE, "--attempts is show or hide, not %s",
			       options->attempts);
	params->shows_attempts = options->attempts && strcmp(options->attempts, "show") == 0;
	return 0;
}

static int check_text(const char *what, const char *text, size_t len, size_t max, struct err *err)
{
	if (len > max)
		return err_set(err, ERR_USAGE, "%s has at most %zu bytes", what, max);
	if (!text_is_utf8(text, len) || memchr(text, 0, len))
		return err_set(err, ERR_USAGE, "%s is not UTF-8 text", what);
	return 0;
}

static int read_instruction(struct asking *asking, const char *word, struct err *err)
{
	const char *input = asking->options.input;
	const char *text;

	if (source_read(&asking->instruction, strcmp(word, "-") == 0 ? NULL : word, "-", err) != 0)
		return -1;
	text = buf_bytes(&asking->instruction.code);
	if (text[strspn(text, " \t\r\n")] == '\0')
		return err_set(err, ERR_USAGE, "the instruction is empty");
	asking->params.instruction = text;
	asking->params.input = input;
	if (check_text("the instruction", text, asking->instruction.code.len,
		       AGENT_INSTRUCTION_BYTES_MAX, err) != 0)
		return -1;
	return input ? check_text("--input", input, strlen(input), AGENT_INPUT_BYTES_MAX, err) : 0;
}

static void asking_release(struct asking *asking)
{
	options_file_release(&asking->file);
	settings_release(&asking->settings);
	backend_free(asking->backend);
	checks_release(&asking->checks);
	prompts_release(&asking->prompts);
	source_release(&asking->instruction);
	ask_boxes_release(&asking->boxes);
	ask_show_release(&asking->show);
}

/* Everything that can be wrong before anything is begun. */
static int read_all(struct asking *asking, const struct options *words, struct err *err)
{
	if (words->word_count != 1)
		return err_set(err, ERR_USAGE,
			       words->word_count ? "ask takes one instruction: put it in quotes"
						 : "ask needs an instruction, or - for stdin");
	return settings_load(&asking->settings, err) != 0 ||
			       read_instruction(asking, words->words[0], err) != 0 ||
			       read_limits(asking, err) != 0 || read_checks(asking, err) != 0 ||
			       read_prompts(asking, err) != 0
		       ? -1
		       : 0;
}

/* The same once more, with the words of the file of --options, if there is one. */
static int read_file(struct asking *asking, struct options *words, int argc, char **argv,
		     struct err *err)
{
	const struct option *table = words->table;
	size_t count = words->count;

	if (!asking->options.file || words->help)
		return 0;
	if (options_file_read(&asking->file, asking->options.file, argc, argv, err) != 0)
		return -1;
	options_release(words);
	return options_read(words, table, count, asking->file.argc, asking->file.argv, err);
}

static int ask(struct asking *asking)
{
	struct err err = ERR_INIT;
	struct ask_patience patience = {.deadline_us = &asking->params.deadline_us};
	int64_t asked_us = clock_monotonic_us();
	cleanup_fd int signal_fd = signals_open(&err);

	cleanup_fd int cancel_fd = signal_fd < 0 ? -1 : cancel_open(signal_fd, &err);

	if (cancel_fd < 0)
		return fault(asking, &err);
	asking->params.checks = &asking->checks;
	asking->params.prompts = &asking->prompts;
	asking->params.line = take_line;
	asking->params.context = asking;
	set_deadline(asking, asked_us);
	patience.cancel_fd = cancel_fd;
	asking->backend =
		ask_backend_new(&asking->options.backend, &asking->settings, &patience, &err);
	if (!asking->backend && is_cancelled(cancel_fd))
		return EXIT_CANCELLED;
	if (!asking->backend && err.code == ERR_USAGE)
		return say_usage(&COMMAND_ASK, "%s", err.text);
	if (!asking->backend)
		return fault(asking, &err);
	asking->params.backend = asking->backend;
	return run(asking, cancel_fd, asked_us);
}

int ask_verb(int argc, char **argv)
{
	__attribute__((cleanup(asking_release))) struct asking asking = {
		.options = {.begin = BEGIN_OPTIONS_INIT,
			    .programs = NOT_GIVEN,
			    .tokens = NOT_GIVEN},
		.file = OPTIONS_FILE_INIT,
		.checks = CHECKS_INIT,
		.instruction = SOURCE_INIT,
		.begin = BEGIN_INIT,
	};
	struct ask_options *o = &asking.options;
	const struct option table[] = {
		{"json", 'j', OPTION_FLAG, &o->json},
		{"quiet", 'q', OPTION_FLAG, &o->quiet},
		{"model", 'm', OPTION_TEXT, &o->backend.model},
		{"url", '\0', OPTION_TEXT, &o->backend.url},
		{"key-env", '\0', OPTION_TEXT, &o->backend.key_env},
		{"script", '\0', OPTION_TEXT, &o->backend.script},
		{"effort", '\0', OPTION_TEXT, &o->effort},
		{"programs", '\0', OPTION_COUNT, &o->programs},
		{"tokens", '\0', OPTION_COUNT, &o->tokens},
		{"time", '\0', OPTION_SECONDS, &o->time_s},
		{"expect", '\0', OPTION_LIST, &o->expect},
		{"assert", '\0', OPTION_LIST, &o->assertions},
		{"input", '\0', OPTION_TEXT, &o->input},
		{"system", '\0', OPTION_TEXT, &o->system},
		{"template", '\0', OPTION_TEXT, &o->template},
		{"temperature", '\0', OPTION_TEXT, &o->temperature},
		{"seed", '\0', OPTION_TEXT, &o->seed},
		{"attempts", '\0', OPTION_TEXT, &o->attempts},
		{"private", '\0', OPTION_FLAG, &o->own},
		{"options", '\0', OPTION_TEXT, &o->file},
		BEGIN_OPTION_ROWS(o->begin),
	};
	cleanup_options struct options words = {.words = NULL};
	struct err err = ERR_INIT;

	ask_show_init(&asking.show, false);
	if (options_read(&words, table, sizeof(table) / sizeof(table[0]), argc, argv, &err) != 0 ||
	    read_file(&asking, &words, argc, argv, &err) != 0)
		return say_usage(&COMMAND_ASK, "%s", err.text);
	if (words.help)
		return say_help(&COMMAND_ASK);
	if (o->own && o->begin.workspace)
		return say_usage(&COMMAND_ASK, "--private goes without --workspace");
	asking.show.quiet = o->quiet;
	if (read_all(&asking, &words, &err) != 0)
		return err.code == ERR_USAGE || err.code == ERR_INVALID
			       ? say_usage(&COMMAND_ASK, "%s", err.text)
			       : say_err(&err);
	return ask(&asking);
}
