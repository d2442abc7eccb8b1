/*
 * fumehood log: the journal of a session, for people or as it is.
 *
 * It reads the file itself, so it works with and without a keeper. --follow waits for the file to
 * change (inotify(7)) and ends when the session has stopped.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "digest/outcome.h"
#include "journal/asked.h"
#include "journal/cursor.h"

struct log {
	struct cursor *cursor;
	const char *cell; /* only its events; NULL: all */
	bool json;
	bool tokens;  /* also what a model writes, piece by piece */
	bool stopped; /* the last event was `stopped` */
	uint64_t damaged;
	struct terminal out;
};

static void log_release(struct log *log)
{
	cursor_free(log->cursor);
	terminal_release(&log->out);
}

/* --- one event for people --------------------------------------------------------------------- */

/* Text of several lines: the first beside the heading, the others below it. */
static void put_text(struct log *log, const char *text, size_t len)
{
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t take = end ? (size_t)(end - text) : len;

		terminal_guest(&log->out, text, take);
		if (!end || len == take + 1)
			break;
		terminal_own(&log->out, "\n\t\t| ", false);
		text += take + 1;
		len -= take + 1;
	}
}

static void put_string(struct log *log, const struct json *body, const char *key)
{
	size_t len = 0;
	const char *text = json_string(json_get(body, key), &len);

	if (text)
		put_text(log, text, len);
}

/* The fields of an event that are short: key=value. */
static int put_field(const char *key, size_t key_len, struct json *value, void *data)
{
	struct log *log = data;
	cleanup_buf struct buf text = BUF_INIT;

	buf_append_char(&text, ' ');
	buf_append(&text, key, key_len);
	buf_append_char(&text, '=');
	json_write(&text, value);
	put_text(log, buf_bytes(&text), text.len);
	return 0;
}

static int put_mime(const char *key, size_t key_len, struct json *value, void *data)
{
	struct log *log = data;

	if (key_len != strlen("text/plain") || memcmp(key, "text/plain", key_len) != 0) {
		cleanup_free char *mime = mem_format(" [%.*s]", (int)key_len, key);

		terminal_guest(&log->out, mime, strlen(mime));
		return 0;
	}
	terminal_own(&log->out, " ", false);
	put_text(log, json_string(value, NULL) ? json_string(value, NULL) : "?",
		 json_string(value, NULL) ? strlen(json_string(value, NULL)) : 1);
	return 0;
}

/* Of the first line only what a person looks for; --json has the rest. */
static void put_session(struct log *log, const struct json *body)
{
	const char *version = json_get_string(json_get(body, "versions"), "python");
	const char *fields[] = {json_get_string(body, "id"),
				json_get_string(body, "engine"),
				version,
				"in the sandbox tier",
				json_get_string(body, "tier"),
				"on",
				json_get_string(body, "workspace")};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		terminal_own(&log->out, " ", false);
		put_text(log, fields[i] ? fields[i] : "?", fields[i] ? strlen(fields[i]) : 1);
	}
}

static void put_finished(struct log *log, const struct json *body)
{
	const char *status = json_get_string(body, "status");
	const char *reason = json_get_string(body, "reason");
	const char *state = json_get_string(body, "state");
	cleanup_free char *text =
		mem_format(" %s%s%s%s after %.3f s", status ? status : "?", reason ? " (" : "",
			   reason ? reason : "", reason ? ")" : "",
			   (double)json_get_int(body, "duration_us", 0) / 1e6);

	put_text(log, text, strlen(text));
	if (state && strcmp(state, "kept") != 0) {
		cleanup_buf struct buf words = BUF_INIT;

		buf_append_string(&words, "; ");
		outcome_state(&words, body);
		put_text(log, buf_bytes(&words), words.len);
	}
}

/* Of a verdict how the answer is known, and what it has cost. */
static void put_verdict(struct log *log, const struct json *body)
{
	int64_t attempt = json_get_int(body, "attempt", 0),
		tokens = json_get_int(body, "tokens", -1);
	double seconds = json_get_double(body, "seconds", -1);
	cleanup_buf struct buf words = BUF_INIT;

	asked_verdict_words(&words, body);
	if (attempt > 0 && json_get_bool(body, "success", false))
		buf_printf(&words, ", attempt %lld", (long long)attempt);
	if (tokens >= 0)
		buf_printf(&words, ", %lld tokens", (long long)tokens);
	if (seconds >= 0)
		buf_printf(&words, ", %.1f s", seconds);
	terminal_own(&log->out, ": ", false);
	put_text(log, buf_bytes(&words), words.len);
}

