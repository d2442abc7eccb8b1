/*
 * Checks that the user gives: what the output must be (`expect`), what must hold after the program
 * in its interpreter (`assert`).
 *
 * `--expect TEXT`: the whole output is TEXT, but for blanks at the ends of lines and empty lines at
 * the end. `--expect /REGEX/` (also `/REGEX/i`): a POSIX extended regular expression is found in
 * it; ^ and $ stand for the ends of lines, and \d, \w, \s, \b and their capitals are known. Back
 * references are refused, because matching could take for ever.
 */
#ifndef FH_AGENT_CHECK_H
#define FH_AGENT_CHECK_H

#include <regex.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum { CHECKS_MAX = 32, CHECK_BYTES_MAX = 64 << 10 };

enum check_kind { CHECK_EXPECT, CHECK_ASSERT };

struct check {
	enum check_kind kind;
	char *text;    /* as it was given */
	bool is_regex; /* then `regex` is compiled */
	regex_t regex;
};

struct checks {
	struct check items[CHECKS_MAX];
	size_t count;
};

#define CHECKS_INIT \
	{ \
		.count = 0 \
	}

void checks_release(struct checks *checks);

/* ERR_USAGE with what is wrong: an expression that is none, more than CHECKS_MAX, too long, no
 * UTF-8. */
int checks_add(struct checks *checks, enum check_kind kind, const char *text, struct err *err);

/* Whether the output is as CHECK_EXPECT wants it; if not, *message (appended to) says how it
 * differs. */
bool check_output(const struct check *check, const char *text, size_t len, struct buf *message);

/* "expect", "assert". */
const char *check_kind_name(enum check_kind kind);

/* [{"kind","text"}], owned by the caller. */
struct json *checks_json(const struct checks *checks);

#endif
