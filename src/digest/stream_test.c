/*
 * Tests of what a terminal shows: the rules one by one, then random bytes in random pieces against
 * a plain model that keeps everything.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/page.h"
#include "digest/stream.h"

static char *shown(struct screen *screen, size_t keep)
{
	struct piece piece = screen_piece(screen, NULL);
	struct page page;
	char *text;

	page_init(&page, NULL);
	page_piece(&page, &piece, keep);
	text = buf_take(&page.text, NULL);
	piece_release(&piece);
	page_release(&page);
	return text;
}

static void check(const char *written, const char *expected)
{
	size_t len = strlen(written);

	/* Whole, and byte by byte where that splits no character. */
	for (int bytewise = 0; bytewise <= (int)text_is_utf8(written, len); bytewise++) {
		struct screen screen;
		cleanup_free char *text = NULL;

		screen_init(&screen, 1000);
		for (size_t at = 0; at < len;) {
			uint32_t point;
			size_t step = bytewise ? text_next(written + at, len - at, &point) : len;

			screen_write(&screen, written + at, step);
			at += step;
		}
		text = shown(&screen, 1000);
		assert_string_equal(text, expected);
		screen_release(&screen);
	}
}

static void moves_like_a_terminal(void **state)
{
	(void)state;
	check("", "");
	check("a\nb", "a\nb");
	check("abcdef\rXY", "XYcdef");
	check("a\r\r\n", "a\n");
	check("abc\rX\nd", "Xbc\nd");
	check("wrong\b\b\b\b\bright\n", "right\n");
	check("a\n\bb", "a\nb");
	check("ab\b\b\b\bc", "c");
	check("abc\r\bX", "Xbc");
	check("abc\rx\bY", "Yc");
	check("\rA   0%\rA 100%\n\rB   0%\rB 100%\n", "A 100%\nB 100%\n");
	check("a\tb\n", "a\tb\n");
	check("\xf0\x9f\xa7\xaa\xf0\x9f\xa7\xaa\rx", "x\xf0\x9f\xa7\xaa");
}

static void removes_sequences(void **state)
{
	(void)state;
	check("\x1b[1;31mred\x1b[0m!\n", "red!\n");
	check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07.", "link.");
	check("\x1b(Bx\x1b=y\x1b#8z", "xyz");
	check("\x1bP1;2q#0abc\x1b\\ok", "ok");
	check("\xc2\x9b"
	      "31mred\xc2\x9d title\xc2\x9cok",
	      "redok");
	check("a\x07\x0e\x7f\xc2\x85z", "az");
	check("\x1b]never closed\nvisible", "\nvisible");
	check("\x1b[12\xc3\xa9", "\xc3\xa9");
	check("\x1b\x1b[1mx", "x");
	check("\x1b[31\x1b[32mx", "x");
	check("\x1b]0;t\x1b[1mx", "x");
	check("\x1b[?25lx\x1b[?25h", "x");
	check("x\x1b[", "x");
	check("x\x1b", "x");
}

static void erases_lines(void **state)
{
	(void)state;
	check("abcdef\r\x1b[Kxy\n", "xy\n");
	check("abcdef\rab\x1b[0K\n", "ab\n");
	check("abcdef\x1b[2Kxy\n", "xy\n");
	check("abcdef\r\x1b[2Kxy\n", "xy\n");
	check("abc\x1b[1K\n", "abc\n");
	check("abc\x1b[?K\n", "abc\n");
	check("abc\r\x1b[0;1K\n", "abc\n");
	check("abc\r\x1b[99999999999999K\n", "abc\n");
}

static void keeps_both_ends(void **state)
{
	struct screen screen;
	cleanup_free char *text = NULL;

	(void)state;
	screen_init(&screen, 100);
	screen_puts(&screen, "begin ");
	for (int i = 0; i < 300000; i++)
		screen_puts(&screen, "z");
	screen_puts(&screen, " finish\n");
	assert_true(screen.row.tail_cap <= 200 && screen.done.tail.cap < 8192);
	text = shown(&screen, 100);
	assert_true(text_count(text, strlen(text)) <= 100);
	assert_memory_equal(text, "begin z", 7);
	assert_non_null(strstr(text, "z finish\n"));
	assert_non_null(strstr(text, "[... 299,"));
	screen_release(&screen);
}