/* Events of a model: which attempt, and its text. */
static void put_of_attempt(struct log *log, const struct event *event)
{
	cleanup_buf struct buf words = BUF_INIT;

	if (event->type == EVENT_ATTEMPT)
		asked_attempt_words(&words, event->body);
	else
		buf_printf(&words, "%lld: ", (long long)json_get_int(event->body, "attempt", 0));
	terminal_own(&log->out, " ", false);
	put_text(log, buf_bytes(&words), words.len);
	put_string(log, event->body, event->type == EVENT_CODE ? "code" : "text");
}

static void put_body(struct log *log, const struct event *event)
{
	switch (event->type) {
	case EVENT_STREAM:
		terminal_own(&log->out, event->background ? " (background) " : " ", false);
		put_text(log, event->text, event->text_len);
		break;
	case EVENT_CELL:
		terminal_own(&log->out, " ", false);
		put_string(log, event->body, "code");
		break;
	case EVENT_NOTE:
		terminal_own(&log->out, " ", false);
		put_string(log, event->body, "text");
		break;
	case EVENT_RESULT:
	case EVENT_DISPLAY:
	case EVENT_UPDATE_DISPLAY:
		json_each(json_get(event->body, "data"), put_mime, log);
		break;
	case EVENT_ERROR:
		terminal_own(&log->out, " ", false);
		put_string(log, event->body, "ename");
		terminal_own(&log->out, ": ", false);
		put_string(log, event->body, "evalue");
		break;
	case EVENT_SESSION:
		put_session(log, event->body);
		break;
	case EVENT_FINISHED:
		put_finished(log, event->body);
		break;
	case EVENT_ASK:
		terminal_own(&log->out, " ", false);
		put_string(log, event->body, "instruction");
		break;
	case EVENT_ATTEMPT:
	case EVENT_TOKEN:
	case EVENT_CODE:
		put_of_attempt(log, event);
		break;
	case EVENT_VERDICT:
		put_verdict(log, event->body);
		break;
	case EVENT_SECTION:
	case EVENT_STARTED:
	case EVENT_CLEAR:
	case EVENT_INPUT_REQUEST:
	case EVENT_INPUT:
	case EVENT_TRUNCATED:
	case EVENT_DIED:
	case EVENT_COMMITTED:
	case EVENT_CHECKPOINT:
	case EVENT_ROLLBACK:
	case EVENT_FORKED:
	case EVENT_RESTARTED:
	case EVENT_STATE:
	case EVENT_WARNING:
	case EVENT_NETWORK:
	case EVENT_GAP:
	case EVENT_STOPPED:
	case EVENT_OTHER:
	case EVENT_TYPE_COUNT:
		json_each(event->body, put_field, log);
		break;
	}
}

/* "   7 17:16:54.123 c1 stdout hello" in local time. */
static void put_event(struct log *log, const struct event *event)
{
	time_t seconds = (time_t)(event->t_us / 1000000);
	const char *type = event->type == EVENT_STREAM ? event->is_stderr ? "stderr" : "stdout"
						       : event_type_name(event->type);
	const char *ask = event->type >= EVENT_ASK && event->type <= EVENT_VERDICT
				  ? json_get_string(event->body, "ask")
				  : NULL;
	cleanup_buf struct buf head = BUF_INIT;
	char clock[16];
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || strftime(clock, sizeof(clock), "%H:%M:%S", &tm) == 0)
		clock[0] = '\0';
	buf_printf(&head, "%6llu %s.%03d ", (unsigned long long)event->seq, clock,
		   (int)(event->t_us % 1000000 / 1000));
	if (ask) {
		text_escape(&head, ask, strlen(ask), false, false);
		buf_append_char(&head, ' ');
	}
	if (event->cell) {
		text_escape(&head, event->cell, strlen(event->cell), false, false);
		buf_append_char(&head, ' ');
	}
	buf_append_string(&head, type);
	terminal_own(&log->out, buf_bytes(&head), true);
	put_body(log, event);
	terminal_own(&log->out, "\n", false);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Takes one line of the file. */
