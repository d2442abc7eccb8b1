/*
 * The fold: events become items, the last of which may still be open.
 *
 * `part` is the run of stdout or stderr that is being written. It becomes an item when another kind
 * of output comes; digest_text() looks at it as if it had ended. Everything else is written into
 * the `scratch` screen, so that limits and control characters are treated in one place, and becomes
 * an item at once.
 */
#include "digest/digest.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/items.h"
#include "digest/marks.h"
#include "digest/outcome.h"
#include "digest/page.h"
#include "digest/rich.h"
#include "digest/stream.h"
#include "digest/traceback.h"

struct digest {
	struct marks *marks; /* does everything in the marked form; NULL in the usual one */
	size_t item_max;
	size_t total_max;
	char *whole;
	struct items items;
	struct screen part;
	bool part_open;
	bool part_quiet;
	enum item_kind part_kind;
	bool seen[2];     /* something came on stdout, stderr */
	bool clear_waits; /* the next output drops what is there */
	struct screen scratch;
	uint64_t images;   /* numbered so far, as the keeper does it */
	struct json *cell; /* bodies of the events, NULL until they come */
	struct json *finished;
	const struct timeline_cell *fate; /* borrowed, may be NULL */
};

static size_t limit(size_t wanted, size_t otherwise)
{
	size_t chars = wanted ? wanted : otherwise;

	return chars < DIGEST_CHARS_MAX ? chars : DIGEST_CHARS_MAX;
}

struct digest *digest_new(const struct digest_params *params)
{
	static const struct digest_params DEFAULTS = {0};
	struct digest *digest = mem_zalloc(sizeof(*digest));

	if (!params)
		params = &DEFAULTS;
	if (params->marks) {
		digest->marks = marks_new(params->total_chars_max, params->whole);
		return digest;
	}
	digest->total_max = limit(params->total_chars_max, DIGEST_TOTAL_CHARS);
	digest->item_max = limit(params->item_chars_max, DIGEST_ITEM_CHARS);
	if (digest->item_max > digest->total_max)
		digest->item_max = digest->total_max;
	digest->whole = mem_string(params->whole);
	items_init(&digest->items, digest->total_max);
	screen_init(&digest->part, digest->item_max);
	screen_init(&digest->scratch, digest->item_max);
	return digest;
}

void digest_free(struct digest *digest)
{
	if (!digest)
		return;
	if (digest->marks) {
		marks_free(digest->marks);
		free(digest);
		return;
	}
	items_release(&digest->items);
	screen_release(&digest->part);
	screen_release(&digest->scratch);
	json_free(digest->cell);
	json_free(digest->finished);
	free(digest->whole);
	free(digest);
}

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != '\n' && text[i] != ' ' && text[i] != '\t')
			return false;
	return true;
}

/* The open part as an item; its piece is the caller's. */
static struct item part_item(const struct digest *digest)
{
	struct item item = {.kind = digest->part_kind};
	struct piece *piece = &item.piece;
	const char *end;
	size_t tail;

	*piece = screen_piece(&digest->part, digest->whole);
	item.quiet = digest->part_quiet || digest->part.redrawn ||
		     is_blank(piece->text, piece->len) ||
		     memmem(piece->text, piece->len, "Warning:", 8) != NULL;
	/* Where the unfinished line begins: behind the last LF, unless a gap is in between. */
	tail = piece->left_out > 0 ? piece->gap_at : 0;
	end = memrchr(piece->text + tail, '\n', piece->len - tail);
	if (end)
		item.line_at = (size_t)(end + 1 - piece->text);
	else
		item.line_at = piece->left_out > 0 ? piece->len : 0;
	return item;
}

static void close_part(struct digest *digest)
{
	struct item item;

	if (!digest->part_open)
		return;
	digest->part_open = false;
	if (!screen_is_empty(&digest->part)) {
		item = part_item(digest);
		items_add(&digest->items, &item, NULL);
	}
	screen_clear(&digest->part);
}

static void open_part(struct digest *digest, enum item_kind kind, bool returns)
{
	if (digest->part_open && digest->part_kind == kind)
		return;
	close_part(digest);
	digest->part_open = true;
	digest->part_kind = kind;
	/* A part that begins with CR redraws the line that this stream has left unfinished. */
	digest->part_quiet = returns;
	if (returns)
		(void)items_drop_line(&digest->items, kind);
}

