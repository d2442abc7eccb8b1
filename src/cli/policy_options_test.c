/* Options to a policy: what each becomes, how they go over a file, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/policy_options.h"

/* What the words come to: the policy's text, "null" for none; or fails with the message. */
static int read_words(char **argv, int argc, struct buf *text, struct err *err)
{
	struct policy_options wanted = POLICY_OPTIONS_INIT;
	const struct option table[] = {POLICY_OPTION_ROWS(wanted)};
	cleanup_options struct options options = {.words = NULL};
	cleanup_json struct json *policy = NULL;

	if (options_read(&options, table, sizeof(table) / sizeof(*table), argc, argv, err) != 0 ||
	    policy_options_read(&wanted, &policy, err) != 0)
		return -1;
	json_write(text, policy);
	return 0;
}

#define WORDS(...) \
	(char *[]){(char *)"x", __VA_ARGS__, NULL}, \
		(int)(sizeof((char *[]){(char *)"x", __VA_ARGS__}) / sizeof(char *))

static void become(const char *expected, char **argv, int argc)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	if (read_words(argv, argc, &text, &err) != 0)
		fail_msg("%s", err.text);
	assert_string_equal(buf_bytes(&text), expected);
}

static void refused(const char *words, char **argv, int argc)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(read_words(argv, argc, &text, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("%s", err.text);
}

static char *word(const char *text)
{
	return (char *)(uintptr_t)text;
}

static void test_each(void **state)
{
	char *none[] = {word("x"), NULL};

	(void)state;
	become("null", none, 1);
	become("{\"memory_bytes\":1073741824}", WORDS(word("--memory"), word("1G")));
	become("{\"processes\":7}", WORDS(word("--processes=7")));
	become("{\"disk_bytes\":1048576}", WORDS(word("--disk"), word("1M")));
	become("{\"cpus\":1.5}", WORDS(word("--cpus"), word("1.5")));
	become("{\"tier_floor\":\"full\"}", WORDS(word("--tier-floor"), word("full")));
	become("{\"read\":[\"/usr\",\"/etc\"]}",
	       WORDS(word("--read"), word("/usr/../usr/"), word("--read=/etc")));
	become("{\"write\":[\"/\"]}", WORDS(word("--write"), word("/")));
	become("{\"net\":[\"a.example\",\"b.example:8443\",\"c.example\"]}",
	       WORDS(word("--allow-net"), word("a.example,b.example:8443"), word("--allow-net"),
		     word("c.example")));
	become("{\"env\":{\"A\":null,\"B\":\"c=d\",\"E\":\"\"}}",
	       WORDS(word("--env"), word("A"), word("--env"), word("B=c=d"), word("--env"),
		     word("E=")));
}

static void test_refused(void **state)
{
	(void)state;
	refused("--memory takes a size", WORDS(word("--memory"), word("much")));
	refused("\"memory_bytes\" must be", WORDS(word("--memory"), word("1K")));
	refused("\"memory_bytes\" must be", WORDS(word("--memory"), word("16777215T")));
	refused("\"processes\" must be", WORDS(word("--processes"), word("0")));
	refused("--cpus takes", WORDS(word("--cpus"), word("0")));
	refused("--cpus takes", WORDS(word("--cpus"), word("0x1")));
	refused("--cpus takes", WORDS(word("--cpus"), word("nan")));
	refused("\"cpus\" must be", WORDS(word("--cpus"), word("1e9")));
	refused("--read /no/such", WORDS(word("--read"), word("/no/such")));
	refused("allowed host", WORDS(word("--allow-net"), word("a.example,,b.example")));
	refused("variable", WORDS(word("--env"), word("=x")));
	refused("UTF-8", WORDS(word("--env"), word("A=\xff")));
	refused("\"tier_floor\" must be", WORDS(word("--tier-floor"), word("none")));
	refused("--policy", WORDS(word("--policy"), word("/no/such")));
}

/* A value replaces the file's, a list is added to. */
static void test_file(void **state)
{
	static const char text[] = "{\"files\":200,\"processes\":9,\"read\":[\"/a\"],"
				   "\"net\":[\"a.example\"],\"env\":{\"A\":\"1\",\"B\":\"2\"}}";
	char path[] = "/tmp/fumehood-policy-XXXXXX";
	cleanup_fd int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
	become(text, WORDS(word("--policy"), path));
	become("{\"files\":200,\"processes\":8,\"read\":[\"/a\",\"/usr\"],"
	       "\"net\":[\"a.example\",\"b.example\"],\"env\":{\"A\":\"1\",\"B\":\"3\"}}",
	       WORDS(word("--policy"), path, word("--processes"), word("8"), word("--read"),
		     word("/usr"), word("--allow-net"), word("b.example"), word("--env"),
		     word("B=3")));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
