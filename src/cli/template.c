/*
 * Filling path templates; see template.h.
 *
 * The grammar is that of Python's format strings (library reference, "Format String Syntax"), with
 * what a file name can use of it. What is not understood is refused, never left in the name.
 */
#include "cli/template.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"

enum { WIDTH_MAX = 255 };

/* One field: {name[key].key!conversion:format} */
struct field {
	char *text;     /* owned: all between the braces */
	const char *at; /* what is not read yet */
	char conversion;
	const char *format; /* "" when there is none */
};

static void field_release(struct field *field)
{
	free(field->text);
}

struct filling {
	const struct parameters *parameters;
	const struct template_builtins *builtins;
	struct buf out;
	struct err *err;
};

/* --- values as text --------------------------------------------------------------------------- */

/* repr() of a text, for lists and !r. Letters of all scripts stay. */
static void text_repr(const char *text, size_t len, struct buf *out)
{
	bool single = memchr(text, '\'', len) != NULL && memchr(text, '"', len) == NULL;
	char quote = single ? '"' : '\'';

	buf_append_char(out, quote);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\\' || c == (unsigned char)quote)
			buf_append_char(out, '\\');
		if (c == '\n')
			buf_append_string(out, "\\n");
		else if (c == '\r')
			buf_append_string(out, "\\r");
		else if (c == '\t')
			buf_append_string(out, "\\t");
		else if (c < 0x20 || c == 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_append_char(out, (char)c);
	}
	buf_append_char(out, quote);
}

static void value_text(const struct json *value, bool repr, struct buf *out);

static int member_text(const char *key, size_t key_len, struct json *value, void *data)
{
	struct buf *out = data;

	if (buf_bytes(out)[out->len - 1] != '{')
		buf_append_string(out, ", ");
	text_repr(key, key_len, out);
	buf_append_string(out, ": ");
	value_text(value, true, out);
	return 0;
}

/* str() or repr(). */
static void value_text(const struct json *value, bool repr, struct buf *out)
{
	size_t len = 0;
	const char *text = json_string(value, &len);
	const char *odd = json_get_string(value, PARAMETERS_FLOAT);

	if (text && repr) {
		text_repr(text, len, out);
	} else if (text) {
		buf_append(out, text, len);
	} else if (odd) {
		buf_append_string(out, odd);
	} else if (json_type_of(value) == JSON_ARRAY) {
		buf_append_char(out, '[');
		for (size_t i = 0; i < json_length(value); i++) {
			buf_append_string(out, i > 0 ? ", " : "");
			value_text(json_at(value, i), true, out);
		}
		buf_append_char(out, ']');
	} else if (json_type_of(value) == JSON_OBJECT) {
		buf_append_char(out, '{');
		json_each(value, member_text, out);
		buf_append_char(out, '}');
	} else {
		parameters_value_source(value, out); /* None, True, numbers: the same as source */
	}
}

/* --- formats ---------------------------------------------------------------------------------- */

struct spec {
	char fill[5]; /* one code point */
	char align;   /* 0: not given */
	char sign;
	bool grouped;
	unsigned width;
	int precision; /* -1: not given */
	char type;
};

static bool take_number(const char **at, unsigned *number)
{
	*number = 0;
	while (isdigit((unsigned char)**at)) {
		*number = *number * 10 + (unsigned)(*(*at)++ - '0');
		if (*number > WIDTH_MAX)
			return false;
	}
	return true;
}

static bool spec_read(const char *at, struct spec *spec)
{
	uint32_t point;
	size_t first = *at ? text_next(at, strlen(at), &point) : 0;
	unsigned precision;

	*spec = (struct spec){.fill = " ", .precision = -1};
	if (first && at[first] && strchr("<>^=", at[first])) {
		memcpy(spec->fill, at, first);
		spec->fill[first] = '\0';
		spec->align = at[first];
		at += first + 1;
	} else if (*at && strchr("<>^=", *at)) {
		spec->align = *at++;
	}
	if (*at && strchr("+- ", *at))
		spec->sign = *at++;
	if (*at == '0') {
		at++;
		if (!spec->align) {
			memcpy(spec->fill, "0", 2);
			spec->align = '=';
		}
	}
	if (!take_number(&at, &spec->width))
		return false;
	if (*at == ',') {
		spec->grouped = true;
		at++;
	}
	if (*at == '.') {
		at++;
		if (!isdigit((unsigned char)*at) || !take_number(&at, &precision))
			return false;
		spec->precision = (int)precision;
	}
	if (*at)
		spec->type = *at++;
	return *at == '\0';
}

