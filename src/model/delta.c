/*
 * One piece of an answer.
 *
 * JSON is UTF-8, and base/json.h insists. A server that cuts its tokens between the bytes of a
 * character sends pieces that are not: for those the bad bytes are put in as characters of a
 * private-use range before the text is parsed, and taken out as bytes again after. A genuine
 * character of that range in such a broken piece is lost; whole pieces are not touched.
 */
#include "model/delta.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

enum { STAND_IN = 0x10FE00, BYTE_COUNT = 256 };

static const uint64_t TOKENS_MAX = (uint64_t)1 << 40; /* beyond it is no count */

static const struct json_limits LIMITS = {
	.bytes_max = DELTA_BYTES_MAX * 4, /* stand-ins are four bytes for one */
	.depth_max = DELTA_DEPTH_MAX,
	.keys_unique = false,
	.nan_as_text = true, /* logprobs of Python servers */
};

static void put_stand_ins(struct buf *out, const char *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		uint32_t point;
		size_t step = text_next(bytes + at, len - at, &point);

		if (step == 1 && point == 0xFFFD)
			text_put(out, STAND_IN + (unsigned char)bytes[at]);
		else
			buf_append(out, bytes + at, step);
		at += step;
	}
}

/* Appends a string's bytes, with the stand-ins taken out when there can be some. */
static void take_string(struct buf *out, const struct json *value, bool stand_ins)
{
	size_t len = 0;
	const char *text = json_string(value, &len);

	if (!text)
		return;
	if (!stand_ins) {
		buf_append(out, text, len);
		return;
	}
	for (size_t at = 0; at < len;) {
		uint32_t point;
		size_t step = text_next(text + at, len - at, &point);

		if (point >= STAND_IN && point < STAND_IN + BYTE_COUNT)
			buf_append_char(out, (char)(point - STAND_IN));
		else
			buf_append(out, text + at, step);
		at += step;
	}
}

/* `content` as a list: parts with `text`, and thoughts with a list of such parts. */
static void take_parts(struct delta *delta, const struct json *parts, bool stand_ins)
{
	for (size_t i = 0; i < json_length(parts); i++) {
		const struct json *part = json_at(parts, i);
		const struct json *thoughts = json_get(part, "thinking");

		take_string(&delta->text, json_get(part, "text"), stand_ins);
		take_string(&delta->reasoning, thoughts, stand_ins);
		if (json_type_of(thoughts) != JSON_ARRAY)
			continue;
		for (size_t j = 0; j < json_length(thoughts); j++)
			take_string(&delta->reasoning, json_get(json_at(thoughts, j), "text"),
				    stand_ins);
	}
}

static void take_message(struct delta *delta, const struct json *message, bool stand_ins)
{
	const struct json *content = json_get(message, "content");
	const struct json *thoughts = json_get(message, "reasoning_content");

	if (json_type_of(content) == JSON_ARRAY)
		take_parts(delta, content, stand_ins);
	else
		take_string(&delta->text, content, stand_ins);
	/* Some send both with the same text: one of them is enough. */
	take_string(&delta->reasoning, thoughts, stand_ins);
	if (delta->reasoning.len == 0)
		take_string(&delta->reasoning, json_get(message, "reasoning"), stand_ins);
}

static enum delta_finish finish_of(const char *reason)
{
	static const struct {
		const char *reason;
		enum delta_finish finish;
	} known[] = {
		{"length", DELTA_LENGTH},         {"max_tokens", DELTA_LENGTH},
		{"model_length", DELTA_LENGTH},   {"content_filter", DELTA_FILTERED},
		{"error", DELTA_BROKEN},          {"abort", DELTA_BROKEN},
		{"", DELTA_GOES_ON},              {"null", DELTA_GOES_ON},
	};

	if (!reason)
		return DELTA_GOES_ON;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].reason, reason) == 0)
			return known[i].finish;
	return DELTA_STOP; /* stop, eos, stop_sequence, end_turn, tool_calls ... */
}

static void take_choices(struct delta *delta, const struct json *choices, bool stand_ins)
{
	for (size_t i = 0; i < json_length(choices); i++) {
		const struct json *choice = json_at(choices, i);
		const struct json *message = json_get(choice, "delta");
		const char *text = json_get_string(choice, "text");

		if (json_get_int(choice, "index", 0) != 0)
			continue;
		if (json_type_of(message) != JSON_OBJECT)
			message = json_get(choice, "message");
		if (message)
			take_message(delta, message, stand_ins);
		else if (text)
			take_string(&delta->text, json_get(choice, "text"), stand_ins);
		delta->finish = finish_of(json_get_string(choice, "finish_reason"));
		return;
	}
}

static bool take_count(const struct json *object, const char *key, uint64_t *count)
{
	double value = json_get_double(object, key, -1);

	if (!(value >= 0 && value <= (double)TOKENS_MAX))
		return false;
	*count = (uint64_t)value;
	return true;
}