static void edits_long_lines(void **state)
{
	struct screen screen;
	cleanup_free char *text = NULL;

	(void)state;
	screen_init(&screen, 10);
	for (int i = 0; i < 1000; i++)
		screen_puts(&screen, "z");
	screen_puts(&screen, "\rAB");
	for (int i = 0; i < 995; i++)
		screen_puts(&screen, "y");
	screen_puts(&screen, "CDE\b");
	text = shown(&screen, 10);
	assert_string_equal(text, "AByyy\xe2\x80\xa6yyCD");
	screen_release(&screen);
}

/* --- against a model
 * ---------------------------------------------------------------------------- */

struct model {
	struct buf done;
	uint32_t row[20000];
	size_t len;
	size_t cursor;
};

static void model_put(struct model *model, uint32_t point)
{
	if (point == '\n') {
		for (size_t i = 0; i < model->len; i++)
			text_put(&model->done, model->row[i]);
		buf_append_char(&model->done, '\n');
		model->len = model->cursor = 0;
	} else if (point == '\r') {
		model->cursor = 0;
	} else if (point == '\b') {
		if (model->cursor == 0)
			return;
		model->cursor--;
		model->len--;
		memmove(model->row + model->cursor, model->row + model->cursor + 1,
			(model->len - model->cursor) * sizeof(model->row[0]));
	} else {
		if (model->cursor == model->len)
			model->len++;
		model->row[model->cursor++] = point;
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* What is shown must be the model's head and tail; `keep` small, so that everything gets cut. */
static void compare(const struct model *model, struct screen *screen, size_t keep)
{
	struct piece piece = screen_piece(screen, NULL);
	cleanup_buf struct buf all = BUF_INIT;
	uint64_t total;

	buf_append(&all, buf_bytes(&model->done), model->done.len);
	for (size_t i = 0; i < model->len; i++)
		text_put(&all, model->row[i]);
	total = text_count(buf_bytes(&all), all.len);
	assert_true(piece.chars <= keep);
	assert_int_equal(piece.chars + piece.left_out, total);
	assert_true(piece.gap_at <= piece.len && piece.len <= all.len);
	assert_memory_equal(piece.text, buf_bytes(&all), piece.gap_at);
	assert_memory_equal(piece.text + piece.gap_at,
			    buf_bytes(&all) + all.len - (piece.len - piece.gap_at),
			    piece.len - piece.gap_at);
	if (piece.left_out == 0)
		assert_int_equal(piece.len, all.len);
	piece_release(&piece);
}

static void agrees_with_a_model(void **state)
{
	static struct model model;
	static const char *const ALPHABET[] = {
		"a", "b", "c", "\r", "\b", "\xc3\xa9", "\xf0\x9f\xa7\xaa", "\n"};
	uint32_t seed = 7;

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t keep = 1 + next_random(&seed) % 40;
		uint32_t weight = 8 + next_random(&seed) % 200; /* how seldom LF comes */
		struct screen screen;

		screen_init(&screen, keep);
		model.len = model.cursor = 0;
		buf_clear(&model.done);
		for (int i = 0; i < 1500; i++) {
			uint32_t pick = next_random(&seed) % weight;
			const char *text = ALPHABET[pick < 8 ? pick : pick % 7];
			uint32_t point;

			/* CR and BS not too often, or no line gets long. */
			if ((text[0] == '\r' || text[0] == '\b') && next_random(&seed) % 4)
				text = "x";
			text_next(text, strlen(text), &point);
			model_put(&model, point);
			screen_puts(&screen, text);
			if (i % 100 == 99)
				compare(&model, &screen, keep);
		}
		screen_release(&screen);
	}
	buf_release(&model.done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moves_like_a_terminal), cmocka_unit_test(removes_sequences),
		cmocka_unit_test(erases_lines),          cmocka_unit_test(keeps_both_ends),
		cmocka_unit_test(edits_long_lines),      cmocka_unit_test(agrees_with_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
