/*
 * Unified differences: the known forms, and that what they say leads from one text to the other.
 */
#include "files/patch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void diff(struct buf *out, const char *path, const char *old, const char *new)
{
	cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;

	buf_append_string(&left, old ? old : "");
	buf_append_string(&right, new ? new : "");
	patch_write(out, &(struct patch_file){.path = path,
					      .old = old ? &left : NULL,
					      .new = new ? &right : NULL});
}

static void expect(const char *old, const char *new, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;

	diff(&out, "f", old, new);
	assert_string_equal(buf_bytes(&out), text);
}

static void forms(void **state)
{
	(void)state;
	expect("a\nb\nc\n", "a\nx\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
	expect(NULL, "a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
	expect("a\n", NULL, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
	expect("a", "a\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
	       "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
}

static void names(void **state)
{
	cleanup_buf struct buf out = BUF_INIT, binary = BUF_INIT, bytes = BUF_INIT;

	(void)state;
	diff(&out, "a \"b\"\n\xff", "x\n", "y\n");
	assert_ptr_equal(strstr(buf_bytes(&out), "--- \"a/a \\\"b\\\"\\012\\377\"\n"),
			 buf_bytes(&out));
	buf_append(&bytes, "a\0b", 3);
	patch_write(&binary, &(struct patch_file){.path = "f", .old = &bytes, .new = NULL});
	assert_string_equal(buf_bytes(&binary), "Binary files a/f and b/f differ\n");
}

/* Applies a patch of one file: the new text, from the old. */
static void apply(const char *patch, const char *old, struct buf *new)
{
	const char *at = strstr(patch, "@@");
	size_t line = 1;

	while (at && *at) {
		size_t len = strcspn(at, "\n") + 1;

		if (*at == '@') {
			size_t start = strtoul(at + 4, NULL, 10);

			for (; line < start; line++) {
				size_t count = strcspn(old, "\n") + 1;

				buf_append(new, old, count);
				old += count;
			}
		} else if (*at != '+') {
			size_t count = strcspn(old, "\n") + 1;

			assert_memory_equal(old, at + 1, count);
			old += count;
			line++;
		}
		if (*at == ' ' || *at == '+')
			buf_append(new, at + 1, len - 1);
		at += len;
	}
	buf_append_string(new, old);
}

static void random_text(unsigned *seed, size_t lines, struct buf *out)
{
	for (size_t i = 0; i < lines; i++) {
		*seed = *seed * 1664525u + 1013904223u;
		buf_printf(out, "%c\n", 'a' + (char)(*seed >> 24) % 5 + 5);
	}
}

static void lead_there(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (size_t round = 0; round < 400; round++) {
		cleanup_buf struct buf old = BUF_INIT, new = BUF_INIT, out = BUF_INIT,
				       made = BUF_INIT;

		random_text(&seed, 1 + round % 60, &old);
		random_text(&seed, 1 + round % 47, &new);
		diff(&out, "f", buf_bytes(&old), buf_bytes(&new));
		apply(buf_bytes(&out), buf_bytes(&old), &made);
		assert_string_equal(buf_bytes(&made), buf_bytes(&new));
	}
}

/* Beyond the bound it is still right. */
static void nothing_in_common(void **state)
{
	cleanup_buf struct buf old = BUF_INIT, new = BUF_INIT, out = BUF_INIT, made = BUF_INIT;

	(void)state;
	for (int i = 0; i < 2 * PATCH_EDITS_MAX; i++) {
		buf_printf(&old, "old %d\n", i);
		buf_printf(&new, "new %d\n", i);
	}
	diff(&out, "f", buf_bytes(&old), buf_bytes(&new));
	apply(buf_bytes(&out), buf_bytes(&old), &made);
	assert_string_equal(buf_bytes(&made), buf_bytes(&new));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms),
		cmocka_unit_test(names),
		cmocka_unit_test(lead_there),
		cmocka_unit_test(nothing_in_common),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
