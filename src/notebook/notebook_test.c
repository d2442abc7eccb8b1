/*
 * The fold: event lines in, cells of the notebook out.
 *
 * Each test folds a few lines and looks at the joined form, read back as JSON. After every event
 * the file's form is made too, and at the end compared with that of a fold that printed only
 * once, so that each test also proves the cache of printed cells.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "notebook/notebook.h"

/* A line without seq and time: they are put in front. */
static void apply(struct notebook *notebook, uint64_t seq, const char *fields)
{
	cleanup_buf struct buf line = BUF_INIT;
	cleanup_event struct event event = EVENT_INIT;
	struct err err = ERR_INIT;

	buf_printf(&line, "{\"seq\":%llu,\"t\":\"2026-11-29T17:16:%02llu.000001Z\",%s}",
		   (unsigned long long)seq, (unsigned long long)seq % 60, fields);
	if (event_parse(buf_bytes(&line), line.len, &event, &err) < 0)
		fail_msg("%s: %s", err.text, fields);
	notebook_apply(notebook, &event);
}

/* Folds lines up to NULL and returns the joined form, parsed. */
static struct json *fold(const char *const *lines)
{
	struct notebook *live = notebook_new();
	struct notebook *late = notebook_new();
	cleanup_buf struct buf live_form = BUF_INIT;
	cleanup_buf struct buf late_form = BUF_INIT;
	cleanup_buf struct buf joined = BUF_INIT;
	struct err err = ERR_INIT;
	struct json *json;

	for (uint64_t i = 0; lines[i] != NULL; i++) {
		apply(live, i + 1, lines[i]);
		apply(late, i + 1, lines[i]);
		buf_clear(&live_form);
		notebook_write(live, &live_form);
		assert_false(notebook_changed(live));
	}
	notebook_write(late, &late_form);
	assert_string_equal(buf_bytes(&live_form), buf_bytes(&late_form));
	notebook_write_joined(live, NOTEBOOK_AS_SAID, &joined);
	json = json_parse(buf_bytes(&joined), joined.len, &JSON_LIMITS, &err);
	if (json == NULL)
		fail_msg("%s", err.text);
	notebook_free(live);
	notebook_free(late);
	return json;
}

#define FOLD(...) fold((const char *const[]){__VA_ARGS__, NULL})

static struct json *cell_at(const struct json *notebook, size_t index)
{
	return json_at(json_get(notebook, "cells"), index);
}

static struct json *output_at(const struct json *notebook, size_t cell, size_t index)
{
	return json_at(json_get(cell_at(notebook, cell), "outputs"), index);
}

static size_t output_count(const struct json *notebook, size_t cell)
{
	return json_length(json_get(cell_at(notebook, cell), "outputs"));
}

static void check_json(const struct json *value, const char *want)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, value);
	assert_string_equal(buf_bytes(&text), want);
}

#define CELL(id) "\"type\":\"cell\",\"cell\":\"" id "\",\"code\":\"x = 1\\n\\nx\""
#define OUT(id, text) \
	"\"type\":\"stream\",\"cell\":\"" id "\",\"name\":\"stdout\",\"text\":\"" text "\""
#define ERR(id, text) \
	"\"type\":\"stream\",\"cell\":\"" id "\",\"name\":\"stderr\",\"text\":\"" text "\""
#define SHOW(type, id, text, display) \
	"\"type\":\"" type "\",\"cell\":\"" id "\",\"data\":{\"text/plain\":\"" text \
	"\"},\"metadata\":{},\"display_id\":" display
#define CLEAR(id, wait) "\"type\":\"clear\",\"cell\":\"" id "\",\"wait\":" wait
#define FINISHED(id, rest) "\"type\":\"finished\",\"cell\":\"" id "\"," rest

static void test_empty(void **state)
{
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf form = BUF_INIT;

	(void)state;
	assert_true(notebook_changed(notebook));
	notebook_write(notebook, &form);
	assert_string_equal(buf_bytes(&form),
			    "{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n "
			    "\"nbformat_minor\": 5\n}\n");
	assert_false(notebook_changed(notebook));
	assert_int_equal(notebook_cell_count(notebook), 0);
	notebook_free(notebook);
	notebook_free(NULL);
}

