/* The option parser: every form, and one sentence for everything that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/options.h"

struct values {
	bool flag;
	bool other;
	const char *text;
	double seconds;
	uint64_t count;
	uint64_t size;
};

/* Reads a command line given as words that end with NULL. */
static int read_words(struct options *options, struct values *values, struct err *err, ...)
{
	static struct option table[6];
	char *argv[16] = {(char *)(uintptr_t) "verb"};
	int argc = 1;
	va_list args;

	table[0] = (struct option){"flag", 'f', OPTION_FLAG, &values->flag};
	table[1] = (struct option){"other", 'x', OPTION_FLAG, &values->other};
	table[2] = (struct option){"text", 'c', OPTION_TEXT, &values->text};
	table[3] = (struct option){"timeout", 't', OPTION_SECONDS, &values->seconds};
	table[4] = (struct option){"count", '\0', OPTION_COUNT, &values->count};
	table[5] = (struct option){"size", '\0', OPTION_SIZE, &values->size};
	va_start(args, err);
	while ((argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	*values = (struct values){.text = NULL};
	return options_read(options, table, 6, argc, argv, err);
}

static void test_forms(void **state)
{
	cleanup_options struct options options = {.words = NULL};
	struct values values;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(read_words(&options, &values, &err, "-fx", "one", "--text=a=b", "-t", "2m",
				    "--count", "7", "-", "--size", "3K", "--", "-f", "--text",
				    NULL),
			 0);
	assert_true(values.flag && values.other);
	assert_string_equal(values.text, "a=b");
	assert_true(values.seconds == 120);
	assert_int_equal(values.count, 7);
	assert_int_equal(values.size, 3072);
	assert_int_equal(options.word_count, 4);
	assert_string_equal(options.words[0], "one");
	assert_string_equal(options.words[1], "-");
	assert_string_equal(options.words[2], "-f");
	assert_string_equal(options.words[3], "--text");
	assert_null(options.words[4]);
	assert_int_equal(options.words_before, 2);
}

static void test_values_that_look_like_options(void **state)
{
	cleanup_options struct options options = {.words = NULL};
	struct values values;

	(void)state;
	assert_int_equal(read_words(&options, &values, NULL, "-c", "--flag", NULL), 0);
	assert_string_equal(values.text, "--flag");
	assert_false(values.flag);
	options_release(&options);
	assert_int_equal(read_words(&options, &values, NULL, "-cprint(1)", NULL), 0);
	assert_string_equal(values.text, "print(1)");
	options_release(&options);
	assert_int_equal(read_words(&options, &values, NULL, "--text", "", NULL), 0);
	assert_int_equal(options.words_before, 0);
	assert_string_equal(values.text, "");
	options_release(&options);
	assert_int_equal(read_words(&options, &values, NULL, "--text=", NULL), 0);
	assert_string_equal(values.text, "");
}

static void test_help(void **state)
{
	cleanup_options struct options options = {.words = NULL};
	struct values values;

	(void)state;
	assert_int_equal(read_words(&options, &values, NULL, "x", "--help", "--no-such", NULL), 0);
	assert_true(options.help);
}

static void expect_wrong(const char *word, const char *value, const char *says)
{
	cleanup_options struct options options = {.words = NULL};
	struct values values;
	struct err err = ERR_INIT;

	assert_int_equal(read_words(&options, &values, &err, word, value, NULL), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_non_null(strstr(err.text, says));
}

static void test_wrong(void **state)
{
	(void)state;
	expect_wrong("--nope", NULL, "no option --nope");
	expect_wrong("--nope=1", NULL, "no option --nope");
	expect_wrong("--fla", NULL, "no option --fla");
	expect_wrong("-z", NULL, "no option -z");
	expect_wrong("-fz", NULL, "no option -z");
	expect_wrong("--text", NULL, "needs a value");
	expect_wrong("-c", NULL, "needs a value");
	expect_wrong("--flag=1", NULL, "takes no value");
	expect_wrong("--flag", "--flag", "twice");
	expect_wrong("--count", "x", "takes a number");
	expect_wrong("--count", "-1", "takes a number");
	expect_wrong("--count", "10M", "takes a number");
	expect_wrong("--count", "99999999999999999999", "takes a number");
	expect_wrong("--timeout", "0", "above 0");
	expect_wrong("--timeout", "-1", "above 0");
	expect_wrong("--size", "1.5G", "takes a size");
}

static void test_lists(void **state)
{
	struct option_list list = {.items = NULL}, pairs = {.items = NULL};
	const struct option table[] = {
		{"long-list", 'l', OPTION_LIST, &list},
		{"pairs", 'p', OPTION_PAIRS, &pairs},
	};
	const char *const words[] = {"verb", "-p",      "a", "-1", "--long_list=x",
				     "-ly",  "--pairs", "b", "",   "--pairs=c",
				     "d"};
	const char *const half[] = {"verb", "-p", "a"};
	cleanup_options struct options options = {.words = NULL}, bad = {.words = NULL};
	char *argv[11];
	struct err err = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < 11; i++)
		argv[i] = (char *)(uintptr_t)words[i];
	assert_int_equal(options_read(&options, table, 2, 11, argv, &err), 0);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.items[0], "x");
	assert_string_equal(list.items[1], "y");
	assert_int_equal(pairs.count, 6);
	assert_string_equal(pairs.items[1], "-1");
	assert_string_equal(pairs.items[3], "");
	assert_string_equal(pairs.items[4], "c");
	options_release(&options);
	assert_null(list.items);
	for (size_t i = 0; i < 3; i++)
		argv[i] = (char *)(uintptr_t)half[i];
	assert_int_equal(options_read(&bad, table, 2, 3, argv, &err), -1);
	assert_non_null(strstr(err.text, "name and a value"));
}

static void test_seconds(void **state)
{
	static const struct {
		const char *text;
		double seconds;
	} good[] = {
		{"30", 30},      {"0.5", 0.5}, {".5", 0.5},  {"30s", 30},
		{"250ms", 0.25}, {"2m", 120},  {"1h", 3600}, {"7d", 604800},
	};
	static const char *const bad[] = {"",     "s",   "1x",  "1 s",   " 1",
					  "0x10", "nan", "inf", "1e999", "1,5"};
	double seconds;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(options_seconds(good[i].text, &seconds), 0);
		assert_true(seconds == good[i].seconds);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(options_seconds(bad[i], &seconds), -1);
}

static void test_sizes(void **state)
{
	static const char *const bad[] = {
		"", "K", "1KB", "-1", "1.5", "16777216T", "99999999999999999999"};
	uint64_t bytes;

	(void)state;
	assert_int_equal(options_size("0", &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(options_size("2G", &bytes), 0);
	assert_true(bytes == (uint64_t)2 << 30);
	assert_int_equal(options_size("3m", &bytes), 0);
	assert_int_equal(bytes, 3 << 20);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(options_size(bad[i], &bytes), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms), cmocka_unit_test(test_values_that_look_like_options),
		cmocka_unit_test(test_help),  cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_lists), cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
