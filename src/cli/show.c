/*
 * Events for people. See show.h.
 *
 * Order between the two streams: before text is added to one, the other is written out, so that on
 * a terminal, where both lead to the same place, everything stands in the order of the journal.
 */
#include "cli/show.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/went_back.h"
#include "digest/outcome.h"

struct show_cell {
	char *id;
	unsigned images; /* as event_image() counts them */
	bool failed;     /* a traceback was shown */
};

enum { PENDING_BYTES_MAX = 1 << 20 };

static bool same_file(int a, int b)
{
	struct stat left, right;

	return fstat(a, &left) == 0 && fstat(b, &right) == 0 && left.st_dev == right.st_dev &&
	       left.st_ino == right.st_ino;
}

void show_init(struct show *show, const char *directory, bool errors_only)
{
	*show = (struct show){.directory = directory, .errors_only = errors_only};
	terminal_init(&show->out, STDOUT_FILENO);
	terminal_init(&show->err, STDERR_FILENO);
	show->shared = same_file(STDOUT_FILENO, STDERR_FILENO);
}

void show_release(struct show *show)
{
	terminal_release(&show->out);
	terminal_release(&show->err);
	for (size_t i = 0; i < show->cell_count; i++)
		free(show->cells[i].id);
	free(show->cells);
}

void show_add_cell(struct show *show, const char *cell)
{
	show->cells = mem_resize(show->cells, show->cell_count + 1, sizeof(*show->cells));
	show->cells[show->cell_count++] =
		(struct show_cell){.id = mem_string(cell), .images = 0, .failed = false};
}

/* The newest is looked at first: nearly all events are of it. */
static struct show_cell *find_cell(struct show *show, const char *id)
{
	for (size_t i = show->cell_count; id && i > 0; i--)
		if (strcmp(show->cells[i - 1].id, id) == 0)
			return &show->cells[i - 1];
	return NULL;
}

/* The terminal to add to. A failure to write the other one shows again in show_flush(). */
static struct terminal *turn_to(struct show *show, bool is_stderr)
{
	struct terminal *to = is_stderr ? &show->err : &show->out;
	struct terminal *other = is_stderr ? &show->out : &show->err;

	if (show->other_last == is_stderr)
		return to;
	(void)terminal_flush(other, &show->failure);
	if (show->shared)
		to->line_start = other->line_start;
	show->other_last = is_stderr;
	return to;
}

static void note(struct show *show, const char *text)
{
	cleanup_buf struct buf shown = BUF_INIT;

	text_escape(&shown, text, strlen(text), false, false);
	buf_append_char(&shown, '\n');
	terminal_own(turn_to(show, true), buf_bytes(&shown), true);
}

static void show_stream(struct show *show, const struct event *event)
{
	struct terminal *to = turn_to(show, event->is_stderr);

	terminal_guest(to, event->text, event->text_len);
	if (to->out.len > PENDING_BYTES_MAX)
		(void)terminal_flush(to, &show->failure);
}

/* The image itself, where the terminal can show it. */
static void show_pixels(struct show *show, const struct event *event, const char *mime)
{
	size_t len = 0;
	const char *base64 = json_string(json_get(json_get(event->body, "data"), mime), &len);
	cleanup_buf struct buf pixels = BUF_INIT;
	struct winsize size = {.ws_col = 0};

	if (!base64 || show->graphics == GRAPHICS_PATH || !show->out.tty)
		return;
	(void)ioctl(show->out.fd, TIOCGWINSZ, &size);
	if (graphics_image(&pixels, show->graphics, mime, base64, len, size.ws_col, size.ws_xpixel))
		terminal_own(&show->out, buf_bytes(&pixels), true);
}

/* The line that stands for an image. */
static void show_image(struct show *show, const struct event *event, struct show_cell *cell)
{
	const char *extension;
	const char *mime = event_image(event, &extension);
	cleanup_free char *line = NULL;
	struct terminal *to;

	if (!mime)
		return;
	cell->images++;
	if (show->errors_only)
		return;
	if (show->directory)
		line = mem_format("[%s: %s/images/%s-%u.%s]", mime, show->directory, cell->id,
				  cell->images, extension);
	else
		line = mem_format(show->in_notebook ? "[%s, in the notebook]"
						    : "[%s: --keep or -o FILE.ipynb would keep it]",
				  mime);
	to = turn_to(show, false);
	terminal_own(to, "", true);
	show_pixels(show, event, mime);
	terminal_guest(to, line, strlen(line));
	terminal_guest(to, "\n", 1);
}

