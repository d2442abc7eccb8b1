/*
 * The value behind `-p NAME TEXT`; see parameters.h.
 *
 * papermill tries int() and float() of Python, which first turn white space and decimal digits of
 * all scripts into ASCII and strip the ends (unicodeobject.c,
 * _PyUnicode_TransformDecimalAndSpaceToASCII), and take single underscores between digits
 * (PEP 515). int() refuses more than 4300 digits (sys.int_info); float() then takes them.
 */
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "cli/parameters.h"

enum { INT_DIGITS_MAX = 4300 };

/* Unicode 15: where ten decimal digits begin (Nd); U+1D7CE has five sets. */
static const uint32_t ZEROS[] = {
	0x0660,  0x06f0,  0x07c0,  0x0966,  0x09e6,  0x0a66,  0x0ae6,  0x0b66,  0x0be6,  0x0c66,
	0x0ce6,  0x0d66,  0x0de6,  0x0e50,  0x0ed0,  0x0f20,  0x1040,  0x1090,  0x17e0,  0x1810,
	0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,  0xa8d0,
	0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x11066, 0x110f0,
	0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
	0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2,
	0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950, 0x1fbf0,
};

/* str.isspace() */
static bool is_space(uint32_t point)
{
	static const uint32_t others[] = {0x85,   0xa0,   0x1680, 0x2028,
					  0x2029, 0x202f, 0x205f, 0x3000};

	if ((point >= 9 && point <= 13) || (point >= 0x1c && point <= 0x20) ||
	    (point >= 0x2000 && point <= 0x200a))
		return true;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (point == others[i])
			return true;
	return false;
}

/* The text in ASCII, ends stripped; what has no ASCII form becomes '?'. */
static void to_ascii(struct buf *out, const char *text, size_t len)
{
	size_t step, end;

	for (size_t at = 0; at < len; at += step) {
		uint32_t point;
		char c = '?';

		step = text_next(text + at, len - at, &point);
		if (is_space(point))
			c = ' ';
		else if (point > 0 && point < 0x80)
			c = (char)point;
		for (size_t i = 0; point >= ZEROS[0] && i < sizeof(ZEROS) / sizeof(ZEROS[0]); i++)
			if (point >= ZEROS[i] && point < ZEROS[i] + 10)
				c = (char)('0' + (point - ZEROS[i]));
		if (c != ' ' || out->len > 0)
			buf_append_char(out, c);
	}
	end = out->len;
	while (end > 0 && buf_bytes(out)[end - 1] == ' ')
		end--;
	buf_truncate(out, end);
}

/* Appends the digits at `*text` without their underscores and moves it; false when there is none,
 * or an underscore stands where it may not. */
static bool take_digits(const char **text, struct buf *out)
{
	const char *at = *text;

	if (!isdigit((unsigned char)*at))
		return false;
	for (;; at++) {
		if (*at == '_' && isdigit((unsigned char)at[1]))
			at++;
		if (!isdigit((unsigned char)*at))
			break;
		buf_append_char(out, *at);
	}
	*text = at;
	return *at != '_';
}

/* int(): the number as JSON, or NULL. */
static struct json *to_int(const char *text)
{
	cleanup_buf struct buf digits = BUF_INIT, number = BUF_INIT;
	const char *significant;
	bool negative = text[0] == '-';

	if (text[0] == '-' || text[0] == '+')
		text++;
	if (!take_digits(&text, &digits) || *text || digits.len > INT_DIGITS_MAX)
		return NULL;
	significant = buf_bytes(&digits) + strspn(buf_bytes(&digits), "0");
	buf_append_string(&number, negative && *significant ? "-" : "");
	buf_append_string(&number, *significant ? significant : "0");
	return json_parse(buf_bytes(&number), number.len, &JSON_LIMITS, NULL);
}

static struct json *new_odd_float(const char *name)
{
	struct json *value = json_new_object();

	json_set_string(value, PARAMETERS_FLOAT, name);
	return value;
}

/* Appends a number of float()'s form without its underscores. */
static bool take_float(const char *text, struct buf *out)
{
	bool digits = false;

	if (*text == '-' || *text == '+')
		buf_append_char(out, *text++);
	if (isdigit((unsigned char)*text)) {
		digits = true;
		if (!take_digits(&text, out))
			return false;
	}
	if (*text == '.') {
		buf_append_char(out, *text++);
		if (isdigit((unsigned char)*text)) {
			digits = true;
			if (!take_digits(&text, out))
				return false;
		}
	}
	if (!digits)
		return false;
	if (*text == 'e' || *text == 'E') {
		buf_append_char(out, *text++);
		if (*text == '-' || *text == '+')
			buf_append_char(out, *text++);
		if (!take_digits(&text, out))
			return false;
	}
	return *text == '\0';
}

/* float(): the number, or NULL. */
static struct json *to_float(const char *text)
{
	cleanup_buf struct buf plain = BUF_INIT;
	const char *word = text[0] == '-' || text[0] == '+' ? text + 1 : text;
	bool negative = text[0] == '-';
	double number;

	if (strcasecmp(word, "nan") == 0)
		return new_odd_float("nan");
	if (strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0)
		return new_odd_float(negative ? "-inf" : "inf");
	if (!take_float(text, &plain))
		return NULL;
	number = strtod(buf_bytes(&plain), NULL);
	if (isinf(number))
		return new_odd_float(negative ? "-inf" : "inf");
	return json_new_double(number);
}

struct json *parameters_infer(const char *text, size_t len)
{
	cleanup_buf struct buf ascii = BUF_INIT;
	struct json *value;

	if (len == 4 && memcmp(text, "True", len) == 0)
		return json_new_bool(true);
	if (len == 5 && memcmp(text, "False", len) == 0)
		return json_new_bool(false);
	if (len == 4 && memcmp(text, "None", len) == 0)
		return NULL;
	to_ascii(&ascii, text, len);
	value = to_int(buf_bytes(&ascii));
	if (!value)
		value = to_float(buf_bytes(&ascii));
	return value ? value : json_new_string(text, len);
}
