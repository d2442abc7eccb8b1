/*
 * Fuzzes requests of the session protocol: what request_parse() lets through has a known op and
 * fields of the right types, so the code behind it asks no more.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "keeper/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct request *request, const char *key)
{
	size_t len = 0;
	const char *text = json_string(json_get(request->json, key), &len);

	assert(text && text_is_utf8(text, len));
}

static int is_fit_key(const char *key, size_t len, struct json *value, void *data)
{
	(void)value;
	(void)data;
	assert(strlen(key) == len && strcmp(key, "seq") != 0 && strcmp(key, "t") != 0);
	return 0;
}

static void check_record(const struct request *request, size_t size)
{
	enum event_type type = request_record_type(request);

	assert(size <= REQUEST_RECORD_BYTES_MAX);
	assert(type >= EVENT_ASK && type <= EVENT_VERDICT);
	check_text(request, type == EVENT_ASK ? "instruction" : "ask");
	assert(type != EVENT_ASK || !json_has(request->json, "ask"));
	assert(type == EVENT_VERDICT || !json_has(request->json, "cell"));
	if (type == EVENT_ATTEMPT || type == EVENT_TOKEN || type == EVENT_CODE)
		assert(json_get_int(request->json, "attempt", 0) > 0);
	json_each(request->json, is_fit_key, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request request;
	struct err err = ERR_INIT;

	if (request_parse((const char *)data, size, &request, &err) == 0) {
		assert(request.op < REQUEST_OP_COUNT);
		if (request.op == REQUEST_RUN || request.op == REQUEST_COMPLETE)
			check_text(&request, "code");
		if (request.op == REQUEST_RECORD)
			check_record(&request, size);
	} else {
		assert(err.code != ERR_OK && err.text[0]);
	}
	request_release(&request);
	return 0;
}
