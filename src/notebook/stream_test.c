/* Stream text: the cursor's rules one by one, then random texts against a slow and plain model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "notebook/stream.h"

static void check(struct stream *stream, const char *want, size_t len)
{
	cleanup_buf struct buf scratch = BUF_INIT;

	assert_int_equal(stream_length(stream), len);
	assert_memory_equal(stream_text(stream, &scratch), want, len);
}

/* Adds up to three pieces and compares the outcome. */
static void check_pieces(const char *a, const char *b, const char *c, const char *want)
{
	struct stream stream = STREAM_INIT;

	stream_add(&stream, a, strlen(a));
	stream_add(&stream, b, strlen(b));
	stream_add(&stream, c, strlen(c));
	check(&stream, want, strlen(want));
	stream_release(&stream);
}

static void test_rules(void **state)
{
	(void)state;
	check_pieces("", "", "", "");
	check_pieces("a", "b", "\n", "ab\n");
	check_pieces("abcdef\rXY", "", "", "XYcdef");
	check_pieces("abcdef", "\r", "XY", "XYcdef");
	check_pieces("a\r\r\n", "", "", "a\n");
	check_pieces("abc\rX", "\n", "d", "Xbc\nd");
	check_pieces("one\ntwo\r", "T", "", "one\nTwo");
	check_pieces("wrong\b\b\b\b\bright\n", "", "", "right\n");
	check_pieces("a\n", "\b\b", "b", "a\nb");
	check_pieces("\b", "\r", "x", "x");
	check_pieces(" 10%\r", " 20%\r", "100%\n", "100%\n");
}

/* JupyterLab would drop the "b" under the cursor too; one BS deletes one character here. */
static void test_backspace_inside_line(void **state)
{
	(void)state;
	check_pieces("abc\r", "X", "\b", "bc");
	check_pieces("abc\r", "XY\b\b\b", "", "c");
}

/* One character takes the place of one character, whatever their lengths in bytes. */
static void test_characters_are_never_cut(void **state)
{
	(void)state;
	check_pieces("\u00e9\u20ac\U0001f600z\r", "abc", "", "abcz");
	check_pieces("abcd\r", "\u00e9\U0001f600", "", "\u00e9\U0001f600cd");
	check_pieces("a\U0001f600", "\b", "b", "ab");
	check_pieces("ab\r\u20ac\u20ac\u20ac", "", "", "\u20ac\u20ac\u20ac");
}

static void test_nul_and_escape_are_characters(void **state)
{
	struct stream stream = STREAM_INIT;

	(void)state;
	stream_add(&stream, "a\0b\n\033[1m\0", 9);
	stream_add(&stream, "\r\0\0", 3);
	check(&stream,
	      "a\0b\n\0\0"
	      "1m\0",
	      9);
	assert_false(stream_at_line_start(&stream));
	stream_release(&stream);
}

static void test_line_start(void **state)
{
	struct stream stream = STREAM_INIT;

	(void)state;
	assert_true(stream_at_line_start(&stream));
	stream_add(&stream, "a", 1);
	assert_false(stream_at_line_start(&stream));
	stream_add(&stream, "\r", 1); /* the cursor is there, the line is not empty */
	assert_false(stream_at_line_start(&stream));
	stream_add(&stream, "\n", 1);
	assert_true(stream_at_line_start(&stream));
	stream_release(&stream);
}

/* The model: an array of code points, changed by the rules as they are written down. */
struct model {
	uint32_t points[4096];
	size_t count;
	size_t cursor;
};

static void model_put(struct model *model, uint32_t point)
{
	if (point == '\n') {
		model->points[model->count++] = '\n';
		model->cursor = model->count;
	} else if (point == '\r') {
		while (model->cursor > 0 && model->points[model->cursor - 1] != '\n')
			model->cursor--;
	} else if (point == '\b') {
		if (model->cursor == 0 || model->points[model->cursor - 1] == '\n')
			return;
		model->cursor--;
		model->count--;
		for (size_t i = model->cursor; i < model->count; i++)
			model->points[i] = model->points[i + 1];
	} else {
		model->points[model->cursor++] = point;
		if (model->cursor > model->count)
			model->count = model->cursor;
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 16;
}

static void test_random_against_model(void **state)
{
	static const uint32_t alphabet[] = {'a', 'b',  '\n',   '\r',    '\r', '\b', '\b',
					    0,   0xe9, 0x20ac, 0x1f600, 'c',  0x301};
	uint32_t seed = 12345;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		static struct model model;
		struct stream stream = STREAM_INIT;
		cleanup_buf struct buf want = BUF_INIT;

		model.count = model.cursor = 0;
		for (uint32_t piece = next_random(&seed) % 30; piece > 0; piece--) {
			cleanup_buf struct buf text = BUF_INIT;

			for (uint32_t i = next_random(&seed) % 12; i > 0; i--) {
				uint32_t point = alphabet[next_random(&seed) % 13];

				text_put(&text, point);
				model_put(&model, point);
			}
			stream_add(&stream, buf_bytes(&text), text.len);
		}
		for (size_t i = 0; i < model.count; i++)
			text_put(&want, model.points[i]);
		check(&stream, buf_bytes(&want), want.len);
		stream_release(&stream);
	}
}

/* Each of these would take minutes if an update cost time in proportion to the text or to the
 * line. */
static void test_many_updates(void **state)
{
	enum { ROUNDS = 200000, LINE = 1 << 20 };
	cleanup_free char *line = mem_zalloc(LINE);
	struct stream stream = STREAM_INIT;

	(void)state;
	memset(line, 'x', LINE);
	stream_add(&stream, line, LINE);
	stream_add(&stream, "\r", 1);
	for (int i = 0; i < ROUNDS; i++)
		stream_add(&stream, "\u00e9", 2); /* longer than what it overwrites */
	assert_int_equal(stream_length(&stream), LINE + ROUNDS);
	for (int i = 0; i < ROUNDS; i++)
		stream_add(&stream, "\b", 1);
	assert_int_equal(stream_length(&stream), LINE - ROUNDS);
	for (int i = 0; i < ROUNDS; i++)
		stream_add(&stream, "y\r", 2);
	assert_int_equal(stream_length(&stream), LINE - ROUNDS);
	for (int i = 0; i < ROUNDS; i++)
		stream_add(&stream, "ab\n", 3);
	assert_int_equal(stream_length(&stream), LINE - ROUNDS + 3 * ROUNDS - 2);
	stream_release(&stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_backspace_inside_line),
		cmocka_unit_test(test_characters_are_never_cut),
		cmocka_unit_test(test_nul_and_escape_are_characters),
		cmocka_unit_test(test_line_start),
		cmocka_unit_test(test_random_against_model),
		cmocka_unit_test(test_many_updates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
