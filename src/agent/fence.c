/*
 * The scanner for programs in answers. See fence.h.
 *
 * One pass over the lines finds the blocks; then the candidates are made of them. A block's lines
 * lose the indent of its opening fence, as far as they have it.
 */
#include "agent/fence.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"

enum language { LANGUAGE_PYTHON, LANGUAGE_NONE, LANGUAGE_OTHER };

struct block {
	enum language language;
	bool closed;
	struct buf code;
};

struct scan {
	struct block blocks[FENCE_BLOCKS_MAX];
	size_t count;
	/* The block that is open, and its fence; NULL: none. */
	struct block *open;
	char mark;
	size_t marks, indent;
	char quote; /* of the string quoted three times that the block's code is in; 0: none */
	bool ended; /* the last block was the last that is kept */
};

struct line {
	const char *text;
	size_t len; /* without CR and LF */
};

static void scan_release(struct scan *scan)
{
	for (size_t i = 0; i < scan->count; i++)
		buf_release(&scan->blocks[i].code);
}

/* --- lines ------------------------------------------------------------------------------------ */

static struct line next_line(const char **at, const char *end)
{
	const char *lf = memchr(*at, '\n', (size_t)(end - *at));
	struct line line = {*at, (size_t)((lf ? lf : end) - *at)};

	*at = lf ? lf + 1 : end;
	while (line.len > 0 && line.text[line.len - 1] == '\r')
		line.len--;
	return line;
}

static size_t indent_of(const struct line *line)
{
	size_t i = 0;

	while (i < line->len && (line->text[i] == ' ' || line->text[i] == '\t'))
		i++;
	return i;
}

/* How many of the fence's characters the line begins with, behind its indent; 0 if fewer than
 * three. */
static size_t fence_length(const struct line *line, char *mark)
{
	size_t indent = indent_of(line), count = 0;

	if (indent == line->len || (line->text[indent] != '`' && line->text[indent] != '~'))
		return 0;
	*mark = line->text[indent];
	while (indent + count < line->len && line->text[indent + count] == *mark)
		count++;
	return count >= 3 ? count : 0;
}

static bool is_python_word(const char *word, size_t len)
{
	static const char *const names[] = {"python",  "py",       "python3", "py3",    "python2",
					    "ipython", "ipython3", "pycon3",  "jupyter"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && strncasecmp(names[i], word, len) == 0)
			return true;
	return false;
}

/* What stands behind an opening fence: the first word is the language. */
static enum language language_of(const char *info, size_t len)
{
	size_t begin = 0, end;