/* "Out[3]: ", with a text of several lines below it. */
static void show_number(struct show *show, const struct event *event, const char *text, size_t len)
{
	struct terminal *to = &show->out;
	cleanup_free char *head =
		mem_format("%sOut[%lld]: %s%s", show->coloured ? "\033[31m" : "",
			   (long long)json_get_int(event->body, "execution_count", 0),
			   show->coloured ? "\033[0m" : "", memchr(text, '\n', len) ? "\n" : "");

	if (show->numbered && event->type == EVENT_RESULT)
		terminal_own(to, head, false);
}

static void show_bundle(struct show *show, const struct event *event, struct show_cell *cell)
{
	const struct json *data = json_get(event->body, "data");
	size_t len = 0;
	const char *text = json_string(json_get(data, "text/plain"), &len);

	if (!text)
		text = json_string(json_get(data, "text/markdown"), &len);
	/* "<Figure size 640x480 with 1 Axes>" says nothing beside the image. */
	if (text && text[0] == '<' && event_image(event, NULL))
		text = NULL;
	if (text && !show->errors_only) {
		struct terminal *to = turn_to(show, false);

		terminal_own(to, "", true);
		show_number(show, event, text, len);
		terminal_guest(to, text, len);
		terminal_guest(to, "\n", 1);
	}
	show_image(show, event, cell);
}

bool show_is_exit(const char *ename, const char *evalue)
{
	return ename && evalue && strcmp(ename, "SystemExit") == 0 &&
	       (evalue[0] == '\0' || strcmp(evalue, "0") == 0);
}

static void show_error(struct show *show, const struct event *event, struct show_cell *cell)
{
	const struct json *lines = json_get(event->body, "traceback");
	const char *name = json_get_string(event->body, "ename");
	const char *value = json_get_string(event->body, "evalue");
	size_t count = json_length(lines);
	struct terminal *to;

	cell->failed = true;
	if (show_is_exit(name, value))
		return;
	to = turn_to(show, true);
	terminal_own(to, "", true);
	for (size_t i = 0; i < count; i++) {
		size_t len = 0;
		const char *line = json_string(json_at(lines, i), &len);

		if (line)
			terminal_guest(to, line, len);
		if (!line || len == 0 || line[len - 1] != '\n')
			terminal_guest(to, "\n", 1);
	}
	if (count == 0) {
		cleanup_free char *line =
			mem_format("%s: %s\n", name ? name : "error", value ? value : "");

		terminal_guest(to, line, strlen(line));
	}
}

/* "; the variables are ..." */
static void put_state(struct buf *text, const struct json *body)
{
	const char *state = json_get_string(body, "state");

	if (state && strcmp(state, "reset") == 0) {
		buf_append_string(text, "; the variables are lost");
	} else if (state && strcmp(state, "recovered") == 0) {
		buf_append_string(text, "; the ");
		outcome_state(text, body);
	}
}

/* How a cell ended, when no traceback says it. That it was rolled back comes as an event. */
static void show_finished(struct show *show, const struct event *event,
			  const struct show_cell *cell)
{
	const char *status = json_get_string(event->body, "status");
	const char *reason = json_get_string(event->body, "reason");
	cleanup_buf struct buf text = BUF_INIT;

	if (!status || strcmp(status, "ok") == 0 || strcmp(status, "error") == 0)
		return;
	if (strcmp(status, "interrupted") == 0 && cell->failed)
		return;
	if (strcmp(status, "died") == 0)
		buf_printf(&text, "fumehood: the interpreter died%s%s", reason ? ": " : "",
			   reason ? reason : "");
	else if (strcmp(status, "timeout") == 0)
		buf_printf(&text, "fumehood: the cell was stopped after %.3g s (--timeout)",
			   (double)json_get_int(event->body, "duration_us", 0) / 1e6);
	else
		buf_printf(&text, "fumehood: the cell was %s%s%s", status, reason ? ": " : "",
			   reason ? reason : "");
	put_state(&text, event->body);
	note(show, buf_bytes(&text));
}

/* Each line of `text` as a note. */
static void note_lines(struct show *show, const struct buf *text)
{
	const char *at = buf_bytes(text), *end;

	for (; (end = strchr(at, '\n')); at = end + 1) {
		cleanup_free char *line = mem_format("fumehood: %.*s", (int)(end - at), at);

		note(show, line);
	}
}