static void test_whole_form(void **state)
{
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf form = BUF_INIT;

	(void)state;
	apply(notebook, 1, CELL("c1"));
	apply(notebook, 2, "\"type\":\"started\",\"cell\":\"c1\"");
	apply(notebook, 3, OUT("c1", "a\\nb"));
	apply(notebook, 4,
	      "\"type\":\"result\",\"cell\":\"c1\",\"data\":{\"text/plain\":\"1\"},"
	      "\"metadata\":{},\"execution_count\":7");
	apply(notebook, 5, FINISHED("c1", "\"status\":\"ok\",\"execution_count\":7"));
	notebook_write(notebook, &form);
	assert_string_equal(
		buf_bytes(&form),
		"{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 7,\n"
		"   \"id\": \"c1\",\n   \"metadata\": {\n    \"execution\": {\n"
		"     \"iopub.execute_input\": \"2026-11-29T17:16:02.000001Z\",\n"
		"     \"iopub.status.busy\": \"2026-11-29T17:16:02.000001Z\",\n"
		"     \"iopub.status.idle\": \"2026-11-29T17:16:05.000001Z\",\n"
		"     \"shell.execute_reply\": \"2026-11-29T17:16:05.000001Z\"\n    }\n   },\n"
		"   \"outputs\": [\n    {\n     \"name\": \"stdout\",\n     \"output_type\": "
		"\"stream\",\n"
		"     \"text\": [\n      \"a\\n\",\n      \"b\"\n     ]\n    },\n    {\n     "
		"\"data\": {\n"
		"      \"text/plain\": [\n       \"1\"\n      ]\n     },\n     "
		"\"execution_count\": 7,\n"
		"     \"metadata\": {},\n     \"output_type\": \"execute_result\"\n    }\n   ],\n"
		"   \"source\": [\n    \"x = 1\\n\",\n    \"\\n\",\n    \"x\"\n   ]\n  }\n ],\n"
		" \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n");
	notebook_free(notebook);
}

static void test_streams_merge(void **state)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"), OUT("c1", "a"), OUT("c1", ""), OUT("c1", "b\\r"), ERR("c1", "e"),
		     OUT("c1", "c"), OUT("c1", "\\rd"));

	(void)state;
	assert_int_equal(output_count(nb, 0), 3);
	assert_string_equal(json_get_string(output_at(nb, 0, 0), "text"), "ab");
	assert_string_equal(json_get_string(output_at(nb, 0, 1), "name"), "stderr");
	assert_string_equal(json_get_string(output_at(nb, 0, 2), "text"), "d");
}

static void test_late_output_goes_to_its_cell(void **state)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"), FINISHED("c1", "\"status\":\"ok\",\"execution_count\":1"),
		     CELL("c2"), OUT("c2", "two"), OUT("c1", "one"), OUT("none", "lost"));

	(void)state;
	assert_string_equal(json_get_string(output_at(nb, 0, 0), "text"), "one");
	assert_string_equal(json_get_string(output_at(nb, 1, 0), "text"), "two");
	assert_int_equal(json_length(json_get(nb, "cells")), 2);
}

static void test_clear(void **state)
{
	cleanup_json struct json *now =
		FOLD(CELL("c1"), OUT("c1", "draft"), CLEAR("c1", "false"), OUT("c1", "final"));
	cleanup_json struct json *waiting =
		FOLD(CELL("c1"), OUT("c1", "draft"), CLEAR("c1", "true"));
	cleanup_json struct json *waited = FOLD(CELL("c1"), OUT("c1", "draft"), CLEAR("c1", "true"),
						OUT("c1", "final"), ERR("c1", "e"));

	(void)state;
	assert_int_equal(output_count(now, 0), 1);
	assert_string_equal(json_get_string(output_at(now, 0, 0), "text"), "final");
	assert_string_equal(json_get_string(output_at(waiting, 0, 0), "text"), "draft");
	assert_int_equal(output_count(waited, 0), 2);
	assert_string_equal(json_get_string(output_at(waited, 0, 0), "text"), "final");
}

