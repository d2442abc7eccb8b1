/*
 * Errors in a few words. See hint.h.
 *
 * The table has what small models get wrong again and again when they are told the error alone
 * (doc/decisions/080-*).
 */
#include "agent/hint.h"

#include <string.h>

#include "agent/suspect.h"
#include "base/mem.h"
#include "base/text.h"

enum { MESSAGE_CHARS = 300, SOURCE_CHARS = 160, OUTPUT_CHARS = 300 };

static void append_cut(struct buf *out, const char *text, size_t len, size_t chars)
{
	size_t cut = text_prefix(text, len, chars);

	buf_append(out, text, cut);
	if (cut < len)
		buf_append_string(out, "...");
}

/* --- what went wrong -------------------------------------------------------------------------- */

static void write_exception(struct buf *out, const struct outcome *outcome)
{
	const char *value = outcome->evalue ? outcome->evalue : "";

	if (outcome->line) {
		buf_printf(out, "Line %lld: ", (long long)outcome->line);
		append_cut(out, outcome->source, strlen(outcome->source), SOURCE_CHARS);
		buf_append_char(out, '\n');
	}
	buf_append_string(out, outcome->ename);
	if (*value) {
		buf_append_string(out, ": ");
		append_cut(out, value, strcspn(value, "\n"), MESSAGE_CHARS);
	}
	buf_append_char(out, '\n');
}

static void write_output(struct buf *out, const struct outcome *outcome)
{
	size_t len;
	const char *text = outcome_text(outcome, &len);

	buf_append_string(out, "It printed: ");
	append_cut(out, text, len, OUTPUT_CHARS);
	if (len == 0 || text[len - 1] != '\n')
		buf_append_char(out, '\n');
}

/* A text that the output must be is not told: a model would print it, and the check prove nothing.
 * An expression is, for it says of what form the answer is; its message begins with it. */
static bool gives_away(const struct json *check, const char *message)
{
	const char *kind = json_get_string(check, "kind");

	return kind && strcmp(kind, "expect") == 0 && (!message || message[0] != '/');
}

static void write_checks(struct buf *out, const struct attempt *attempt)
{
	for (size_t i = 0; i < json_length(attempt->checks); i++) {
		const struct json *check = json_at(attempt->checks, i);
		const char *message = json_get_string(check, "message");

		if (json_get_bool(check, "ok", true))
			continue;
		if (gives_away(check, message)) {
			buf_append_string(out, "That is not the right output.\n");
			return;
		}
		buf_append_string(out, "This does not hold: ");
		append_cut(out, message ? message : "", message ? strlen(message) : 0,
			   2 * MESSAGE_CHARS);
		buf_append_char(out, '\n');
		return;
	}
}

static void write_ran(struct buf *out, const struct attempt *attempt)
{
	write_output(out, &attempt->outcome);
	if (attempt->checks && !attempt->checked)
		write_checks(out, attempt);
	else if (attempt->doubtful)
		buf_append_string(out, "That is no result: find the cause of it instead of "
				       "catching the exception.\n");
}

void hint_failure(struct buf *out, const struct attempt *attempt)
{
	const struct outcome *outcome = &attempt->outcome;
	cleanup_buf struct buf warnings = BUF_INIT;

	switch (attempt->status) {
	case ATTEMPT_ERROR:
		if (outcome->ename)
			write_exception(out, outcome);
		break;
	case ATTEMPT_DIED:
		buf_printf(out, "The interpreter died: %s\n",
			   outcome->reason ? outcome->reason : "of an unknown cause");
		break;
	case ATTEMPT_TIMEOUT:
		buf_append_string(out, "It ran out of time and was stopped.\n");
		break;
	case ATTEMPT_EMPTY:
		buf_append_string(out, "It ended without an error, but printed nothing.\n");
		break;
	case ATTEMPT_OK:
		write_ran(out, attempt);
		break;
	case ATTEMPT_RUNNING:
	case ATTEMPT_INTERRUPTED:
	case ATTEMPT_NO_CODE:
	case ATTEMPT_REPEATED:
	case ATTEMPT_MODEL:
		break;
	}
	if (suspect_warnings(&warnings, buf_bytes(&outcome->err), outcome->err.len))
		buf_append(out, buf_bytes(&warnings), warnings.len);
}

/* --- what to do about it ---------------------------------------------------------------------- */

struct hint_row {
	const char *ename;  /* NULL: any */
	const char *evalue; /* a part of it; NULL: any */
	const char *advice;
};

