/*
 * Showing an ask. See ask_show.h.
 *
 * Several answers come at once. The first that is not finished is in front; the tokens of the
 * others are held until it is their turn.
 */
#include "cli/ask_show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "journal/asked.h"

enum { HELD_BYTES_MAX = 256 << 10 };

static const char DIM[] = "\033[2m", RED[] = "\033[31m", GREEN[] = "\033[32m", PLAIN[] = "\033[0m";

void ask_show_init(struct ask_show *show, bool quiet)
{
	const char *no_color = getenv("NO_COLOR");

	*show = (struct ask_show){.quiet = quiet};
	terminal_init(&show->err, STDERR_FILENO);
	show->live = show->err.tty && !quiet;
	show->colour = show->err.colour && !(no_color && *no_color);
}

void ask_show_release(struct ask_show *show)
{
	terminal_release(&show->err);
	for (size_t i = 0; i <= ATTEMPTS_MAX; i++)
		buf_release(&show->held[i]);
}

/* Nobody reads stderr: then there is nobody to tell. */
static void flush(struct ask_show *show)
{
	(void)terminal_flush(&show->err, NULL);
}

static void set_dim(struct ask_show *show, bool dim)
{
	if (show->dim == dim || !show->colour)
		return;
	show->dim = dim;
	terminal_own(&show->err, dim ? DIM : PLAIN, false);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void show_text(struct ask_show *show, const char *text, size_t len, bool dim)
{
	set_dim(show, dim);
	terminal_guest(&show->err, text, len);
}

/* Brings the first that is not finished to the front, with what was held of it. */
static void next_front(struct ask_show *show)
{
	show->front = 0;
	for (int64_t i = 1; i <= ATTEMPTS_MAX; i++) {
		struct buf *held = &show->held[i];

		if (!show->open[i])
			continue;
		show->front = i;
		if (show->live && held->len)
			show_text(show, buf_bytes(held), held->len, true);
		buf_clear(held);
		return;
	}
}

static void take_token(struct ask_show *show, int64_t attempt, const struct json *line)
{
	size_t len = 0;
	const char *text = json_string(json_get(line, "text"), &len);

	if (!text || !show->live)
		return;
	if (attempt == show->front)
		show_text(show, text, len, true);
	else if (show->held[attempt].len + len <= HELD_BYTES_MAX)
		buf_append(&show->held[attempt], text, len);
}

/* --- attempts --------------------------------------------------------------------------------- */

static void own_line(struct ask_show *show, const char *colour, const char *mark, const char *text,
		     size_t len)
{
	cleanup_buf struct buf out = BUF_INIT;

	set_dim(show, false);
	if (show->colour)
		buf_append_string(&out, colour);
	buf_append_string(&out, mark);
	if (show->colour)
		buf_append_string(&out, PLAIN);
	text_escape(&out, text, len, false, false);
	buf_append_char(&out, '\n');
	terminal_own(&show->err, buf_bytes(&out), true);
}

static void take_finished(struct ask_show *show, int64_t attempt, const struct json *line)
{
	const char *status = json_get_string(line, "status");
	bool ok = status && strcmp(status, "ok") == 0;
	const struct json *checks = json_get(line, "checks");
	cleanup_buf struct buf words = BUF_INIT;

	for (size_t i = 0; i < json_length(checks); i++)
		ok = ok && json_get_bool(json_at(checks, i), "ok", true);
	asked_attempt_words(&words, line);
	own_line(show, ok ? GREEN : RED, ok ? "✓ " : "✗ ", buf_bytes(&words), words.len);
	show->open[attempt] = false;
	buf_clear(&show->held[attempt]);
	next_front(show);
}

static void take_attempt(struct ask_show *show, int64_t attempt, const struct json *line)
{
	const char *state = json_get_string(line, "state");

	if (state && strcmp(state, "finished") == 0) {
		take_finished(show, attempt, line);
		return;
	}
	show->open[attempt] = true;
	if (!show->front)
		next_front(show);
}

static void take_output(struct ask_show *show, const struct json *line)
{
	size_t len = 0;
	const char *text = json_string(json_get(line, "text"), &len);

	if (!text || !show->live)
		return;
	if (!show->err.line_start && show->dim)
		terminal_own(&show->err, "\n", false);
	show_text(show, text, len, false);
}

void ask_show_line(struct ask_show *show, const struct json *line)
{
	const char *type = json_get_string(line, "type");
	int64_t attempt = json_get_int(line, "attempt", 0);
	cleanup_buf struct buf words = BUF_INIT;

	if (show->quiet || !type)
		return;
	if (strcmp(type, "verdict") == 0) {
		asked_verdict_words(&words, line);
		own_line(show, "", "", buf_bytes(&words), words.len);
	} else if (attempt < 1 || attempt > ATTEMPTS_MAX) {
		return;
	} else if (strcmp(type, "token") == 0) {
		take_token(show, attempt, line);
	} else if (strcmp(type, "attempt") == 0) {
		take_attempt(show, attempt, line);
	} else if (strcmp(type, "output") == 0) {
		take_output(show, line);
	}
	flush(show);
}

/* --- the result ------------------------------------------------------------------------------- */

static void say_files(struct ask_show *show, const struct json *files)
{
	for (size_t i = 0; i < json_length(files); i++) {
		const struct json *file = json_at(files, i);
		const char *path = json_get_string(file, "path");
		const char *change = json_get_string(file, "change");
		cleanup_free char *text = NULL;

		if (!path || !change)
			continue;
		text = mem_format("%s %s", change, path);
		own_line(show, "", "", text, strlen(text));
	}
}

static void say_suspicions(struct ask_show *show, const struct json *suspicions)
{
	for (size_t i = 0; i < json_length(suspicions); i++) {
		size_t len = 0;
		const char *text = json_string(json_at(suspicions, i), &len);

		if (text)
			own_line(show, RED, "! ", text, len);
	}
}

int ask_show_result(struct ask_show *show, const struct json *result, struct err *err)
{
	struct terminal out;
	size_t len = 0;
	const char *text = json_string(json_get(result, "stdout"), &len);
	bool success = json_get_bool(result, "success", false);
	cleanup_buf struct buf words = BUF_INIT;
	int outcome;

	set_dim(show, false);
	if (show->quiet && !success) { /* why there is no answer is told in any case */
		asked_verdict_words(&words, result);
		own_line(show, "", "", buf_bytes(&words), words.len);
	}
	if (!show->quiet) {
		say_suspicions(show, json_get(result, "suspicions"));
		if (success)
			say_files(show, json_get(result, "files"));
	}
	flush(show);
	if (!success || !len)
		return 0;
	terminal_init(&out, STDOUT_FILENO);
	terminal_guest(&out, text, len);
	terminal_guest(&out, "\n", 1);
	outcome = terminal_end(&out, err);
	terminal_release(&out);
	return outcome;
}
