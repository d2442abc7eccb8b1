/*
 * Asks: which are open after each way to end one, damaged journals, and the words about them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/asked.h"
#include "journal/kit.h"

static void take(struct asked *asked, enum event_type type, const char *body)
{
	struct event event = kit_event(type, NULL, body);

	asked_apply(asked, &event);
	event_release(&event);
}

static void check(const struct asked *asked, const char *id, enum err_code code)
{
	struct err err = ERR_INIT;

	assert_int_equal(asked_check(asked, id, &err), code == ERR_OK ? 0 : -1);
	assert_int_equal(err.code, code);
}

static void opens_and_ends(void **state)
{
	struct asked asked = ASKED_INIT;

	(void)state;
	check(&asked, "a1", ERR_NOT_FOUND);
	take(&asked, EVENT_ASK, "{\"ask\":\"a1\"}");
	take(&asked, EVENT_ASK, "{\"ask\":\"a2\"}");
	check(&asked, "a1", ERR_OK);
	take(&asked, EVENT_VERDICT, "{\"ask\":\"a1\",\"success\":true}");
	check(&asked, "a1", ERR_DUPLICATE);
	check(&asked, "a2", ERR_OK);
	check(&asked, "a3", ERR_NOT_FOUND);
	take(&asked, EVENT_RESTARTED, "{\"reason\":\"died\"}");
	check(&asked, "a2", ERR_OK); /* the interpreter's end is not the asking program's */
	take(&asked, EVENT_RESTARTED, "{\"reason\":\"reopened\"}");
	check(&asked, "a2", ERR_DUPLICATE);
	assert_int_equal(asked.count, 2);
}

static void branches_go_on(void **state)
{
	struct asked asked = ASKED_INIT;

	(void)state;
	take(&asked, EVENT_SESSION, "{\"parent\":{\"session\":\"x\",\"asks\":7}}");
	assert_int_equal(asked.count, 7);
	check(&asked, "a7", ERR_DUPLICATE);
	take(&asked, EVENT_ASK, "{\"ask\":\"a8\"}");
	check(&asked, "a8", ERR_OK);
}

static void damage_is_harmless(void **state)
{
	static const char *const bodies[] = {
		"{}",
		"{\"ask\":null}",
		"{\"ask\":7}",
		"{\"ask\":\"\"}",
		"{\"ask\":\"a\"}",
		"{\"ask\":\"a0\"}",
		"{\"ask\":\"a01\"}",
		"{\"ask\":\"a1x\"}",
		"{\"ask\":\"b1\"}",
		"{\"ask\":\"a99999999999999999999999999\"}",
		"{\"parent\":7,\"reason\":[]}",
		"{\"parent\":{\"asks\":-1}}",
		"{\"parent\":{\"asks\":1e300}}",
		"{\"parent\":{\"asks\":9223372036854775807}}",
	};
	struct asked asked = ASKED_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
		for (enum event_type type = 0; type < EVENT_TYPE_COUNT; type++)
			if (type != EVENT_STREAM)
				take(&asked, type, bodies[i]);
	assert_int_equal(asked.count, 0);
	take(&asked, EVENT_ASK, "{\"ask\":\"a5\"}"); /* four lines are damaged */
	take(&asked, EVENT_ASK, "{\"ask\":\"a5\"}");
	take(&asked, EVENT_ASK, "{\"ask\":\"a3\"}");
	assert_int_equal(asked.count, 5);
	assert_int_equal(asked.open_count, 1);
}

static void the_oldest_goes(void **state)
{
	struct asked asked = ASKED_INIT;

	(void)state;
	for (uint32_t i = 1; i <= ASKED_OPEN_MAX + 2; i++) {
		char id[ASKED_ID_SIZE], body[64];

		asked_name(i, id);
		assert_int_equal(asked_number(id), i);
		snprintf(body, sizeof(body), "{\"ask\":\"%s\"}", id);
		take(&asked, EVENT_ASK, body);
	}
	assert_int_equal(asked.open_count, ASKED_OPEN_MAX);
	check(&asked, "a2", ERR_DUPLICATE);
	check(&asked, "a3", ERR_OK);
	check(&asked, "a66", ERR_OK);
}

static const struct {
	void (*words)(struct buf *out, const struct json *body);
	const char *body, *want;
} WORDS[] = {
	{asked_attempt_words,
	 "{\"attempt\":2,\"state\":\"finished\",\"status\":\"ok\",\"run_seconds\":0.81,\"tokens\":"
	 "57}",
	 "2: ok, 0.8 s, 57 tokens"},
	{asked_attempt_words, "{\"attempt\":3,\"state\":\"started\",\"kind\":\"repair\",\"of\":1}",
	 "3: started, mends 1"},
	{asked_attempt_words, "{\"attempt\":4,\"status\":\"repeated\",\"of\":2,\"tokens\":1}",
	 "4: repeated, as 2, 1 token"},
	{asked_attempt_words,
	 "{\"attempt\":1,\"status\":\"error\",\"error\":{\"ename\":\"Name\\nError\"}}",
	 "1: error (Name Error)"},
	{asked_attempt_words,
	 "{\"attempt\":1,\"status\":\"model\",\"message\":\"the server has gone\"}",
	 "1: model (the server has gone)"},
	{asked_attempt_words, "{}", "0: ?"},
	{asked_attempt_words, "{\"attempt\":\"x\",\"status\":7,\"error\":[],\"tokens\":{}}",
	 "0: ?"},
	{asked_verdict_words,
	 "{\"success\":true,\"confidence\":\"agreed\",\"agreement\":{\"k\":3,\"n\":5}}",
	 "agreed 3 of 5"},
	{asked_verdict_words, "{\"success\":true,\"confidence\":\"checked\",\"agreement\":null}",
	 "checked"},
	{asked_verdict_words, "{\"success\":true}", "answered"},
	{asked_verdict_words, "{\"success\":false,\"message\":\"a\\nb\"}", "no answer: a b"},
	{asked_verdict_words, "{\"confidence\":\"checked\"}", "no answer"},
};

static void words(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(WORDS) / sizeof(*WORDS); i++) {
		struct event event = kit_event(EVENT_VERDICT, NULL, WORDS[i].body);
		cleanup_buf struct buf out = BUF_INIT;

		WORDS[i].words(&out, event.body);
		assert_string_equal(buf_bytes(&out), WORDS[i].want);
		event_release(&event);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_and_ends),
		cmocka_unit_test(branches_go_on),
		cmocka_unit_test(damage_is_harmless),
		cmocka_unit_test(the_oldest_goes),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
