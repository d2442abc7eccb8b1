/*
 * Bodies of asks, and the words that they become.
 */
#include "serve/ask_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"

static const char *const URLS[] = {"http://models.test/v1"};

/* The words of a body, joined by blanks, in `words`; or the code of the refusal. */
static enum err_code read_body(const char *text, bool trusted, char words[static 512])
{
	const struct ask_rules rules = {.trusted = trusted, .urls = URLS, .url_count = 1};
	cleanup_json struct json *body = json_parse(text, strlen(text), &JSON_LIMITS, NULL);
	cleanup_ask_body struct ask_body ask = ASK_BODY_INIT;
	struct err err = ERR_INIT;
	size_t at = 0;

	words[0] = '\0';
	assert_non_null(body);
	if (ask_body_read(body, &rules, &ask, &err) != 0) {
		assert_true(err.text[0] != '\0');
		return err.code;
	}
	for (size_t i = 0; i < ask.word_count; i++)
		at += (size_t)snprintf(words + at, 512 - at, "%s%s", i ? " " : "", ask.words[i]);
	assert_null(ask.words[ask.word_count]);
	assert_non_null(ask.instruction);
	return ERR_OK;
}

static void options_become_words(void **state)
{
	char words[512];

	(void)state;
	assert_int_equal(read_body("{\"instruction\":\"x\"}", false, words), ERR_OK);
	assert_string_equal(words, "");
	assert_int_equal(read_body("{\"instruction\":\"x\",\"effort\":\"high\",\"programs\":4,"
				   "\"tokens\":900,\"seconds\":2,\"run_seconds\":0.5,"
				   "\"expect\":[\"a\",\"/b/\"],\"assert\":\"x == 1\","
				   "\"input\":\"--help\",\"temperature\":0,\"seed\":0,"
				   "\"attempts\":\"show\",\"detach\":true}",
				   false, words),
			 ERR_OK);
	assert_string_equal(words,
			    "--effort=high --programs=4 --tokens=900 --time=2.000000 "
			    "--timeout=0.500000 --expect=a --expect=/b/ --assert=x == 1 "
			    "--input=--help --temperature=0.000000 --seed=0 --attempts=show");
}

static void wrong_members_are_refused(void **state)
{
	static const char *const wrong[] = {
		"{}",
		"{\"instruction\":\"\"}",
		"{\"instruction\":[\"x\"]}",
		"{\"instruction\":\"x\",\"programs\":0}",
		"{\"instruction\":\"x\",\"programs\":17}",
		"{\"instruction\":\"x\",\"programs\":1.5}",
		"{\"instruction\":\"x\",\"tokens\":\"5\"}",
		"{\"instruction\":\"x\",\"seconds\":0}",
		"{\"instruction\":\"x\",\"seconds\":null}",
		"{\"instruction\":\"x\",\"seconds\":86401}",
		"{\"instruction\":\"x\",\"temperature\":-1}",
		"{\"instruction\":\"x\",\"seed\":-1}",
		"{\"instruction\":\"x\",\"effort\":\"\"}",
		"{\"instruction\":\"x\",\"attempts\":true}",
		"{\"instruction\":\"x\",\"expect\":{}}",
		"{\"instruction\":\"x\",\"expect\":[1]}",
		"{\"instruction\":\"x\",\"input\":\"a\\u0000b\"}",
		"{\"instruction\":\"x\",\"detach\":1}",
		"{\"instruction\":\"x\",\"system\":1}",
		"{\"instruction\":\"x\",\"template\":\"/etc/passwd\"}",
		"{\"instruction\":\"x\",\"session\":\"s\",\"workspace\":\"/w\"}",
	};
	char words[512];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(read_body(wrong[i], true, words), ERR_INVALID);
}

/* The kernel takes so much of all words, and would say "Argument list too long". */
static void words_have_a_limit(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *line = mem_format("\"%*s\"", 200 << 10, "x");
	const struct ask_rules rules = {.trusted = false};
	cleanup_ask_body struct ask_body ask = ASK_BODY_INIT;
	cleanup_json struct json *body = NULL;
	struct err err = ERR_INIT;

	(void)state;
	buf_append_string(&text, "{\"instruction\":\"x\",\"expect\":[");
	for (int i = 0; i < ASK_CHECKS_MAX; i++)
		buf_printf(&text, "%s%s", i ? "," : "", line);
	buf_append_string(&text, "]}");
	body = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	assert_non_null(body);
	assert_int_equal(ask_body_read(body, &rules, &ask, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
}

static void the_host_is_for_its_user(void **state)
{
	static const char *const host[] = {
		"{\"instruction\":\"x\",\"workspace\":\"/home/u\"}",
		"{\"instruction\":\"x\",\"script\":\"/etc/passwd\"}",
		"{\"instruction\":\"x\",\"model\":\"/etc/passwd\"}",
		"{\"instruction\":\"x\",\"model\":\"../m\"}",
		"{\"instruction\":\"x\",\"model\":\"m.gguf\"}",
		"{\"instruction\":\"x\",\"model\":\"a/b\"}",
		"{\"instruction\":\"x\",\"url\":\"http://169.254.169.254/\"}",
		"{\"instruction\":\"x\",\"url\":\"http://models.test/v1/../x\"}",
		"{\"instruction\":\"x\",\"url\":\"HTTP://models.test/v1\"}",
	};
	char words[512];

	(void)state;
	for (size_t i = 0; i < sizeof(host) / sizeof(host[0]); i++) {
		assert_int_equal(read_body(host[i], false, words), ERR_DENIED);
		assert_int_equal(read_body(host[i], true, words), ERR_OK);
	}
	assert_int_equal(read_body("{\"instruction\":\"x\",\"model\":\"a/b\","
				   "\"url\":\"http://models.test/v1\"}",
				   false, words),
			 ERR_OK);
	assert_string_equal(words, "--model=a/b --url=http://models.test/v1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_become_words),
		cmocka_unit_test(wrong_members_are_refused),
		cmocka_unit_test(words_have_a_limit),
		cmocka_unit_test(the_host_is_for_its_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