/* An update adds nothing, so it does not make a waiting clear happen. */
static void test_update_does_not_clear(void **state)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"), SHOW("display", "c1", "0", "\"d\""), CLEAR("c1", "true"),
		     SHOW("update_display", "c1", "1", "\"d\""));

	(void)state;
	check_json(json_get(output_at(nb, 0, 0), "data"), "{\"text/plain\":\"1\"}");
}

static void test_update_reaches_other_cells(void **state)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"), SHOW("display", "c1", "0", "\"d\""),
		     SHOW("display", "c1", "x", "null"), SHOW("display", "c1", "0", "\"d\""),
		     CELL("c2"), SHOW("display", "c2", "5", "\"e\""), CELL("c3"),
		     SHOW("update_display", "c3", "1", "\"d\""),
		     SHOW("update_display", "c3", "9", "\"unknown\""),
		     SHOW("update_display", "c3", "9", "null"));

	(void)state;
	assert_int_equal(output_count(nb, 0), 3);
	check_json(json_get(output_at(nb, 0, 0), "data"), "{\"text/plain\":\"1\"}");
	check_json(json_get(output_at(nb, 0, 1), "data"), "{\"text/plain\":\"x\"}");
	check_json(json_get(output_at(nb, 0, 2), "data"), "{\"text/plain\":\"1\"}");
	check_json(json_get(output_at(nb, 1, 0), "data"), "{\"text/plain\":\"5\"}");
	assert_int_equal(output_count(nb, 2), 0);
}

/* As in JupyterLab: a display with a known id is an update of the others, and a new output. */
static void test_display_again_updates_the_first(void **state)
{
	cleanup_json struct json *nb = FOLD(CELL("c1"), SHOW("display", "c1", "0", "\"d\""),
					    CELL("c2"), SHOW("display", "c2", "1", "\"d\""),
					    CELL("c3"), SHOW("result", "c3", "2", "\"d\""));

	(void)state;
	for (size_t i = 0; i < 3; i++)
		check_json(json_get(output_at(nb, i, 0), "data"), "{\"text/plain\":\"2\"}");
	assert_string_equal(json_get_string(output_at(nb, 2, 0), "output_type"), "execute_result");
}

static void test_cleared_display_is_unknown(void **state)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"), SHOW("display", "c1", "0", "\"d\""), CLEAR("c1", "false"),
		     SHOW("update_display", "c1", "1", "\"d\""));
	cleanup_json struct json *other =
		FOLD(CELL("c1"), SHOW("display", "c1", "0", "\"d\""), CELL("c2"),
		     SHOW("display", "c2", "0", "\"d\""), CLEAR("c1", "true"), OUT("c1", "t"),
		     SHOW("update_display", "c1", "1", "\"d\""));

	(void)state;
	assert_int_equal(output_count(nb, 0), 0);
	assert_int_equal(output_count(other, 0), 1);
	check_json(json_get(output_at(other, 1, 0), "data"), "{\"text/plain\":\"1\"}");
}

static void test_update_counts_as_change(void **state)
{
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf form = BUF_INIT;

	(void)state;
	apply(notebook, 1, CELL("c1"));
	apply(notebook, 2, SHOW("display", "c1", "0", "\"d\""));
	apply(notebook, 3, CELL("c2"));
	notebook_write(notebook, &form);
	apply(notebook, 4, SHOW("update_display", "c2", "1", "\"other\""));
	apply(notebook, 5, "\"type\":\"input\",\"cell\":\"c2\",\"text\":\"x\"");
	apply(notebook, 6, OUT("none", "x"));
	apply(notebook, 7, "\"type\":\"later-version\",\"cell\":\"c2\"");
	assert_false(notebook_changed(notebook));
	apply(notebook, 8, SHOW("update_display", "c2", "1", "\"d\""));
	assert_true(notebook_changed(notebook));
	notebook_free(notebook);
}

