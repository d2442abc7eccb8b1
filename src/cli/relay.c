/*
 * The filter of `fumehood pipe`. See relay.h.
 */
#include "cli/relay.h"

#include "base/json.h"
#include "base/mem.h"

void relay_release(struct relay *relay)
{
	buf_release(&relay->start);
}

/* A quote inside a JSON string is written \", so this text is never part of a string. */
static bool holds(const struct buf *text, const char *what)
{
	return memmem(buf_bytes(text), text->len, what, strlen(what)) != NULL;
}

static void note_status(struct relay *relay, const struct json *reply)
{
	const char *state = json_get_string(reply, "state");

	if (!state)
		return;
	if (strcmp(state, "idle") == 0 && json_length(json_get(reply, "queue")) == 0)
		relay->idle = true;
	else
		relay->busy = true;
}

/* Looks at a whole short line, or at the start of a long one. Whether it is passed on. */
static bool is_passed(struct relay *relay, bool whole)
{
	const struct buf *start = &relay->start;
	cleanup_json struct json *line = NULL;
	const char *type, *id;

	if (holds(start, "\"type\":\"finished\""))
		relay->finished = true;
	if (holds(start, "\"type\":\"input_request\""))
		relay->prompted = true;
	if (!whole || (!holds(start, "\"" RELAY_ID) && !holds(start, "\"type\":\"stopped\"")))
		return true;
	line = json_parse(buf_bytes(start), start->len, &JSON_LIMITS, NULL);
	type = json_get_string(line, "type");
	id = json_get_string(line, "id");
	if (!type)
		return true;
	if (strcmp(type, "stopped") == 0)
		relay->stopped = true;
	if (!id || strncmp(id, RELAY_ID, sizeof(RELAY_ID) - 1) != 0 ||
	    (strcmp(type, "reply") != 0 && strcmp(type, "refused") != 0))
		return true;
	note_status(relay, line);
	return false;
}

void relay_feed(struct relay *relay, const char *bytes, size_t len, struct buf *out)
{
	while (len) {
		const char *end = memchr(bytes, '\n', len);
		size_t take = end ? (size_t)(end - bytes) + 1 : len;

		if (relay->place == RELAY_PASS) {
			buf_append(out, bytes, take);
		} else {
			buf_append(&relay->start, bytes, take);
			if (end || relay->start.len >= RELAY_START_BYTES) {
				bool whole = end && relay->start.len <= RELAY_START_BYTES;

				if (is_passed(relay, whole))
					buf_append(out, buf_bytes(&relay->start), relay->start.len);
				buf_clear(&relay->start);
				relay->place = RELAY_PASS;
			}
		}
		if (end)
			relay->place = RELAY_START;
		bytes += take;
		len -= take;
	}
}
