/*
 * Types of files by their names and first bytes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "keeper/mime.h"

static void test_mime(void **state)
{
	(void)state;
	assert_string_equal(mime_of_name("a.b.PNG", 7), "image/png");
	assert_string_equal(mime_of_name("\xff.csv", 5), "text/csv");
	assert_null(mime_of_name(".csv", 4));
	assert_null(mime_of_name("csv", 3));
	assert_null(mime_of_name("a.", 2));
	assert_null(mime_of_name("a.pngx", 6));
	assert_null(mime_of_name("a.a long ending", 15));
	assert_string_equal(mime_of_head("\x89PNG\r\n\x1a\n", 8), "image/png");
	assert_string_equal(mime_of_head("RIFF1234WEBPVP8 ", 16), "image/webp");
	assert_string_equal(mime_of_head("\x89PNG", 4), "application/octet-stream");
	assert_string_equal(mime_of_head("", 0), "application/octet-stream");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_mime)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