/* Puts text into its width. `sign_len`: what stays in front of the padding with '='. */
static void pad(const struct spec *spec, char align, const char *text, size_t len, size_t sign_len,
		struct buf *out)
{
	size_t have = text_count(text, len);
	size_t lack = spec->width > have ? spec->width - have : 0;
	size_t before = align == '>' || align == '=' ? lack : align == '^' ? lack / 2 : 0;

	if (align == '=') {
		buf_append(out, text, sign_len);
		text += sign_len;
		len -= sign_len;
	}
	for (size_t i = 0; i < before; i++)
		buf_append_string(out, spec->fill);
	buf_append(out, text, len);
	for (size_t i = before; i < lack; i++)
		buf_append_string(out, spec->fill);
}

/* The digits of the number, with sign, before padding; false when the type does not fit. */
static bool number_digits(const struct spec *spec, const struct json *value, struct buf *out)
{
	bool is_int = json_type_of(value) == JSON_INT || json_type_of(value) == JSON_BOOL;
	int64_t integer =
		json_type_of(value) == JSON_BOOL ? json_bool(value, false) : json_int(value, 0);
	double number = is_int ? (double)integer : json_double(value, 0);
	int precision = spec->precision < 0 ? 6 : spec->precision;
	uint64_t magnitude;

	switch (spec->type) {
	case '\0':
	case 'n':
	case 'd':
		if (is_int) {
			buf_printf(out, "%" PRId64, integer);
			return spec->precision < 0;
		}
		if (spec->type == 'd')
			return false;
		if (spec->precision >= 0)
			buf_printf(out, "%.*g", spec->precision, number);
		else
			value_text(value, false, out);
		return true;
	case 'x':
	case 'X':
	case 'o':
		if (!is_int)
			return false;
		buf_append_string(out, integer < 0 ? "-" : "");
		magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
		if (spec->type == 'o')
			buf_printf(out, "%" PRIo64, magnitude);
		else if (spec->type == 'x')
			buf_printf(out, "%" PRIx64, magnitude);
		else
			buf_printf(out, "%" PRIX64, magnitude);
		return true;
	case 'f':
	case 'F':
		buf_printf(out, "%.*f", precision, number);
		return true;
	case 'e':
		buf_printf(out, "%.*e", precision, number);
		return true;
	case 'E':
		buf_printf(out, "%.*E", precision, number);
		return true;
	case 'g':
		buf_printf(out, "%.*g", precision, number);
		return true;
	case 'G':
		buf_printf(out, "%.*G", precision, number);
		return true;
	case '%':
		buf_printf(out, "%.*f%%", precision, number * 100);
		return true;
	default:
		return false;
	}
}

static bool format_number(const struct spec *spec, const struct json *value, struct buf *out)
{
	cleanup_buf struct buf digits = BUF_INIT, text = BUF_INIT;
	const char *at;
	size_t whole;

	if (!number_digits(spec, value, &digits))
		return false;
	at = buf_bytes(&digits);
	if (*at == '-')
		buf_append_char(&text, *at++);
	else if (spec->sign == '+' || spec->sign == ' ')
		buf_append_char(&text, spec->sign);
	whole = strspn(at, "0123456789");
	for (size_t i = 0; at[i]; i++) {
		if (spec->grouped && i > 0 && i < whole && (whole - i) % 3 == 0)
			buf_append_char(&text, ',');
		buf_append_char(&text, at[i]);
	}
	at = buf_bytes(&text);
	pad(spec, spec->align ? spec->align : '>', at, text.len, strchr("+- ", *at) ? 1 : 0, out);
	return true;
}

