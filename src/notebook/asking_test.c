/*
 * Asks in the notebook: what each history of one shows, and that nothing a model writes becomes
 * markup. Whether the file is valid is nbformat's to say (test/flow/test_record.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/kit.h"
#include "notebook/asking.h"
#include "notebook/notebook.h"

#define ASK "\"type\":\"ask\",\"ask\":\"a1\",\"instruction\":\"why?\",\"model\":\"m\""
#define SHOWN ASK ",\"notebook_attempts\":\"show\""
#define CODE "\"type\":\"code\",\"ask\":\"a1\",\"attempt\":1,\"code\":\"x\""
#define FAILED \
	"\"type\":\"attempt\",\"ask\":\"a1\",\"attempt\":1,\"state\":\"finished\"," \
	"\"status\":\"error\",\"stdout\":\"before\\n\",\"stderr\":\"\"," \
	"\"error\":{\"ename\":\"NameError\",\"evalue\":\"x\",\"line\":1,\"source\":\"x\"}"
#define CELL "\"type\":\"cell\",\"cell\":\"c1\",\"code\":\"print(7)\""
#define ENDED \
	"\"type\":\"finished\",\"cell\":\"c1\",\"status\":\"ok\",\"state\":\"kept\"," \
	"\"execution_count\":1"
#define ANSWER \
	"\"type\":\"verdict\",\"cell\":\"c1\",\"ask\":\"a1\",\"success\":true," \
	"\"confidence\":\"agreed\",\"agreement\":{\"k\":2,\"n\":3},\"attempt\":2"
#define BACK "\"type\":\"rollback\",\"cell\":null,\"reason\":\"asked\",\"rolled_back\":[\"c1\"]"

static void apply(struct notebook *notebook, int seq, const char *fields)
{
	cleanup_free char *line =
		mem_format("{\"seq\":%d,\"t\":\"2026-11-30T17:00:00.000000Z\",%s}", seq, fields);
	cleanup_event struct event event = EVENT_INIT;
	struct err err = ERR_INIT;

	if (event_parse(line, strlen(line), &event, &err) != 0)
		fail_msg("%s: %s", err.text, line);
	notebook_apply(notebook, &event);
}

/* The sources of the cells, a line "--" between them; printed after each event as a live session
 * does it, so that a form that was not printed anew is found. */
static char *sources(const char *const *lines, enum notebook_rolled_back what)
{
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf file = BUF_INIT, joined = BUF_INIT, out = BUF_INIT;
	cleanup_json struct json *live = NULL, *again = NULL;
	const struct json *cells;

	notebook_set_rolled_back(notebook, what);
	for (int i = 0; lines[i]; i++) {
		apply(notebook, i + 1, lines[i]);
		buf_clear(&file);
		notebook_write(notebook, &file);
	}
	notebook_write_joined(notebook, NOTEBOOK_AS_SAID, &joined);
	again = json_parse(buf_bytes(&joined), joined.len, &JSON_LIMITS, NULL);
	live = json_parse(buf_bytes(&file), file.len, &JSON_LIMITS, NULL);
	cells = json_get(again, "cells");
	assert_int_equal(json_length(json_get(live, "cells")), json_length(cells));
	for (size_t i = 0; i < json_length(cells); i++)
		buf_printf(&out, "%s%s", i ? "\n--\n" : "",
			   json_get_string(json_at(cells, i), "source"));
	notebook_free(notebook);
	return buf_take(&out, NULL);
}

static void check(const char *want, enum notebook_rolled_back what, const char *const *lines)
{
	cleanup_free char *got = sources(lines, what);

	assert_string_equal(got, want);
}

#define CHECK(want, what, ...) check(want, what, (const char *const[]){__VA_ARGS__, NULL})
#define QUESTION "why?\n\n*\\[fumehood: "
#define DETAILS \
	"<details>\n<summary>attempt 1: error (NameError)</summary>\n\n```python\nx\n```\n\n" \
	"stdout:\n\n```text\nbefore\n```\n\n```text\nNameError: x (line 1: x)\n```\n\n</details>"

static void histories(void **state)
{
	(void)state;
	CHECK(QUESTION "no answer: this ask has not finished\\]*", NOTEBOOK_OMIT, ASK);
	CHECK(QUESTION "no answer: this ask has not finished\\]*", NOTEBOOK_OMIT, ASK,
	      "\"type\":\"restarted\",\"reason\":\"reopened\"", ANSWER);
}

