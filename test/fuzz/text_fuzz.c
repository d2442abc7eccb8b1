/*
 * Text fuzzer: the decoder gives valid UTF-8, the same in one piece as in many, and nothing else is
 * changed; cuts stay in bounds and between sequences; what is escaped cannot harm a terminal.
 *
 * The first byte is the length of the pieces, the second the number of code points to cut at.
 */
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_cuts(const char *text, size_t len, size_t points, int valid)
{
	size_t prefix = text_prefix(text, len, points);
	size_t suffix = text_suffix(text, len, points);

	check(prefix <= len && suffix <= len);
	if (!valid)
		return;
	check(text_is_utf8(text, prefix) && text_is_utf8(text + suffix, len - suffix));
	check(text_count(text, prefix) <= points &&
	      text_count(text + suffix, len - suffix) <= points);
	/* A boundary found from one side is one from the other. */
	check(text_suffix(text, len, text_count(text + prefix, len - prefix)) == prefix);
	check(text_prefix(text, len, text_count(text, suffix)) == suffix);
}

static void check_escape(const char *text, size_t len, int lines, int colour)
{
	cleanup_buf struct buf out = BUF_INIT;
	const char *at;
	size_t i;

	text_escape(&out, text, len, lines, colour);
	check(text_is_utf8(buf_bytes(&out), out.len));
	at = buf_bytes(&out);
	for (i = 0; i < out.len; i++) {
		unsigned char c = (unsigned char)at[i];

		check(c >= 0x20 || (lines && (c == '\n' || c == '\t')) ||
		      (colour && (c == '\r' || c == '\b' || c == 0x1b)));
		check(c != 0x7f);
		if (c == 0x1b)
			check(at[i + 1] == '[');
	}
}

static void check_json_string(const char *text, size_t len, const struct buf *repaired,
			      uint64_t repairs)
{
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_json struct json *again = NULL;
	const char *back;
	size_t back_len = 0;

	check(json_write_string(&out, text, len) == repairs);
	again = json_parse(buf_bytes(&out), out.len, &JSON_LIMITS, NULL);
	back = json_string(again, &back_len);
	check(back && back_len == repaired->len &&
	      memcmp(back, buf_bytes(repaired), back_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text_decoder whole = TEXT_DECODER_INIT;
	struct text_decoder pieces = TEXT_DECODER_INIT;
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_buf struct buf out_pieces = BUF_INIT;
	cleanup_buf struct buf decoded = BUF_INIT;
	const char *text;
	size_t len, piece, points;

	if (size < 2)
		return 0;
	piece = data[0] % 9 + 1;
	points = data[1];
	text = (const char *)data + 2;
	len = size - 2;

	text_decode(&whole, &out, text, len);
	text_decode_end(&whole, &out);
	for (size_t i = 0; i < len; i += piece)
		text_decode(&pieces, &out_pieces, text + i, len - i < piece ? len - i : piece);
	text_decode_end(&pieces, &out_pieces);
	check(whole.repaired == pieces.repaired && out.len == out_pieces.len);
	check(memcmp(buf_bytes(&out), buf_bytes(&out_pieces), out.len) == 0);
	check(text_is_utf8(buf_bytes(&out), out.len));
	check(text_is_utf8(text, len) == (whole.repaired == 0));
	if (whole.repaired == 0)
		check(out.len == len && memcmp(buf_bytes(&out), text, len) == 0);

	check_cuts(text, len, points, whole.repaired == 0);
	check_cuts(buf_bytes(&out), out.len, points, 1);
	check_escape(text, len, data[0] & 16, data[0] & 32);
	check_json_string(text, len, &out, whole.repaired);
	(void)hash_base64_decode(&decoded, text, len);
	return 0;
}
