/*
 * Tests of cutting: where it falls, what the line about a gap says, and that no limit is ever
 * exceeded.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/cut.h"
#include "digest/ends.h"
#include "digest/figure.h"
#include "digest/page.h"

static void writes_figures(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;

	(void)state;
	figure_count(&text, 0);
	buf_append_char(&text, ' ');
	figure_count(&text, 999);
	buf_append_char(&text, ' ');
	figure_count(&text, 1000);
	buf_append_char(&text, ' ');
	figure_count(&text, UINT64_MAX);
	buf_append_char(&text, ' ');
	figure_bytes(&text, 999);
	buf_append_char(&text, ' ');
	figure_bytes(&text, 23400);
	buf_append_char(&text, ' ');
	figure_bytes(&text, 999960);
	buf_append_char(&text, ' ');
	figure_seconds(&text, 1);
	buf_append_char(&text, ' ');
	figure_seconds(&text, 0.05);
	buf_append_char(&text, ' ');
	figure_seconds(&text, 300);
	assert_string_equal(
		buf_bytes(&text),
		"0 999 1,000 18,446,744,073,709,551,615 999 B 23.4 kB 1.0 MB 1 s 0.05 s 300 s");
}

static void chooses_the_form_by_room(void **state)
{
	static const struct {
		size_t room;
		const char *text;
	} CASES[] = {
		{0, ""},
		{1, "\xe2\x80\xa6"},
		{7, "[...]\n"},
		{27, "[... 12,345 left out ...]\n"},
		{80, "[... 12,345 characters left out; the whole is in: log c1 ...]\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		cleanup_buf struct buf line = BUF_INIT;

		assert_true(cut_line(&line, 12345, 0, CASES[i].room, "log c1") <= CASES[i].room);
		assert_string_equal(buf_bytes(&line), CASES[i].text);
	}
}

static void falls_at_line_ends(void **state)
{
	const char *text = "row 1\nrow 2\nrow 1234\nrow 1235\n";
	size_t len = strlen(text);

	(void)state;
	assert_int_equal(cut_head(text, len, 15), 12); /* not "row" of row 1234 */
	assert_int_equal(cut_head(text, len, 12), 12);
	assert_int_equal(cut_tail(text, len, 11), len - 9);
	assert_int_equal(cut_tail(text, len, 9), len - 9);
	/* Far from a line end the exact place is right. */
	assert_int_equal(cut_head("zzzzzzzzzzzz", 12, 7), 7);
	assert_int_equal(cut_tail("zzzzzzzzzzzz", 12, 7), 5);
}

/* Fills a page with a piece and gaps and looks at every limit. */
static void page_never_exceeds(void **state)
{
	(void)state;
	for (size_t limit = 1; limit < 400; limit++) {
		cleanup_buf struct buf out = BUF_INIT;
		struct page page;

		page_init(&page, limit % 2 ? "fumehood log x" : NULL);
		for (int i = 0; i < 6; i++) {
			struct ends ends;
			struct piece piece;

			ends_init(&ends, 70);
			for (int j = 0; j < 30 * i; j++)
				ends_put(&ends,
					 "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 e\xcc\x81\n",
					 16);
			piece = ends_piece(&ends, page.whole);
			page_piece(&page, &piece, 70);
			page_gap(&page, 12345, 3, 100);
			piece_release(&piece);
			ends_release(&ends);
		}
		page_finish(&page, limit, &out);
		assert_true(text_is_utf8(buf_bytes(&out), out.len));
		assert_true(text_count(buf_bytes(&out), out.len) <= limit);
		assert_true(out.len > 0 && buf_bytes(&out)[out.len - 1] != '\n');
		assert_null(strstr(buf_bytes(&out), "...]\n[..."));
		page_release(&page);
	}
}

static void page_counts_what_gaps_stand_for(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct page page;
	char zs[301];

	(void)state;
	memset(zs, 'z', 300);
	zs[300] = '\0';
	page_init(&page, NULL);
	page_puts(&page, zs);
	page_gap(&page, 1000, 7, 100);
	page_puts(&page, zs);
	page_finish(&page, 200, &out);
	/* 600 z and the 1,000 characters of the gap, less the z that are shown. */
	{
		size_t kept = 0;
		cleanup_buf struct buf line = BUF_INIT;

		for (size_t i = 0; i < out.len; i++)
			kept += buf_bytes(&out)[i] == 'z';
		buf_printf(&line, "\n[... 7 outputs with 1,%zu characters left out ...]\n",
			   600 - kept);
		assert_non_null(strstr(buf_bytes(&out), buf_bytes(&line)));
		assert_true(kept > 100);
	}
	page_release(&page);
}

static void ends_forget_the_middle(void **state)
{
	struct ends ends;
	struct piece piece;

	(void)state;
	ends_init(&ends, 50);
	for (int i = 0; i < 100000; i++)
		ends_put(&ends, "0123456789", 10);
	assert_int_equal(ends.total, 1000000);
	assert_true(ends.tail_count <= 100 && ends.tail.cap < 1024);
	piece = ends_piece(&ends, NULL);
	assert_int_equal(piece.chars + piece.left_out, 1000000);
	assert_memory_equal(piece.text, "0123", 4);
	assert_memory_equal(piece.text + piece.len - 4, "6789", 4);
	piece_release(&piece);
	ends_clear(&ends);
	/* One more than fits: head and tail are cut out of the text that is known whole. */
	ends_put(&ends, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 51);
	piece = ends_piece(&ends, NULL);
	assert_true(piece.chars < 51);
	assert_memory_equal(piece.text + piece.len - 3, "wxy", 3);
	piece_release(&piece);
	ends_release(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_figures),
		cmocka_unit_test(chooses_the_form_by_room),
		cmocka_unit_test(falls_at_line_ends),
		cmocka_unit_test(page_never_exceeds),
		cmocka_unit_test(page_counts_what_gaps_stand_for),
		cmocka_unit_test(ends_forget_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
