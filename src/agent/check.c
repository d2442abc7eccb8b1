/*
 * The user's checks. See check.h.
 *
 * glibc's matcher is an automaton as long as there are no back references. It works by the locale
 * of the thread, so a UTF-8 one is put in force round each call.
 */
#include "agent/check.h"

#include <locale.h>
#include <string.h>

#include "agent/outcome.h"
#include "base/mem.h"
#include "base/text.h"

enum { SHOWN_CHARS = 200, MATCH_BYTES_MAX = 1 << 20 };

/* In force until given back. (locale_t)0: there is none, bytes are matched. */
struct utf8 {
	locale_t own, before;
};

static struct utf8 utf8_begin(void)
{
	struct utf8 utf8 = {.own = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)};

	if (utf8.own)
		utf8.before = uselocale(utf8.own);
	return utf8;
}

static void utf8_end(struct utf8 *utf8)
{
	if (!utf8->own)
		return;
	uselocale(utf8->before);
	freelocale(utf8->own);
}

void checks_release(struct checks *checks)
{
	for (size_t i = 0; i < checks->count; i++) {
		free(checks->items[i].text);
		if (checks->items[i].is_regex)
			regfree(&checks->items[i].regex);
	}
	checks->count = 0;
}

/* Appends the expression with \d as a class; -1: it has a back reference. */
static int translate(struct buf *out, const char *at, const char *end)
{
	for (bool bracket = false; at < end; at++) {
		if (*at == '[' && !bracket) {
			bracket = true;
			buf_append_char(out, *at);
			/* A ] directly behind is a character of the class. */
			if (at + 1 < end && at[1] == '^')
				buf_append_char(out, *++at);
			if (at + 1 < end && at[1] == ']')
				buf_append_char(out, *++at);
		} else if (*at == '\\' && at + 1 < end) {
			at++;
			if (*at >= '1' && *at <= '9' && !bracket)
				return -1;
			if (*at == 'd')
				buf_append_string(out, bracket ? "0-9" : "[0-9]");
			else if (*at == 'D' && !bracket)
				buf_append_string(out, "[^0-9]");
			else if (bracket && (*at == 'w' || *at == 's'))
				buf_append_string(out, *at == 'w' ? "[:alnum:]_" : "[:space:]");
			else if (*at == '/' || (bracket && !strchr("nt", *at)))
				buf_append_char(out, *at);
			else if (*at == 'n' || *at == 't')
				buf_append_char(out, *at == 'n' ? '\n' : '\t');
			else
				buf_printf(out, "\\%c", *at);
		} else {
			if (*at == ']')
				bracket = false;
			buf_append_char(out, *at);
		}
	}
	return 0;
}

static int compile(struct check *check, const char *end, struct err *err)
{
	cleanup_buf struct buf pattern = BUF_INIT;
	struct utf8 utf8;
	char why[128];
	int failed;

	if (translate(&pattern, check->text + 1, end) != 0)
		return err_set(err, ERR_USAGE,
			       "--expect %s: back references such as \\1 cannot be used",
			       check->text);
	utf8 = utf8_begin();
	failed = regcomp(&check->regex, buf_bytes(&pattern),
			 REG_EXTENDED | REG_NEWLINE | REG_NOSUB | (end[1] == 'i' ? REG_ICASE : 0));
	utf8_end(&utf8);
	if (failed) {
		regerror(failed, &check->regex, why, sizeof(why));
		return err_set(err, ERR_USAGE, "--expect %s is no regular expression: %s",
			       check->text, why);
	}
	check->is_regex = true;
	return 0;
}

int checks_add(struct checks *checks, enum check_kind kind, const char *text, struct err *err)
{
	struct check *check = &checks->items[checks->count];
	size_t len = strlen(text);
	const char *end = strrchr(text, '/');

	if (checks->count == CHECKS_MAX)
		return err_set(err, ERR_USAGE, "more than %d checks", CHECKS_MAX);
	if (len > CHECK_BYTES_MAX)
		return err_set(err, ERR_USAGE, "a check has at most %d bytes", CHECK_BYTES_MAX);
	if (!text_is_utf8(text, len))
		return err_set(err, ERR_USAGE, "a check is UTF-8");
	*check = (struct check){.kind = kind, .text = mem_string(text)};
	checks->count++;
	if (kind == CHECK_EXPECT && text[0] == '/' && end > text + 1 &&
	    (strcmp(end, "/") == 0 || strcmp(end, "/i") == 0))
		return compile(check, check->text + (end - text), err);
	return 0;
}

/* The beginning of a text, as a JSON string shows it. */
static void write_shown(struct buf *out, const char *text, size_t len)
{
	size_t cut = text_prefix(text, len, SHOWN_CHARS);

	json_write_string(out, text, cut);
	if (cut < len)
		buf_append_string(out, "...");
}

bool check_output(const struct check *check, const char *text, size_t len, struct buf *message)
{
	cleanup_buf struct buf output = BUF_INIT;

	outcome_normalise(&output, text, len < MATCH_BYTES_MAX ? len : MATCH_BYTES_MAX);
	if (check->is_regex) {
		struct utf8 utf8 = utf8_begin();
		bool found = regexec(&check->regex, buf_bytes(&output), 0, NULL, 0) == 0;

		utf8_end(&utf8);
		if (found)
			return true;
		buf_printf(message, "%s is not found in the output ", check->text);
		write_shown(message, buf_bytes(&output), output.len);
		return false;
	}
	if (len <= MATCH_BYTES_MAX &&
	    outcome_text_same(text, len, check->text, strlen(check->text)))
		return true;
	buf_append_string(message, "the output is ");
	write_shown(message, buf_bytes(&output), output.len);
	buf_append_string(message, ", expected is ");
	write_shown(message, check->text, strlen(check->text));
	if (len <= MATCH_BYTES_MAX &&
	    outcome_text_alike(text, len, check->text, strlen(check->text)))
		buf_append_string(message, " (only numbers are written differently)");
	return false;
}

const char *check_kind_name(enum check_kind kind)
{
	return kind == CHECK_EXPECT ? "expect" : "assert";
}

struct json *checks_json(const struct checks *checks)
{
	struct json *array = json_new_array();

	for (size_t i = 0; i < checks->count; i++) {
		struct json *one = json_new_object();

		json_set_string(one, "kind", check_kind_name(checks->items[i].kind));
		json_set_string(one, "text", checks->items[i].text);
		json_push(array, one);
	}
	return array;
}
