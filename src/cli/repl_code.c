/*
 * Looking at lines of Python. See repl_code.h.
 *
 * The text is taken apart into logical lines (Python reference §2.1.5: what brackets, triple quotes
 * and backslashes join is one line); of each only what the decision needs is kept, and of those the
 * last one decides. One pass, no memory.
 */
#include "cli/repl_code.h"

#include <string.h>

enum { STEP = 4, TAB_COLUMNS = 8 };

/* A logical line. */
struct line {
	const char *first; /* its first character that is no blank */
	size_t len;        /* from there to its end, comments included */
	size_t indent;
	char last; /* the last character that is neither blank nor comment; '\0': there is none */
};

struct scan {
	const char *at;
	const char *end;
	size_t depth; /* open brackets */
	bool open;    /* the text ended within a triple-quoted string or behind a backslash */
	bool in_string;
	bool broken; /* no continuation can make it right */
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

static const char *line_end(const char *at, const char *end)
{
	const char *lf = memchr(at, '\n', (size_t)(end - at));

	return lf ? lf : end;
}

/* Behind a string whose quote is at scan->at. A backslash takes the next character with it, in raw
 * strings too. */
static void pass_string(struct scan *scan)
{
	char quote = *scan->at;
	bool triple = scan->end - scan->at >= 3 && scan->at[1] == quote && scan->at[2] == quote;

	scan->at += triple ? 3 : 1;
	for (; scan->at < scan->end; scan->at++) {
		char c = *scan->at;

		if (c == '\\' && scan->at + 1 < scan->end) {
			scan->at++;
		} else if (c == '\n' && !triple) {
			scan->broken = true;
			return;
		} else if (c == quote && !triple) {
			scan->at++;
			return;
		} else if (c == quote && scan->end - scan->at >= 3 && scan->at[1] == quote &&
			   scan->at[2] == quote) {
			scan->at += 3;
			return;
		}
	}
	scan->open = true;
	scan->in_string = true;
}

/* One token or character of a logical line. False at its end. */
static bool pass_one(struct scan *scan, struct line *line)
{
	char c = *scan->at;

	if (c == '\n' && scan->depth == 0) {
		scan->at++;
		return false;
	}
	if (c == '#') {
		scan->at = line_end(scan->at, scan->end);
		return true;
	}
	if (c == '\\' && (scan->at + 1 == scan->end || scan->at[1] == '\n')) {
		scan->at += scan->at + 1 == scan->end ? 1 : 2;
		scan->open = scan->at == scan->end;
		return true;
	}
	if (c != '\n' && !is_space(c))
		line->last = c;
	if (c == '"' || c == '\'') {
		pass_string(scan);
		return true;
	}
	if (c == '(' || c == '[' || c == '{')
		scan->depth++;
	if (c == ')' || c == ']' || c == '}') {
		scan->broken = scan->broken || scan->depth == 0;
		scan->depth -= scan->depth > 0;
	}
	scan->at++;
	return true;
}

/* A line for IPython or the shell behind it: quotes and brackets in it mean nothing here. */
static bool is_magic(const char *at, const char *end)
{
	return at < end && (*at == '!' || *at == '%' || *at == '?');
}

/* The next logical line; false at the end of the text. */
static bool next_line(struct scan *scan, struct line *line)
{
	*line = (struct line){.first = scan->at};
	if (scan->at == scan->end)
		return false;
	for (; scan->at < scan->end && is_space(*scan->at); scan->at++)
		line->indent += *scan->at == '\t' ? TAB_COLUMNS - line->indent % TAB_COLUMNS : 1;
	line->first = scan->at;
	if (is_magic(scan->at, scan->end)) {
		const char *end = line_end(scan->at, scan->end);

		line->last = end[-1];
		scan->open = end[-1] == '\\' && scan->end - end <= 1;
		scan->at = end < scan->end ? end + 1 : end;
	} else {
		while (scan->at < scan->end && pass_one(scan, line))
			continue;
	}
	line->len = (size_t)(scan->at - line->first);
	return true;
}

static bool begins_with_word(const struct line *line, const char *const *words)
{
	for (; *words; words++) {
		size_t len = strlen(*words);
		char next = line->len > len ? line->first[len] : '\n';

		if (line->len >= len && memcmp(line->first, *words, len) == 0 &&
		    (is_space(next) || strchr(":(;\\\n", next)))
			return true;
	}
	return false;
}

static bool is_compound(const struct line *line)
{
	static const char *const words[] = {"if",      "for",   "while", "with",  "try",
					    "def",     "else",  "elif",  "class", "except",
					    "finally", "async", NULL};

	return begins_with_word(line, words);
}

static bool leaves_block(const struct line *line)
{
	static const char *const words[] = {"return", "pass", "break", "continue", "raise", NULL};

	return begins_with_word(line, words);
}

/* Lines at the end of the text that hold nothing. */
static size_t empty_lines(const char *code, size_t len)
{
	size_t count = 0;

	for (size_t i = len; i > 0; i--) {
		if (code[i - 1] == '\n')
			count++;
		else if (!is_space(code[i - 1]))
			break;
	}
	return count ? count - 1 : 0; /* the LF that ends the last line with something in it */
}

static size_t next_indent(const struct scan *scan, const struct line *last)
{
	if (scan->in_string)
		return 0;
	if (scan->depth || scan->open || last->last == ':')
		return last->indent + STEP;
	if (leaves_block(last) && last->indent >= STEP)
		return last->indent - STEP;
	return last->indent;
}

bool repl_code_is_whole(const char *code, size_t len, size_t *indent)
{
	struct scan scan = {.at = code, .end = code + len};
	struct line line, last = {.last = '\0'};
	size_t base = 0, empty = empty_lines(code, len);
	bool first = true, cell_magic = false;

	while (!scan.broken && next_line(&scan, &line)) {
		if (line.last == '\0')
			continue;
		if (first) {
			base = line.indent;
			cell_magic = line.len >= 2 && memcmp(line.first, "%%", 2) == 0;
		}
		first = false;
		last = line;
		if (cell_magic)
			break;
	}
	if (indent)
		*indent = cell_magic || last.last == '\0' ? 0 : next_indent(&scan, &last);
	if (cell_magic)
		return empty > 0;
	if (scan.broken)
		return true;
	if (scan.depth || scan.open)
		return false;
	/* "def f():" and "@cached" want something; after two empty lines the guest may say so. */
	if (last.last == ':' || (last.last && *last.first == '@'))
		return empty > 1;
	if (last.indent > base || (last.last && is_compound(&last)))
		return empty > 0;
	return true;
}

bool repl_code_is_blank(const char *code, size_t len)
{
	const char *end = code + len;

	for (const char *at = code; at < end; at++) {
		if (*at == '#')
			at = line_end(at, end);
		else if (!is_space(*at) && *at != '\n')
			return false;
		if (at == end)
			break;
	}
	return true;
}

bool repl_code_is_exit(const char *code, size_t len)
{
	static const char *const words[] = {"exit", "quit", "exit()", "quit()"};

	while (len && (is_space(code[len - 1]) || code[len - 1] == '\n' || code[len - 1] == ';'))
		len--;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == len && memcmp(words[i], code, len) == 0)
			return true;
	return false;
}