static void shows_how_it_is_known(void **state)
{
	(void)state;
	CHECK(QUESTION "agreed 2 of 3, by cell c1\\]*\n--\nprint(7)", NOTEBOOK_OMIT, ASK, CODE,
	      FAILED, CELL, ENDED, ANSWER);
	CHECK(QUESTION "no answer: every program failed: \\_x\\_ \\<b\\>\\]*", NOTEBOOK_OMIT, ASK,
	      CODE, FAILED,
	      "\"type\":\"verdict\",\"ask\":\"a1\",\"success\":false,"
	      "\"message\":\"every program failed: _x_ <b>\"");
}

static void attempts_by_option(void **state)
{
	(void)state;
	CHECK(QUESTION "agreed 2 of 3, by cell c1\\]*\n--\nprint(7)\n--\n" DETAILS, NOTEBOOK_OMIT,
	      SHOWN, CODE, FAILED, CELL, ENDED, ANSWER);
	/* The chosen one is a cell already, and what is under way says so. */
	CHECK(QUESTION "agreed 2 of 3\\]*\n--\n<details>\n<summary>attempt 3: not finished, mends "
		       "2</summary>\n\n</details>",
	      NOTEBOOK_OMIT, SHOWN, "\"type\":\"code\",\"ask\":\"a1\",\"attempt\":2,\"code\":\"x\"",
	      "\"type\":\"attempt\",\"ask\":\"a1\",\"attempt\":3,\"state\":\"started\",\"of\":2",
	      "\"type\":\"verdict\",\"ask\":\"a1\",\"success\":true,\"confidence\":\"agreed\","
	      "\"agreement\":{\"k\":2,\"n\":3},\"attempt\":2");
}

/* The question goes with its answer, and comes back with it. */
static void what_is_rolled_back(void **state)
{
	(void)state;
	CHECK("", NOTEBOOK_OMIT, SHOWN, CODE, FAILED, CELL, ENDED, ANSWER, BACK);
	CHECK(QUESTION "agreed 2 of 3, by cell c1\\]*\n--\nprint(7)", NOTEBOOK_KEEP, ASK, CELL,
	      ENDED, ANSWER, BACK);
	/* Undone before the verdict names it. */
	CHECK("", NOTEBOOK_OMIT, ASK, CELL, ENDED, BACK, ANSWER);
	CHECK(QUESTION "no answer: this ask has not finished\\]*", NOTEBOOK_OMIT, ASK, CELL, ENDED,
	      BACK);
}

static void nothing_is_markup(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_json struct json *finished = json_new_object();
	cleanup_json struct json *code = json_new_string("'''\n````\n<b>", 12);

	(void)state;
	json_set_int(finished, "attempt", 1);
	json_set_string(finished, "status", "</summary><script>&");
	json_set_string(finished, "stdout", "```\n</details>\x1b[31m");
	asking_attempt(&out, code, finished);
	assert_string_equal(
		buf_bytes(&out),
		"<details>\n<summary>attempt 1: &lt;/summary&gt;&lt;script&gt;&amp;</summary>\n\n"
		"`````python\n'''\n````\n<b>\n`````\n\nstdout:\n\n````text\n```\n"
		"</details>\\x1b[31m\n````\n\n</details>\n");
}

static void long_output_is_cut(void **state)
{
	cleanup_buf struct buf text = BUF_INIT, out = BUF_INIT;
	cleanup_json struct json *finished = json_new_object();

	(void)state;
	for (int i = 0; i < ASKING_OUTPUT_CHARS_MAX; i++)
		buf_append_string(&text, "\xc3\xa4"); /* two bytes */
	json_set(finished, "stdout", json_new_string(buf_bytes(&text), text.len));
	asking_attempt(&out, NULL, finished);
	assert_null(strstr(buf_bytes(&out), "left out"));
	buf_append_string(&text, "end");
	json_set(finished, "stdout", json_new_string(buf_bytes(&text), text.len));
	buf_clear(&out);
	asking_attempt(&out, NULL, finished);
	assert_non_null(strstr(buf_bytes(&out), "\n[... 3 characters left out ...]\n"));
	assert_non_null(strstr(buf_bytes(&out), "end\n```"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histories),          cmocka_unit_test(shows_how_it_is_known),
		cmocka_unit_test(attempts_by_option), cmocka_unit_test(what_is_rolled_back),
		cmocka_unit_test(nothing_is_markup),  cmocka_unit_test(long_output_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