static void test_error(void **state)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"),
		     "\"type\":\"error\",\"cell\":\"c1\",\"ename\":\"ValueError\",\"evalue\":\"v\","
		     "\"traceback\":"
		     "[\"a\\nb\",\"c\"],\"notes\":1",
		     FINISHED("c1", "\"status\":\"interrupted\",\"execution_count\":1"));
	cleanup_json struct json *odd =
		FOLD(CELL("c1"),
		     "\"type\":\"error\",\"cell\":\"c1\",\"ename\":null,\"evalue\":{\"a\":1.0},"
		     "\"traceback\":[1]",
		     "\"type\":\"error\",\"cell\":\"c1\",\"traceback\":\"line\"",
		     "\"type\":\"error\",\"cell\":\"c1\"");

	(void)state;
	assert_int_equal(output_count(nb, 0), 1);
	check_json(output_at(nb, 0, 0),
		   "{\"ename\":\"ValueError\",\"evalue\":\"v\",\"output_type\":"
		   "\"error\",\"traceback\":[\"a\\nb\",\"c\"]}");
	check_json(output_at(odd, 0, 0),
		   "{\"ename\":\"\",\"evalue\":\"{\\\"a\\\":1.0}\",\"output_type\":"
		   "\"error\",\"traceback\":[\"1\"]}");
	check_json(json_get(output_at(odd, 0, 1), "traceback"), "[\"line\"]");
	check_json(json_get(output_at(odd, 0, 2), "traceback"), "[]");
}

static void check_ending(const char *finished, const char *want)
{
	cleanup_json struct json *nb =
		FOLD(CELL("c1"), OUT("c1", "kept"), CLEAR("c1", "true"), finished);

	assert_int_equal(output_count(nb, 0), want == NULL ? 1 : 2);
	if (want != NULL)
		check_json(output_at(nb, 0, 1), want);
}

/* What the guest could not say itself; nothing that it said is cleared for it. */
static void test_endings(void **state)
{
	(void)state;
	check_ending(FINISHED("c1", "\"status\":\"died\",\"reason\":\"out of memory\""),
		     "{\"ename\":\"Died\",\"evalue\":\"out of memory\",\"output_type\":\"error\","
		     "\"traceback\":[\"Died: out of memory\"]}");
	check_ending(FINISHED("c1", "\"status\":\"timeout\""),
		     "{\"ename\":\"Timeout\",\"evalue\":\"the cell took longer than it "
		     "may\",\"output_type\":"
		     "\"error\",\"traceback\":[\"Timeout: the cell took longer than it may\"]}");
	check_ending(FINISHED("c1", "\"status\":\"interrupted\""),
		     "{\"ename\":\"Interrupted\",\"evalue\":\"the cell was "
		     "interrupted\",\"output_type\":"
		     "\"error\",\"traceback\":[\"Interrupted: the cell was interrupted\"]}");
	check_ending(FINISHED("c1", "\"status\":\"cancelled\",\"reason\":\"stopped\""),
		     "{\"ename\":\"Cancelled\",\"evalue\":\"stopped\",\"output_type\":\"error\","
		     "\"traceback\":[\"Cancelled: stopped\"]}");
	check_ending(FINISHED("c1", "\"status\":\"ok\""), NULL);
	check_ending(FINISHED("c1", "\"status\":\"of a later version\""), NULL);
	check_ending(FINISHED("c1", "\"state\":\"kept\""), NULL);
}

static void test_counts(void **state)
{
	cleanup_json struct json *nb = FOLD(
		CELL("c1"), FINISHED("c1", "\"status\":\"ok\",\"execution_count\":-1"), CELL("c2"),
		FINISHED("c2", "\"status\":\"ok\",\"execution_count\":1.0"), CELL("c3"),
		"\"type\":\"result\",\"cell\":\"c3\",\"data\":[],\"metadata\":3,\"execution_"
		"count\":\"1\"",
		FINISHED("c3", "\"status\":\"ok\",\"execution_count\":0"));

	(void)state;
	check_json(json_get(cell_at(nb, 0), "execution_count"), "null");
	check_json(json_get(cell_at(nb, 1), "execution_count"), "null");
	check_json(json_get(cell_at(nb, 2), "execution_count"), "0");
	check_json(output_at(nb, 2, 0), "{\"data\":{},\"execution_count\":null,\"metadata\":{},"
					"\"output_type\":\"execute_result\"}");
	/* never started: no times */
	check_json(json_get(cell_at(nb, 0), "metadata"), "{}");
}