static const struct hint_row ROWS[] = {
	{"EOFError", NULL,
	 "Nobody can type an answer to input(). Write the values into the program."},
	{"IndentationError", NULL, "Indent each block by four spaces."},
	{"SyntaxError", "f-string",
	 "Inside the braces of an f-string use the other kind of quotes, and no backslash."},
	{"SyntaxError", "unterminated", "A string or bracket is not closed. Keep the lines short."},
	{"SyntaxError", NULL, "It must be valid Python 3 and nothing else: no prose, no shell."},
	{"UnicodeDecodeError", NULL,
	 "Open the file with encoding=\"utf-8-sig\", else with encoding=\"latin-1\"."},
	{"KeyError", NULL,
	 "There is no such key. Look at the names in the file: case, blanks and spelling count, "
	 "and a key may be missing in some of the items (use .get)."},
	{"ValueError", "could not convert",
	 "Some values are empty or no numbers: strip them, and handle an empty one apart."},
	{"ValueError", "invalid literal",
	 "Some values are empty or no whole numbers: strip them, and handle an empty one apart."},
	{"ValueError", "does not match format", "Look at how the dates are written in the data."},
	{"ValueError", "unpack", "The lines do not all have the same number of parts."},
	{"IndexError", NULL, "The list is shorter than that. Some lines may be empty."},
	{"AttributeError", "NoneType", "What stands before the point is None: test it first."},
	{"AttributeError", NULL, "The object has no such attribute. Use another way."},
	{"UnboundLocalError", NULL, "The variable is used before it has a value."},
	{"NameError", NULL, "Define or import each name before it is used."},
	{"ZeroDivisionError", NULL, "The divisor can be 0: handle that."},
	{"TypeError", "unsupported operand",
	 "The two values are of different types: convert them before."},
	{"TypeError", "JSON serializable", "Convert the values to int, float or str before."},
	{"TypeError", NULL, "Look at the types of the values, and convert them before."},
	{"RecursionError", NULL, "Use a loop instead of the recursion."},
	{"MemoryError", NULL, "It takes too much memory: work through the data in pieces."},
	{"OSError", NULL, "Files can only be written in the current folder. There is no network."},
	{"PermissionError", NULL, "Files can only be written in the current folder."},
	{"ConnectionError", NULL, "There is no network: use what is in the current folder."},
	{"URLError", NULL, "There is no network: use what is in the current folder."},
	{"SystemExit", NULL, "Do not call exit(): let the program run to its end."},
};

static void advise_import(struct buf *out, const struct attempt *attempt,
			  const struct hint_place *place)
{
	const struct outcome *outcome = &attempt->outcome;
	char module[INSTEAD_NAME_MAX];

	if (instead_missing(outcome->ename, outcome->evalue, module) == 0)
		instead_advice(out, &attempt->instead, module, place->modules);
	else if (strcmp(outcome->ename, "ImportError") == 0)
		buf_append_string(out,
				  "There is no such name in that module. Do it another way.\n");
	else
		buf_append_string(out, "That is not installed and cannot be. Do it without.\n");
}

static void advise_exception(struct buf *out, const struct attempt *attempt,
			     const struct hint_place *place)
{
	const struct outcome *outcome = &attempt->outcome;
	const char *value = outcome->evalue ? outcome->evalue : "";

	if (strcmp(outcome->ename, "ModuleNotFoundError") == 0 ||
	    strcmp(outcome->ename, "ImportError") == 0) {
		advise_import(out, attempt, place);
		return;
	}
	if (strcmp(outcome->ename, "FileNotFoundError") == 0) {
		buf_printf(out, "The files in the current folder are: %s.\n",
			   *place->files ? place->files : "none");
		return;
	}
	if (strcmp(outcome->ename, "EOFError") == 0 && place->input) {
		buf_append_string(out, "There are no more lines to read than the input has.\n");
		return;
	}
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++)
		if (strcmp(ROWS[i].ename, outcome->ename) == 0 &&
		    (!ROWS[i].evalue || strstr(value, ROWS[i].evalue))) {
			buf_printf(out, "%s\n", ROWS[i].advice);
			return;
		}
}

void hint_advice(struct buf *out, const struct attempt *attempt, const struct hint_place *place)
{
	const struct outcome *outcome = &attempt->outcome;
	const char *err = buf_bytes(&outcome->err);

	if (attempt->cut)
		buf_append_string(out, "Your answer was too long and was cut: write less.\n");
	if (attempt->status == ATTEMPT_ERROR && outcome->ename)
		advise_exception(out, attempt, place);
	else if (attempt->status == ATTEMPT_TIMEOUT)
		buf_printf(out,
			   "It may run for %g seconds: find a faster way, and no endless "
			   "loop.\n",
			   place->timeout_s);
	else if (attempt->status == ATTEMPT_EMPTY)
		buf_append_string(out, "Print the answer with print(). A function must also be "
				       "called.\n");
	else if (attempt->status == ATTEMPT_DIED)
		buf_append_string(out, "Find another way, with less memory.\n");
	if (strstr(err, "ChainedAssignment"))
		buf_append_string(out, "That assignment changes nothing in pandas: write "
				       "df[\"x\"] = df[\"x\"].fillna(0).\n");
}
