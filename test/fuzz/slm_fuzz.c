/*
 * Fuzzes what comes to the daemon for a model: any bytes as the original's config.yaml, as the body
 * of POST /execute and as that of POST /v1/ask. What is taken stays within what is promised: a path
 * without LF, an instruction, words that begin with "--" and name no file for a token.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "serve/ask_body.h"
#include "serve/slm_config.h"
#include "serve/slm_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_config(const char *text, size_t len)
{
	cleanup_buf struct buf path = BUF_INIT;
	struct err err = ERR_INIT;
	int found = slm_config_read(text, len, &path, &err);

	assert(found >= 0 || err.code == ERR_INVALID);
	assert(found <= 0 || !memchr(buf_bytes(&path), '\n', path.len));
}

static void read_execute(const char *text, size_t len)
{
	struct slm_request request = SLM_REQUEST_INIT;
	cleanup_buf struct buf error = BUF_INIT, out = BUF_INIT;

	if (slm_request_read(text, len, &request, &error) == 0) {
		assert(request.instruction && request.instruction_len > 0);
		slm_write_result(&out, request.body, &request);
	} else {
		assert(error.len > 0);
		slm_write_error(&out, buf_bytes(&error), error.len);
	}
	for (size_t i = 0; i < out.len; i++) /* ASCII on one line, as Python's */
		assert(buf_bytes(&out)[i] >= ' ');
	slm_request_release(&request);
}

static void read_ask(const char *text, size_t len, bool trusted)
{
	static const char *const urls[] = {"http://models.test/v1"};
	const struct ask_rules rules = {.trusted = trusted, .urls = urls, .url_count = 1};
	cleanup_json struct json *body = json_parse(text, len, &JSON_LIMITS, NULL);
	cleanup_ask_body struct ask_body ask = ASK_BODY_INIT;
	struct err err = ERR_INIT;

	if (json_type_of(body) != JSON_OBJECT)
		return;
	if (ask_body_read(body, &rules, &ask, &err) != 0) {
		assert(err.code == ERR_INVALID || err.code == ERR_DENIED || err.code == ERR_LIMIT);
		assert(text_is_utf8(err.text, strlen(err.text)));
		return;
	}
	assert(ask.instruction && ask.instruction_len > 0);
	for (size_t i = 0; i < ask.word_count; i++) {
		assert(strncmp(ask.words[i], "--", 2) == 0 && strchr(ask.words[i], '='));
		assert(trusted || (strncmp(ask.words[i], "--script", 8) != 0 &&
				   strncmp(ask.words[i], "--workspace", 11) != 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = mem_copy(data, size);

	if (size == 0)
		return 0;
	switch (data[0] % 4) {
	case 0:
		read_config(text + 1, size - 1);
		break;
	case 1:
		read_execute(text + 1, size - 1);
		break;
	default:
		read_ask(text + 1, size - 1, data[0] % 4 == 2);
		break;
	}
	return 0;
}
