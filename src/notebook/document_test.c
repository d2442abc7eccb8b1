/* Reading notebooks: what is taken, what is repaired, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "notebook/document.h"

#define HEAD "{\"nbformat\":4,\"nbformat_minor\":5,\"metadata\":{\"a\":1},\"cells\":["

static void read_text(const char *text, struct document *document)
{
	struct err err = ERR_INIT;

	if (document_read(text, strlen(text), document, &err) < 0)
		fail_msg("%s", err.text);
}

static void check_refused(const char *text, const char *words)
{
	struct document document = {.cells = NULL};
	struct err err = ERR_INIT;

	assert_int_equal(document_read(text, strlen(text), &document, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	if (strstr(err.text, words) == NULL)
		fail_msg("\"%s\" says nothing of \"%s\"", err.text, words);
	assert_int_equal(document_read(text, strlen(text), &document, NULL), -1);
	assert_null(document.cells);
}

static void test_cells(void **state)
{
	struct document document;

	(void)state;
	read_text(HEAD "{\"cell_type\":\"code\",\"id\":\"one\",\"source\":[\"a\\n\",\"b\\u0000\"],"
		       "\"metadata\":"
		       "{\"tags\":[\"t\"]},\"outputs\":[],\"execution_count\":3},"
		       "{\"cell_type\":\"markdown\",\"id\":\"two\",\"source\":\"\xc3\xa9\","
		       "\"metadata\":{},"
		       "\"attachments\":{\"a.png\":{}}},"
		       "{\"cell_type\":\"raw\",\"id\":\"three\",\"source\":[]}]}",
		  &document);
	assert_int_equal(document.cell_count, 3);
	assert_int_equal(document.cells[0].type, DOCUMENT_CODE);
	assert_string_equal(document.cells[0].id, "one");
	assert_int_equal(document.cells[0].source_len, 4);
	assert_memory_equal(document.cells[0].source, "a\nb\0", 5);
	assert_int_equal(json_length(json_get(document.cells[0].metadata, "tags")), 1);
	assert_null(document.cells[0].attachments);
	assert_int_equal(document.cells[1].type, DOCUMENT_MARKDOWN);
	assert_non_null(json_get(document.cells[1].attachments, "a.png"));
	assert_int_equal(document.cells[2].type, DOCUMENT_RAW);
	assert_string_equal(document.cells[2].source, "");
	assert_int_equal(json_length(document.cells[2].metadata), 0);
	assert_int_equal(json_get_int(document.metadata, "a", 0), 1);
	document_release(&document);
}

/* Missing, repeated and bad ids are made, without touching a good one further down. */
static void test_ids_are_made(void **state)
{
	static const char text[] =
		HEAD "{\"cell_type\":\"code\",\"source\":\"x\"},{\"cell_type\":\"code\",\"source\":"
		     "\"x\"},"
		     "{\"cell_type\":\"code\",\"source\":\"x\",\"id\":\"same\"},"
		     "{\"cell_type\":\"code\",\"source\":\"y\",\"id\":\"same\"},"
		     "{\"cell_type\":\"code\",\"source\":\"\",\"id\":\"no good\"},"
		     "{\"cell_type\":\"code\",\"source\":\"\",\"id\":17}]}";
	struct document document;
	struct document again;

	(void)state;
	read_text(text, &document);
	read_text(text, &again);
	for (size_t i = 0; i < document.cell_count; i++) {
		const char *id = document.cells[i].id;

		assert_true(text_is_id(id, strlen(id)));
		assert_int_equal(strlen(id), i == 2 ? 4 : 8);
		assert_string_equal(id, again.cells[i].id);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(id, document.cells[j].id);
	}
	assert_string_equal(document.cells[2].id, "same");
	document_release(&document);
	document_release(&again);
}

/* An id of the file may be just the one that would be made for another cell. */
static void test_made_id_is_taken(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct document document;
	struct document again;

	(void)state;
	read_text(HEAD "{\"cell_type\":\"code\",\"source\":\"x\"}]}", &document);
	buf_printf(&text,
		   HEAD
		   "{\"cell_type\":\"code\",\"source\":\"x\"},{\"cell_type\":\"raw\",\"id\":\"%s\","
		   "\"source\":\"\"}]}",
		   document.cells[0].id);
	read_text(buf_bytes(&text), &again);
	assert_string_equal(again.cells[1].id, document.cells[0].id);
	assert_string_not_equal(again.cells[0].id, again.cells[1].id);
	document_release(&document);
	document_release(&again);
}

