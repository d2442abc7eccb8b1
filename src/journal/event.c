/*
 * Events to and from their lines.
 *
 * Writing a `stream` event touches no JSON tree: its few fields are members of the struct and go
 * straight into the buffer, since this is what a cell that prints does thousands of times. All
 * other types carry a tree. Reading always goes through json_parse(), which knows every way in
 * which a line can be bad; the members are then taken out of the tree and the rest stays as the
 * body.
 */
#include "journal/event.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "journal/line.h"

static const char *const TYPE_NAMES[EVENT_TYPE_COUNT] = {
	[EVENT_SESSION] = "session",
	[EVENT_SECTION] = "section",
	[EVENT_NOTE] = "note",
	[EVENT_CELL] = "cell",
	[EVENT_STARTED] = "started",
	[EVENT_STREAM] = "stream",
	[EVENT_DISPLAY] = "display",
	[EVENT_UPDATE_DISPLAY] = "update_display",
	[EVENT_CLEAR] = "clear",
	[EVENT_RESULT] = "result",
	[EVENT_ERROR] = "error",
	[EVENT_INPUT_REQUEST] = "input_request",
	[EVENT_INPUT] = "input",
	[EVENT_TRUNCATED] = "truncated",
	[EVENT_FINISHED] = "finished",
	[EVENT_DIED] = "died",
	[EVENT_COMMITTED] = "committed",
	[EVENT_CHECKPOINT] = "checkpoint",
	[EVENT_ROLLBACK] = "rollback",
	[EVENT_FORKED] = "forked",
	[EVENT_RESTARTED] = "restarted",
	[EVENT_STATE] = "state",
	[EVENT_WARNING] = "warning",
	[EVENT_NETWORK] = "network",
	[EVENT_ASK] = "ask",
	[EVENT_ATTEMPT] = "attempt",
	[EVENT_TOKEN] = "token",
	[EVENT_CODE] = "code",
	[EVENT_VERDICT] = "verdict",
	[EVENT_GAP] = "gap",
	[EVENT_STOPPED] = "stopped",
	[EVENT_OTHER] = "other",
};

/* A guest's data may be 200 deep (JSON_LIMITS); the line puts it a few levels deeper. */
static const struct json_limits LINE_LIMITS = {
	.bytes_max = EVENT_LINE_BYTES_MAX,
	.depth_max = 256,
	.keys_unique = true,
	.nan_as_text = false,
};

void event_release(struct event *event)
{
	free(event->cell);
	free(event->text);
	json_free(event->body);
	*event = (struct event)EVENT_INIT;
}

const char *event_type_name(enum event_type type)
{
	return type < EVENT_TYPE_COUNT ? TYPE_NAMES[type] : TYPE_NAMES[EVENT_OTHER];
}

enum event_type event_type_from_name(const char *name)
{
	for (enum event_type type = 0; type < EVENT_OTHER; type++) {
		if (strcmp(name, TYPE_NAMES[type]) == 0)
			return type;
	}
	return EVENT_OTHER;
}

/* The member as a C string without NUL inside, or NULL. */
static const char *plain_string(const struct json *object, const char *key)
{
	size_t len = 0;
	const char *text = json_string(json_get(object, key), &len);

	return text && strlen(text) == len ? text : NULL;
}

/* Takes seq, t, type and cell of the line into *event. */
static int read_head(const struct json *line, struct event *event, struct err *err)
{
	const struct json *cell = json_get(line, "cell");
	const char *time = plain_string(line, "t");
	const char *type = plain_string(line, "type");
	const char *id = plain_string(line, "cell");
	int64_t seq = json_get_int(line, "seq", 0);

	if (json_type_of(json_get(line, "seq")) != JSON_INT || seq <= 0)
		return err_set(err, ERR_CORRUPT, "no event: seq is no positive integer");
	event->t_us = clock_parse(time);
	if (event->t_us == INT64_MIN)
		return err_set(err, ERR_CORRUPT, "no event: t is no time");
	if (!type)
		return err_set(err, ERR_CORRUPT, "no event: it has no type");
	if (json_type_of(cell) != JSON_NULL && !id)
		return err_set(err, ERR_CORRUPT, "no event: cell is no id");
	event->seq = (uint64_t)seq;
	event->type = event_type_from_name(type);
	event->cell = mem_string(id);
	return 0;
}

