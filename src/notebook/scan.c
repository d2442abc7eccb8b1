/*
 * Finding the parts of a JSON text; see scan.h.
 *
 * Inside a value only strings and the number of open brackets matter; whether the brackets are of
 * the right kind is for scan_parse() to say. A value that does not end is parsed at once for the
 * words and the place of its fault.
 */
#include "notebook/scan.h"

#include <string.h>

#include "base/text.h"

enum { PART_DEPTH_MAX = 200 };

static int fault(const struct scan *scan, size_t at, const char *reason, struct err *err)
{
	size_t line = 1;
	const char *start = scan->text;
	const char *feed;

	while ((feed = memchr(start, '\n', (size_t)(scan->text + at - start))) != NULL) {
		start = feed + 1;
		line++;
	}
	return err_set(err, ERR_INVALID, "bad JSON at line %zu, column %zu: %s", line,
		       text_count(start, (size_t)(scan->text + at - start)) + 1, reason);
}

static int peek(const struct scan *scan)
{
	return scan->at < scan->len ? (unsigned char)scan->text[scan->at] : -1;
}

static void skip_space(struct scan *scan)
{
	int c;

	while ((c = peek(scan)) == ' ' || c == '\n' || c == '\r' || c == '\t')
		scan->at++;
}

/* Four hex digits at `at`; -1 when they are not there. */
static int unit_at(const struct scan *scan, size_t at)
{
	int unit = 0;

	if (scan->len < 4 || at > scan->len - 4)
		return -1;
	for (size_t i = at; i < at + 4; i++) {
		const char *digits = "0123456789abcdef0123456789ABCDEF";
		const char *digit = scan->text[i] != '\0' ? strchr(digits, scan->text[i]) : NULL;

		if (digit == NULL)
			return -1;
		unit = unit << 4 | (int)((digit - digits) & 15);
	}
	return unit;
}

/* An escape, at its backslash. */
static void skip_escape(struct scan *scan)
{
	int unit = scan->at + 1 < scan->len && scan->text[scan->at + 1] == 'u'
			   ? unit_at(scan, scan->at + 2)
			   : -1;

	if (unit < 0) {
		scan->at += scan->at + 1 < scan->len ? 2 : 1;
		return;
	}
	scan->at += 6;
	if (unit < 0xd800 || unit > 0xdfff)
		return;
	if (unit <= 0xdbff && scan->at + 1 < scan->len && scan->text[scan->at] == '\\' &&
	    scan->text[scan->at + 1] == 'u') {
		int low = unit_at(scan, scan->at + 2);

		if (low >= 0xdc00 && low <= 0xdfff) {
			scan->at += 6;
			return;
		}
	}
	scan->surrogates++;
}

/* At the quote; false when the string does not end. */
static bool skip_string(struct scan *scan)
{
	scan->at++;
	while (scan->at < scan->len) {
		char c = scan->text[scan->at];

		if (c == '"') {
			scan->at++;
			return true;
		}
		if (c == '\\')
			skip_escape(scan);
		else
			scan->at++;
	}
	return false;
}

/* A number or a word. */
static void skip_word(struct scan *scan)
{
	size_t from = scan->at;
	int c;

	while ((c = peek(scan)) >= 0 && strchr("+-.", c) != NULL && c != 0)
		scan->at++;
	while ((c = peek(scan)) > 0 && (strchr("+-.", c) != NULL || (c >= '0' && c <= '9') ||
					(c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
		scan->at++;
	for (size_t i = from; i < scan->at; i++)
		if (scan->text[i] == 'N' || scan->text[i] == 'I') {
			scan->nans++;
			break;
		}
}

static bool skip_value(struct scan *scan)
{
	size_t depth = 0;

	do {
		size_t from = scan->at;
		int c = peek(scan);

		if (c < 0)
			return false;
		if (c == '"') {
			if (!skip_string(scan))
				return false;
		} else if (c == '{' || c == '[') {
			depth++;
			scan->at++;
		} else if (c == '}' || c == ']') {
			if (depth == 0)
				return false;
			depth--;
			scan->at++;
		} else if (depth > 0 && (c == ',' || c == ':' || c == ' ' || c == '\n' ||
					 c == '\t' || c == '\r')) {
			scan->at++;
		} else {
			skip_word(scan);
			if (scan->at == from)
				return false;
		}
	} while (depth > 0);
	return true;
}

/* Passes over a value. */
static int take_value(struct scan *scan, struct scan_part *value, struct err *err)
{
	cleanup_json struct json *unused = NULL;

	skip_space(scan);
	value->at = scan->at;
	if (skip_value(scan)) {
		value->len = scan->at - value->at;
		return 0;
	}
	value->len = scan->len - value->at;
	if (scan_parse(scan, value, &unused, err) == 0)
		return fault(scan, scan->at, "a value is missing", err);
	return -1;
}

int scan_open(struct scan *scan, char bracket, struct err *err)
{
	skip_space(scan);
	if (peek(scan) != bracket)
		return fault(scan, scan->at,
			     bracket == '{' ? "there is no JSON object" : "there is no list", err);
	scan->at++;
	return 0;
}

/* Whether the container goes on: 1, 0 at its end, -1. */
static int take_comma(struct scan *scan, bool first, char end, struct err *err)
{
	skip_space(scan);
	if (peek(scan) == end) {
		scan->at++;
		return 0;
	}
	if (first)
		return 1;
	if (peek(scan) != ',')
		return fault(scan, scan->at,
			     end == ']' ? "\",\" or \"]\" is missing" : "\",\" or \"}\" is missing",
			     err);
	scan->at++;
	skip_space(scan);
	return 1;
}

int scan_member(struct scan *scan, bool first, struct json **key, struct scan_part *value,
		struct err *err)
{
	cleanup_json struct json *name = NULL;
	struct scan_part part;
	int more = take_comma(scan, first, '}', err);

	if (more <= 0)
		return more;
	if (peek(scan) != '"')
		return fault(scan, scan->at, "a key is missing", err);
	if (take_value(scan, &part, err) < 0 || scan_parse(scan, &part, &name, err) < 0)
		return -1;
	skip_space(scan);
	if (peek(scan) != ':')
		return fault(scan, scan->at, "\":\" is missing", err);
	scan->at++;
	if (take_value(scan, value, err) < 0)
		return -1;
	*key = json_keep(name);
	return 1;
}

int scan_element(struct scan *scan, bool first, struct scan_part *value, struct err *err)
{
	int more = take_comma(scan, first, ']', err);

	if (more <= 0)
		return more;
	return take_value(scan, value, err) < 0 ? -1 : 1;
}

int scan_end(struct scan *scan, struct err *err)
{
	skip_space(scan);
	return scan->at == scan->len ? 0
				     : fault(scan, scan->at, "something follows the value", err);
}

int scan_parse(const struct scan *scan, const struct scan_part *part, struct json **value,
	       struct err *err)
{
	const struct json_limits limits = {.bytes_max = part->len,
					   .depth_max = PART_DEPTH_MAX,
					   .keys_unique = false,
					   .nan_as_text = true};
	struct err why = ERR_INIT;
	size_t at = 0;

	*value = json_parse_part(scan->text + part->at, part->len, &limits, &at, &why);
	if (*value != NULL || why.code == ERR_OK) /* NULL is also null */
		return 0;
	fault(scan, part->at + at, why.text, err);
	if (err != NULL)
		err->code = why.code;
	return -1;
}