static void write_part(struct digest *digest, enum item_kind kind, const char *text, size_t len)
{
	if (len == 0)
		return;
	digest->seen[kind] = true;
	if (text[0] == '\n' && !(digest->part_open && digest->part_kind == kind)) {
		/* LF for a line that other output has interrupted: it is shown as ended already. */
		close_part(digest);
		if (items_end_line(&digest->items, kind)) {
			text++;
			len--;
		}
	}
	if (len == 0)
		return;
	open_part(digest, kind, text[0] == '\r');
	screen_write(&digest->part, text, len);
}

static void clear(struct digest *digest)
{
	digest->clear_waits = false;
	digest->part_open = false;
	screen_clear(&digest->part);
	items_clear(&digest->items);
	digest->seen[ITEM_STDOUT] = false;
	digest->seen[ITEM_STDERR] = false;
}

/* To be called before anything new is shown. */
static void begin_output(struct digest *digest)
{
	if (digest->clear_waits)
		clear(digest);
}

/* Takes what was written to the scratch screen. */
static struct piece take_scratch(struct digest *digest)
{
	struct piece piece = screen_piece(&digest->scratch, digest->whole);

	screen_clear(&digest->scratch);
	return piece;
}

/* Adds what was written to the scratch stream as an item of its own. */
static void add_scratch(struct digest *digest, const char *id)
{
	struct item item = {.kind = ITEM_OTHER};

	close_part(digest);
	item.piece = take_scratch(digest);
	item.line_at = item.piece.len;
	items_add(&digest->items, &item, id);
}

static void apply_rich(struct digest *digest, const struct event *event)
{
	const char *id = json_get_string(event->body, "display_id");
	const char *extension;
	bool update = event->type == EVENT_UPDATE_DISPLAY;
	struct piece piece;

	if (event_image(event, &extension))
		digest->images++;
	if (!update)
		begin_output(digest);
	else if (!id || !items_knows(&digest->items, id))
		return;
	rich_text(event, digest->images, &digest->scratch);
	if (!update) {
		add_scratch(digest, id);
		return;
	}
	piece = take_scratch(digest);
	items_update(&digest->items, id, &piece);
	piece_release(&piece);
}

static void apply_error(struct digest *digest, const struct event *event)
{
	begin_output(digest);
	traceback_text(event->body, digest->cell, &digest->scratch);
	add_scratch(digest, NULL);
}

static void apply_prompt(struct digest *digest, const struct event *event)
{
	size_t len = 0;
	const char *prompt = json_string(json_get(event->body, "prompt"), &len);

	begin_output(digest);
	if (prompt)
		write_part(digest, ITEM_STDOUT, prompt, len);
}

/* The answer ends the prompt's line, as the echo of a terminal does. */
static void apply_input(struct digest *digest, const struct event *event)
{
	size_t len = 0;
	const char *text = json_string(json_get(event->body, "text"), &len);

	if (text && !json_get_bool(event->body, "password", false))
		write_part(digest, ITEM_STDOUT, text, len);
	if (!text || len == 0 || text[len - 1] != '\n')
		write_part(digest, ITEM_STDOUT, "\n", 1);
}

static void apply_truncated(struct digest *digest, const struct event *event)
{
	cleanup_buf struct buf line = BUF_INIT;

	outcome_truncated(&line, event->body);
	screen_write(&digest->scratch, buf_bytes(&line), line.len);
	add_scratch(digest, NULL);
}

static void apply_warning(struct digest *digest, const struct event *event)
{
	const char *message = json_get_string(event->body, "message");

	if (!message)
		return;
	screen_puts(&digest->scratch, "[warning: ");
	screen_puts(&digest->scratch, message);
	screen_puts(&digest->scratch, "]");
	add_scratch(digest, NULL);
}

/* Refusals only, and each once: what is told with a count has been told before. */
static void apply_network(struct digest *digest, const struct event *event)
{
	const char *message = json_get_string(event->body, "message");

	if (!message || json_get(event->body, "count"))
		return;
	screen_puts(&digest->scratch, "[network: ");
	screen_puts(&digest->scratch, message);
	screen_puts(&digest->scratch, "]");
	add_scratch(digest, NULL);
}

static void keep_body(struct json **kept, const struct event *event)
{
	json_free(*kept);
	*kept = event->body ? json_keep(event->body) : NULL;
}

static void apply_clear(struct digest *digest, const struct event *event)
{
	if (json_get_bool(event->body, "wait", false))
		digest->clear_waits = true;
	else
		clear(digest);
}

