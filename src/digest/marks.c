/*
 * The marked form. See marks.h.
 *
 * An item is cut when it comes, so memory depends on the limits alone, as in the other form.
 */
#include "digest/marks.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/cut.h"
#include "digest/digest.h"
#include "digest/ends.h"
#include "digest/outcome.h"

static const char CUT[] = "\n... (内容已截断) ...\n";
static const char IMAGE[] = " 图片已生成，内容为 base64，未展示]";

struct marks {
	struct ends text;
	char *whole;
	struct json *cell; /* bodies of the events, NULL until they come */
	struct json *finished;
};

struct marks *marks_new(size_t total_chars_max, const char *whole)
{
	struct marks *marks = mem_zalloc(sizeof(*marks));

	if (total_chars_max == 0)
		total_chars_max = MARKS_TOTAL_CHARS;
	ends_init(&marks->text,
		  total_chars_max < DIGEST_CHARS_MAX ? total_chars_max : DIGEST_CHARS_MAX);
	marks->whole = mem_string(whole);
	return marks;
}

void marks_free(struct marks *marks)
{
	if (!marks)
		return;
	ends_release(&marks->text);
	free(marks->whole);
	json_free(marks->cell);
	json_free(marks->finished);
	free(marks);
}

/* Appends text, cut if it is long. Code points are counted as the original counted them, graphemes
 * or not. */
static void put_cut(struct buf *out, const char *text, size_t len)
{
	size_t count = text_count(text, len), at;

	if (count <= MARKS_ITEM_CHARS) {
		buf_append(out, text, len);
		return;
	}
	buf_append(out, text, cut_offset(text, len, MARKS_ITEM_CHARS / 2));
	buf_append_string(out, CUT);
	at = cut_offset(text, len, count - MARKS_ITEM_CHARS / 2);
	buf_append(out, text + at, len - at);
}

static void add_item(struct marks *marks, const char *text, size_t len)
{
	if (marks->text.total)
		ends_put(&marks->text, "\n", 1);
	ends_put(&marks->text, text, len);
}

static void add_marked(struct marks *marks, const char *mark, const char *text, size_t len)
{
	cleanup_buf struct buf item = BUF_INIT, cut = BUF_INIT;

	buf_printf(&item, "[%s]\n", mark);
	buf_append(&item, text, len);
	put_cut(&cut, buf_bytes(&item), item.len);
	add_item(marks, buf_bytes(&cut), cut.len);
}

/* A result or display: its text, then its images. */
static void add_bundle(struct marks *marks, const struct event *event, const char *mark)
{
	static const char *const images[] = {"png", "jpeg"};
	const struct json *data = json_get(event->body, "data");
	size_t len = 0;
	const char *text = json_string(json_get(data, "text/plain"), &len);

	if (text) {
		cleanup_free char *name = mem_format("%s_text", mark);

		add_marked(marks, name, text, len);
	}
	for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
		cleanup_free char *mime = mem_format("image/%s", images[i]);
		cleanup_free char *item = mem_format("[%s_%s%s", mark, images[i], IMAGE);

		if (json_get(data, mime))
			add_item(marks, item, strlen(item));
	}
}

/* Appends text without control sequences (ECMA-48 §5.4): those that colour tracebacks. */
static void put_uncoloured(struct buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		size_t end = i + 2;

		if (text[i] != '\033' || i + 1 == len || text[i + 1] != '[') {
			buf_append_char(out, text[i]);
			continue;
		}
		while (end < len && text[end] >= ' ' && text[end] <= '?')
			end++;
		i = end < len ? end : len - 1;
	}
}

static void add_error(struct marks *marks, const struct event *event)
{
	const struct json *lines = json_get(event->body, "traceback");
	const char *name = json_get_string(event->body, "ename");
	const char *value = json_get_string(event->body, "evalue");
	cleanup_buf struct buf text = BUF_INIT, item = BUF_INIT;

	for (size_t i = 0; i < json_length(lines); i++) {
		size_t len = 0;
		const char *line = json_string(json_at(lines, i), &len);

		if (i)
			buf_append_char(&text, '\n');
		if (line)
			put_uncoloured(&text, line, len);
	}
	if (text.len == 0)
		buf_printf(&text, "%s: %s", name ? name : "error", value ? value : "");
	buf_append_string(&item, "[error]\n");
	put_cut(&item, buf_bytes(&text), text.len);
	add_item(marks, buf_bytes(&item), item.len);
}

static void add_truncated(struct marks *marks, const struct event *event)
{
	cleanup_buf struct buf line = BUF_INIT;

	outcome_truncated(&line, event->body);
	add_item(marks, buf_bytes(&line), line.len);
}

static void keep_body(struct json **kept, const struct event *event)
{
	json_free(*kept);
	*kept = event->body ? json_keep(event->body) : NULL;
}

void marks_apply(struct marks *marks, const struct event *event)
{
	switch (event->type) {
	case EVENT_CELL:
		keep_body(&marks->cell, event);
		break;
	case EVENT_STREAM:
		add_marked(marks, event->is_stderr ? "stderr" : "stdout", event->text,
			   event->text_len);
		break;
	case EVENT_RESULT:
		add_bundle(marks, event, "execute_result");
		break;
	case EVENT_DISPLAY:
		add_bundle(marks, event, "display");
		break;
	case EVENT_ERROR:
		add_error(marks, event);
		break;
	case EVENT_TRUNCATED:
		add_truncated(marks, event);
		break;
	case EVENT_FINISHED:
		keep_body(&marks->finished, event);
		break;
	case EVENT_UPDATE_DISPLAY:
	case EVENT_CLEAR:
	case EVENT_INPUT_REQUEST:
	case EVENT_INPUT:
	case EVENT_WARNING:
	case EVENT_SESSION:
	case EVENT_SECTION:
	case EVENT_NOTE:
	case EVENT_STARTED:
	case EVENT_DIED:
	case EVENT_COMMITTED:
	case EVENT_CHECKPOINT:
	case EVENT_ROLLBACK:
	case EVENT_FORKED:
	case EVENT_RESTARTED:
	case EVENT_STATE:
	case EVENT_NETWORK:
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

/* The whole with the line about how the cell ended, which is kept whatever is cut. */
void marks_text(const struct marks *marks, struct buf *out)
{
	cleanup_buf struct buf status = BUF_INIT;
	struct ends all;
	struct piece piece;

	ends_init(&all, marks->text.keep);
	ends_copy(&all, &marks->text);
	outcome_line(&status, marks->cell, marks->finished);
	if (status.len && all.total)
		ends_put(&all, "\n", 1);
	ends_put(&all, buf_bytes(&status), status.len);
	piece = ends_piece(&all, marks->whole);
	buf_append(out, piece.text, piece.gap_at);
	if (piece.left_out)
		cut_line(out, piece.left_out, 0, all.keep - (size_t)piece.chars, marks->whole);
	buf_append(out, piece.text + piece.gap_at, piece.len - piece.gap_at);
	piece_release(&piece);
	ends_release(&all);
}