static void take_usage(struct delta *delta, const struct json *object)
{
	const struct json *usage = json_get(object, "usage");
	const struct json *details = json_get(usage, "prompt_tokens_details");
	const struct json *timings = json_get(object, "timings");

	delta->has_usage = take_count(usage, "prompt_tokens", &delta->prompt_tokens) &&
			   take_count(usage, "completion_tokens", &delta->tokens);
	if (!take_count(details, "cached_tokens", &delta->cached_tokens) &&
	    !take_count(usage, "prompt_cache_hit_tokens", &delta->cached_tokens))
		(void)take_count(timings, "cache_n", &delta->cached_tokens);
}

static void take_status(struct delta *delta, const struct json *value)
{
	int64_t status = json_int(value, 0);

	if (status >= 400 && status <= 599)
		delta->status = (int)status;
}

/* Cut to the limit, and no character is halved by it. */
static void add_word(struct buf *words, const char *word)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;

	if (!word || words->len >= DELTA_FAULT_BYTES_MAX)
		return;
	if (words->len > 0)
		buf_append_char(words, ' ');
	text_decode(&decoder, words, word, strnlen(word, DELTA_FAULT_BYTES_MAX));
}

/* The errors of FastAPI: {"detail": "text"} or a list of {"loc": [...], "msg": "text"}. */
static void take_detail(struct delta *delta, const struct json *detail)
{
	add_word(&delta->message, json_string(detail, NULL));
	for (size_t i = 0; i < json_length(detail) && delta->message.len == 0; i++) {
		const struct json *loc = json_get(json_at(detail, i), "loc");

		add_word(&delta->message, json_get_string(json_at(detail, i), "msg"));
		for (size_t j = 0; j < json_length(loc); j++)
			add_word(&delta->param, json_string(json_at(loc, j), NULL));
	}
}

static void take_error(struct delta *delta, const struct json *object)
{
	const struct json *error = json_get(object, "error");
	cleanup_buf struct buf whole = BUF_INIT;

	if (json_type_of(error) != JSON_OBJECT) /* {"error":"text"}, {"message":"text"}, ... */
		add_word(&delta->message, json_string(error, NULL));
	if (json_type_of(error) != JSON_OBJECT)
		error = object;
	add_word(&delta->message, json_get_string(error, "message"));
	add_word(&delta->kind, json_get_string(error, "type"));
	add_word(&delta->kind, json_get_string(error, "code"));
	add_word(&delta->param, json_get_string(error, "param"));
	take_status(delta, json_get(error, "code"));
	if (delta->status == 0)
		take_status(delta, json_get(error, "status"));
	if (json_has(object, "detail"))
		take_detail(delta, json_get(object, "detail"));
	if (delta->message.len == 0) {
		json_write(&whole, object);
		add_word(&delta->message, buf_bytes(&whole));
	}
}

static bool is_error(const struct json *object)
{
	const struct json *error = json_get(object, "error");
	const char *words = json_string(error, NULL);

	if (json_type_of(error) == JSON_OBJECT || (words && words[0]))
		return true;
	if (json_has(object, "choices") || json_has(object, "usage"))
		return false;
	return json_has(object, "detail") || json_has(object, "message");
}

int delta_read(struct delta *delta, const char *bytes, size_t len, struct err *err)
{
	cleanup_json struct json *object = NULL;
	cleanup_buf struct buf repaired = BUF_INIT;
	bool stand_ins = false;
	struct err why = ERR_INIT;

	*delta = (struct delta)DELTA_INIT;
	if (len > DELTA_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "a piece of the answer has more than %d MiB",
			       DELTA_BYTES_MAX >> 20);
	if (!text_is_utf8(bytes, len)) {
		put_stand_ins(&repaired, bytes, len);
		bytes = buf_bytes(&repaired);
		len = repaired.len;
		stand_ins = true;
	}
	object = json_parse(bytes, len, &LIMITS, &why);
	if (json_type_of(object) != JSON_OBJECT)
		return why.code ? err_set(err, why.code, "%s", why.text)
				: err_set(err, ERR_INVALID, "a piece of an answer is an object");
	delta->is_error = is_error(object);
	if (delta->is_error) {
		take_error(delta, object);
		return 0;
	}
	delta->is_piece = json_type_of(json_get(object, "choices")) == JSON_ARRAY ||
			  json_type_of(json_get(object, "usage")) == JSON_OBJECT;
	take_choices(delta, json_get(object, "choices"), stand_ins);
	take_usage(delta, object);
	return 0;
}

void delta_release(struct delta *delta)
{
	buf_release(&delta->text);
	buf_release(&delta->reasoning);
	buf_release(&delta->message);
	buf_release(&delta->kind);
	buf_release(&delta->param);
}
