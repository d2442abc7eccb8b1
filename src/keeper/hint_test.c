/*
 * Errors of Python as they come from a guest, and the limits that they hint at.
 */
#include "keeper/hint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_hints(void **state)
{
	static const struct {
		const char *error, *limit; /* NULL: none */
	} cases[] = {
		{"{\"ename\":\"OSError\",\"evalue\":\"[Errno 27] File too large\"}", "file_bytes"},
		{"{\"ename\":\"OSError\",\"evalue\":\"[Errno 24] Too many open files: 'x'\"}",
		 "files"},
		{"{\"ename\":\"OSError\",\"evalue\":\"[Errno 28] No space left on device\"}",
		 "tmp_bytes"},
		{"{\"ename\":\"RuntimeError\",\"evalue\":\"can't start new thread\"}", "processes"},
		{"{\"evalue\":\"[Errno 11] Resource temporarily unavailable\","
		 "\"traceback\":[\"x\",\"  pid = os.fork()\"]}",
		 "processes"},
		{"{\"evalue\":\"[Errno 11] Resource temporarily unavailable\","
		 "\"traceback\":[7,\"  data = sock.recv(10)\"]}",
		 NULL},
		{"{\"evalue\":\"[Errno 2] No such file\"}", NULL},
		{"{\"evalue\":27}", NULL},
		{"{\"traceback\":\"fork\",\"evalue\":\"[Errno 11]\"}", NULL},
		{"{}", NULL},
		{"[]", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		cleanup_json struct json *error =
			json_parse(cases[i].error, strlen(cases[i].error), &JSON_LIMITS, NULL);
		const char *limit;

		assert_non_null(error);
		limit = hint_of_error(error);
		if (!cases[i].limit != !limit || (limit && strcmp(limit, cases[i].limit) != 0))
			fail_msg("case %zu: %s", i, limit ? limit : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_hints)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
