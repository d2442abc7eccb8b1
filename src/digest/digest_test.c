/*
 * Tests of the whole fold: what a cell's events look like to a model.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "digest/digest.h"

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA="

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void apply(struct digest *digest, enum event_type type, const char *body)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string("c1");
	event.body = json_parse(body, strlen(body), &JSON_LIMITS, NULL);
	assert_non_null(event.body);
	digest_apply(digest, &event);
}

static void print(struct digest *digest, bool is_stderr, const char *text)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.cell = mem_string("c1");
	event.is_stderr = is_stderr;
	event.text = mem_string(text);
	event.text_len = strlen(text);
	digest_apply(digest, &event);
}

static char *text_of(const struct digest *digest)
{
	struct buf out = BUF_INIT;

	digest_text(digest, &out);
	return buf_take(&out, NULL);
}

static void expect(struct digest *digest, const char *expected)
{
	cleanup_free char *text = text_of(digest);

	assert_string_equal(text, expected);
}

/* As expect, and frees the digest. */
static void end(struct digest *digest, const char *expected)
{
	expect(digest, expected);
	digest_free(digest);
}

static struct digest *fresh(size_t item, size_t total, const char *whole)
{
	return digest_new(&(struct digest_params){
		.item_chars_max = item, .total_chars_max = total, .whole = whole});
}

static void says_no_output(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	expect(digest, "(no output)");
	apply(digest, EVENT_CELL, "{\"code\":\"x = 1\"}");
	apply(digest, EVENT_STARTED, "{}");
	apply(digest, EVENT_FINISHED, "{\"status\":\"ok\",\"state\":\"kept\"}");
	expect(digest, "(no output)");
	print(digest, false, "\n");
	end(digest, "(no output)");
}

static void keeps_the_order(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	print(digest, false, "rows: ");
	print(digest, false, "12\n");
	apply(digest, EVENT_DISPLAY, "{\"data\":{\"text/plain\":\"'shown'\"}}");
	apply(digest, EVENT_DISPLAY, "{\"data\":{\"text/plain\":\"two\"}}");
	print(digest, false, "more");
	apply(digest, EVENT_RESULT, "{\"data\":{\"text/plain\":\"3.5\"},\"execution_count\":1}");
	apply(digest, EVENT_FINISHED, "{\"status\":\"ok\",\"state\":\"kept\"}");
	end(digest, "rows: 12\n'shown'\ntwo\nmore\n3.5");
}

static void marks_stderr(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	print(digest, true, "only stderr\n");
	expect(digest, "only stderr");
	print(digest, false, "out\n");
	print(digest, true, "one\ntwo");
	print(digest, false, "out again\n");
	end(digest, "[stderr] only stderr\nout\n[stderr]\none\ntwo\n[end of stderr]\nout again");

	digest = digest_new(NULL);
	print(digest, true,
	      "<cell 1>:2: UserWarning: unit guessed\n  warnings.warn('unit guessed')\n");
	print(digest, false, "done\n");
	end(digest, "<cell 1>:2: UserWarning: unit guessed\n  warnings.warn('unit guessed')\ndone");
}

static void redraws_progress(void **state)
{
	struct digest *digest = digest_new(NULL);
	char text[40];

	(void)state;
	for (int i = 0; i <= 100; i++) {
		snprintf(text, sizeof(text), "\rload %3d%%", i);
		print(digest, true, text);
		if (i % 50 == 0) {
			snprintf(text, sizeof(text), "loss %d\n", i);
			print(digest, false, text);
		}
	}
	print(digest, true, "\n");
	end(digest, "loss 0\nloss 50\nload 100%\nloss 100");
}

static void mentions_images(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	apply(digest, EVENT_DISPLAY,
	      "{\"data\":{\"image/png\":\"" PNG
	      "\",\"text/plain\":\"<Figure size 640x480 with 1 Axes>\"}}");
	apply(digest, EVENT_RESULT,
	      "{\"data\":{\"image/svg+xml\":\"<svg></svg>\",\"text/plain\":\"a drawing\"}}");
	apply(digest, EVENT_DISPLAY,
	      "{\"data\":{\"image/jpeg\":{\"$blob\":\"" HASH "\",\"bytes\":23400000}}}");
	end(digest, "[image/png 640x480, 29 B: images/c1-1.png]\n"
		    "[image/svg+xml, 11 B: images/c1-2.svg]\na drawing\n"
		    "[image/jpeg, 23.4 MB: images/c1-3.jpg]");
}

