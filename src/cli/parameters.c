/*
 * Parameters; see parameters.h. How a text becomes a value is in parameters_infer.c.
 *
 * What is printed follows papermill's translators.py: strings as Python's unicode_escape codec
 * makes them, with quotes escaped; floats by repr(); dicts with every key as a string. papermill's
 * output without Black, which it uses where it happens to be installed.
 */
#include "cli/parameters.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { TEXT_BYTES_MAX = 16 << 20 };

static const struct json_limits LIMITS = {
	.bytes_max = TEXT_BYTES_MAX, .depth_max = 100, .keys_unique = false, .nan_as_text = false};

void parameters_release(struct parameters *parameters)
{
	for (size_t i = 0; i < parameters->count; i++) {
		free(parameters->list[i].name);
		json_free(parameters->list[i].value);
	}
	free(parameters->list);
	*parameters = (struct parameters)PARAMETERS_INIT;
}

void parameters_set(struct parameters *parameters, const char *name, struct json *value)
{
	struct parameter *parameter;

	for (size_t i = 0; i < parameters->count; i++) {
		parameter = &parameters->list[i];
		if (strcmp(parameter->name, name) == 0) {
			json_free(parameter->value);
			parameter->value = value;
			return;
		}
	}
	parameters->list =
		mem_resize(parameters->list, parameters->count + 1, sizeof(*parameters->list));
	parameters->list[parameters->count++] =
		(struct parameter){.name = mem_string(name), .value = value};
}

static int merge_member(const char *key, size_t key_len, struct json *value, void *data)
{
	if (strlen(key) != key_len)
		return -1;
	parameters_set(data, key, json_keep(value));
	return 0;
}

int parameters_merge(struct parameters *parameters, const struct json *object, struct err *err)
{
	if (object == NULL)
		return 0;
	if (json_type_of(object) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "parameters are names with values (NAME: VALUE)");
	if (json_each(object, merge_member, parameters) != 0)
		return err_set(err, ERR_INVALID, "the name of a parameter holds NUL");
	return 0;
}

