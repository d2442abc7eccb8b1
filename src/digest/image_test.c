/*
 * Tests of image headers. The images are their first bytes only, made with Python's struct from the
 * specifications named in image.h.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "digest/image.h"

static void check(const char *base64, uint32_t width, uint32_t height)
{
	uint32_t w = 0;
	uint32_t h = 0;

	assert_int_equal(image_size(base64, strlen(base64), &w, &h), width > 0);
	assert_int_equal(w, width);
	assert_int_equal(h, height);
}

static void reads_sizes(void **state)
{
	(void)state;
	check("iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA=", 640, 480);
	check("iVBORw0K\nGgoAAAAN\r\nSUhEUgAAAoAAAAHgCAYAAAA=\n", 640, 480);
	check("R0lGODlhLAEHAAAAAA==", 300, 7);
	check("/9j/4AAQSkZJRgAAAAAAAAAAAAD//8IAEQgAIQQBAAAAAAAAAAAAAA==", 1025, 33);
	check("UklGRgAAAABXRUJQVlA4WAoAAAAAAAAAHwMAVwIA", 800, 600);
	check("UklGRgAAAABXRUJQVlA4TAoAAAAvCcAEAA==", 10, 20);
	check("UklGRgAAAABXRUJQVlA4IAoAAAAAAACdASp4AFoA", 120, 90);
}

static void refuses_what_is_no_image(void **state)
{
	static const char PNG[] = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA=";
	uint32_t w;
	uint32_t h;

	(void)state;
	check("", 0, 0);
	check("iVBORw0KGgo=", 0, 0);
	check("iVBORw0KGgoAAAANSUhEUgAAAAAAAAAACAYAAAA=", 0, 0); /* 0 x 0 */
	check("bm90IGFuIGltYWdlIGF0IGFsbCwganVzdCB0ZXh0", 0, 0);
	check("/9j/2Q==", 0, 0);
	check("*** no base64 ***", 0, 0);
	for (size_t len = 0; len < 32; len++)
		assert_false(image_size(PNG, len, &w, &h));
}

static void counts_bytes(void **state)
{
	(void)state;
	assert_int_equal(image_bytes("", 0), 0);
	assert_int_equal(image_bytes("QQ==", 4), 1);
	assert_int_equal(image_bytes("QUI=\n", 5), 2);
	assert_int_equal(image_bytes("QUJD", 4), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_sizes),
		cmocka_unit_test(refuses_what_is_no_image),
		cmocka_unit_test(counts_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