static void chooses_the_form(void **state)
{
	static const struct {
		const char *data;
		const char *text;
	} CASES[] = {
		{"{\"text/plain\":\"'17'\"}", "'17'"},
		{"{\"text/html\":\"<b>three</b>\",\"text/plain\":\"Badge(3)\"}", "Badge(3)"},
		{"{\"text/markdown\":\"*hi*\",\"text/plain\":\"<IPython.core.display.Markdown "
		 "object>\"}",
		 "*hi*"},
		{"{\"text/latex\":\"$x^2$\",\"text/plain\":\"<Latex object>\"}", "$x^2$"},
		{"{\"text/html\":\"<b>x</b>\",\"text/plain\":\"<a.B object at 0x7f00>\"}", "x"},
		{"{\"text/html\":\"<script>1</script>\",\"text/plain\":\"<a.B object at 0x7f00>\"}",
		 "<a.B object at 0x7f00>"},
		{"{\"text/plain\":\"<Figure size 640x480>\"}", "<Figure size 640x480>"},
		{"{\"application/json\":{\"a\":[1]},\"text/plain\":\"<JSON object>\"}",
		 "{\"a\":[1]}"},
		{"{\"application/pdf\":\"QUJD\"}", "[application/pdf, 3 B]"},
		{"{\"text/csv\":\"a,b\"}", "a,b"},
		{"{\"text/html\":\"<script>1</script>\"}", "[text/html, 18 B]"},
		{"{\"text/plain\":{\"$blob\":\"0\",\"bytes\":20000000}}", "[text/plain, 20.0 MB]"},
		{"{\"text/plain\":\"\"}", "(no output)"},
		{"{\"text/plain\":\"\\u001b[31mred\\u001b[0m\"}", "red"},
		{"{}", "(no output)"},
		{"[]", "(no output)"},
		{"{\"image/png\":7,\"text/plain\":[1]}", "[image/png, 1 B]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct digest *digest = digest_new(NULL);
		cleanup_free char *body = mem_format("{\"data\":%s}", CASES[i].data);

		apply(digest, EVENT_RESULT, body);
		end(digest, CASES[i].text);
	}
}

static void updates_displays(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	apply(digest, EVENT_DISPLAY,
	      "{\"data\":{\"text/plain\":\"'zero'\"},\"display_id\":\"level\"}");
	print(digest, false, "x\n");
	apply(digest, EVENT_UPDATE_DISPLAY,
	      "{\"data\":{\"text/plain\":\"'one'\"},\"display_id\":\"level\"}");
	apply(digest, EVENT_UPDATE_DISPLAY,
	      "{\"data\":{\"image/png\":\"" PNG "\"},\"display_id\":\"other\"}");
	apply(digest, EVENT_UPDATE_DISPLAY, "{\"data\":{\"text/plain\":\"'none'\"}}");
	expect(digest, "'one'\nx");
	apply(digest, EVENT_UPDATE_DISPLAY,
	      "{\"data\":{\"image/png\":\"" PNG "\"},\"display_id\":\"level\"}");
	/* The image of the other id has number 1: the keeper counted it as well. */
	end(digest, "[image/png 640x480, 29 B: images/c1-2.png]\nx");
}

static void clears(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	print(digest, false, "draft\n");
	apply(digest, EVENT_DISPLAY, "{\"data\":{\"text/plain\":\"x\"},\"display_id\":\"a\"}");
	apply(digest, EVENT_CLEAR, "{\"wait\":false}");
	expect(digest, "(no output)");
	apply(digest, EVENT_UPDATE_DISPLAY,
	      "{\"data\":{\"text/plain\":\"y\"},\"display_id\":\"a\"}");
	expect(digest, "(no output)");
	for (int i = 0; i < 4; i++) {
		apply(digest, EVENT_CLEAR, "{\"wait\":true}");
		print(digest, false, "round\n");
	}
	apply(digest, EVENT_CLEAR, "{\"wait\":true}");
	end(digest, "round");
}

static void keeps_text_before_an_error(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	apply(digest, EVENT_CELL, "{\"code\":\"print('before')\\n1 / 0\\nprint('after')\"}");
	print(digest, false, "before\n");
	apply(digest, EVENT_ERROR,
	      "{\"ename\":\"ZeroDivisionError\",\"evalue\":\"division by zero\",\"traceback\":["
	      "\"Traceback (most recent call last):\\n\",\"  File \\\"<cell 1>\\\", line 2, in "
	      "<module>\\n"
	      "    1 / 0\\n    ~~^~~\\n\",\"ZeroDivisionError: division by zero\\n\"]}");
	apply(digest, EVENT_FINISHED, "{\"status\":\"error\",\"state\":\"kept\"}");
	end(digest,
	    "before\nTraceback (most recent call last):\n  File \"<cell 1>\", line 2, in <module>\n"
	    "      1 | print('before')\n    > 2 | 1 / 0\n        | ~~^~~\n      3 | "
	    "print('after')\n"
	    "ZeroDivisionError: division by zero");
}

static void shows_prompts(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	apply(digest, EVENT_INPUT_REQUEST, "{\"prompt\":\"name? \",\"password\":false}");
	apply(digest, EVENT_INPUT, "{\"text\":\"Ada\"}");
	apply(digest, EVENT_INPUT_REQUEST, "{\"prompt\":\"key: \",\"password\":true}");
	apply(digest, EVENT_INPUT, "{\"text\":\"secret\",\"password\":true}");
	print(digest, false, "ok\n");
	apply(digest, EVENT_INPUT_REQUEST, "{\"prompt\":\"last: \",\"password\":false}");
	apply(digest, EVENT_INPUT, "{\"eof\":true}");
	end(digest, "name? Ada\nkey: \nok\nlast: ");
}

/* What is said for the body of a `finished` event; NULL: see below. */
static const struct {
	const char *finished;
	const char *text;
} ENDINGS[] = {
	{"{\"status\":\"timeout\",\"state\":\"kept\",\"duration_us\":1034567}",
	 "[timed out: the cell was stopped at its time limit of 1 s; variables are kept]"},
	{"{\"status\":\"interrupted\",\"state\":\"recovered\"}",
	 "[interrupted: the cell was stopped; variables are as they were just before this "
	 "cell]"},
	{"{\"status\":\"died\",\"reason\":\"signal 11\",\"state\":\"reset\"}",
	 "[died: the interpreter ended (signal 11); variables are lost: the session starts "
	 "empty]"},
	{"{\"status\":\"died\",\"reason\":\"a\\u001b[31m\\nb\",\"state\":\"recovered\","
	 "\"recovers_to\":\"c7\"}",
	 NULL},
	{"{\"status\":\"timeout\",\"reason\":\"wall_s\",\"state\":\"kept\",\"limit\":{"
	 "\"name\":\"wall_s\",\"value\":0.5,\"unit\":\"s\"}}",
	 "[timed out: the cell was stopped at its time limit of 0.5 s; variables are "
	 "kept]"},
	{"{\"status\":\"timeout\",\"reason\":\"cpu_s\",\"state\":\"kept\",\"limit\":{"
	 "\"name\":\"cpu_s\",\"value\":2,\"unit\":\"s\"}}",
	 "[timed out: the cell was stopped at the limit cpu_s of 2 s; variables are kept]"},
	{"{\"status\":\"interrupted\",\"reason\":\"disk_bytes\",\"state\":\"kept\","
	 "\"limit\":{"
	 "\"name\":\"disk_bytes\",\"value\":5000000,\"unit\":\"bytes\"}}",
	 "[interrupted: the cell was stopped (limit disk_bytes of 5.0 MB); variables are "
	 "kept]"},
	{"{\"status\":\"died\",\"reason\":\"out of memory: limit memory_bytes, 2 GiB\","
	 "\"state\":\"reset\",\"limit\":{\"name\":\"memory_bytes\",\"value\":2147483648}}",
	 "[died: the interpreter ended (out of memory: limit memory_bytes, 2 GiB); "
	 "variables "
	 "are lost: the session starts empty]"},
	{"{\"status\":\"error\",\"state\":\"kept\",\"limit\":{\"name\":\"files\",\"value\":"
	 "1024,"
	 "\"unit\":\"files\",\"likely\":true}}",
	 "[error: it most likely comes from the limit files of 1,024; variables are kept]"},
	{"{\"status\":\"interrupted\",\"reason\":\"x\",\"limit\":[1]}",
	 "[interrupted: the cell was stopped (x)]"},
	{"{\"status\":\"cancelled\",\"state\":\"kept\"}", "[cancelled: the cell did not run]"},
	{"{\"status\":\"ok\",\"state\":\"gone\"}", "[variables are lost: the session has ended]"},
	{"{\"status\":\"ok\",\"state\":\"rolled_back\"}",
	 "[rolled back: variables are as they were just before this cell]"},
	{"{\"status\":\"interrupted\",\"state\":\"rolled_back\",\"lost\":{\"connections\":"
	 "1}}",
	 "[interrupted: the cell was stopped; rolled back: variables are as they were just "
	 "before this cell; not restored: 1 connection]"},
	{"{\"status\":\"died\",\"reason\":\"signal 11\",\"state\":\"recovered\","
	 "\"recovers_to\":\"c2\",\"rolled_back\":[\"c3\"],\"lost\":{\"threads\":[\"work\"]}"
	 "}",
	 "[died: the interpreter ended (signal 11); variables are as they were just after "
	 "cell c2; lost as well: what cell c3 did; not restored: thread work]"},
	{"{\"status\":\"died\",\"state\":\"recovered\",\"rolled_back\":[\"c3\",\"c4\"],"
	 "\"lost\":{}}",
	 "[died: the interpreter ended; variables are as at the beginning of the session; "
	 "lost as well: what cells c3 and c4 did]"},
	{"{\"status\":\"died\",\"state\":\"reset\",\"rolled_back\":[\"c3\"],\"lost\":{"
	 "\"connections\":1}}",
	 "[died: the interpreter ended; variables are lost: the session starts empty]"},
	{"{\"status\":\"novel\",\"reason\":\"x\"}", "[novel (x)]"},
	{"{\"status\":\"error\",\"state\":\"kept\"}", ""},
	{"{}", ""},
};

static void says_how_it_ended(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ENDINGS) / sizeof(ENDINGS[0]); i++) {
		struct digest *digest = digest_new(NULL);
		cleanup_free char *expected = NULL;
		cleanup_free char *text = NULL;

		apply(digest, EVENT_CELL, "{\"code\":\"f()\",\"timeout\":1}");
		print(digest, false, "epoch 1\n");
		apply(digest, EVENT_FINISHED, ENDINGS[i].finished);
		text = text_of(digest);
		if (ENDINGS[i].text) {
			expected = mem_format("epoch 1%s%s", ENDINGS[i].text[0] ? "\n" : "",
					      ENDINGS[i].text);
			assert_string_equal(text, expected);
		} else {
			assert_null(strchr(text, '\x1b'));
			assert_non_null(
				strstr(text, "; variables are as they were just after cell c7]"));
		}
		digest_free(digest);
	}
}

