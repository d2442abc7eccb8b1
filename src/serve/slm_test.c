/*
 * The original's texts to the byte, and its configuration.
 */
#include "serve/slm_request.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "serve/dumps.h"
#include "serve/slm_config.h"

/* --- JSON as Python writes it ----------------------------------------------------------------- */

static void json_is_written_as_by_python(void **state)
{
	static const char text[] =
		"{\"a\":[1,2.5,true,null,{}],\"\xc3\xa9\":\"\\u0000\\u001f\\n\\t\\\""
		"\\\\/\x7f\xf0\x9d\x84\x9e\xe2\x82\xac\"}";
	cleanup_json struct json *json = json_parse(text, sizeof(text) - 1, &JSON_LIMITS, NULL);
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	dumps_write(&out, json);
	assert_string_equal(buf_bytes(&out),
			    "{\"a\": [1, 2.5, true, null, {}], \"\\u00e9\": "
			    "\"\\u0000\\u001f\\n\\t\\\"\\\\/\x7f\\ud834\\udd1e\\u20ac\"}");
	buf_clear(&out);
	dumps_write_string(&out, "\xff", 1);
	assert_string_equal(buf_bytes(&out), "\"\\ufffd\"");
}

/* --- requests --------------------------------------------------------------------------------- */

static void assert_refused(const char *body, const char *begin)
{
	struct slm_request request = SLM_REQUEST_INIT;
	cleanup_buf struct buf error = BUF_INIT;

	assert_int_equal(slm_request_read(body, strlen(body), &request, &error), -1);
	slm_request_release(&request);
	assert_memory_equal(buf_bytes(&error), begin, strlen(begin));
}

static void assert_retries(const char *body, int64_t retries)
{
	struct slm_request request = SLM_REQUEST_INIT;
	cleanup_buf struct buf error = BUF_INIT;

	assert_int_equal(slm_request_read(body, strlen(body), &request, &error), 0);
	assert_string_equal(request.instruction, "x");
	assert_int_equal(request.max_retries, retries);
	slm_request_release(&request);
}

static void requests_are_read(void **state)
{
	(void)state;
	assert_retries("{\"instruction\":\"x\"}", 3);
	assert_retries(" {\"instruction\":\"x\",\"max_retries\":\"7\",\"more\":[]}", 7);
	assert_retries("{\"instruction\":\"x\",\"max_retries\":2.9}", 2);
	assert_retries("{\"instruction\":\"x\",\"max_retries\":true}", 1);
	assert_retries("{\"instruction\":\"x\",\"max_retries\":-4}", -4);
	assert_refused("", "Invalid JSON payload: Expecting value: line 1 column 1 (char 0)");
	assert_refused("{\"instruction\":", "Invalid JSON payload: ");
	assert_refused("[]", "Invalid JSON payload: ");
	assert_refused("null", "Invalid JSON payload: ");
	assert_refused("{\"instruction\":\"x\",\"max_retries\":null}", "Invalid JSON payload: ");
	assert_refused("{\"instruction\":\"x\",\"max_retries\":\"7x\"}", "Invalid JSON payload: ");
	assert_refused("{\"instruction\":[\"x\"]}", "Invalid JSON payload: ");
	assert_refused("{}", "Missing field: 'instruction'");
	assert_refused("{\"instruction\":\"\"}", "Missing field: 'instruction'");
	assert_refused("{\"instruction\":0}", "Missing field: 'instruction'");
	assert_refused("{\"instruction\":{}}", "Missing field: 'instruction'");
}