static int take_line(struct log *log, const char *line, size_t len, struct err *err)
{
	cleanup_event struct event event = EVENT_INIT;

	if (len && line[len - 1] == '\n')
		len--;
	if (event_parse(line, len, &event, NULL) != 0) {
		log->damaged++;
		return 0;
	}
	log->stopped = event.type == EVENT_STOPPED;
	if (log->cell && (!event.cell || strcmp(event.cell, log->cell) != 0))
		return 0;
	if (event.type == EVENT_TOKEN && !log->json && !log->tokens)
		return 0;
	if (log->json) {
		buf_append(&log->out.out, line, len);
		buf_append_char(&log->out.out, '\n');
	} else {
		put_event(log, &event);
	}
	return log->out.out.len > 1 << 20 ? terminal_flush(&log->out, err) : 0;
}

/* Everything up to the present end of the file. */
static int take_all(struct log *log, struct err *err)
{
	for (;;) {
		const char *line;
		size_t len;
		uint64_t seq;

		switch (cursor_next_line(log->cursor, &line, &len, &seq, err)) {
		case CURSOR_EVENT:
			if (take_line(log, line, len, err) != 0)
				return -1;
			break;
		case CURSOR_DAMAGED:
			say("line %llu is damaged",
			    (unsigned long long)cursor_line_number(log->cursor));
			log->damaged++;
			break;
		case CURSOR_END:
			return terminal_end(&log->out, err);
		case CURSOR_ERROR:
			return -1;
		}
	}
}

static int follow(struct log *log, const char *directory, struct err *err)
{
	cleanup_free char *path = mem_format("%s/journal.ndjson", directory);
	cleanup_fd int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char events[sizeof(struct inotify_event) + NAME_MAX + 1];

	if (watch < 0 ||
	    inotify_add_watch(watch, path, IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF) < 0)
		return err_sys(err, "cannot watch %s", path);
	while (!log->stopped) {
		struct pollfd fd = {.fd = watch, .events = POLLIN};

		/* Read first: what was written before the watch began is not told. */
		if (take_all(log, err) != 0)
			return -1;
		if (log->stopped || access(path, F_OK) != 0)
			break;
		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			return err_sys(err, "poll");
		while (read(watch, events, sizeof(events)) > 0)
			continue;
	}
	return 0;
}

static int command_log(const struct command *command, int argc, char **argv)
{
	__attribute__((cleanup(log_release))) struct log log = {.cursor = NULL};
	bool following = false;
	uint64_t since = 0;
	const struct option table[] = {
		{"since", '\0', OPTION_COUNT, &since},
		{"follow", 'f', OPTION_FLAG, &following},
		{"cell", '\0', OPTION_TEXT, &log.cell},
		{"json", 'j', OPTION_FLAG, &log.json},
		{"tokens", '\0', OPTION_FLAG, &log.tokens},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_found struct found found = FOUND_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 5, argc, argv, 1, 1);
	int outcome;

	if (status >= 0)
		return status;
	terminal_init(&log.out, STDOUT_FILENO);
	if (found_open(&found, options.words[0], &err) != 0)
		return say_err(&err);
	log.cursor = cursor_open(found.dirfd, since, &err);
	if (!log.cursor)
		return say_err(&err);
	outcome = following ? follow(&log, found.entry.directory, &err) : take_all(&log, &err);
	if (outcome != 0)
		return say_err(&err);
	return log.damaged ? EXIT_FUMEHOOD : 0;
}

const struct command COMMAND_LOG = {
	.name = "log",
	.summary = "show what happened in a session",
	.example = "fumehood log work --follow",
	.help = "Usage: fumehood log SESSION [options]\n"
		"\n"
		"Prints the journal of a session, running or not: each event on a line of its "
		"own.\n"
		"\n"
		"  fumehood log work\n"
		"  fumehood log work --follow --since 100      as it goes on, after event 100\n"
		"  fumehood log work --cell c7                 one cell\n"
		"  fumehood log work --json | jq -r 'select(.type==\"cell\").code'\n"
		"\n"
		"Options:\n"
		"      --since N        only events after number N\n"
		"  -f, --follow         go on until the session stops\n"
		"      --cell CELL      only events of this cell\n"
		"  -j, --json           the lines as they are in the file\n"
		"      --tokens         also what a model wrote in an ask, as it came (with --json "
		"always)\n"
		"\n"
		"Exit status: 0, 125 also if a line of the journal is damaged (the others are "
		"printed).\n",
	.run = command_log,
};