static void says_what_was_dropped(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	print(digest, false, "x\n");
	apply(digest, EVENT_TRUNCATED,
	      "{\"name\":\"stdout\",\"bytes_dropped\":1234567,\"limit\":\"output_bytes\"}");
	apply(digest, EVENT_TRUNCATED, "{}");
	apply(digest, EVENT_WARNING, "{\"code\":\"disk\",\"message\":\"little space\"}");
	end(digest,
	    "x\n[stdout: 1,234,567 bytes left out: over the limit output_bytes]\n"
	    "[output: 0 bytes left out: over the cell's output limit]\n[warning: little space]");
}

static void cuts_long_output(void **state)
{
	struct digest *digest = fresh(0, 4000, "fumehood log s --cell c1");
	char row[32];
	cleanup_free char *text = NULL;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		snprintf(row, sizeof(row), "row %d\n", i);
		print(digest, false, row);
	}
	text = text_of(digest);
	assert_memory_equal(text, "row 0\nrow 1\n", 12);
	assert_non_null(strstr(text, "\nrow 49999"));
	assert_non_null(strstr(
		text, " characters left out; the whole is in: fumehood log s --cell c1 ...]\n"));
	assert_true(text_count(text, strlen(text)) <= 2000);
	digest_free(digest);
}

static void counts_many_outputs(void **state)
{
	struct digest *digest = digest_new(NULL);
	cleanup_free char *text = NULL;
	char body[80];

	(void)state;
	for (int i = 0; i < 30000; i++) {
		snprintf(body, sizeof(body), "{\"data\":{\"text/plain\":\"d%d\"}}", i);
		apply(digest, EVENT_DISPLAY, body);
	}
	text = text_of(digest);
	assert_memory_equal(text, "d0\nd1\nd2\n", 9);
	assert_non_null(strstr(text, "\nd29999"));
	assert_non_null(strstr(text, " outputs with "));
	assert_true(text_count(text, strlen(text)) <= 8000);
	digest_free(digest);
}