static bool format_value(const struct json *value, const char *format, struct buf *out)
{
	enum json_type type = json_type_of(value);
	struct spec spec;
	size_t len = 0;
	const char *text = json_string(value, &len);

	if (format[0] == '\0') {
		value_text(value, false, out);
		return true;
	}
	if (!spec_read(format, &spec))
		return false;
	if (type == JSON_INT || type == JSON_DOUBLE || type == JSON_BOOL)
		return format_number(&spec, value, out);
	if (!text || (spec.type && spec.type != 's') || spec.sign || spec.grouped ||
	    spec.align == '=')
		return false;
	if (spec.precision >= 0)
		len = text_prefix(text, len, (size_t)spec.precision);
	pad(&spec, spec.align ? spec.align : '<', text, len, 0, out);
	return true;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Takes "[key]" or ".key" from the front: 1 and *key, owned by the caller; 0 at the end; -1 when it
 * is neither. */
static int take_key(struct field *field, char **key)
{
	const char *start = field->at + 1;
	size_t len;

	if (*field->at == '.')
		len = strcspn(start, ".[");
	else if (*field->at == '[')
		len = strcspn(start, "]");
	else
		return *field->at == '\0' ? 0 : -1;
	if (len == 0 || (*field->at == '[' && start[len] == '\0'))
		return -1;
	*key = mem_copy(start, len);
	field->at += 1 + len + (*field->at == '[');
	return 1;
}

static int missing(struct filling *filling, const char *what)
{
	return err_set(filling->err, ERR_USAGE,
		       "the path wants the parameter \"%.60s\", which is not given (-p)", what);
}

/* The parts of a time that strftime(3) prints as numbers; names would depend on the locale. */
static bool print_time(const struct tm *parts, int micros, const char *format, struct buf *out)
{
	for (const char *at = format; *at; at++) {
		if (*at != '%') {
			buf_append_char(out, *at);
			continue;
		}
		switch (*++at) {
		case 'Y':
			buf_printf(out, "%04d", parts->tm_year + 1900);
			break;
		case 'y':
			buf_printf(out, "%02d", parts->tm_year % 100);
			break;
		case 'm':
			buf_printf(out, "%02d", parts->tm_mon + 1);
			break;
		case 'd':
			buf_printf(out, "%02d", parts->tm_mday);
			break;
		case 'H':
			buf_printf(out, "%02d", parts->tm_hour);
			break;
		case 'M':
			buf_printf(out, "%02d", parts->tm_min);
			break;
		case 'S':
			buf_printf(out, "%02d", parts->tm_sec);
			break;
		case 'j':
			buf_printf(out, "%03d", parts->tm_yday + 1);
			break;
		case 'f':
			buf_printf(out, "%06d", micros);
			break;
		case '%':
			buf_append_char(out, '%');
			break;
		default:
			return false;
		}
	}
	return true;
}

static int fill_time(struct filling *filling, const struct field *field, bool local)
{
	time_t seconds = (time_t)(filling->builtins->now_us / 1000000);
	const char *plain = local ? "%Y-%m-%d %H:%M:%S.%f" : "%Y-%m-%d %H:%M:%S.%f+00:00";
	struct tm parts;

	if (local)
		localtime_r(&seconds, &parts);
	else
		gmtime_r(&seconds, &parts);
	if (!print_time(&parts, (int)(filling->builtins->now_us % 1000000),
			field->format[0] ? field->format : plain, &filling->out))
		return err_set(filling->err, ERR_USAGE, "no good time format: \"%.60s\"",
			       field->format);
	return 0;
}

/* {pm[...]} */
static int fill_builtin(struct filling *filling, struct field *field)
{
	cleanup_free char *key = NULL;

	if (take_key(field, &key) != 1 || *field->at)
		return missing(filling, field->text);
	if (strcmp(key, "run_uuid") == 0) {
		buf_append_string(&filling->out, filling->builtins->run_uuid);
		return 0;
	}
	if (strcmp(key, "current_datetime_local") == 0)
		return fill_time(filling, field, true);
	if (strcmp(key, "current_datetime_utc") == 0)
		return fill_time(filling, field, false);
	return missing(filling, field->text);
}

/* The part of the value that the keys lead to. */
static int walk(struct filling *filling, struct field *field, const struct json **value)
{
	for (;;) {
		cleanup_free char *key = NULL;
		int got = take_key(field, &key);

		if (got == 0)
			return 0;
		if (got < 0)
			return err_set(filling->err, ERR_USAGE,
				       "no good field in the path: {%.60s}", field->text);
		if (json_type_of(*value) == JSON_ARRAY) {
			size_t index = strtoul(key, NULL, 10);

			if (key[strspn(key, "0123456789")] || index >= json_length(*value))
				return missing(filling, field->text);
			*value = json_at(*value, index);
		} else {
			*value = json_get(*value, key);
			if (!*value)
				return missing(filling, field->text);
		}
	}
}

static int fill_parameter(struct filling *filling, struct field *field, const char *name)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *converted = NULL;
	bool found;
	const struct json *value = parameters_get(filling->parameters, name, &found);

	if (!found)
		return missing(filling, name);
	if (walk(filling, field, &value) != 0)
		return -1;
	if (field->conversion) {
		value_text(value, field->conversion != 's', &text);
		value = converted = json_new_string(buf_bytes(&text), text.len);
	}
	if (!format_value(value, field->format, &filling->out))
		return err_set(filling->err, ERR_USAGE,
			       "the format \"%.40s\" does not fit the value of %.60s",
			       field->format, name);
	return 0;
}

