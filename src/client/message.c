/*
 * What the keeper's lines are. See message.h.
 *
 * Pure: bytes in, kind out. An event is told by how the journal begins its lines, because a session
 * that prints a lot sends nothing else, and parsing each line twice would double the cost of a
 * read.
 */
#include "client/message.h"

#include "base/mem.h"
#include "client/wire.h"

static const struct json_limits MESSAGE_LIMITS = {
	.bytes_max = WIRE_LINE_BYTES_MAX,
	.depth_max = 1000,
	.keys_unique = false,
	.nan_as_text = false,
};

static const char EVENT_START[] = "{\"seq\":";

enum message_kind message_kind(const char *line, size_t len, struct json **message)
{
	const char *type;

	*message = NULL;
	/* The journal writes `seq` first; hello and some replies have one too, but begin with
	 * `type`. */
	if (len > sizeof(EVENT_START) && memcmp(line, EVENT_START, sizeof(EVENT_START) - 1) == 0)
		return MESSAGE_EVENT;
	*message = json_parse(line, len, &MESSAGE_LIMITS, NULL);
	type = json_get_string(*message, "type");
	if (!type)
		return MESSAGE_BAD;
	if (strcmp(type, "reply") == 0)
		return MESSAGE_REPLY;
	if (strcmp(type, "refused") == 0)
		return MESSAGE_REFUSED;
	if (strcmp(type, "hello") == 0)
		return MESSAGE_HELLO;
	return MESSAGE_EVENT;
}

uint64_t message_seq(const char *line, size_t len)
{
	cleanup_json struct json *event = NULL;
	uint64_t seq = 0;
	size_t at = sizeof(EVENT_START) - 1;

	if (len > at && memcmp(line, EVENT_START, at) == 0) {
		for (; at < len && line[at] >= '0' && line[at] <= '9' && seq < UINT64_MAX / 16;
		     at++)
			seq = seq * 10 + (uint64_t)(line[at] - '0');
		return seq;
	}
	event = json_parse(line, len, &MESSAGE_LIMITS, NULL);
	return (uint64_t)json_get_int(event, "seq", 0);
}

int message_refusal(const struct json *message, struct err *err)
{
	const char *code = json_get_string(message, "code");
	const char *text = json_get_string(message, "message");

	return err_set(err, code ? err_from_name(code) : ERR_INTERNAL, "%s",
		       text ? text : "the keeper refused without a reason");
}