/* A million alternating parts: bounded, and the ends are right. */
static void bears_alternating_streams(void **state)
{
	struct digest *digest = fresh(0, 0, NULL);
	cleanup_free char *text = NULL;

	(void)state;
	for (int i = 0; i < 500000; i++) {
		print(digest, false, "out\n");
		print(digest, true, "err\n");
	}
	text = text_of(digest);
	assert_memory_equal(text, "out\n[stderr] err\nout\n", 21);
	assert_string_equal(text + strlen(text) - 16, "out\n[stderr] err");
	assert_true(text_count(text, strlen(text)) <= 8000);
	digest_free(digest);
}

/* Every limit, over a cell that has everything. */
static void never_exceeds_a_limit(void **state)
{
	(void)state;
	for (size_t total = 1; total < 700; total++) {
		struct digest *digest = fresh(total % 3 ? 0 : 1 + total / 5, total,
					      total % 2 ? "fumehood log x" : NULL);
		cleanup_free char *text = NULL;

		apply(digest, EVENT_CELL, "{\"code\":\"f()\"}");
		for (int i = 0; i < 60; i++)
			print(digest, i % 7 == 0,
			      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80\xf0\x9f\x87\xa9\xf0\x9f"
			      "\x87\xaa"
			      "e\xcc\x81 text\n");
		apply(digest, EVENT_DISPLAY,
		      "{\"data\":{\"image/png\":\"" PNG "\"},\"display_id\":\"a\"}");
		apply(digest, EVENT_UPDATE_DISPLAY,
		      "{\"data\":{\"text/html\":\"<p>long text "
		      "<b>x</b></p>\"},\"display_id\":\"a\"}");
		apply(digest, EVENT_ERROR,
		      "{\"ename\":\"ValueError\",\"evalue\":\"x\",\"traceback\":[\"ValueError: "
		      "x\"]}");
		apply(digest, EVENT_FINISHED, "{\"status\":\"timeout\",\"state\":\"kept\"}");
		text = text_of(digest);
		assert_true(text_is_utf8(text, strlen(text)));
		assert_true(text_count(text, strlen(text)) <= total);
		assert_true(strlen(text) > 0);
		digest_free(digest);
	}
}

