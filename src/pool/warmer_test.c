/* The parts of the warmer that need no process: the gap between starts, and messages that always
 * fit. The life cycle is tested with real processes in test/flow/test_pool.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "guest/protocol.h"
#include "pool/warmer.h"

static void test_gap(void **state)
{
	(void)state;
	assert_int_equal(warmer_gap_ms(5000000, 0), 0);
	assert_int_equal(warmer_gap_ms(5000000, 5000000), WARMER_START_GAP_MS);
	assert_int_equal(warmer_gap_ms(5400000, 5000000), WARMER_START_GAP_MS - 400);
	assert_int_equal(warmer_gap_ms(6000000, 5000000), 0);
	assert_int_equal(warmer_gap_ms(900000000, 5000000), 0);
	assert_int_equal(warmer_gap_ms(4000000, 5000000), WARMER_START_GAP_MS);
}

static struct json *parse(const struct buf *message)
{
	struct guest_header header;
	struct err err = ERR_INIT;
	struct json *body;

	assert_true(message->len >= sizeof(header));
	assert_true(message->len <= sizeof(header) + GUEST_INLINE_BYTES_MAX);
	memcpy(&header, buf_bytes(message), sizeof(header));
	assert_int_equal(header.type, ZYGOTE_FAILED);
	assert_int_equal(header.flags, 0);
	body = json_parse(buf_bytes(message) + sizeof(header), message->len - sizeof(header),
			  &JSON_LIMITS, &err);
	assert_non_null(body);
	return body;
}

static void test_failed_message(void **state)
{
	cleanup_buf struct buf message = BUF_INIT;
	cleanup_json struct json *body = NULL;

	(void)state;
	warmer_write_failed(&message, "it \"broke\"", "line 1\nline 2\n", 14);
	body = parse(&message);
	assert_string_equal(json_get_string(body, "message"), "it \"broke\"");
	assert_string_equal(json_get_string(body, "stderr"), "line 1\nline 2\n");
	json_free(mem_take(body));
	warmer_write_failed(&message, "", "", 0);
	body = parse(&message);
	assert_string_equal(json_get_string(body, "stderr"), "");
}

/* Every byte, as often as the tail holds: escapes of six bytes, bad UTF-8 of three. */
static void test_failed_message_fits(void **state)
{
	char *words = mem_zalloc(ZYGOTE_WORDS_BYTES_MAX);

	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		cleanup_buf struct buf message = BUF_INIT;
		cleanup_json struct json *body = NULL;
		size_t len;

		memset(words, byte, ZYGOTE_WORDS_BYTES_MAX - 1);
		words[ZYGOTE_WORDS_BYTES_MAX - 1] = '!';
		warmer_write_failed(&message, "broken", words, ZYGOTE_WORDS_BYTES_MAX);
		body = parse(&message);
		assert_non_null(json_string(json_get(body, "stderr"), &len));
		assert_true(len >= ZYGOTE_WORDS_BYTES_MAX / 4);
		/* It is the end that is kept. */
		assert_int_equal(json_string(json_get(body, "stderr"), NULL)[len - 1], '!');
	}
	free(words);
}

static void test_long_message_is_cut(void **state)
{
	cleanup_buf struct buf message = BUF_INIT;
	cleanup_json struct json *body = NULL;
	char *text = mem_zalloc(200000);

	(void)state;
	memset(text, '\1', 199999);
	warmer_write_failed(&message, text, text, ZYGOTE_WORDS_BYTES_MAX);
	body = parse(&message);
	assert_int_equal(strlen(json_get_string(body, "message")), 4096);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_failed_message),
		cmocka_unit_test(test_failed_message_fits),
		cmocka_unit_test(test_long_message_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
