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

/* "" when the key is not there, NULL after an error. */
static char *path_of(const char *text)
{
	struct buf path = BUF_INIT;
	struct err err = ERR_INIT;
	int found = slm_config_read(text, strlen(text), &path, &err);

	if (found < 0)
		assert_non_null(strstr(err.text, "line "));
	if (found > 0)
		return buf_take(&path, NULL);
	buf_release(&path);
	return found == 0 ? mem_string("") : NULL;
}

static void assert_path(const char *text, const char *path)
{
	cleanup_free char *found = path_of(text);

	assert_non_null(found);
	assert_string_equal(found, path);
}

static void the_key_is_found(void **state)
{
	(void)state;
	assert_path("models:\n  code_interpreter:\n    path: ../m.gguf\n", "../m.gguf");
	assert_path("# c\n---\ninference:\n  n_threads: 4\nmodels: # here\n    other:\n"
		    "        path: no\n    code_interpreter:\r\n\r\n        repo: x\r\n"
		    "        path: \"/a b/#c\" # it\r\n",
		    "/a b/#c");
	assert_path("models:\n  code_interpreter:\n    path: 'it''s' \n", "it's");
	assert_path("models:\n  code_interpreter:\n    path: a b # c\n", "a b");
	assert_path("models:\n  'code_interpreter':\n    \"path\": x", "x");
	assert_path("", "");
	assert_path("models:\n  code_interpreter:\n    repo: x\npath: y\n", "");
	assert_path("other:\n  code_interpreter:\n    path: x\n", "");
	assert_path("models:\n  x:\n    code_interpreter:\n      path: x\n", "");
	assert_path("models:\n  - code_interpreter\n  - path\n", "");
	assert_null(path_of("models: {code_interpreter: {path: x}}\n"));
	assert_null(path_of("models:\n\tcode_interpreter:\n"));
	assert_null(path_of("models:\n  code_interpreter:\n    path:\n"));
	assert_null(path_of("models:\n  code_interpreter:\n    path: 'x\n"));
	assert_null(path_of("models:\n  code_interpreter:\n    path: \"a\\nb\"\n"));
	assert_null(path_of("models:\n  code_interpreter:\n    path: *x\n"));
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
		cmocka_unit_test(the_key_is_found),
		cmocka_unit_test(models_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