static void test_truncated(void **state)
{
	cleanup_json struct json *nb = FOLD(
		CELL("c1"), OUT("c1", "abc"),
		"\"type\":\"truncated\",\"cell\":\"c1\",\"name\":\"stdout\",\"bytes_dropped\":12",
		ERR("c1", "tail"),
		"\"type\":\"truncated\",\"cell\":\"c1\",\"name\":\"stderr\",\"bytes_dropped\":3",
		"\"type\":\"truncated\",\"cell\":\"c1\",\"name\":\"<b>\"");

	(void)state;
	assert_int_equal(output_count(nb, 0), 2);
	assert_string_equal(json_get_string(output_at(nb, 0, 1), "text"),
			    "[fumehood: 12 bytes of stdout dropped: output limit]\ntail\n"
			    "[fumehood: 3 bytes of stderr dropped: output limit]\n"
			    "[fumehood: 0 bytes of output dropped: output limit]\n");
}

static void test_notes_and_sections(void **state)
{
	cleanup_json struct json *nb =
		FOLD("\"type\":\"section\",\"title\":\"One\\nline\",\"level\":2",
		     "\"type\":\"note\",\"text\":\"*hello*\",\"id\":\"my-note\",\"attachments\":{"
		     "\"a.png\":"
		     "{\"image/"
		     "png\":\"QQ==\"}},\"metadata\":{\"tags\":[\"a\",\"a\",\"b,c\",1,\"\"],"
		     "\"trusted\":true}",
		     "\"type\":\"note\",\"text\":\"raw\",\"cell_type\":\"raw\",\"id\":\"my-note\"",
		     "\"type\":\"section\",\"level\":99",
		     "\"type\":\"section\",\"title\":\"x\",\"level\":-3",
		     "\"type\":\"note\",\"text\":\"1/0\",\"cell_type\":\"code\",\"id\":\"idle\","
		     "\"attachments\":{\"a.png\":{}}");

	(void)state;
	check_json(cell_at(nb, 0),
		   "{\"cell_type\":\"markdown\",\"id\":\"n1\",\"metadata\":{},\"source\":"
		   "\"## One line\"}");
	check_json(cell_at(nb, 1),
		   "{\"attachments\":{\"a.png\":{\"image/"
		   "png\":\"QQ==\"}},\"cell_type\":\"markdown\",\"id\":"
		   "\"my-note\",\"metadata\":{\"tags\":[\"a\"]},\"source\":\"*hello*\"}");
	check_json(cell_at(nb, 2),
		   "{\"cell_type\":\"raw\",\"id\":\"n2\",\"metadata\":{},\"source\":\"raw\"}");
	assert_string_equal(json_get_string(cell_at(nb, 3), "source"), "###### ");
	assert_string_equal(json_get_string(cell_at(nb, 4), "source"), "# x");
	check_json(cell_at(nb, 5),
		   "{\"cell_type\":\"code\",\"execution_count\":null,\"id\":\"idle\","
		   "\"metadata\":{},\"outputs\":[],\"source\":\"1/0\"}");
}

/* The id of a run belongs to the client; a made id makes room for it. */
static void test_ids_stay_unique(void **state)
{
	cleanup_json struct json *nb =
		FOLD("\"type\":\"note\",\"text\":\"a\"", CELL("n1"), OUT("n1", "t"), CELL("n1"),
		     "\"type\":\"note\",\"text\":\"b\",\"id\":\"n1\"", CELL("no good id"),
		     OUT("no good id", "u"));

	(void)state;
	assert_int_equal(json_length(json_get(nb, "cells")), 4);
	assert_string_equal(json_get_string(cell_at(nb, 0), "id"), "n2");
	assert_string_equal(json_get_string(cell_at(nb, 1), "id"), "n1");
	assert_string_equal(json_get_string(output_at(nb, 1, 0), "text"), "t");
	assert_string_equal(json_get_string(cell_at(nb, 2), "id"), "n3");
	assert_string_equal(json_get_string(cell_at(nb, 3), "id"), "n4");
	assert_string_equal(json_get_string(output_at(nb, 3, 0), "text"), "u");
}

