/*
 * What a program says of itself. See suspect.h.
 */
#include "agent/suspect.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"

enum { WARNINGS_MAX = 3, SHOWN_CHARS = 160 };

struct line {
	const char *text;
	size_t len;
};

/* The next line without blanks round it; false: there is none. */
static bool next_line(const char **at, const char *end, struct line *line)
{
	const char *lf;

	if (*at >= end)
		return false;
	lf = memchr(*at, '\n', (size_t)(end - *at));
	*line = (struct line){*at, (size_t)((lf ? lf : end) - *at)};
	*at = lf ? lf + 1 : end;
	while (line->len && isspace((unsigned char)line->text[0]))
		line->text++, line->len--;
	while (line->len && isspace((unsigned char)line->text[line->len - 1]))
		line->len--;
	return true;
}

/* "Error: ...", "ValueError: ...", "An error occurred ...", "Failed to ...": said by the program.
 */
static bool says_failed(const struct line *line)
{
	static const char *const begins[] = {
		"error:",     "error ",      "an error",     "an exception",   "an unexpected",
		"exception:", "traceback (", "failed to ",   "failed:",        "could not ",
		"cannot ",    "unable to ",  "no such file", "file not found", "invalid input",
	};
	size_t word = 0;

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (line->len >= strlen(begins[i]) &&
		    strncasecmp(line->text, begins[i], strlen(begins[i])) == 0)
			return true;
	while (word < line->len && isalpha((unsigned char)line->text[word]))
		word++;
	return word > 5 && word < line->len && line->text[word] == ':' &&
	       (strncmp(line->text + word - 5, "Error", 5) == 0) &&
	       isupper((unsigned char)line->text[0]);
}

static void look_at_output(struct attempt *attempt)
{
	size_t len;
	const char *at = outcome_text(&attempt->outcome, &len), *end = at + len;
	static const char *const nothings[] = {"None", "nan"};
	struct line line;
	unsigned said = 0;

	while (next_line(&at, end, &line)) {
		if (!line.len)
			continue;
		said++;
		if (!says_failed(&line))
			continue;
		attempt->doubtful = true;
		attempt_suspect(attempt, "the program says itself that it failed: %.*s",
				(int)text_prefix(line.text, line.len, SHOWN_CHARS), line.text);
		return;
	}
	at = outcome_text(&attempt->outcome, &len);
	for (size_t i = 0; said == 1 && i < sizeof(nothings) / sizeof(nothings[0]); i++) {
		if (!outcome_text_same(nothings[i], strlen(nothings[i]), at, len))
			continue;
		attempt->doubtful = true;
		attempt_suspect(attempt, "all that it prints is %s", nothings[i]);
	}
}

/* Where "SomeWarning: " or pandas' "ChainedAssignmentError: " begins; NULL. */
static const char *find_warning(const struct line *line)
{
	static const char *const names[] = {"Warning: ", "ChainedAssignmentError: "};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *at = memmem(line->text, line->len, names[i], strlen(names[i]));

		if (!at)
			continue;
		while (at > line->text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
			at--;
		return at;
	}
	return NULL;
}

unsigned suspect_warnings(struct buf *out, const char *text, size_t len)
{
	const char *at = text, *end = text + len;
	struct line line;
	unsigned count = 0;

	while (count < WARNINGS_MAX && next_line(&at, end, &line)) {
		const char *found = find_warning(&line);
		size_t rest, shown;

		if (!found)
			continue;
		rest = (size_t)(line.text + line.len - found);
		shown = text_prefix(found, rest, SHOWN_CHARS);
		if (out->len && memmem(buf_bytes(out), out->len, found, shown))
			continue;
		buf_append(out, found, shown);
		buf_append_char(out, '\n');
		count++;
	}
	return count;
}

static void look_at_warnings(struct attempt *attempt)
{
	cleanup_buf struct buf warnings = BUF_INIT;
	const char *at, *end;
	struct line line;

	suspect_warnings(&warnings, buf_bytes(&attempt->outcome.err), attempt->outcome.err.len);
	at = buf_bytes(&warnings), end = at + warnings.len;
	while (next_line(&at, end, &line)) {
		attempt_suspect(attempt, "a library warned: %.*s", (int)line.len, line.text);
		/* It did not do what the program wants of it. */
		if (memmem(line.text, line.len, "ChainedAssignment", 17))
			attempt->doubtful = true;
	}
}

bool suspect_typed_in(const char *code)
{
	bool prints = false;

	for (const char *at = code; *at;) {
		if (*at == '#') {
			at += strcspn(at, "\n");
		} else if (*at == '"' || *at == '\'') {
			char quote = *at++;

			while (*at && *at != quote && *at != '\n')
				at += at[0] == '\\' && at[1] ? 2 : 1;
			at += *at == quote;
		} else if (isalpha((unsigned char)*at) || *at == '_') {
			size_t len = 1;

			while (isalnum((unsigned char)at[len]) || at[len] == '_')
				len++;
			if (len != 5 || strncmp(at, "print", 5) != 0)
				return false;
			prints = true;
			at += len;
		} else if (strchr("+*/%<>=-", *at) && *at != '-') {
			return false; /* it computes */
		} else {
			at++;
		}
	}
	return prints;
}

void suspect(struct attempt *attempt)
{
	const struct outcome *outcome = &attempt->outcome;
	size_t len;

	if (outcome_text(outcome, &len) == outcome->result)
		attempt_suspect(attempt, "nothing was printed; the value of the last expression "
					 "counts");
	look_at_output(attempt);
	look_at_warnings(attempt);
	if (attempt->code && suspect_typed_in(attempt->code))
		attempt_suspect(attempt, "the program computes nothing: it prints what is written "
					 "in it");
	if (outcome->out_bytes > outcome->out.len)
		attempt_suspect(attempt, "it printed %llu bytes, of which the first %zu are here",
				(unsigned long long)outcome->out_bytes, outcome->out.len);
}