static void results_are_the_originals(void **state)
{
	static const char good[] =
		"{\"type\":\"result\",\"success\":true,\"stdout\":\" 4\\n\",\"stderr\":\"w\\n\","
		"\"code\":\"print(4)\\n\",\"attempts\":2,\"response\":\"r "
		"\",\"confidence\":\"ran\"}";
	static const char bad[] = "{\"type\":\"result\",\"success\":false,\"stdout\":\"1\","
				  "\"message\":\"m\"}";
	cleanup_json struct json *success = json_parse(good, sizeof(good) - 1, &JSON_LIMITS, NULL);
	cleanup_json struct json *failure = json_parse(bad, sizeof(bad) - 1, &JSON_LIMITS, NULL);
	struct slm_request request = {.max_retries = 5};
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	slm_write_result(&out, success, &request);
	assert_string_equal(buf_bytes(&out),
			    "{\"success\": true, \"stdout\": \"4\", \"stderr\": \"w\", \"code\": "
			    "\"print(4)\", \"attempts\": 2, \"response\": \"r \"}");
	buf_clear(&out);
	slm_write_result(&out, failure, &request);
	assert_string_equal(
		buf_bytes(&out),
		"{\"success\": false, \"stdout\": \"\", \"stderr\": \"Max correction "
		"loops reached.\", \"code\": \"\", \"attempts\": 5, \"response\": \"\"}");
	buf_clear(&out);
	request.details = true;
	slm_write_result(&out, failure, &request);
	assert_non_null(strstr(buf_bytes(&out), "\"response\": \"\", \"message\": \"m\"}"));
}

/* --- configuration ---------------------------------------------------------------------------- */

/* Reads one case of the table: `path` is what is found (null: nothing), `line` where it is
 * wrong. */
static void read_case(const struct json *one)
{
	cleanup_buf struct buf path = BUF_INIT;
	struct err err = ERR_INIT;
	size_t len = 0;
	const char *text = json_string(json_get(one, "text"), &len);
	const char *wanted = json_get_string(one, "path");
	cleanup_free char *line =
		mem_format("line %lld:", (long long)json_get_int(one, "line", 0));
	int found = slm_config_read(text, len, &path, &err);

	if (found != (json_has(one, "line") ? -1 : wanted ? 1 : 0))
		fail_msg("%d (%s) of %s", found, found < 0 ? err.text : buf_bytes(&path), text);
	if (found > 0)
		assert_string_equal(buf_bytes(&path), wanted);
	if (found < 0 && strncmp(err.text, line, strlen(line)) != 0)
		fail_msg("%s of %s", err.text, text);
}

static void the_table_is_read(void **state)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *cases = NULL;

	(void)state;
	assert_int_equal(file_read(AT_FDCWD, FH_TEST_DATA "/config-yaml.json", 1 << 20, &text,
				   NULL),
			 0);
	cases = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	assert_true(json_length(cases) > 50);
	for (size_t i = 0; i < json_length(cases); i++)
		read_case(json_at(cases, i));
}

static void what_is_no_text_is_refused(void **state)
{
	static const char nul[] = "models:\n\0";
	cleanup_buf struct buf path = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(slm_config_read("a: \xff\n", 5, &path, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(slm_config_read(nul, sizeof(nul), &path, &err), -1);
}

static void touch(const char *folder, const char *name)
{
	cleanup_free char *path = mem_format("%s/%s", folder, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fclose(file);
}

static void models_are_found(void **state)
{
	char folder[] = "/tmp/fumehood-slm-XXXXXX";
	struct err err = ERR_INIT;
	cleanup_free char *inner = NULL, *file = NULL, *same = NULL;

	(void)state;
	assert_non_null(mkdtemp(folder));
	inner = mem_format("%s/onnx", folder);
	assert_null(slm_model_file(folder, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(mkdir(inner, 0700), 0);
	touch(inner, "genai_config.json");
	assert_null(slm_model_file(folder, &err));
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "model pull"));
	touch(folder, "m-00001-of-00002.gguf");
	touch(folder, "m-00002-of-00002.gguf");
	touch(folder, "mmproj-m.gguf");
	file = slm_model_file(folder, &err);
	assert_non_null(file);
	assert_non_null(strstr(file, "/m-00001-of-00002.gguf"));
	same = slm_model_file(file, &err);
	assert_string_equal(same, file);
	touch(inner, "n.gguf");
	assert_null(slm_model_file(folder, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(file_remove_tree(AT_FDCWD, folder, &err), 0);
	assert_null(slm_model_file(folder, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_is_written_as_by_python),
		cmocka_unit_test(requests_are_read),
		cmocka_unit_test(results_are_the_originals),
		cmocka_unit_test(the_table_is_read),
		cmocka_unit_test(what_is_no_text_is_refused),
		cmocka_unit_test(models_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
