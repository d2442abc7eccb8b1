/*
 * The texts of the original's service; see slm_request.h.
 */
#include "serve/slm_request.h"

#include <string.h>

#include "serve/dumps.h"

static const char INVALID[] = "Invalid JSON payload: ";
static const char MISSING[] = "Missing field: 'instruction'";

void slm_request_release(struct slm_request *request)
{
	json_free(request->body);
	request->body = NULL;
}

/* --- what is asked ---------------------------------------------------------------------------- */

static int invalid(struct buf *error, const char *text)
{
	buf_append_string(error, INVALID);
	buf_append_string(error, text);
	return -1;
}

/* As Python's int() takes a value. */
static int read_retries(const struct json *value, int64_t *number)
{
	const char *text = json_string(value, NULL);
	char *end = NULL;

	switch (json_type_of(value)) {
	case JSON_INT:
		*number = json_int(value, 0);
		return 0;
	case JSON_BOOL:
		*number = json_bool(value, false);
		return 0;
	case JSON_DOUBLE:
		if (json_double(value, 0) > 9e15 || json_double(value, 0) < -9e15)
			return -1;
		*number = (int64_t)json_double(value, 0);
		return 0;
	case JSON_STRING:
		if (text[0] == '\0' || strlen(text) > 15 ||
		    strspn(text, "-+0123456789") != strlen(text))
			return -1;
		*number = strtoll(text, &end, 10);
		return *end == '\0' ? 0 : -1;
	case JSON_NULL:
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return -1;
}

/* What is false to Python counts as missing there. */
static bool is_false(const struct json *value)
{
	size_t len = 1;

	switch (json_type_of(value)) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return !json_bool(value, true);
	case JSON_INT:
		return json_int(value, 1) == 0;
	case JSON_DOUBLE:
		return json_double(value, 1) == 0;
	case JSON_STRING:
		(void)json_string(value, &len);
		return len == 0;
	case JSON_ARRAY:
	case JSON_OBJECT:
		return json_length(value) == 0;
	}
	return false;
}

static bool is_blank(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", bytes[i]) || bytes[i] == '\0')
			return false;
	return true;
}

int slm_request_read(const char *bytes, size_t len, struct slm_request *request, struct buf *error)
{
	static const struct json_limits limits = {.bytes_max = SLM_BODY_BYTES_MAX, .depth_max = 60};
	const struct json *instruction;
	struct err err = ERR_INIT;

	*request = (struct slm_request){.max_retries = SLM_RETRIES};
	if (is_blank(bytes, len))
		return invalid(error, "Expecting value: line 1 column 1 (char 0)");
	request->body = json_parse(bytes, len, &limits, &err);
	if (!request->body && err.code != ERR_OK) {
		invalid(error, err.text);
		buf_append_string(error, " (Content-Length counts bytes, not characters)");
		return -1;
	}
	if (json_type_of(request->body) != JSON_OBJECT)
		return invalid(error, "it is no object");
	if (json_has(request->body, "max_retries") &&
	    read_retries(json_get(request->body, "max_retries"), &request->max_retries) != 0)
		return invalid(error, "max_retries is a whole number");
	instruction = json_get(request->body, "instruction");
	if (is_false(instruction)) {
		buf_append_string(error, MISSING);
		return -1;
	}
	request->instruction = json_string(instruction, &request->instruction_len);
	if (!request->instruction)
		return invalid(error, "instruction is a string");
	request->details = json_get_bool(request->body, "details", false);
	return 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

void slm_write_status(struct buf *out, int port)
{
	buf_printf(out, "{\"status\": \"ready\", \"port\": %d}", port);
}

void slm_write_error(struct buf *out, const char *text, size_t len)
{
	buf_append_string(out, "{\"error\": ");
	dumps_write_string(out, text, len);
	buf_append_char(out, '}');
}

/* What str.strip() takes away, of ASCII. */
static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

/* A member that is text, without the blanks round it. */
static void put_text(struct buf *out, const char *name, const struct json *object, bool strip)
{
	size_t len = 0;
	const char *text = json_string(json_get(object, name), &len);

	while (strip && len > 0 && is_space(text[0])) {
		text++;
		len--;
	}
	while (strip && len > 0 && is_space(text[len - 1]))
		len--;
	buf_printf(out, "\"%s\": ", name);
	dumps_write_string(out, text ? text : "", len);
}

/* What the original has not. */
static int put_rest(const char *key, size_t len, struct json *value, void *data)
{
	static const char *const own[] = {"type", "success",  "stdout",  "stderr",
					  "code", "attempts", "response"};
	struct buf *out = data;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strlen(own[i]) == len && memcmp(own[i], key, len) == 0)
			return 0;
	buf_append_string(out, ", ");
	dumps_write_string(out, key, len);
	buf_append_string(out, ": ");
	dumps_write(out, value);
	return 0;
}

void slm_write_result(struct buf *out, const struct json *result, const struct slm_request *request)
{
	bool success = json_get_bool(result, "success", false);

	if (success) {
		buf_append_string(out, "{\"success\": true, ");
		put_text(out, "stdout", result, true);
		buf_append_string(out, ", ");
		put_text(out, "stderr", result, true);
		buf_append_string(out, ", ");
		put_text(out, "code", result, true);
		buf_printf(out, ", \"attempts\": %lld, ",
			   (long long)json_get_int(result, "attempts", 1));
		put_text(out, "response", result, false);
	} else {
		buf_printf(out,
			   "{\"success\": false, \"stdout\": \"\", "
			   "\"stderr\": \"Max correction loops reached.\", \"code\": \"\", "
			   "\"attempts\": %lld, \"response\": \"\"",
			   (long long)request->max_retries);
	}
	if (request->details)
		(void)json_each(result, put_rest, out);
	buf_append_char(out, '}');
}

bool slm_is_load_error(enum err_code code)
{
	return code == ERR_NOT_FOUND || code == ERR_UNSUPPORTED || code == ERR_CORRUPT ||
	       code == ERR_USAGE || code == ERR_INVALID;
}

void slm_write_unsupported(struct buf *out, const char *method, size_t len)
{
	buf_append_string(out, "<!DOCTYPE HTML>\n"
			       "<html lang=\"en\">\n"
			       "    <head>\n"
			       "        <meta charset=\"utf-8\">\n"
			       "        <title>Error response</title>\n"
			       "    </head>\n"
			       "    <body>\n"
			       "        <h1>Error response</h1>\n"
			       "        <p>Error code: 501</p>\n"
			       "        <p>Message: Unsupported method ('");
	for (size_t i = 0; i < len; i++) {
		if (method[i] == '&' || method[i] == '<' || method[i] == '>')
			buf_append_string(out, method[i] == '&'   ? "&amp;"
					       : method[i] == '<' ? "&lt;"
								  : "&gt;");
		else
			buf_append_char(out, method[i]);
	}
	buf_append_string(out, "').</p>\n"
			       "        <p>Error code explanation: 501 - Server does not support "
			       "this operation.</p>\n"
			       "    </body>\n"
			       "</html>\n");
}
