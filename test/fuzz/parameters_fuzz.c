/*
 * Fuzzes parameters and path templates: any bytes as JSON, base64, a value of the command line and
 * a template. What is printed as Python source is ASCII on one line a parameter, and what is read
 * back from metadata is JSON.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/parameters.h"
#include "cli/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_source(const struct parameters *parameters)
{
	cleanup_buf struct buf source = BUF_INIT, again = BUF_INIT;
	cleanup_json struct json *json = parameters_json(parameters), *back = NULL;
	size_t lines = 0;

	parameters_source(parameters, &source);
	for (size_t i = 0; i < source.len; i++)
		lines += buf_bytes(&source)[i] == '\n';
	if (parameters_check(parameters, NULL) == 0)
		assert(lines == parameters->count + 1);
	json_write(&again, json);
	back = json_parse(buf_bytes(&again), again.len, &JSON_LIMITS, NULL);
	assert(json_equal(json, back));
}

static void check_template(const struct parameters *parameters, const char *text)
{
	const struct template_builtins builtins = {.run_uuid = "u", .now_us = 1700000000000000};
	struct err err = ERR_INIT;
	cleanup_free char *path = template_fill(text, parameters, &builtins, &err);

	assert(path ? path[0] != '\0' : err.code == ERR_USAGE);
}

static void check_value(const char *text, size_t len)
{
	cleanup_buf struct buf source = BUF_INIT;
	cleanup_json struct json *value = NULL;

	if (!text_is_utf8(text, len))
		return;
	value = parameters_infer(text, len);
	parameters_value_source(value, &source);
	for (size_t i = 0; i < source.len; i++)
		assert(buf_bytes(&source)[i] >= 0x20 && buf_bytes(&source)[i] < 0x7f);
}

/* The first line is a template, the rest JSON or base64 of it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *feed = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t head = feed ? (size_t)(feed - data) : size;
	cleanup_free char *line = mem_copy(data, head);
	const char *rest = feed ? (const char *)feed + 1 : "";
	size_t rest_len = feed ? size - head - 1 : 0;
	cleanup_parameters struct parameters parameters = PARAMETERS_INIT;
	cleanup_buf struct buf decoded = BUF_INIT;
	cleanup_json struct json *value = NULL, *hidden = NULL;

	check_value(line, head);
	if (parameters_parse(rest, rest_len, &value) == 1)
		(void)parameters_merge(&parameters, value, NULL);
	if (hash_base64_decode(&decoded, rest, rest_len) == 0 &&
	    parameters_parse(buf_bytes(&decoded), decoded.len, &hidden) == 1)
		(void)parameters_merge(&parameters, hidden, NULL);
	check_source(&parameters);
	check_template(&parameters, line);
	return 0;
}
