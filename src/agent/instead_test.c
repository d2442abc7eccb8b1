/*
 * What is told of a module that is missing: which one it is, what is looked for, what to use.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "agent/instead.h"

static void test_what_is_missing(void **state)
{
	static const struct {
		const char *ename, *evalue, *name; /* NULL: none is */
	} rows[] = {
		{"ModuleNotFoundError", "No module named 'pandas'", "pandas"},
		{"ModuleNotFoundError", "No module named 'sklearn.svm'", "sklearn"},
		{"ModuleNotFoundError", "No module named 'a'; 'a' is not a package", "a"},
		{"ImportError", "Missing optional dependency 'openpyxl'.  Use pip ...", "openpyxl"},
		{"ImportError", "`Import x` failed. Missing optional dependency 'x'", "x"},
		{"ImportError", "cannot import name 'x' from 'math' (unknown location)", NULL},
		{"ModuleNotFoundError", "odd", NULL},
		{"ModuleNotFoundError", "No module named ''", NULL},
		{"ModuleNotFoundError", "No module named 'a b'", NULL},
		{"ModuleNotFoundError", "No module named 'a\"); x('", NULL},
		{"ModuleNotFoundError", "No module named 'open", NULL},
		{"NameError", "No module named 'pandas'", NULL},
		{"ModuleNotFoundError",
		 "No module named 'a_name_that_is_so_long_that_no_module_has_ever_had_one_"
		 "of_its_length'",
		 NULL},
		{NULL, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char name[INSTEAD_NAME_MAX] = "";
		int outcome = instead_missing(rows[i].ename, rows[i].evalue, name);

		if (outcome != (rows[i].name ? 0 : -1) ||
		    (rows[i].name && strcmp(rows[i].name, name) != 0))
			fail_msg("row %zu: %d %s", i, outcome, name);
	}
}

static void test_what_was_found_is_read(void **state)
{
	struct instead instead = {.found = NULL};

	(void)state;
	assert_int_equal(instead_read(&instead, "nothing of it"), -1);
	assert_null(instead.found);
	assert_int_equal(instead_read(&instead, "x\nfumehood-modules: csv numpy\nmore"), 0);
	assert_string_equal(instead.found, " csv numpy ");
	assert_false(instead.network);
	assert_int_equal(instead_read(&instead, "\nfumehood-modules: csv +network\r\n"), 0);
	assert_string_equal(instead.found, " csv +network ");
	assert_true(instead.network);
	assert_int_equal(instead_read(&instead, "\nfumehood-modules: \n"), 0);
	assert_string_equal(instead.found, "  ");
	instead_release(&instead);
}

/* Checks the advice for a module; `printed`: what the look has printed, NULL: nobody has looked. */
static void advised(const char *module, const char *printed, const char *modules, const char *text)
{
	struct instead instead = {.found = NULL};
	cleanup_buf struct buf out = BUF_INIT;

	if (printed)
		assert_int_equal(instead_read(&instead, printed), 0);
	instead_advice(&out, &instead, module, modules);
	assert_string_equal(buf_bytes(&out), text);
	instead_release(&instead);
}

static void test_advice(void **state)
{
	(void)state;
	advised("pandas", NULL, "",
		"pandas is not installed and cannot be: do not import it. Use what is here: csv "
		"(csv.DictReader(file) gives each row as a dict), collections (defaultdict(list) "
		"groups, Counter counts), statistics (mean, median, stdev).\n");
	/* Of what would do, only what is there. */
	advised("polars", "fumehood-modules: csv pandas\n", "",
		"polars is not installed and cannot be: do not import it. Use what is here: pandas "
		"(read_csv, groupby), csv (csv.DictReader(file) gives each row as a dict).\n");
	advised("polars", "fumehood-modules: csv\n", "pandas",
		"polars is not installed and cannot be: do not import it. Use what is here: csv "
		"(csv.DictReader(file) gives each row as a dict).\n");
	advised("seaborn", NULL, "numpy, matplotlib",
		"seaborn is not installed and cannot be: do not import it. Use what is here: "
		"matplotlib.pyplot (plt.plot, plt.savefig).\n");
	/* Nothing of the row is there, or there is no row. */
	advised("seaborn", "fumehood-modules: numpy sklearn\n", "",
		"seaborn is not installed and cannot be: do not import it. Use the standard "
		"library or one of numpy, sklearn.\n");
	advised("zzz", NULL, "numpy, pandas",
		"zzz is not installed and cannot be: do not import it. Use the standard library "
		"or one of numpy, pandas.\n");
	advised("zzz", "fumehood-modules: \n", "",
		"zzz is not installed and cannot be: do not import it. Use the standard "
		"library.\n");
	advised("tqdm", NULL, "",
		"tqdm is not installed and cannot be: do not import it. Print with print() and "
		"f-strings alone.\n");
	/* A part of what is there. */
	advised("numpy", "fumehood-modules: numpy csv\n", "",
		"numpy is installed, but has no such part: do it another way.\n");
	advised("numpy", NULL, "pandas, numpy",
		"numpy is installed, but has no such part: do it another way.\n");
}

static void test_the_network(void **state)
{
	static const char without[] =
		"requests is not installed and cannot be: do not import it. Use what is here: "
		"urllib.request (urlopen(url).read()), json (json.load(file), json.dumps(value)).";
	cleanup_buf struct buf text = BUF_INIT;

	(void)state;
	buf_printf(&text, "%s\n", without);
	advised("requests", "fumehood-modules: urllib.request json +network\n", "",
		buf_bytes(&text));
	buf_clear(&text);
	buf_printf(&text,
		   "%s There is no network: only the files in the current folder can be read.\n",
		   without);
	advised("requests", "fumehood-modules: urllib.request json\n", "", buf_bytes(&text));
}

static void test_the_look(void **state)
{
	cleanup_buf struct buf code = BUF_INIT;

	(void)state;
	instead_probe(&code, "requests");
	assert_non_null(strstr(buf_bytes(&code), "('requests', 'urllib.request', 'json', 'num"));
	assert_non_null(strstr(buf_bytes(&code), "'\\nfumehood-modules: %s\\n'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_missing),
		cmocka_unit_test(test_what_was_found_is_read),
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_the_network),
		cmocka_unit_test(test_the_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
