/*
 * Text: the decoder against known repairs and against itself in every split, cuts at every length.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/text.h"

#define R "\xef\xbf\xbd"

struct repair {
	const char *bytes;
	size_t len;
	const char *want;
	unsigned repaired;
};

#define REPAIR(bytes, want, repaired) {bytes, sizeof(bytes) - 1, want, repaired}

static const struct repair REPAIRS[] = {
	REPAIR("", "", 0),
	REPAIR("plain ascii, longer than eight", "plain ascii, longer than eight", 0),
	REPAIR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 0),
	REPAIR("\x80", R, 1),
	REPAIR("a\xff" "b", "a" R "b", 1),
	REPAIR("\xc0\xaf", R R, 2),
	REPAIR("\xc1\xbf", R R, 2),
	REPAIR("\xe0\x80\xaf", R R R, 3),
	REPAIR("\xe0\x9f\xbf", R R R, 3),
	REPAIR("\xf0\x80\x80\xaf", R R R R, 4),
	REPAIR("\xf4\x90\x80\x80", R R R R, 4),
	REPAIR("\xf5\x80\x80\x80", R R R R, 4),
	/* Maximal subparts (Unicode 15, tables 3-8 to 3-11). */
	REPAIR("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf" "A", R R R R "A", 4),
	REPAIR("\xf0\x9f\x98", R, 1),
	REPAIR("\xf0\x9f\x98" "a", R "a", 1),
	REPAIR("\xe2\x82", R, 1),
	REPAIR("\xe2\x28\xa1", R "(" R, 2),
	REPAIR("\xc3", R, 1),
	REPAIR("\xc3\xc3\xa9", R "\xc3\xa9", 1),
	/* Surrogates: one mark each. */
	REPAIR("\xed\xa0\x80", R, 1),
	REPAIR("\xed\xbf\xbf", R, 1),
	REPAIR("\xed\xa0\x80\xed\xb0\x80", R R, 2),
	REPAIR("\xed\xa0", R R, 2),
	REPAIR("\xed\xa0" "a", R R "a", 2),
	REPAIR("\xed\x9f\xbf", "\xed\x9f\xbf", 0),
	REPAIR("\xee\x80\x80", "\xee\x80\x80", 0),
	REPAIR("12345678\xff" "12345678\xe2\x82\xac" "12345678\xc3",
	       "12345678" R "12345678\xe2\x82\xac" "12345678" R, 2),
};

static void test_repairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(REPAIRS) / sizeof(REPAIRS[0]); i++) {
		const struct repair *repair = &REPAIRS[i];
		struct text_decoder decoder = TEXT_DECODER_INIT;
		cleanup_buf struct buf out = BUF_INIT;

		text_decode(&decoder, &out, repair->bytes, repair->len);
		text_decode_end(&decoder, &out);
		assert_string_equal(buf_bytes(&out), repair->want);
		assert_int_equal(decoder.repaired, repair->repaired);
		assert_int_equal(text_is_utf8(repair->bytes, repair->len), repair->repaired == 0);
	}
}

/* Two cuts at every place give what no cut gives. */
static void test_every_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(REPAIRS) / sizeof(REPAIRS[0]); i++) {
		const struct repair *repair = &REPAIRS[i];

		for (size_t a = 0; a <= repair->len; a++) {
			for (size_t b = a; b <= repair->len; b++) {
				struct text_decoder decoder = TEXT_DECODER_INIT;
				cleanup_buf struct buf out = BUF_INIT;

				text_decode(&decoder, &out, repair->bytes, a);
				text_decode(&decoder, &out, repair->bytes + a, b - a);
				text_decode(&decoder, &out, repair->bytes + b, repair->len - b);
				text_decode_end(&decoder, &out);
				assert_string_equal(buf_bytes(&out), repair->want);
				assert_int_equal(decoder.repaired, repair->repaired);
			}
		}
	}
}

static void test_nothing_is_held_of_good_text(void **state)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	text_decode(&decoder, &out, "a\xe2\x82", 3);
	assert_string_equal(buf_bytes(&out), "a");
	text_decode(&decoder, &out, "\xac" "b\0c\x1b", 5);
	assert_int_equal(out.len, 8);
	assert_memory_equal(buf_bytes(&out), "a\xe2\x82\xac" "b\0c\x1b", 8);
	text_decode_end(&decoder, &out);
	assert_int_equal(decoder.repaired, 0);
}