static int read_stream(const struct json *line, struct event *event, struct err *err)
{
	const char *name = json_get_string(line, "name");
	const char *origin = json_get_string(line, "origin");
	const char *text = json_string(json_get(line, "text"), &event->text_len);

	if (!text)
		return err_set(err, ERR_CORRUPT, "no event: a stream without text");
	event->is_stderr = name && strcmp(name, "stderr") == 0;
	event->background = origin && strcmp(origin, "background") == 0;
	event->text = mem_copy(text, event->text_len);
	return 0;
}

static int parse(const char *line, size_t len, const struct json_limits *limits,
		 struct event *event, struct err *err)
{
	struct err why = ERR_INIT;
	cleanup_json struct json *tree = json_parse(line, len, limits, &why);
	cleanup_event struct event made = EVENT_INIT;

	if (!tree)
		return err_set(err, ERR_CORRUPT, "no event: %s", why.text);
	if (json_type_of(tree) != JSON_OBJECT)
		return err_set(err, ERR_CORRUPT, "no event: it is no object");
	if (read_head(tree, &made, err) != 0)
		return -1;
	if (made.type == EVENT_STREAM) {
		if (read_stream(tree, &made, err) != 0)
			return -1;
	} else {
		json_remove(tree, "seq");
		json_remove(tree, "t");
		json_remove(tree, "cell");
		if (made.type != EVENT_OTHER)
			json_remove(tree, "type");
		made.body = mem_take(tree);
	}
	*event = made;
	made = (struct event)EVENT_INIT;
	return 0;
}

int event_parse(const char *line, size_t len, struct event *event, struct err *err)
{
	return parse(line, len, &LINE_LIMITS, event, err);
}

int event_parse_inlined(const char *line, size_t len, struct event *event, struct err *err)
{
	struct json_limits limits = LINE_LIMITS;

	limits.bytes_max = EVENT_INLINED_BYTES_MAX;
	return parse(line, len, &limits, event, err);
}

static int write_field(const char *key, size_t key_len, struct json *value, void *data)
{
	struct buf *out = data;

	if (line_is_head_key(key, key_len))
		return 0;
	buf_append_char(out, ',');
	json_write_string(out, key, key_len);
	buf_append_char(out, ':');
	json_write(out, value);
	return 0;
}

void event_write(struct buf *out, const struct event *event)
{
	line_write_head(out, event);
	if (event->type != EVENT_STREAM && event->body)
		json_each(event->body, write_field, out);
	buf_append(out, "}\n", 2);
}

/* Whether a value of `data` can be an image: its text, or the link that stands for a long one. */
static bool holds_image(const struct json *value)
{
	const char *hash = json_get_string(value, "$blob");

	return json_type_of(value) == JSON_STRING || (hash && hash_is_hex(hash));
}

const char *event_image(const struct event *event, const char **extension)
{
	static const struct {
		const char *mime, *extension;
	} IMAGES[] = {
		{"image/png", "png"},   {"image/jpeg", "jpg"},    {"image/gif", "gif"},
		{"image/webp", "webp"}, {"image/svg+xml", "svg"},
	};
	const struct json *data = json_get(event->body, "data");

	if (event->type != EVENT_RESULT && event->type != EVENT_DISPLAY &&
	    event->type != EVENT_UPDATE_DISPLAY)
		return NULL;
	for (size_t i = 0; i < sizeof(IMAGES) / sizeof(IMAGES[0]); i++) {
		if (!holds_image(json_get(data, IMAGES[i].mime)))
			continue;
		if (extension)
			*extension = IMAGES[i].extension;
		return IMAGES[i].mime;
	}
	return NULL;
}