const struct json *parameters_get(const struct parameters *parameters, const char *name,
				  bool *found)
{
	for (size_t i = 0; i < parameters->count; i++) {
		if (strcmp(parameters->list[i].name, name) == 0) {
			*found = true;
			return parameters->list[i].value;
		}
	}
	*found = false;
	return NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

int parameters_parse(const char *text, size_t len, struct json **value)
{
	struct err err = ERR_INIT;
	size_t at = 0;

	*value = NULL;
	while (at < len && isspace((unsigned char)text[at]))
		at++;
	if (at == len)
		return 1;
	*value = json_parse(text, len, &LIMITS, &err);
	return *value != NULL || err.code == ERR_OK ? 1 : 0;
}

struct json *parameters_from_python(const char *text, size_t len, struct err *err)
{
	return json_parse(text, len, &LIMITS, err);
}

static bool is_keyword(const char *name)
{
	static const char *const words[] = {
		"False",  "None",   "True",    "and",      "as",       "assert", "async",
		"await",  "break",  "class",   "continue", "def",      "del",    "elif",
		"else",   "except", "finally", "for",      "from",     "global", "if",
		"import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
		"pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(name, words[i]) == 0)
			return true;
	return false;
}

/* Python takes letters of all scripts (PEP 3131); which they are, it says itself when the cell
 * runs. */
static bool is_name(const char *name)
{
	for (const char *at = name; *at; at++) {
		unsigned char c = (unsigned char)*at;

		if (!(c == '_' || c >= 0x80 || isalpha(c) || (at > name && isdigit(c))))
			return false;
	}
	return name[0] != '\0' && !is_keyword(name);
}

int parameters_check(const struct parameters *parameters, struct err *err)
{
	for (size_t i = 0; i < parameters->count; i++)
		if (!is_name(parameters->list[i].name))
			return err_set(err, ERR_USAGE, "\"%.60s\" is no name for a parameter",
				       parameters->list[i].name);
	return 0;
}

bool parameters_assigned(const char *source, size_t len, const char *name)
{
	size_t name_len = strlen(name);
	const char *end = source + len;

	for (const char *line = source; line < end;) {
		const char *feed = memchr(line, '\n', (size_t)(end - line));
		const char *stop = feed ? feed : end;
		const char *at = line + name_len;

		if (at < stop && memcmp(line, name, name_len) == 0) {
			while (at < stop && (*at == ' ' || *at == '\t'))
				at++;
			if (at < stop && (*at == ':' || (*at == '=' && at[1] != '=')))
				return true;
		}
		line = stop + 1;
	}
	return false;
}

/* --- printing --------------------------------------------------------------------------------- */

void parameters_text_source(const char *text, size_t len, struct buf *out)
{
	size_t step;

	buf_append_char(out, '"');
	for (size_t at = 0; at < len; at += step) {
		uint32_t point;

		step = text_next(text + at, len - at, &point);
		if (point == '\\')
			buf_append_string(out, "\\\\");
		else if (point == '"')
			buf_append_string(out, "\\\"");
		else if (point == '\t')
			buf_append_string(out, "\\t");
		else if (point == '\n')
			buf_append_string(out, "\\n");
		else if (point == '\r')
			buf_append_string(out, "\\r");
		else if (point >= 0x20 && point < 0x7f)
			buf_append_char(out, (char)point);
		else if (point < 0x100)
			buf_printf(out, "\\x%02x", point);
		else if (point < 0x10000)
			buf_printf(out, "\\u%04x", point);
		else
			buf_printf(out, "\\U%08x", point);
	}
	buf_append_char(out, '"');
}

/* "nan", "inf" or "-inf" when the value stands for a float of these; else NULL. */
static const char *odd_float(const struct json *value)
{
	const char *text = NULL;

	if (json_type_of(value) == JSON_OBJECT && json_length(value) == 1)
		text = json_get_string(value, PARAMETERS_FLOAT);
	if (text &&
	    (strcmp(text, "nan") == 0 || strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0))
		return text;
	return NULL;
}

/* A number that is no int64: an integer of any length, or a float. */
static void number_source(const struct json *value, struct buf *out)
{
	const char *digits = json_number_text(value);

	if (!digits) {
		json_write_double(out, json_double(value, 0));
	} else if (strcmp(digits, "-0") == 0) { /* an integer for Python */
		buf_append_char(out, '0');
	} else if (digits[strspn(digits, "-0123456789")] == '\0') {
		buf_append_string(out, digits);
	} else if (isinf(strtod(digits, NULL))) { /* json_double() stays finite, Python does not */
		buf_append_string(out, digits[0] == '-' ? "float('-inf')" : "float('inf')");
	} else {
		json_write_double(out, json_double(value, 0));
	}
}

static int member_source(const char *key, size_t key_len, struct json *value, void *data)
{
	struct buf *out = data;

	if (buf_bytes(out)[out->len - 1] != '{')
		buf_append_string(out, ", ");
	parameters_text_source(key, key_len, out);
	buf_append_string(out, ": ");
	parameters_value_source(value, out);
	return 0;
}

void parameters_value_source(const struct json *value, struct buf *out)
{
	size_t len = 0;
	const char *text;

	switch (json_type_of(value)) {
	case JSON_NULL:
		buf_append_string(out, "None");
		break;
	case JSON_BOOL:
		buf_append_string(out, json_bool(value, false) ? "True" : "False");
		break;
	case JSON_INT:
		json_write(out, value);
		break;
	case JSON_DOUBLE:
		number_source(value, out);
		break;
	case JSON_STRING:
		text = json_string(value, &len);
		parameters_text_source(text, len, out);
		break;
	case JSON_ARRAY:
		buf_append_char(out, '[');
		for (size_t i = 0; i < json_length(value); i++) {
			buf_append_string(out, i > 0 ? ", " : "");
			parameters_value_source(json_at(value, i), out);
		}
		buf_append_char(out, ']');
		break;
	case JSON_OBJECT:
		if (odd_float(value)) {
			buf_printf(out, "float('%s')", odd_float(value));
			break;
		}
		buf_append_char(out, '{');
		json_each(value, member_source, out);
		buf_append_char(out, '}');
		break;
	}
}

void parameters_source(const struct parameters *parameters, struct buf *out)
{
	buf_append_string(out, "# Parameters\n");
	for (size_t i = 0; i < parameters->count; i++) {
		buf_printf(out, "%s = ", parameters->list[i].name);
		parameters_value_source(parameters->list[i].value, out);
		buf_append_char(out, '\n');
	}
}

static struct json *plain(const struct json *value);

static int plain_member(const char *key, size_t key_len, struct json *value, void *made)
{
	if (strlen(key) == key_len)
		json_set(made, key, plain(value));
	return 0;
}

/* A copy with strings for the floats that JSON cannot write. */
static struct json *plain(const struct json *value)
{
	struct json *made;

	if (value == NULL)
		return NULL;
	if (odd_float(value))
		return json_new_string(odd_float(value), strlen(odd_float(value)));
	if (json_type_of(value) == JSON_OBJECT) {
		made = json_new_object();
		json_each(value, plain_member, made);
		return made;
	}
	if (json_type_of(value) != JSON_ARRAY)
		return json_copy(value);
	made = json_new_array();
	for (size_t i = 0; i < json_length(value); i++)
		json_push(made, plain(json_at(value, i)));
	return made;
}

struct json *parameters_json(const struct parameters *parameters)
{
	struct json *made = json_new_object();

	for (size_t i = 0; i < parameters->count; i++)
		json_set(made, parameters->list[i].name, plain(parameters->list[i].value));
	return made;
}