/* Every code point goes out and comes back. */
static void test_points(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	for (uint32_t point = 0; point <= 0x110010; point++) {
		bool bad = point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff);
		size_t want = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 || bad ? 3 : 4;
		uint32_t again;

		buf_clear(&out);
		text_put(&out, point);
		if (out.len != want || text_next(buf_bytes(&out), out.len, &again) != want ||
		    again != (bad ? 0xfffd : point) || !text_is_utf8(buf_bytes(&out), out.len))
			fail_msg("code point %x", (unsigned)point);
	}
}

static void test_next_bad(void **state)
{
	uint32_t point;

	(void)state;
	assert_int_equal(text_next("\xe2\x82" "a", 3, &point), 1);
	assert_int_equal(point, 0xfffd);
	assert_int_equal(text_next("\xe2\x82\xac", 2, &point), 1);
	assert_int_equal(point, 0xfffd);
	assert_int_equal(text_next("\xed\xa0\x80", 3, &point), 1);
	assert_int_equal(text_next(R, 3, &point), 3);
	assert_int_equal(point, 0xfffd);
}

static void test_count(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	assert_int_equal(text_count("", 0), 0);
	for (size_t i = 0; i < 100; i++) {
		assert_int_equal(text_count(buf_bytes(&out), out.len), i);
		text_put(&out, i % 4 == 0   ? 'a'
			       : i % 4 == 1 ? 0xe9
			       : i % 4 == 2 ? 0x20ac
					    : 0x1f600);
	}
	assert_int_equal(text_count("\xff\xff\x80\xc0", 4), 3);
}


/* The flags, families, accents and syllables that a cut must not go through. */
static const char *const CUTS[] = {
	"a|b|c|d|e|f",
	"e\xcc\x81|e\xcc\x81\xcc\xa7|x",
	"\r\n|\n|\r|\r\n|a",
	"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa|\xf0\x9f\x87\xab\xf0\x9f\x87\xb7|\xf0\x9f\x87\xa9",
	"x|\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7|y",
	"\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd|\xe2\x9d\xa4\xef\xb8\x8f|z",
	"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8|\xea\xb0\x80\xe1\x86\xa8|\xea\xb0\x81\xe1\x86\xa8",
	"\xea\xb0\x81|\xe1\x84\x80\xea\xb0\x80|\xea\xb0\x81|\xe1\x85\xa1",
	"\xe0\xa4\xa8\xe0\xa4\xbf|\xe0\xae\xa8\xe0\xae\xbf|\xe0\xb8\x81\xe0\xb8\xb3",
	"\t|\xcc\x81|a",
};

static void check_cuts(const char *divided)
{
	size_t starts[64]; /* byte offset of each cluster */
	size_t points[64]; /* code points before it */
	char text[256] = "";
	size_t clusters = 0;
	size_t len = 0;
	size_t total;

	starts[clusters++] = 0;
	for (const char *c = divided; *c != '\0'; c++) {
		if (*c == '|')
			starts[clusters++] = len;
		else
			text[len++] = *c;
	}
	for (size_t i = 0; i < clusters; i++)
		points[i] = text_count(text, starts[i]);
	total = text_count(text, len);
	for (size_t limit = 0; limit <= total + 1; limit++) {
		size_t prefix = 0;
		size_t suffix = len;

		for (size_t i = 0; i < clusters; i++) {
			if (points[i] <= limit)
				prefix = starts[i];
			if (total - points[clusters - 1 - i] <= limit)
				suffix = starts[clusters - 1 - i];
		}
		if (limit >= total)
			prefix = len;
		if (text_prefix(text, len, limit) != prefix ||
		    text_suffix(text, len, limit) != suffix)
			fail_msg("%s at %zu: prefix %zu not %zu, suffix %zu not %zu", divided,
				 limit, text_prefix(text, len, limit), prefix,
				 text_suffix(text, len, limit), suffix);
	}
}

static void test_cuts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(CUTS) / sizeof(CUTS[0]); i++)
		check_cuts(CUTS[i]);
	assert_int_equal(text_prefix("", 0, 5), 0);
	assert_int_equal(text_suffix("", 0, 5), 0);
	assert_int_equal(text_prefix("abc", 3, SIZE_MAX), 3);
	assert_int_equal(text_suffix("abc", 3, SIZE_MAX), 0);
}

