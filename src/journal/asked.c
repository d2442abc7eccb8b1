/*
 * Which asks there are, and the words about them; see asked.h.
 *
 * Only open asks are remembered, since all others with a number up to the last one have ended. So
 * the fold costs the same after a thousand asks as after one, and a damaged line cannot make it
 * ask for memory.
 */
#include "journal/asked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct json *parent_of(const struct event *event)
{
	return json_get(event->body, "parent");
}

void asked_name(uint32_t number, char id[static ASKED_ID_SIZE])
{
	snprintf(id, ASKED_ID_SIZE, "a%" PRIu32, number);
}

uint32_t asked_number(const char *id)
{
	uint64_t number = 0;

	if (!id || id[0] != 'a' || id[1] < '1' || id[1] > '9')
		return 0;
	for (const char *digit = id + 1; *digit; digit++) {
		if (*digit < '0' || *digit > '9')
			return 0;
		number = 10 * number + (uint64_t)(*digit - '0');
		if (number > UINT32_MAX / 2)
			return 0;
	}
	return (uint32_t)number;
}

static void drop_open(struct asked *asked, unsigned at)
{
	asked->open_count--;
	memmove(asked->open + at, asked->open + at + 1,
		(asked->open_count - at) * sizeof(*asked->open));
}

/* The place of this number among the open ones, or -1. */
static int find_open(const struct asked *asked, uint32_t number)
{
	for (unsigned i = 0; i < asked->open_count; i++)
		if (asked->open[i] == number)
			return (int)i;
	return -1;
}

static void begin(struct asked *asked, uint32_t number)
{
	if (number <= asked->count) /* of a damaged journal, or no id at all */
		return;
	asked->count = number;
	if (asked->open_count == ASKED_OPEN_MAX)
		drop_open(asked, 0);
	asked->open[asked->open_count++] = number;
}

void asked_apply(struct asked *asked, const struct event *event)
{
	const char *reason = json_get_string(event->body, "reason");
	uint32_t number = asked_number(json_get_string(event->body, "ask"));
	int64_t before;
	int at;

	if (event->type == EVENT_SESSION) {
		before = json_get_int(parent_of(event), "asks", 0);
		if (before > asked->count && before < UINT32_MAX / 2)
			asked->count = (uint32_t)before;
	} else if (event->type == EVENT_ASK) {
		begin(asked, number);
	} else if (event->type == EVENT_VERDICT) {
		at = find_open(asked, number);
		if (at >= 0)
			drop_open(asked, (unsigned)at);
	} else if (event->type == EVENT_RESTARTED && reason && strcmp(reason, "reopened") == 0) {
		asked->open_count = 0;
	}
}

int asked_check(const struct asked *asked, const char *id, struct err *err)
{
	uint32_t number = asked_number(id);

	if (number == 0 || number > asked->count)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no ask \"%.40s\" in this session: a record of type "
			       "\"ask\" gives the id",
			       id ? id : "");
	if (find_open(asked, number) < 0)
		return err_set(err, ERR_DUPLICATE,
			       "the ask %s has ended; what comes after its verdict is another ask",
			       id);
	return 0;
}

/* --- words ------------------------------------------------------------------------------------ */

static const char *text_of(const struct json *body, const char *key)
{
	const char *text = json_get_string(body, key);

	return text && text[0] ? text : NULL;
}

/* One line of it: what comes behind a line break would look like another event. */
static void put_line(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_append_char(out, *text == '\n' || *text == '\r' ? ' ' : *text);
}

void asked_attempt_words(struct buf *out, const struct json *body)
{
	const char *state = text_of(body, "state"), *status = text_of(body, "status");
	const char *why = text_of(json_get(body, "error"), "ename");
	int64_t of = json_get_int(body, "of", 0), tokens = json_get_int(body, "tokens", -1);
	double seconds = json_get_double(body, "run_seconds", -1);
	bool repeated = status && strcmp(status, "repeated") == 0;

	buf_printf(out, "%" PRId64 ": ", json_get_int(body, "attempt", 0));
	put_line(out, status ? status : state ? state : "?");
	if (!why && status && strcmp(status, "model") == 0)
		why = text_of(body, "message");
	if (why) {
		buf_append_string(out, " (");
		put_line(out, why);
		buf_append_char(out, ')');
	}
	if (of > 0)
		buf_printf(out, repeated ? ", as %" PRId64 : ", mends %" PRId64, of);
	if (seconds >= 0)
		buf_printf(out, ", %.1f s", seconds);
	if (tokens >= 0)
		buf_printf(out, ", %" PRId64 " token%s", tokens, tokens == 1 ? "" : "s");
}

void asked_verdict_words(struct buf *out, const struct json *body)
{
	const struct json *agreement = json_get(body, "agreement");
	const char *confidence = text_of(body, "confidence"), *message = text_of(body, "message");

	if (!json_get_bool(body, "success", false)) {
		buf_append_string(out, message ? "no answer: " : "no answer");
		put_line(out, message ? message : "");
		return;
	}
	put_line(out, confidence ? confidence : "answered");
	if (json_type_of(agreement) == JSON_OBJECT)
		buf_printf(out, " %" PRId64 " of %" PRId64, json_get_int(agreement, "k", 0),
			   json_get_int(agreement, "n", 0));
}
