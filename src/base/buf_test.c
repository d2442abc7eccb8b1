/*
 * The buffer against a model: whatever is appended and consumed, the live bytes are the right ones
 * and a NUL stands behind them. Memory functions are tested here too, for the buffer stands on
 * them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

static void test_empty(void **state)
{
	struct buf buf = BUF_INIT;
	cleanup_free char *taken = NULL;
	size_t len = 1;

	(void)state;
	assert_string_equal(buf_bytes(&buf), "");
	buf_append(&buf, NULL, 0);
	buf_consume(&buf, 0);
	buf_truncate(&buf, 0);
	buf_clear(&buf);
	assert_null(buf.data);
	taken = buf_take(&buf, &len);
	assert_string_equal(taken, "");
	assert_int_equal(len, 0);
	buf_release(&buf);
}

static void test_append(void **state)
{
	cleanup_buf struct buf buf = BUF_INIT;

	(void)state;
	buf_append_string(&buf, "one");
	buf_append_char(&buf, ' ');
	buf_append(&buf, "t\0o", 3);
	assert_int_equal(buf.len, 7);
	assert_memory_equal(buf_bytes(&buf), "one t\0o", 8);
	buf_truncate(&buf, 2);
	assert_string_equal(buf_bytes(&buf), "on");
	memcpy(buf_reserve(&buf, 100), "ce", 2);
	buf_added(&buf, 2);
	assert_string_equal(buf_bytes(&buf), "once");
}

static void test_printf(void **state)
{
	cleanup_buf struct buf buf = BUF_INIT;
	char long_text[1000];

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	buf_printf(&buf, "%d-%s", 42, "a");
	buf_printf(&buf, "%s", "");
	buf_printf(&buf, "%s", long_text);
	assert_int_equal(buf.len, 4 + 999);
	assert_memory_equal(buf_bytes(&buf), "42-axxx", 7);
	assert_string_equal(buf_bytes(&buf) + 4, long_text);
}

/* Lengths around the first capacity, where a formatted text just fits or just does not. */
static void test_printf_edges(void **state)
{
	(void)state;
	for (int len = 0; len < 300; len++) {
		cleanup_buf struct buf buf = BUF_INIT;

		buf_append_string(&buf, "abc");
		buf_consume(&buf, 1);
		buf_printf(&buf, "%*s", len, "");
		assert_int_equal(buf.len, 2 + len);
		assert_int_equal(strlen(buf_bytes(&buf)), 2 + len);
	}
}

static void test_take(void **state)
{
	struct buf buf = BUF_INIT;
	cleanup_free char *taken = NULL;
	size_t len;

	(void)state;
	buf_append_string(&buf, "abcdef");
	buf_consume(&buf, 2);
	taken = buf_take(&buf, &len);
	assert_string_equal(taken, "cdef");
	assert_int_equal(len, 4);
	assert_null(buf.data);
}

/* A stream of counted bytes goes in and out in odd steps. */
static void test_stream(void **state)
{
	cleanup_buf struct buf buf = BUF_INIT;
	unsigned char in = 0;
	unsigned char out = 0;
	unsigned step = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t grow, shrink;

		step = step * 1103515245u + 12345u;
		grow = (step >> 16) % 97;
		shrink = (step >> 8) % 113;
		for (size_t i = 0; i < grow; i++)
			buf_append_char(&buf, (char)in++);
		if (shrink > buf.len)
			shrink = buf.len;
		for (size_t i = 0; i < shrink; i++)
			assert_int_equal((unsigned char)buf_bytes(&buf)[i], out++);
		buf_consume(&buf, shrink);
		assert_int_equal(buf_bytes(&buf)[buf.len], 0);
		assert_true(buf.data == NULL || buf.head + buf.len < buf.cap);
	}
	assert_true(buf.cap < 100000);
}

/* Consuming never lets a buffer grow that holds little. */
static void test_reclaim(void **state)
{
	cleanup_buf struct buf buf = BUF_INIT;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		buf_append(&buf, "0123456789", 10);
		if (buf.len > 50)
			buf_consume(&buf, 10);
	}
	assert_true(buf.cap <= 256);
}

static void test_mem(void **state)
{
	cleanup_free char *zero = mem_zalloc(0);
	cleanup_free char *copy = mem_copy("a\0b", 3);
	cleanup_free char *none = mem_copy(NULL, 0);
	cleanup_free char *text = mem_format("%s-%d", "x", 3);
	char *moved = mem_take(copy);
	int fd = 7;

	(void)state;
	assert_non_null(zero);
	assert_null(copy);
	assert_memory_equal(moved, "a\0b", 4);
	free(moved);
	assert_string_equal(none, "");
	assert_string_equal(text, "x-3");
	assert_null(mem_string(NULL));
	assert_int_equal(fd_take(&fd), 7);
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),  cmocka_unit_test(test_append),
		cmocka_unit_test(test_printf), cmocka_unit_test(test_printf_edges),
		cmocka_unit_test(test_take),   cmocka_unit_test(test_stream),
		cmocka_unit_test(test_reclaim), cmocka_unit_test(test_mem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