/* Fills the field whose text stands between the braces. */
static int fill_field(struct filling *filling, const char *text, size_t len)
{
	__attribute__((cleanup(field_release))) struct field field = {.format = ""};
	cleanup_free char *name = NULL;
	bool found;
	char *colon, *mark;

	field.text = mem_copy(text, len);
	field.at = field.text;
	colon = strchr(field.text, ':');
	if (colon) {
		*colon = '\0';
		field.format = colon + 1;
	}
	mark = strchr(field.text, '!');
	if (mark) {
		if (!mark[1] || !strchr("rsa", mark[1]) || mark[2])
			return err_set(filling->err, ERR_USAGE,
				       "no good field in the path: {%.60s}", text);
		field.conversion = mark[1];
		*mark = '\0';
	}
	len = strcspn(field.text, ".[");
	name = mem_copy(field.text, len);
	field.at += len;
	(void)parameters_get(filling->parameters, name, &found);
	if (!found && strcmp(name, "pm") == 0)
		return fill_builtin(filling, &field);
	return fill_parameter(filling, &field, name);
}

char *template_fill(const char *path, const struct parameters *parameters,
		    const struct template_builtins *builtins, struct err *err)
{
	struct filling filling = {
		.parameters = parameters, .builtins = builtins, .out = BUF_INIT, .err = err};

	for (const char *at = path; *at; at++) {
		const char *end;

		if ((*at == '{' || *at == '}') && at[1] == *at) {
			buf_append_char(&filling.out, *at++);
			continue;
		}
		if (*at != '{' && *at != '}') {
			buf_append_char(&filling.out, *at);
			continue;
		}
		end = *at == '{' ? strchr(at, '}') : NULL;
		if (!end) {
			err_set(err, ERR_USAGE,
				"a single %c in the path; {NAME} is a parameter, %c%c a brace", *at,
				*at, *at);
			buf_release(&filling.out);
			return NULL;
		}
		if (fill_field(&filling, at + 1, (size_t)(end - at - 1)) != 0) {
			buf_release(&filling.out);
			return NULL;
		}
		at = end;
	}
	if (filling.out.len == 0 || memchr(filling.out.data, '\0', filling.out.len)) {
		err_set(err, ERR_USAGE, "the path that %s gives is no path", path);
		buf_release(&filling.out);
		return NULL;
	}
	return buf_take(&filling.out, NULL);
}
