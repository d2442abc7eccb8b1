/* Names of a pool's files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pool/command.h"

static void test_pool_names(void **state)
{
	struct pool_names one, two;

	(void)state;
	pool_names_init(&one, "/usr/bin/python3.11");
	pool_names_init(&two, "/usr/bin/python3.12");
	assert_int_equal(strlen(one.id), 16);
	assert_int_equal(strspn(one.id, "0123456789abcdef"), 16);
	assert_string_not_equal(one.id, two.id);
	assert_memory_equal(one.socket, "pool-", 5);
	assert_memory_equal(one.socket + 5, one.id, 16);
	assert_string_equal(one.socket + 21, ".sock");
	assert_string_equal(one.lock + 21, ".lock");
	assert_string_equal(one.log + 21, ".log");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pool_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