static void test_cuts_of_bad_text(void **state)
{
	static const char BAD[] = "\x80\xff\xe2\x82\xf0\x9f\xed\xa0\x80\xcc\x81\xf0";
	size_t len = sizeof(BAD) - 1;

	(void)state;
	for (size_t limit = 0; limit <= len + 1; limit++) {
		assert_true(text_prefix(BAD, len, limit) <= len);
		assert_true(text_suffix(BAD, len, limit) <= len);
	}
	assert_int_equal(text_prefix(BAD, len, len), len);
	assert_int_equal(text_suffix(BAD, len, len), 0);
}

static void test_id(void **state)
{
	char long_id[65];

	(void)state;
	memset(long_id, 'a', sizeof(long_id));
	assert_true(text_is_id(long_id, 64));
	assert_false(text_is_id(long_id, 65));
	assert_false(text_is_id("", 0));
	assert_true(text_is_id("AZaz09_-", 8));
	assert_false(text_is_id("a b", 3));
	assert_false(text_is_id("a/b", 3));
	assert_false(text_is_id("a\0b", 3));
	assert_false(text_is_id("\xc3\xa9", 2));
}

static void check_escape(const char *text, size_t len, bool lines, bool colour, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT;

	text_escape(&out, text, len, lines, colour);
	assert_string_equal(buf_bytes(&out), want);
}

static void test_escape(void **state)
{
	(void)state;
	check_escape("caf\xc3\xa9 \xf0\x9f\x98\x80", 10, false, false,
		     "caf\xc3\xa9 \xf0\x9f\x98\x80");
	check_escape("a\nb\tc", 5, true, false, "a\nb\tc");
	check_escape("a\nb\tc", 5, false, false, "a\\x0ab\\x09c");
	check_escape("\0\x07\x7f", 3, true, true, "\\x00\\x07\\x7f");
	check_escape("\xc2\x9b" "31m", 5, true, true, "\\u{9b}31m");
	check_escape("\x9b" "31m", 4, true, true, "\\x9b31m");
	check_escape("x\xe2\x80\xaey", 5, true, true, "x\\u{202e}y");
	check_escape("\xe2\x81\xa6", 3, true, true, "\\u{2066}");
	check_escape("\xed\xa0\x80", 3, true, true, "\\xed\\xa0\\x80");
	check_escape(R, 3, true, true, R);
}

static void test_escape_colour(void **state)
{
	static const char LONG[] =
		"\x1b[0000000000000000000000000000000000000000000000000000000000000000000000m";

	(void)state;
	check_escape("\x1b[1;31mred\x1b[0m\x1b[m", 17, false, true, "\x1b[1;31mred\x1b[0m\x1b[m");
	check_escape("\x1b[1;31mred", 10, false, false, "\\x1b[1;31mred");
	check_escape("a\rb\b\x1b[K\x1b[2K", 11, false, true, "a\rb\b\x1b[K\x1b[2K");
	check_escape("a\rb\b", 4, false, false, "a\\x0db\\x08");
	check_escape("\x1b[2J", 4, true, true, "\\x1b[2J");
	check_escape("\x1b[3K", 4, true, true, "\\x1b[3K");
	check_escape("\x1b[1;2K", 6, true, true, "\\x1b[1;2K");
	check_escape("\x1b[6n", 4, true, true, "\\x1b[6n");
	check_escape("\x1b]0;title\x07", 10, true, true, "\\x1b]0;title\\x07");
	check_escape("\x1b[31", 4, true, true, "\\x1b[31");
	check_escape("\x1b[", 2, true, true, "\\x1b[");
	check_escape("\x1b", 1, true, true, "\\x1b");
	check_escape("\x1b[3\x1b[0m", 7, true, true, "\\x1b[3\x1b[0m");
	check_escape("\x1b[38:2:1m", 9, true, true, "\\x1b[38:2:1m");
	check_escape(
		LONG, sizeof(LONG) - 1, true, true,
		"\\x1b[0000000000000000000000000000000000000000000000000000000000000000000000m");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repairs),
		cmocka_unit_test(test_every_split),
		cmocka_unit_test(test_nothing_is_held_of_good_text),
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_next_bad),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_cuts_of_bad_text),
		cmocka_unit_test(test_id),
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_escape_colour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
