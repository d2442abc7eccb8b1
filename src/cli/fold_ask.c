/*
 * One pass over the journal, which keeps the instructions and verdicts of asks; see fold_ask.h.
 */
#include "cli/fold_ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/fold.h"
#include "journal/asked.h"
#include "journal/cursor.h"

enum { INSTRUCTION_CHARS_MAX = 200, HEAD_BYTES_MAX = 80 };

struct looking {
	const char *id;      /* NULL: the last */
	struct json *asks;   /* id of an ask -> {"ask","verdict","cell"} */
	char *last, *answer; /* the last cell that was started; the ask that came after it */
	const char *found;   /* the ask whose answer is the cell `id`; a key of `asks` */
	bool is_cell;        /* there is a cell `id` */
};

static void looking_release(struct looking *looking)
{
	json_free(looking->asks);
	free(looking->last);
	free(looking->answer);
}

void fold_wanted_release(struct fold_wanted *wanted)
{
	free(wanted->cell);
	buf_release(&wanted->line);
}

static struct json *ask_of(const struct looking *looking, const struct event *event)
{
	const char *id = json_get_string(event->body, "ask");

	return id ? json_get(looking->asks, id) : NULL;
}

static void take_last(struct looking *looking, const char *ask)
{
	char *kept = mem_string(ask);

	free(looking->answer);
	looking->answer = kept;
}

static void take_ask(struct looking *looking, const struct event *event)
{
	const char *id = json_get_string(event->body, "ask");
	struct json *ask;

	if (asked_number(id) == 0)
		return;
	ask = json_new_object();
	json_set_string(ask, "id", id);
	json_set(ask, "ask", json_keep(event->body));
	json_set(looking->asks, id, ask);
	take_last(looking, id);
}

static void take_verdict(struct looking *looking, const struct event *event)
{
	struct json *ask = ask_of(looking, event);

	if (!ask)
		return;
	json_set(ask, "verdict", json_keep(event->body));
	if (event->cell)
		json_set_string(ask, "cell", event->cell);
	if (event->cell && looking->id && strcmp(event->cell, looking->id) == 0)
		looking->found = json_get_string(ask, "id");
	if (!event->cell || (looking->last && strcmp(event->cell, looking->last) == 0))
		take_last(looking, json_get_string(ask, "id"));
}

static void take(struct looking *looking, const struct event *event)
{
	if (event->type == EVENT_ASK) {
		take_ask(looking, event);
	} else if (event->type == EVENT_VERDICT) {
		take_verdict(looking, event);
	} else if (event->type == EVENT_STARTED && event->cell) {
		free(looking->last);
		looking->last = mem_string(event->cell);
		free(looking->answer);
		looking->answer = NULL;
	} else if (event->type == EVENT_CELL && looking->id && event->cell) {
		looking->is_cell = looking->is_cell || strcmp(event->cell, looking->id) == 0;
	}
}

/* Whether the line is one for take(), by its beginning: most lines are output, and are not
 * parsed. */
static bool concerns(const char *line, size_t len)
{
	static const char mark[] = "\"type\":\"";
	static const char *const types[] = {"ask\"", "verdict\"", "started\"", "cell\""};
	size_t head = len < HEAD_BYTES_MAX ? len : HEAD_BYTES_MAX;
	const char *type = memmem(line, head, mark, sizeof(mark) - 1);

	for (size_t i = 0; type && i < sizeof(types) / sizeof(*types); i++) {
		const char *name = type + sizeof(mark) - 1;
		size_t size = strlen(types[i]);

		if ((size_t)(line + len - name) >= size && memcmp(name, types[i], size) == 0)
			return true;
	}
	return false;
}

static int look(struct looking *looking, int dirfd, struct err *err)
{
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;
	enum cursor_step step = CURSOR_EVENT;

	if (fold_open(&reader, dirfd, err) != 0)
		return -1;
	while (step == CURSOR_EVENT || step == CURSOR_DAMAGED) {
		cleanup_event struct event event = EVENT_INIT;
		const char *line;
		size_t len;
		uint64_t seq;

		step = cursor_next_line(reader.cursor, &line, &len, &seq, err);
		if (step == CURSOR_EVENT && concerns(line, len) &&
		    event_parse(line, len - 1, &event, NULL) == 0)
			take(looking, &event);
	}
	return step == CURSOR_ERROR ? -1 : 0;
}

/* One line of the instruction, cut. */
static void put_instruction(struct buf *line, const struct json *ask)
{
	size_t len = 0;
	const char *text = json_string(json_get(json_get(ask, "ask"), "instruction"), &len);
	size_t head = text ? text_prefix(text, len, INSTRUCTION_CHARS_MAX) : 0;

	if (!text)
		buf_append_string(line, "(a long text)"); /* a blob */
	for (size_t i = 0; i < head; i++)
		buf_append_char(line, text[i] == '\n' || text[i] == '\r' ? ' ' : text[i]);
	if (head < len)
		buf_append_string(line, " ...");
}

static void put_line(struct buf *line, const struct json *ask)
{
	const struct json *verdict = json_get(ask, "verdict");

	buf_printf(line, "[asked (%s): ", json_get_string(ask, "id"));
	put_instruction(line, ask);
	buf_append_string(line, "; ");
	if (verdict)
		asked_verdict_words(line, verdict);
	else
		buf_append_string(line, "no answer: this ask has not finished");
	buf_append_char(line, ']');
}

int fold_find(int dirfd, const char *id, struct fold_wanted *wanted, struct err *err)
{
	__attribute__((cleanup(looking_release))) struct looking looking = {
		.id = id, .asks = json_new_object()};
	const struct json *ask;

	if (look(&looking, dirfd, err) != 0)
		return -1;
	if (!id)
		ask = looking.answer ? json_get(looking.asks, looking.answer) : NULL;
	else if (looking.is_cell)
		ask = looking.found ? json_get(looking.asks, looking.found) : NULL;
	else
		ask = json_get(looking.asks, id);
	if (ask) {
		put_line(&wanted->line, ask);
		wanted->cell = mem_string(json_get_string(ask, "cell"));
	} else {
		wanted->cell = mem_string(id ? id : looking.last);
	}
	return ask || wanted->cell ? 0
				   : err_set(err, ERR_NOT_FOUND, "no cell has run in this session");
}
