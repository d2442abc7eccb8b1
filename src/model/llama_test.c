/* Which options a llama-server is given, by what its --help names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/llama.h"

static const struct llama_wish WISH = {
	.model = "/m.gguf", .socket = "/s.sock", .context = 4096, .parallel = 4, .threads = 2};

/* The word behind `option`; "" when it is the last, NULL when it is not there. */
static const char *value(const struct llama_words *words, const char *option)
{
	for (size_t i = 0; i < words->count; i++)
		if (strcmp(words->words[i], option) == 0)
			return i + 1 < words->count ? words->words[i + 1] : "";
	return NULL;
}

static void test_always(void **state)
{
	struct llama_words words;

	(void)state;
	llama_server_words(&words, "/bin/llama-server", &WISH, "");
	assert_string_equal(words.words[0], "/bin/llama-server");
	assert_string_equal(value(&words, "--model"), "/m.gguf");
	assert_string_equal(value(&words, "--host"), "/s.sock");
	assert_string_equal(value(&words, "--ctx-size"), "4096");
	assert_string_equal(value(&words, "--parallel"), "4");
	assert_string_equal(value(&words, "--threads"), "2");
	assert_int_equal(words.count, 11);
	assert_null(words.words[words.count]);
	llama_words_release(&words);
}

static void test_what_is_there(void **state)
{
	struct llama_words words;

	(void)state;
	llama_server_words(&words, "x", &WISH,
			   "-kvu,  --kv-unified, -no-kvu, --no-kv-unified\n"
			   "-cram, --cache-ram N   set\n"
			   "--ui,  --webui, --no-ui, --no-webui     whether\n"
			   "--spec-type none,ngram-simple,ngram-map-k,ngram-mod\n"
			   "-lv,   --verbosity, --log-verbosity N   Set\n--offline   Offline\n");
	assert_non_null(value(&words, "--kv-unified"));
	assert_string_equal(value(&words, "--cache-ram"), "512");
	assert_string_equal(value(&words, "--spec-type"), "ngram-simple");
	assert_string_equal(value(&words, "--log-verbosity"), "2");
	assert_non_null(value(&words, "--no-webui"));
	assert_null(value(&words, "--no-ui"));
	assert_non_null(value(&words, "--offline"));
	llama_words_release(&words);
}

/* A part of a word is another word. */
static void test_whole_words(void **state)
{
	struct llama_words words;

	(void)state;
	llama_server_words(&words, "x", &WISH,
			   "--kv-unified-per-slot N\n--no-ui\n"
			   "--spec-type ngram-map-k4v,ngram-mod\n");
	assert_null(value(&words, "--kv-unified"));
	assert_null(value(&words, "--no-webui"));
	assert_non_null(value(&words, "--no-ui"));
	assert_string_equal(value(&words, "--spec-type"), "ngram-mod");
	llama_words_release(&words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_always),
		cmocka_unit_test(test_what_is_there),
		cmocka_unit_test(test_whole_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