static void test_lenient(void **state)
{
	struct document document;

	(void)state;
	read_text("\xef\xbb\xbf{\"nbformat\":4,\"cells\":[]}", &document); /* BOM, no metadata */
	assert_int_equal(document.cell_count, 0);
	assert_int_equal(json_type_of(document.metadata), JSON_OBJECT);
	document_release(&document);
	read_text("{\"nbformat\":4,\"metadata\":{\"x\":NaN},\"cells\":[{\"cell_type\":\"code\","
		  "\"source\":"
		  "\"\\ud800\"}]}",
		  &document);
	assert_string_equal(json_get_string(document.metadata, "x"), "nan");
	assert_string_equal(document.cells[0].source, "\xef\xbf\xbd");
	document_release(&document);
}

static void test_refused(void **state)
{
	(void)state;
	check_refused("", "not a notebook");
	check_refused("null", "no JSON object");
	check_refused("[1]", "no JSON object");
	check_refused("{\"a\":", "not a notebook");
	check_refused("{\"cells\":[]}", "nbformat");
	check_refused("{\"nbformat\":\"4\",\"cells\":[]}", "nbformat");
	check_refused("{\"nbformat\":2,\"worksheets\":[]}", "jupyter nbconvert");
	check_refused("{\"nbformat\":3,\"cells\":[]}", "worksheets");
	check_refused("{\"nbformat\":3,\"worksheets\":[7]}", "object");
	check_refused("{\"nbformat\":3,\"worksheets\":[{}]}", "list of cells");
	check_refused("{\"nbformat\":3,\"worksheets\":[{\"cells\":{}}]}", "list of cells");
	check_refused("{\"nbformat\":5,\"cells\":[]}", "newer");
	check_refused("{\"nbformat\":4}", "no list of cells");
	check_refused(HEAD "1]}", "cell 1");
	check_refused(HEAD "{\"cell_type\":\"raw\",\"source\":\"\"},{\"source\":\"\"}]}", "cell 2");
	check_refused(HEAD "{\"cell_type\":\"code\",\"source\":5}]}", "cell 1: source");
	check_refused(HEAD "{\"cell_type\":\"code\",\"source\":null}]}", "cell 1: source");
	check_refused(HEAD "{\"cell_type\":\"code\",\"source\":[\"a\",1]}]}", "cell 1: source");
}

/* Where the JSON is wrong, in lines and characters. */
static void test_place_of_fault(void **state)
{
	(void)state;
	check_refused("{\n \"nbformat\": 4,\n \"\xc3\xa9\" 5}", "line 3, column 6: \":\"");
	check_refused("{\"nbformat\":4,\n\"cells\":[\n  {\"a\":\"\xc3\xa9\", 'x'}]}",
		      "line 3, column 13: a key");
	check_refused("{\"nbformat\":4,\"cells\":[{\"cell_type\":\"raw\"}\n2]}",
		      "line 2, column 1: \",\"");
	check_refused("{\"nbformat\":4,\"cells\":[]}\n\nx", "line 3, column 1: something");
	check_refused("{\"nbformat\":4,\"cells\":[\"a\n", "column 26: a raw control character");
	check_refused("{\"nbformat\":4,\"cells\":[{]}]}", "line 1, column 27");
	check_refused("{\"nbformat\":4,\"x\":[1,\"\xff\"],\"cells\":[]}",
		      "column 23: no valid UTF-8");
	check_refused("\xef\xbb\xbf{\"nbformat\":}", "line 1, column 13: a value");
}

/* What is repaired is what is said, one by one. */
static void check_repair(const char *text, const char *words)
{
	struct document document;

	read_text(text, &document);
	if (document.repairs.count != 1 || strstr(document.repairs.first[0], words) == NULL)
		fail_msg("%s: %zu repairs, the first: %s", words, document.repairs.count,
			 document.repairs.first[0] ? document.repairs.first[0] : "none");
	document_release(&document);
}

