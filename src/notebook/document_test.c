/* Reading notebooks: what is taken, what is repaired, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
	check_refused("{\"nbformat\":3,\"worksheets\":[]}", "jupyter nbconvert");
	check_refused("{\"nbformat\":5,\"cells\":[]}", "newer");
	check_refused("{\"nbformat\":4}", "no list of cells");
	check_refused(HEAD "1]}", "cell 1");
	check_refused(HEAD "{\"cell_type\":\"raw\",\"source\":\"\"},{\"source\":\"\"}]}", "cell 2");
	check_refused(HEAD "{\"cell_type\":\"heading\",\"source\":\"\"}]}", "heading");
	check_refused(HEAD "{\"cell_type\":\"code\"}]}", "source");
	check_refused(HEAD "{\"cell_type\":\"code\",\"source\":[\"a\",1]}]}", "element 2");
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
		cmocka_unit_test(test_cut_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