static void text_changes_nothing(void **state)
{
	struct digest *digest = digest_new(NULL);

	(void)state;
	print(digest, false, "abc\r");
	expect(digest, "abc");
	expect(digest, "abc");
	print(digest, false, "X");
	expect(digest, "Xbc");
	digest_free(NULL);
	digest_free(digest);
}

static void says_what_undid_it(void **state)
{
	static const struct {
		enum timeline_fate fate;
		const char *by, *want;
	} cases[] = {
		{TIMELINE_HELD, NULL, "7"},
		{TIMELINE_GONE, NULL, "7"},
		{TIMELINE_ROLLED_BACK, "rollback",
		 "7\n[rolled back later: what this cell did is not in the variables any more]"},
		{TIMELINE_ROLLED_BACK, "reset",
		 "7\n[rolled back later by a reset: what this cell did is not in the variables any "
		 "more]"},
		{TIMELINE_ROLLED_BACK, "try", "7"}, /* its outcome says so */
		{TIMELINE_LOST, NULL,
		 "7\n[lost later, when the interpreter died: what this cell did is not in the "
		 "variables any more]"},
	};
	struct digest *digest = digest_new(NULL);

	(void)state;
	print(digest, false, "7\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct timeline_cell cell = {.fate = cases[i].fate, .by = cases[i].by};

		digest_set_fate(digest, &cell);
		expect(digest, cases[i].want);
	}
	digest_set_fate(digest, NULL);
	end(digest, "7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_undid_it),
		cmocka_unit_test(says_no_output),
		cmocka_unit_test(keeps_the_order),
		cmocka_unit_test(marks_stderr),
		cmocka_unit_test(redraws_progress),
		cmocka_unit_test(mentions_images),
		cmocka_unit_test(chooses_the_form),
		cmocka_unit_test(updates_displays),
		cmocka_unit_test(clears),
		cmocka_unit_test(keeps_text_before_an_error),
		cmocka_unit_test(shows_prompts),
		cmocka_unit_test(says_how_it_ended),
		cmocka_unit_test(says_what_was_dropped),
		cmocka_unit_test(cuts_long_output),
		cmocka_unit_test(counts_many_outputs),
		cmocka_unit_test(bears_alternating_streams),
		cmocka_unit_test(never_exceeds_a_limit),
		cmocka_unit_test(text_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