void digest_apply(struct digest *digest, const struct event *event)
{
	if (digest->marks) {
		marks_apply(digest->marks, event);
		return;
	}
	switch (event->type) {
	case EVENT_CELL:
		keep_body(&digest->cell, event);
		break;
	case EVENT_STREAM:
		begin_output(digest);
		write_part(digest, event->is_stderr ? ITEM_STDERR : ITEM_STDOUT, event->text,
			   event->text_len);
		break;
	case EVENT_DISPLAY:
	case EVENT_UPDATE_DISPLAY:
	case EVENT_RESULT:
		apply_rich(digest, event);
		break;
	case EVENT_CLEAR:
		apply_clear(digest, event);
		break;
	case EVENT_ERROR:
		apply_error(digest, event);
		break;
	case EVENT_INPUT_REQUEST:
		apply_prompt(digest, event);
		break;
	case EVENT_INPUT:
		apply_input(digest, event);
		break;
	case EVENT_TRUNCATED:
		apply_truncated(digest, event);
		break;
	case EVENT_WARNING:
		apply_warning(digest, event);
		break;
	case EVENT_NETWORK:
		apply_network(digest, event);
		break;
	case EVENT_FINISHED:
		keep_body(&digest->finished, event);
		break;
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

/* --- putting the text together -------------------------------------------- */

struct writer {
	const struct digest *digest;
	struct page page;
	enum item_kind previous;
};

static void write_marked(struct writer *writer, const struct item *item)
{
	const struct piece *piece = &item->piece;
	const char *line = memchr(piece->text, '\n', piece->len);
	bool single = piece->left_out == 0 && (!line || line + 1 == piece->text + piece->len);

	page_break(&writer->page);
	page_puts(&writer->page, single ? "[stderr] " : "[stderr]\n");
	page_piece(&writer->page, piece, writer->digest->item_max);
	page_break(&writer->page);
	if (!single)
		page_puts(&writer->page, "[end of stderr]\n");
}

static void write_item(struct writer *writer, const struct item *item)
{
	const struct digest *digest = writer->digest;
	bool both = digest->seen[ITEM_STDOUT] && digest->seen[ITEM_STDERR];

	if (item->kind == ITEM_STDERR && both && !item->quiet) {
		write_marked(writer, item);
	} else {
		/* Two parts of one stream in a row had something between them that is gone. */
		if (item->kind == ITEM_OTHER || item->kind != writer->previous)
			page_break(&writer->page);
		page_piece(&writer->page, &item->piece, digest->item_max);
	}
	writer->previous = item->kind;
}

static void write_list(struct writer *writer, const struct item_list *list)
{
	for (const struct item *item = list->front; item; item = item->next)
		write_item(writer, item);
}

static void write_items(struct writer *writer)
{
	const struct digest *digest = writer->digest;
	const struct items *items = &digest->items;
	struct item open;

	write_list(writer, &items->first);
	if (items->dropped > 0)
		page_gap(&writer->page, items->dropped_chars, items->dropped, digest->total_max);
	write_list(writer, &items->last);
	if (digest->part_open && !screen_is_empty(&digest->part)) {
		open = part_item(digest);
		write_item(writer, &open);
		piece_release(&open.piece);
	}
}

void digest_set_fate(struct digest *digest, const struct timeline_cell *fate)
{
	digest->fate = fate;
}

void digest_text(const struct digest *digest, struct buf *out)
{
	struct writer writer = {.digest = digest, .previous = ITEM_OTHER};
	cleanup_buf struct buf status = BUF_INIT, fate = BUF_INIT;

	if (digest->marks) {
		marks_text(digest->marks, out);
		return;
	}
	page_init(&writer.page, digest->whole);
	write_items(&writer);
	if (is_blank(buf_bytes(&writer.page.text), writer.page.text.len)) {
		page_release(&writer.page);
		page_init(&writer.page, digest->whole);
		page_puts(&writer.page, "(no output)");
	}
	outcome_line(&status, digest->cell, digest->finished);
	if (status.len > 0) {
		page_break(&writer.page);
		page_puts(&writer.page, buf_bytes(&status));
	}
	outcome_fate(&fate, digest->fate);
	if (fate.len > 0) {
		page_break(&writer.page);
		page_puts(&writer.page, buf_bytes(&fate));
	}
	page_finish(&writer.page, digest->total_max, out);
	page_release(&writer.page);
}
