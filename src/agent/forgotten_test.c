/*
 * Forgotten imports: which are known, and what is left alone.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/forgotten.h"

static void test_statements(void **state)
{
	static const struct {
		const char *code, *evalue, *statement; /* NULL: none */
	} rows[] = {
		{"csv.reader(f)", "name 'csv' is not defined", "import csv"},
		{"re.findall", "name 're' is not defined. Did you forget to import 're'?",
		 "import re"},
		{"pd.read_csv(f)", "name 'pd' is not defined", "import pandas as pd"},
		{"Counter(x)", "name 'Counter' is not defined", "from collections import Counter"},
		{"datetime.now()", "name 'datetime' is not defined",
		 "from datetime import datetime"},
		{"datetime.datetime.now()", "name 'datetime' is not defined", "import datetime"},
		{"from __future__ import annotations\ncsv", "name 'csv' is not defined", NULL},
		{"x", "name 'x' is not defined", NULL},
		{"x", "name 'cs' is not defined", NULL},
		{"x", "name 'csvv' is not defined", NULL},
		{"x", "name 'csv", "import csv"},
		{"x", "something else", NULL},
		{"x", "", NULL},
	};
	char statement[FORGOTTEN_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int found = forgotten_import(rows[i].code, "NameError", rows[i].evalue, statement);

		assert_int_equal(found, rows[i].statement ? 0 : -1);
		if (rows[i].statement)
			assert_string_equal(statement, rows[i].statement);
	}
}

static void test_other_errors(void **state)
{
	char statement[FORGOTTEN_BYTES];

	(void)state;
	assert_int_equal(
		forgotten_import("csv", "ValueError", "name 'csv' is not defined", statement), -1);
	assert_int_equal(forgotten_import("csv", NULL, "name 'csv' is not defined", statement), -1);
	assert_int_equal(forgotten_import("csv", "NameError", NULL, statement), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statements),
		cmocka_unit_test(test_other_errors),
	};

	return cmocka_run_group_tests_name("forgotten", tests, NULL, NULL);
}