#define CODE(members) HEAD "{\"cell_type\":\"code\",\"id\":\"a\",\"source\":\"\"," members "}]}"
#define FULL(members) CODE("\"metadata\":{},\"execution_count\":null,\"outputs\":[]" members)
#define OUTPUT(members) CODE("\"metadata\":{},\"execution_count\":null,\"outputs\":[{" members "}]")
#define MARK(members) \
	HEAD "{\"cell_type\":\"markdown\",\"id\":\"a\",\"source\":\"\",\"metadata\":{}" members \
	     "}]}"

static void test_repairs_of_cells(void **state)
{
	(void)state;
	check_repair("\xef\xbb\xbf" FULL(""), "byte order mark");
	check_repair("{\"nbformat\":4,\"metadata\":{},\"cells\":[]}", "nbformat_minor");
	check_repair("{\"nbformat\":4,\"nbformat_minor\":5,\"cells\":[]}", "metadata");
	check_repair("{\"nbformat\":4,\"nbformat_minor\":5,\"metadata\":{},\"cells\":[],\"x\":1}",
		     "\"x\"");
	check_repair("{\"nbformat\":4,\"nbformat_minor\":5,\"metadata\":{\"kernelspec\":{\"name\":"
		     "\"a\"}},"
		     "\"cells\":[]}",
		     "kernelspec");
	check_repair(CODE("\"execution_count\":null,\"outputs\":[]"), "metadata is no object");
	check_repair(CODE("\"metadata\":{},\"outputs\":[]"), "execution_count is missing");
	check_repair(CODE("\"metadata\":{},\"execution_count\":1"), "outputs is missing");
	check_repair(CODE("\"metadata\":{},\"execution_count\":-1,\"outputs\":[]"), "no count");
	check_repair(CODE("\"metadata\":{},\"execution_count\":1.0,\"outputs\":[]"), "no count");
	check_repair(CODE("\"metadata\":{},\"execution_count\":1,\"outputs\":{}"), "no list");
	check_repair(
		CODE("\"metadata\":{\"tags\":[\"a\",\"a\"]},\"execution_count\":1,\"outputs\":[]"),
		"schema");
	check_repair(
		CODE("\"metadata\":{\"execution\":{\"x\":1}},\"execution_count\":1,\"outputs\":[]"),
		"schema");
	check_repair(FULL(",\"x\":1"), "\"x\"");
	check_repair(FULL(",\"attachments\":{}"), "attachments");
	check_repair(MARK(",\"outputs\":[]"), "\"outputs\"");
	check_repair(MARK(",\"attachments\":7"), "attachments");
	check_repair(HEAD "{\"cell_type\":\"raw\",\"id\":\"a\",\"metadata\":{}}]}",
		     "source is missing");
	check_repair(HEAD "{\"cell_type\":\"raw\",\"source\":\"\",\"metadata\":{}}]}",
		     "id is missing");
	check_repair(HEAD "{\"cell_type\":\"raw\",\"id\":7,\"source\":\"\",\"metadata\":{}}]}",
		     "no string");
	check_repair(HEAD
		     "{\"cell_type\":\"raw\",\"id\":\"a b\",\"source\":\"\",\"metadata\":{}}]}",
		     "no id");
	check_repair(HEAD "{\"cell_type\":\"sql\",\"id\":\"a\",\"source\":\"\",\"metadata\":{}}]}",
		     "became raw");
	check_repair(HEAD
		     "{\"cell_type\":\"heading\",\"id\":\"a\",\"source\":\"x\",\"metadata\":{}}]}",
		     "heading");
	check_repair(CODE("\"metadata\":{\"x\":NaN},\"execution_count\":1,\"outputs\":[]"),
		     "1 NaN");
	check_repair(CODE("\"metadata\":{\"x\":\"\\ud83d\\ude00 \\udc00 \\\\ud800\"},"
			  "\"execution_count\":1,\"outputs\":[]"),
		     "1 lone surrogate");
}

/* Tells what became of the outputs, as JSON. */
static void check_output(const char *text, size_t repairs, const char *want)
{
	struct document document;
	cleanup_buf struct buf made = BUF_INIT;

	read_text(text, &document);
	json_write(&made, document.cells[0].outputs);
	assert_string_equal(buf_bytes(&made), want);
	if (document.repairs.count != repairs)
		fail_msg("%s: %zu repairs, the first: %s", text, document.repairs.count,
			 document.repairs.first[0] ? document.repairs.first[0] : "none");
	document_release(&document);
}