static void test_cell_metadata(void **state)
{
	cleanup_json struct json *nb =
		FOLD("\"type\":\"cell\",\"cell\":\"c1\",\"code\":7,\"metadata\":{\"collapsed\":1,"
		     "\"scrolled\":"
		     "\"no\",\"name\":\"\",\"jupyter\":[],\"execution\":{\"x\":1},\"free\":{\"a\":"
		     "1.50},\"tags\":{}}",
		     "\"type\":\"cell\",\"cell\":\"c2\",\"code\":\"\",\"metadata\":{\"collapsed\":"
		     "true,\"scrolled\":"
		     "\"auto\",\"name\":\"n\",\"jupyter\":{},\"tags\":[\"t\"]}",
		     "\"type\":\"cell\",\"cell\":\"c3\",\"code\":\"\",\"metadata\":[1]");

	(void)state;
	check_json(json_get(cell_at(nb, 0), "metadata"), "{\"free\":{\"a\":1.50}}");
	check_json(json_get(cell_at(nb, 0), "source"), "\"\"");
	check_json(json_get(cell_at(nb, 1), "metadata"),
		   "{\"collapsed\":true,\"jupyter\":{},\"name\":\"n\",\"scrolled\":\"auto\","
		   "\"tags\":[\"t\"]}");
	check_json(json_get(cell_at(nb, 2), "metadata"), "{}");
}

static void test_session_metadata(void **state)
{
	cleanup_json struct json *nb = FOLD("\"type\":\"session\",\"id\":\"abc\",\"versions\":{"
					    "\"python\":\"3.11.2\",\"fumehood\":"
					    "\"0.1.0\"}");
	const struct json *metadata = json_get(nb, "metadata");

	(void)state;
	check_json(json_get(metadata, "kernelspec"),
		   "{\"display_name\":\"Python 3\",\"language\":\"python\",\"name\":\"python3\"}");
	assert_string_equal(json_get_string(json_get(metadata, "language_info"), "version"),
			    "3.11.2");
	check_json(json_get(metadata, "fumehood"), "{\"session\":\"abc\",\"version\":\"0.1.0\"}");
}

static void test_metadata_of_a_notebook_that_is_run(void **state)
{
	cleanup_json struct json *nb = FOLD("\"type\":\"session\",\"id\":\"abc\",\"notebook\":{"
					    "\"metadata\":{\"kernelspec\":{\"name\":"
					    "\"conda\",\"display_name\":\"D\"},\"language_info\":{"
					    "\"version\":\"2\"},\"title\":3,"
					    "\"authors\":[],\"fumehood\":{\"session\":\"old\"},"
					    "\"orig_nbformat\":2,\"signature\":\"s\","
					    "\"a\\u0000b\":1,\"mine\":{\"x\":[1]}}}");
	const struct json *metadata = json_get(nb, "metadata");

	(void)state;
	check_json(json_get(metadata, "kernelspec"), "{\"display_name\":\"D\",\"name\":\"conda\"}");
	/* it has no name, which nbformat wants */
	assert_string_equal(json_get_string(json_get(metadata, "language_info"), "name"), "python");
	check_json(json_get(metadata, "fumehood"), "{\"session\":\"abc\"}");
	check_json(json_get(metadata, "mine"), "{\"x\":[1]}");
	assert_int_equal(json_length(metadata), 5);
}

static void test_metadata_of_a_kernel(void **state)
{
	cleanup_json struct json *nb = FOLD("\"type\":\"session\",\"id\":\"abc\",\"kernelspec\":{"
					    "\"name\":\"ir\",\"display_name\":\"R\","
					    "\"language\":\"R\"},\"language_info\":{\"name\":\"R\","
					    "\"mimetype\":1,\"codemirror_mode\":\"r\"}");
	const struct json *metadata = json_get(nb, "metadata");

	(void)state;
	assert_string_equal(json_get_string(json_get(metadata, "kernelspec"), "name"), "ir");
	check_json(json_get(metadata, "language_info"),
		   "{\"codemirror_mode\":\"r\",\"name\":\"R\"}");
}