/* A rollback: of a cell of ours, that was atomic or a try, or one that another client asked for. */
static void show_rollback(struct show *show, const struct event *event)
{
	const char *reason = json_get_string(event->body, "reason");
	const struct json *cells = json_get(event->body, "rolled_back");
	const char *last = json_string(json_at(cells, json_length(cells) - 1), NULL);
	cleanup_buf struct buf text = BUF_INIT;

	if (!reason || strcmp(reason, "asked") == 0) {
		went_back_cells(&text, event->body);
		went_back_rest(&text, event->body);
		note_lines(show, &text);
		return;
	}
	if (!show->ours_ended || (show->errors_only && strcmp(reason, "try") == 0))
		return;
	if (find_cell(show, last)) /* else it died, which was told with what the variables are */
		buf_append_string(&text, "rolled back: the variables are as they were just before "
					 "this cell\n");
	went_back_rest(&text, event->body);
	note_lines(show, &text);
}

/* A death between two cells. */
static void show_died(struct show *show, const struct event *event)
{
	const char *reason = json_get_string(event->body, "reason");
	cleanup_buf struct buf text = BUF_INIT;

	buf_printf(&text, "fumehood: the interpreter died: %s", reason ? reason : "?");
	put_state(&text, event->body);
	note(show, buf_bytes(&text));
}

static void show_truncated(struct show *show, const struct event *event)
{
	const char *name = json_get_string(event->body, "name");
	const char *limit = json_get_string(event->body, "limit");
	cleanup_free char *text =
		mem_format("fumehood: %lld bytes of %s were dropped (limit %s)",
			   (long long)json_get_int(event->body, "bytes_dropped", 0),
			   name ? name : "output", limit ? limit : "output_bytes");

	note(show, text);
}

/* Only what was refused, and each once. */
static void show_network(struct show *show, const struct event *event, const char *message)
{
	cleanup_free char *text = NULL;

	if (!message || json_get(event->body, "count"))
		return;
	text = mem_format("fumehood: network: %s", message);
	note(show, text);
}

void show_event(struct show *show, const struct event *event)
{
	struct show_cell *cell = find_cell(show, event->cell);
	const char *message = json_get_string(event->body, "message");
	cleanup_free char *text = NULL;

	if (event->type == EVENT_FINISHED)
		show->ours_ended = cell != NULL;
	if (event->type == EVENT_ROLLBACK) /* its `cell` is the last one that is left */
		show_rollback(show, event);
	if (!cell && event->type != EVENT_WARNING && event->type != EVENT_DIED)
		return;
	switch (event->type) {
	case EVENT_STREAM:
		if (!show->errors_only)
			show_stream(show, event);
		break;
	case EVENT_RESULT:
	case EVENT_DISPLAY:
	case EVENT_UPDATE_DISPLAY:
		show_bundle(show, event, cell);
		break;
	case EVENT_ERROR:
		show_error(show, event, cell);
		break;
	case EVENT_FINISHED:
		show_finished(show, event, cell);
		break;
	case EVENT_TRUNCATED:
		show_truncated(show, event);
		break;
	case EVENT_DIED:
		show_died(show, event);
		break;
	case EVENT_WARNING:
		text = mem_format("fumehood: warning: %s", message ? message : "");
		note(show, text);
		break;
	case EVENT_NETWORK:
		show_network(show, event, message);
		break;
	case EVENT_SESSION:
	case EVENT_SECTION:
	case EVENT_NOTE:
	case EVENT_CELL:
	case EVENT_STARTED:
	case EVENT_CLEAR:
	case EVENT_INPUT_REQUEST:
	case EVENT_INPUT:
	case EVENT_COMMITTED:
	case EVENT_CHECKPOINT:
	case EVENT_ROLLBACK:
	case EVENT_FORKED:
	case EVENT_RESTARTED:
	case EVENT_STATE:
	case EVENT_ASK:
	case EVENT_ATTEMPT:
	case EVENT_TOKEN:
	case EVENT_CODE:
	case EVENT_VERDICT:
	case EVENT_GAP:
	case EVENT_STOPPED:
	case EVENT_OTHER:
	case EVENT_TYPE_COUNT:
		break;
	}
}

void show_prompt(struct show *show, const char *prompt)
{
	terminal_guest(turn_to(show, false), prompt, strlen(prompt));
}

int show_flush(struct show *show, struct err *err)
{
	(void)terminal_flush(&show->out, &show->failure);
	(void)terminal_flush(&show->err, &show->failure);
	if (show->failure.code == ERR_OK)
		return 0;
	if (err)
		*err = show->failure;
	return -1;
}

int show_end(struct show *show, struct err *err)
{
	(void)terminal_end(&show->out, &show->failure);
	(void)terminal_end(&show->err, &show->failure);
	return show_flush(show, err);
}