	while (begin < len &&
	       (isspace((unsigned char)info[begin]) || info[begin] == '{' || info[begin] == '.'))
		begin++;
	end = begin;
	while (end < len && (isalnum((unsigned char)info[end]) || strchr("+#_-", info[end])))
		end++;
	if (end == begin)
		return LANGUAGE_NONE;
	return is_python_word(info + begin, end - begin) ? LANGUAGE_PYTHON : LANGUAGE_OTHER;
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* Follows strings that are quoted three times; what else there is on the line does not matter. */
static void follow_quotes(struct scan *scan, const struct line *line)
{
	char quote = 0; /* of a short string */

	for (size_t i = 0; i < line->len; i++) {
		char c = line->text[i];
		bool three = i + 2 < line->len && line->text[i + 1] == c && line->text[i + 2] == c;

		if (c == '\\') {
			i++;
		} else if (scan->quote) {
			if (c == scan->quote && three) {
				scan->quote = 0;
				i += 2;
			}
		} else if (quote) {
			if (c == quote)
				quote = 0;
		} else if (c == '#') {
			break;
		} else if (c == '"' || c == '\'') {
			if (three) {
				scan->quote = c;
				i += 2;
			} else {
				quote = c;
			}
		}
	}
}

/* Whether the string that is open is closed behind `at`, and a fence comes behind that. */
static bool quote_is_closed_later(const struct scan *scan, const char *at, const char *end)
{
	const char quotes[4] = {scan->quote, scan->quote, scan->quote, '\0'};
	const char *closed = memmem(at, (size_t)(end - at), quotes, 3);

	while (closed && closed < end) {
		struct line line = next_line(&closed, end);
		char mark = 0;

		if (fence_length(&line, &mark) >= scan->marks && mark == scan->mark)
			return true;
	}
	return false;
}

static void open_block(struct scan *scan, const struct line *line, size_t marks, char mark)
{
	size_t indent = indent_of(line), behind = indent + marks;

	if (scan->count == FENCE_BLOCKS_MAX) {
		scan->ended = true;
		return;
	}
	scan->open = &scan->blocks[scan->count++];
	*scan->open = (struct block){.code = BUF_INIT};
	scan->open->language = language_of(line->text + behind, line->len - behind);
	scan->mark = mark;
	scan->marks = marks;
	scan->indent = indent;
	scan->quote = 0;
}

static void add_line(struct scan *scan, const struct line *line)
{
	struct block *block = scan->open;
	size_t indent = indent_of(line), cut = indent < scan->indent ? indent : scan->indent;

	/* The language on a line of its own, where the fence has none or says it once more. */
	if (block->code.len == 0 && block->language != LANGUAGE_OTHER &&
	    is_python_word(line->text + indent, line->len - indent)) {
		block->language = LANGUAGE_PYTHON;
		return;
	}
	buf_append(&block->code, line->text + cut, line->len - cut);
	buf_append_char(&block->code, '\n');
	follow_quotes(scan, line);
}

static bool line_is_blank_from(const struct line *line, size_t from)
{
	while (from < line->len && isspace((unsigned char)line->text[from]))
		from++;
	return from == line->len;
}

static void take_line(struct scan *scan, const struct line *line, const char *at, const char *end)
{
	char mark = 0;
	size_t marks = fence_length(line, &mark);
	bool alone = marks && line_is_blank_from(line, indent_of(line) + marks);

	if (!scan->open) {
		/* `code` between three on one line is no block. */
		if (marks && !memchr(line->text + indent_of(line) + marks, mark,
				     line->len - indent_of(line) - marks))
			open_block(scan, line, marks, mark);
		return;
	}
	if (!alone || mark != scan->mark || marks < scan->marks ||
	    (scan->quote && quote_is_closed_later(scan, at, end))) {
		add_line(scan, line);
		return;
	}
	scan->open->closed = true;
	scan->open = NULL;
}

/* --- thoughts --------------------------------------------------------------------------------- */

/* Appends the text with a line break for each tag. */
static void append_without_tag(struct buf *out, const char *at, const char *end, const char *tag)
{
	for (const char *found; (found = memmem(at, (size_t)(end - at), tag, strlen(tag))) != NULL;
	     at = found + strlen(tag)) {
		buf_append(out, at, (size_t)(found - at));
		buf_append_char(out, '\n');
	}
	buf_append(out, at, (size_t)(end - at));
}

/* Copies the answer without what is thought. A thought that is never closed: with a closing tag
 * alone all before it is one; with an opening tag alone nothing is. What is taken out ends a
 * line. */
static void without_thoughts(struct buf *out, const char *answer, size_t len)
{
	static const char *const tags[] = {"think", "thinking", "thought", "reasoning"};

	buf_append(out, answer, len);
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		cleanup_free char *open = mem_format("<%s>", tags[i]);
		cleanup_free char *close = mem_format("</%s>", tags[i]);
		cleanup_buf struct buf rest = BUF_INIT;
		const char *at = buf_bytes(out), *end = at + out->len, *closed;

		while ((closed = memmem(at, (size_t)(end - at), close, strlen(close))) != NULL) {
			const char *opened = memmem(at, (size_t)(closed - at), open, strlen(open));

			if (opened)
				buf_append(&rest, at, (size_t)(opened - at));
			buf_append_char(&rest, '\n');
			at = closed + strlen(close);
		}
		append_without_tag(&rest, at, end, open);
		buf_release(out);
		*out = rest;
		rest = (struct buf)BUF_INIT;
	}
}

/* --- candidates ------------------------------------------------------------------------------- */

static bool begins_with_word(const char *line, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len > n && strncmp(line, word, n) == 0 && !isalnum((unsigned char)line[n]);
}

/* Whether a line at the left margin looks like a statement of Python. */
static bool is_statement(const struct line *line)
{
	static const char *const words[] = {"import", "def",   "class", "for", "while",
					    "with",   "print", "try:",  "if",  "async"};
	static const char *const marks[] = {" = ", " += ", "(", "["};

	if (line->len == 0 || line->text[0] == '#' || line->text[0] == '@')
		return false;
	if (begins_with_word(line->text, line->len, "from"))
		return memmem(line->text, line->len, " import ", 8) != NULL;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (begins_with_word(line->text, line->len, words[i]))
			return line->text[line->len - 1] == ':' || i == 0 ||
			       memchr(line->text, '(', line->len) != NULL;
	/* name = ..., name(...: the name ends where the mark begins. */
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *found = memmem(line->text, line->len, marks[i], strlen(marks[i]));
		size_t name = 0;

		while (name < line->len &&
		       (isalnum((unsigned char)line->text[name]) || strchr("_.", line->text[name])))
			name++;
		if (found && name > 0 && found == line->text + name &&
		    !isdigit((unsigned char)line->text[0]))
			return true;
	}
	return false;
}

/* Whether the text as a whole may be a program: its first line that is no comment is a statement.
 */
static bool looks_like_python(const char *text, size_t len)
{
	const char *at = text, *end = text + len;

	while (at < end) {
		struct line line = next_line(&at, end);

		if (line_is_blank_from(&line, 0) || line.text[0] == '#' || line.text[0] == '@')
			continue;
		return is_statement(&line) || strncmp(line.text, "\"\"\"", 3) == 0;
	}
	return false;
}

static bool is_blank_text(const char *text, size_t len)
{
	struct line line = {text, len};

	return line_is_blank_from(&line, 0);
}