/* What ran the cells is told by the session, not by the notebook it was given. */
static void test_language_is_that_of_the_session(void **state)
{
	static const char with[] =
		"\"type\":\"session\",\"language_info\":{\"name\":\"python\",\"version\":\"3.13\"},"
		"\"notebook\":{\"metadata\":{\"language_info\":{\"name\":\"old\"}}}";
	static const char without[] =
		"\"type\":\"session\",\"notebook\":{\"metadata\":{\"language_info\":{\"name\":"
		"\"old\"}}}";
	cleanup_json struct json *told = FOLD(with);
	cleanup_json struct json *guessed = FOLD(without);

	(void)state;
	check_json(json_get(json_get(told, "metadata"), "language_info"),
		   "{\"name\":\"python\",\"version\":\"3.13\"}");
	check_json(json_get(json_get(guessed, "metadata"), "language_info"), "{\"name\":\"old\"}");
}

static void apply_stream(struct notebook *notebook, const char *text, size_t len, bool is_stderr)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.cell = mem_string("c1");
	event.is_stderr = is_stderr;
	event.text = mem_copy(text, len);
	event.text_len = len;
	notebook_apply(notebook, &event);
}

/* Each of these would take minutes if an event cost time in proportion to what is there already. */
static void test_many_events(void **state)
{
	enum { EVENTS = 200000, CHUNK = 64 << 10, CHUNKS = 800 };
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf form = BUF_INIT;
	cleanup_free char *chunk = mem_zalloc(CHUNK);

	(void)state;
	apply(notebook, 1, CELL("c1"));
	for (int i = 0; i < EVENTS; i++)
		apply_stream(notebook, "tick\n", 5, false);
	for (int i = 0; i < EVENTS; i++)
		apply_stream(notebook, "\r50%", 4, true);
	for (int i = 0; i < EVENTS; i++)
		apply_stream(notebook, "x", 1, i % 2 == 0);
	notebook_write(notebook, &form);
	apply(notebook, 2, CLEAR("c1", "false"));
	memset(chunk, 'x', CHUNK);
	chunk[CHUNK - 1] = '\n';
	for (int i = 0; i < CHUNKS; i++)
		apply_stream(notebook, chunk, CHUNK, false);
	buf_clear(&form);
	notebook_write(notebook, &form);
	assert_true(form.len > (size_t)CHUNK * CHUNKS);
	notebook_free(notebook);
}

/* Many outputs with one id, each an update of all before it, and many ids. */
static void test_many_displays(void **state)
{
	enum { EVENTS = 50000 };
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf form = BUF_INIT;

	(void)state;
	apply(notebook, 1, CELL("c1"));
	for (int i = 0; i < EVENTS; i++) {
		cleanup_free char *line = mem_format(SHOW("display", "c1", "x", "\"d%d\""), i);

		apply(notebook, 2, SHOW("display", "c1", "x", "\"d\""));
		apply(notebook, 3, SHOW("update_display", "c1", "y", "\"d\""));
		apply(notebook, 4, line);
	}
	notebook_write(notebook, &form);
	apply(notebook, 5, CLEAR("c1", "false"));
	buf_clear(&form);
	notebook_write(notebook, &form);
	assert_true(form.len < 400);
	notebook_free(notebook);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_whole_form),
		cmocka_unit_test(test_streams_merge),
		cmocka_unit_test(test_late_output_goes_to_its_cell),
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_update_does_not_clear),
		cmocka_unit_test(test_update_reaches_other_cells),
		cmocka_unit_test(test_display_again_updates_the_first),
		cmocka_unit_test(test_cleared_display_is_unknown),
		cmocka_unit_test(test_update_counts_as_change),
		cmocka_unit_test(test_error),
		cmocka_unit_test(test_endings),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_notes_and_sections),
		cmocka_unit_test(test_ids_stay_unique),
		cmocka_unit_test(test_cell_metadata),
		cmocka_unit_test(test_session_metadata),
		cmocka_unit_test(test_metadata_of_a_notebook_that_is_run),
		cmocka_unit_test(test_metadata_of_a_kernel),
		cmocka_unit_test(test_language_is_that_of_the_session),
		cmocka_unit_test(test_many_events),
		cmocka_unit_test(test_many_displays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