static void test_repairs_of_outputs(void **state)
{
	(void)state;
	check_output(FULL(""), 0, "null");
	check_output(
		OUTPUT("\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":[\"a\\n\",\"b\"]"),
		0, "[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"a\\nb\"}]");
	check_output(OUTPUT("\"output_type\":\"stream\",\"text\":5,\"metadata\":{}"), 3,
		     "[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"5\"}]");
	check_output(
		OUTPUT("\"output_type\":\"execute_result\",\"execution_count\":\"1\",\"data\":{"
		       "\"text/plain\":{\"a\":1},\"application/json\":[1]},\"metadata\":{}"),
		2,
		"[{\"output_type\":\"execute_result\",\"data\":{\"text/plain\":\"{\\\"a\\\":1}\","
		"\"application/json\":[1]},\"metadata\":{},\"execution_count\":null}]");
	check_output(OUTPUT("\"output_type\":\"display_data\",\"data\":7,\"transient\":{}"), 3,
		     "[{\"output_type\":\"display_data\",\"data\":{},\"metadata\":{}}]");
	check_output(OUTPUT("\"output_type\":\"error\",\"ename\":1,\"evalue\":null,"
			    "\"traceback\":\"x\""),
		     3,
		     "[{\"output_type\":\"error\",\"ename\":\"1\",\"evalue\":\"\",\"traceback\":["
		     "\"x\"]}]");
	check_output(OUTPUT("\"output_type\":\"pyout\""), 1, "null");
	check_output(OUTPUT("\"x\":1"), 1, "null");
}

/* Valid by the older rules: nothing is said. */
static void test_older_minor(void **state)
{
	struct document document;

	(void)state;
	read_text("{\"nbformat\":4,\"nbformat_minor\":2,\"metadata\":{\"orig_nbformat\":4,"
		  "\"signature\":\"x\",\"a\":1},\"cells\":[{\"cell_type\":\"raw\",\"source\":\"\","
		  "\"metadata\":{\"trusted\":true}}]}",
		  &document);
	assert_int_equal(document.repairs.count, 0);
	assert_int_equal(json_length(document.metadata), 1);
	assert_int_equal(json_length(document.cells[0].metadata), 0);
	assert_int_equal(document.minor, 2);
	document_release(&document);
}

static void test_many_repairs(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct document document;

	(void)state;
	buf_append_string(&text, HEAD "{\"cell_type\":\"raw\"}");
	for (int i = 0; i < 99; i++)
		buf_append_string(&text, ",{\"cell_type\":\"raw\"}");
	buf_append_string(&text, "]}");
	read_text(buf_bytes(&text), &document);
	assert_int_equal(document.repairs.count, 300);
	assert_non_null(strstr(document.repairs.first[4], "cell 2"));
	document_release(&document);
}

static void test_version_3(void **state)
{
	static const char text[] =
		"{\"nbformat\":3,\"nbformat_minor\":0,\"metadata\":{\"name\":\"n\",\"signature\":"
		"\"s\"},"
		"\"worksheets\":[{\"metadata\":{},\"cells\":["
		"{\"cell_type\":\"heading\",\"level\":2,\"source\":[\"a\\n\",\"b\"],\"metadata\":{}"
		"},"
		"{\"cell_type\":\"code\",\"language\":\"python\",\"collapsed\":true,\"input\":["
		"\"x\",\"y\"],"
		"\"prompt_number\":3,\"outputs\":["
		"{\"output_type\":\"pyout\",\"prompt_number\":3,\"text\":[\"1\"],\"json\":\"[1]\","
		"\"metadata\":{\"png\":{\"w\":1}}},"
		"{\"output_type\":\"stream\",\"stream\":\"stderr\",\"text\":\"e\",\"metadata\":{}},"
		"{\"output_type\":\"pyerr\",\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"t\"]}"
		"]}]},"
		"{\"cells\":[{\"cell_type\":\"html\",\"source\":\"<b>\",\"metadata\":{}}]}]}";
	struct document document;
	cleanup_buf struct buf outputs = BUF_INIT;

	(void)state;
	read_text(text, &document);
	assert_int_equal(document.repairs.count, 0);
	assert_int_equal(json_length(document.metadata), 0);
	assert_int_equal(document.cell_count, 3);
	assert_string_equal(document.cells[0].source, "## a b");
	assert_int_equal(document.cells[0].type, DOCUMENT_MARKDOWN);
	assert_string_equal(document.cells[1].source, "x\ny");
	assert_int_equal(document.cells[1].execution_count, 3);
	assert_true(json_get_bool(document.cells[1].metadata, "collapsed", false));
	json_write(&outputs, document.cells[1].outputs);
	assert_string_equal(buf_bytes(&outputs),
			    "[{\"output_type\":\"execute_result\",\"data\":{\"text/plain\":\"1\","
			    "\"application/json\":[1]},\"metadata\":{\"image/"
			    "png\":{\"w\":1}},\"execution_count\":3},"
			    "{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"e\"},"
			    "{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\","
			    "\"traceback\":[\"t\"]}]");
	assert_int_equal(document.cells[2].type, DOCUMENT_MARKDOWN);
	document_release(&document);
}

static void test_language(void **state)
{
	static const struct {
		const char *metadata, *language;
	} rows[] = {
		{"{}", NULL},
		{"{\"kernelspec\":{\"name\":\"ir\",\"display_name\":\"R\"}}", NULL},
		{"{\"kernelspec\":{\"name\":\"ir\",\"display_name\":\"R\",\"language\":\"R\"},"
		 "\"language_info\":{\"name\":\"python\"}}",
		 "R"},
		{"{\"kernelspec\":{\"name\":\"x\",\"display_name\":\"X\",\"language\":5},"
		 "\"language_info\":{\"name\":\"julia\"}}",
		 "julia"},
		{"{\"kernelspec\":[],\"language_info\":{\"name\":\"python\"}}", "python"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cleanup_free char *text = mem_format("{\"nbformat\":4,\"nbformat_minor\":5,"
						     "\"metadata\":%s,\"cells\":[]}",
						     rows[i].metadata);
		struct document document;

		read_text(text, &document);
		if (rows[i].language)
			assert_string_equal(document_language(&document), rows[i].language);
		else
			assert_null(document_language(&document));
		document_release(&document);
	}
}

static void test_insert_and_remove(void **state)
{
	struct document document;
	char id[65];

	(void)state;
	read_text(HEAD "{\"cell_type\":\"raw\",\"id\":\"a\",\"source\":\"1\",\"metadata\":{"
		       "\"tags\":[\"t\"]}},"
		       "{\"cell_type\":\"raw\",\"id\":\"b\",\"source\":\"2\",\"metadata\":{}}]}",
		  &document);
	assert_int_equal(document_find_tag(&document, "t"), 0);
	assert_int_equal(document_find_tag(&document, "u"), 2);
	document_insert(&document, 2, DOCUMENT_CODE, "x", 1, json_new_object());
	snprintf(id, sizeof(id), "%s", document.cells[2].id);
	document_insert(&document, 0, DOCUMENT_CODE, "x", 1, json_new_object());
	assert_int_equal(document.cell_count, 4);
	assert_string_equal(document.cells[1].id, "a");
	assert_string_not_equal(document.cells[0].id, document.cells[3].id);
	document_remove(&document, 0);
	document_remove(&document, 0);
	assert_string_equal(document.cells[0].id, "b");
	assert_string_equal(document.cells[1].id, id);
	document_release(&document);
}

/* The whole text, cut at every byte: refused each time, and nothing leaks. */
static void test_cut_everywhere(void **state)
{
	static const char text[] =
		HEAD "{\"cell_type\":\"code\",\"id\":\"a\",\"source\":[\"x\\n\"],\"metadata\":"
		     "{}}]}";
	struct document document;

	(void)state;
	for (size_t len = 0; len + 1 < sizeof(text); len++)
		assert_int_equal(document_read(text, len, &document, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_ids_are_made),
		cmocka_unit_test(test_made_id_is_taken),
		cmocka_unit_test(test_lenient),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_place_of_fault),
		cmocka_unit_test(test_repairs_of_cells),
		cmocka_unit_test(test_repairs_of_outputs),
		cmocka_unit_test(test_older_minor),
		cmocka_unit_test(test_many_repairs),
		cmocka_unit_test(test_version_3),
		cmocka_unit_test(test_language),
		cmocka_unit_test(test_insert_and_remove),
		cmocka_unit_test(test_cut_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
