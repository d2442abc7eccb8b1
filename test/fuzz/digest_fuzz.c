/*
 * Fuzzer of the text for a model (src/digest).
 *
 * The first two bytes choose the limits, then come events parted by RS (0x1e). The first byte of
 * each says its kind, the rest is text for it, repaired to UTF-8; so the fuzzer reaches terminal
 * sequences, HTML, tracebacks and image headers without having to spell JSON. A kind of '{' is a
 * journal line as it stands.
 *
 * Checked: no limit is exceeded, the text is UTF-8, not empty, without LF at its end, and asking
 * for it changes nothing.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply_stream(struct digest *digest, bool is_stderr, const struct buf *text)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.is_stderr = is_stderr;
	event.text = mem_copy(buf_bytes(text), text->len);
	event.text_len = text->len;
	digest_apply(digest, &event);
}

static void apply_data(struct digest *digest, enum event_type type, const char *mime,
		       const struct buf *text)
{
	cleanup_event struct event event = EVENT_INIT;
	struct json *values = json_new_object();

	event.type = type;
	event.cell = mem_string("c1");
	event.body = json_new_object();
	json_set(values, mime, json_new_string(buf_bytes(text), text->len));
	if (text->len % 2)
		json_set_string(values, "text/plain", "<x object at 0x1>");
	json_set(event.body, "data", values);
	json_set_string(event.body, "display_id", text->len % 3 ? "a" : "b");
	digest_apply(digest, &event);
}

static void apply_text(struct digest *digest, enum event_type type, const char *key,
		       const struct buf *text)
{
	cleanup_event struct event event = EVENT_INIT;
	struct json *value = json_new_string(buf_bytes(text), text->len);

	event.type = type;
	event.body = json_new_object();
	if (type == EVENT_ERROR) {
		struct json *list = json_new_array();

		json_push(list, value);
		value = list;
		json_set_string(event.body, "ename", "E");
		json_set_string(event.body, "evalue", buf_bytes(text));
	}
	json_set(event.body, key, value);
	digest_apply(digest, &event);
}

static void apply_line(struct digest *digest, const char *line, size_t len)
{
	cleanup_event struct event event = EVENT_INIT;

	if (event_parse(line, len, &event, NULL) == 0)
		digest_apply(digest, &event);
}

static void apply(struct digest *digest, const char *record, size_t len)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	cleanup_buf struct buf text = BUF_INIT;

	if (len == 0)
		return;
	text_decode(&decoder, &text, record + 1, len - 1);
	text_decode_end(&decoder, &text);
	switch (record[0]) {
	case '{':
		apply_line(digest, record, len);
		break;
	case 'o':
		apply_stream(digest, false, &text);
		break;
	case 'e':
		apply_stream(digest, true, &text);
		break;
	case 'p':
		apply_data(digest, EVENT_RESULT, "text/plain", &text);
		break;
	case 'h':
		apply_data(digest, EVENT_DISPLAY, "text/html", &text);
		break;
	case 'u':
		apply_data(digest, EVENT_UPDATE_DISPLAY, "text/html", &text);
		break;
	case 'i':
		apply_data(digest, EVENT_DISPLAY, "image/png", &text);
		break;
	case 't':
		apply_text(digest, EVENT_ERROR, "traceback", &text);
		break;
	case 'c':
		apply_text(digest, EVENT_CELL, "code", &text);
		break;
	case 'q':
		apply_text(digest, EVENT_INPUT_REQUEST, "prompt", &text);
		break;
	case 'a':
		apply_text(digest, EVENT_INPUT, "text", &text);
		break;
	case 'w':
		apply_text(digest, EVENT_WARNING, "message", &text);
		break;
	case 'd':
		apply_text(digest, EVENT_TRUNCATED, "name", &text);
		break;
	case 'f':
		apply_text(digest, EVENT_FINISHED, "status", &text);
		break;
	case 'x':
		apply_text(digest, EVENT_CLEAR, "wait", &text);
		break;
	default:
		break;
	}
}

static void require(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct digest_params params = {0};
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_buf struct buf again = BUF_INIT;
	struct digest *digest;

	if (size < 2)
		return 0;
	params.total_chars_max = 1 + data[0];
	params.item_chars_max = data[1];
	params.whole = data[1] % 2 ? "fumehood log x" : NULL;
	digest = digest_new(&params);
	for (size_t at = 2; at < size;) {
		const uint8_t *end = memchr(data + at, 0x1e, size - at);
		size_t len = end ? (size_t)(end - (data + at)) : size - at;

		apply(digest, (const char *)data + at, len);
		at += len + 1;
	}
	digest_text(digest, &text);
	digest_text(digest, &again);
	require(text.len > 0 && text_is_utf8(buf_bytes(&text), text.len));
	require(text_count(buf_bytes(&text), text.len) <= params.total_chars_max);
	require(buf_bytes(&text)[text.len - 1] != '\n');
	require(text.len == again.len &&
		memcmp(buf_bytes(&text), buf_bytes(&again), text.len) == 0);
	digest_free(digest);
	return 0;
}
