/*
 * JSON fuzzer: any bytes are a value or an error, and what a value prints reads back as the same
 * value.
 *
 * The first byte chooses the limits. A found crasher goes to test/data and is kept as an input.
 */
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

/* Takes every accessor over a value, whatever its type. */
static int touch(const char *key, size_t key_len, struct json *value, void *data)
{
	unsigned *touched = data;
	const char *text;
	size_t len = 0;

	check(text_is_utf8(key, key_len));
	text = json_string(value, &len);
	check(!text || (text_is_utf8(text, len) && text[len] == '\0'));
	(void)json_int(value, 0);
	check(json_double(value, 0) - json_double(value, 0) == 0); /* finite */
	check(json_at(value, json_length(value)) == NULL);
	++*touched;
	json_each(value, touch, touched);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_limits limits = JSON_LIMITS;
	struct err err = ERR_INIT;
	cleanup_json struct json *value = NULL;
	cleanup_json struct json *again = NULL;
	cleanup_json struct json *copy = NULL;
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_buf struct buf out_again = BUF_INIT;
	unsigned touched = 0;

	if (size == 0)
		return 0;
	limits.keys_unique = data[0] & 1;
	limits.nan_as_text = data[0] & 2;
	if (data[0] & 4)
		limits.depth_max = 3;
	value = json_parse((const char *)data + 1, size - 1, &limits, &err);
	if (!value) {
		/* An error, or null. */
		check(text_is_utf8(err.text, strlen(err.text)));
		return 0;
	}
	check(err.code == ERR_OK);
	touch("", 0, value, &touched);
	json_write(&out, value);
	check(text_is_utf8(buf_bytes(&out), out.len));
	again = json_parse(buf_bytes(&out), out.len, &JSON_LIMITS, &err);
	check(again != NULL);
	check(json_equal(value, again));
	json_write(&out_again, again);
	check(out.len == out_again.len &&
	      memcmp(buf_bytes(&out), buf_bytes(&out_again), out.len) == 0);
	copy = json_copy(value);
	check(json_equal(copy, value));
	return 0;
}