/* Adds one if it is new. What holds a NUL is no program. */
static void add(struct fence *fence, enum fence_kind kind, const char *code, size_t len)
{
	if (fence->count == FENCE_CANDIDATES_MAX || is_blank_text(code, len) ||
	    memchr(code, '\0', len))
		return;
	for (size_t i = 0; i < fence->count; i++)
		if (strlen(fence->candidates[i].code) == len &&
		    memcmp(fence->candidates[i].code, code, len) == 0)
			return;
	fence->candidates[fence->count++] =
		(struct fence_candidate){.kind = kind, .code = mem_copy(code, len)};
}

static bool is_wanted(const struct block *block, enum language language)
{
	return block->language == language &&
	       (language == LANGUAGE_PYTHON ||
		looks_like_python(buf_bytes(&block->code), block->code.len));
}

static void add_block(struct fence *fence, const struct block *block)
{
	enum fence_kind kind = !block->closed                       ? FENCE_UNCLOSED
			       : block->language == LANGUAGE_PYTHON ? FENCE_PYTHON
								    : FENCE_BARE;

	add(fence, kind, buf_bytes(&block->code), block->code.len);
}

static void add_blocks(struct fence *fence, const struct scan *scan, enum language language)
{
	const struct block *longest = NULL;
	cleanup_buf struct buf joined = BUF_INIT;
	enum fence_kind kind = language == LANGUAGE_PYTHON ? FENCE_PYTHON : FENCE_BARE;

	for (size_t i = 0; i < scan->count; i++) {
		const struct block *block = &scan->blocks[i];

		if (!is_wanted(block, language))
			continue;
		buf_append(&joined, buf_bytes(&block->code), block->code.len);
		if (!longest || block->code.len >= longest->code.len)
			longest = block;
		if (!block->closed)
			kind = FENCE_UNCLOSED;
	}
	if (!longest)
		return;
	add_block(fence, longest);
	add(fence, kind, buf_bytes(&joined), joined.len);
	for (size_t i = scan->count; i-- > 0;)
		if (is_wanted(&scan->blocks[i], language))
			add_block(fence, &scan->blocks[i]);
}

static void scan_text(struct scan *scan, const char *text, size_t len)
{
	const char *at = text, *end = text + len;

	while (at < end && !scan->ended) {
		struct line line = next_line(&at, end);

		take_line(scan, &line, at, end);
	}
}

void fence_read(struct fence *fence, const char *answer, size_t len)
{
	__attribute__((cleanup(scan_release))) struct scan scan = {.count = 0};
	cleanup_buf struct buf text = BUF_INIT;

	*fence = (struct fence)FENCE_INIT;
	without_thoughts(&text, answer, len < FENCE_BYTES_MAX ? len : FENCE_BYTES_MAX);
	scan_text(&scan, buf_bytes(&text), text.len);
	add_blocks(fence, &scan, LANGUAGE_PYTHON);
	add_blocks(fence, &scan, LANGUAGE_NONE);
	if (scan.count > 0 || !looks_like_python(buf_bytes(&text), text.len))
		return;
	if (buf_bytes(&text)[text.len - 1] != '\n')
		buf_append_char(&text, '\n');
	add(fence, FENCE_PROSE, buf_bytes(&text), text.len);
}

void fence_release(struct fence *fence)
{
	for (size_t i = 0; i < fence->count; i++)
		free(fence->candidates[i].code);
	*fence = (struct fence)FENCE_INIT;
}

bool fence_is_open(const char *answer, size_t len)
{
	__attribute__((cleanup(scan_release))) struct scan scan = {.count = 0};
	cleanup_buf struct buf text = BUF_INIT;

	without_thoughts(&text, answer, len < FENCE_BYTES_MAX ? len : FENCE_BYTES_MAX);
	scan_text(&scan, buf_bytes(&text), text.len);
	return scan.open != NULL;
}

/* --- the same code ---------------------------------------------------------------------------- */

/* The next line that says something, without blanks at its end; len 0: there is none. */
static struct line next_said(const char **at, const char *end)
{
	struct line line = {NULL, 0};

	while (*at < end) {
		size_t indent;

		line = next_line(at, end);
		while (line.len > 0 && isspace((unsigned char)line.text[line.len - 1]))
			line.len--;
		indent = indent_of(&line);
		if (indent < line.len && line.text[indent] != '#')
			return line;
	}
	return (struct line){NULL, 0};
}

bool fence_same_code(const char *a, const char *b)
{
	const char *a_end = a + strlen(a), *b_end = b + strlen(b);

	for (;;) {
		struct line x = next_said(&a, a_end), y = next_said(&b, b_end);

		if (x.len != y.len)
			return false;
		if (x.len == 0)
			return true;
		if (memcmp(x.text, y.text, x.len) != 0)
			return false;
	}
}

const char *fence_kind_name(enum fence_kind kind)
{
	static const char *const names[] = {
		[FENCE_PYTHON] = "python",
		[FENCE_BARE] = "bare",
		[FENCE_UNCLOSED] = "unclosed",
		[FENCE_PROSE] = "prose",
	};

	return names[kind];
}
