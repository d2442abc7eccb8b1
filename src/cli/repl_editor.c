/*
 * libedit, its keys, and where they come from. See repl_editor.h.
 *
 * libedit works on wide characters, so its widths are those of the locale; text outside is UTF-8.
 * Keys are read one byte at a time: what is typed ahead of a cell stays in the terminal, where
 * input() of the cell finds it.
 */
#include "cli/repl_editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/repl_history.h"
#include "cli/repl_matches.h"

enum {
	PROMPT_CHARS = 2 * REPL_PROMPT_BYTES_MAX,
	PASTE_CHARS_MAX = 4 << 20,
	STEP = 4,
	ROWS = 24,
	COLUMNS = 80
};

/* Literal parts of the prompt stand between these. */
#define LITERAL L'\1'

static const wchar_t PASTE_BEGIN[] = L"\033[200~", PASTE_END[] = L"\033[201~";
static const char PASTE_ON[] = "\033[?2004h", PASTE_OFF[] = "\033[?2004l";

struct repl_editor {
	EditLine *el;
	HistoryW *history;
	struct repl_owner owner;
	wchar_t prompt[PROMPT_CHARS];
	struct buf typed; /* bytes to take before those of the terminal */
	struct text_decoder decoder;
	struct buf keys;        /* decoded, not yet used */
	const struct buf *code; /* the lines before this one */
	bool left;              /* `wait` said so */
	unsigned short columns; /* of the terminal, as libedit knows it */
};

static struct repl_editor *editor_of(EditLine *el)
{
	void *editor = NULL;

	el_wget(el, EL_CLIENTDATA, &editor);
	return editor;
}

/* --- text --------------------------------------------------------------------------------------
 */

static void to_utf8(struct buf *out, const wchar_t *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		text_put(out, (uint32_t)text[i]);
}

/* Owned by the caller, ended by L'\0'. */
static wchar_t *to_wide(const char *text, size_t len)
{
	wchar_t *wide = mem_resize(NULL, len + 1, sizeof(*wide));
	size_t count = 0;

	while (len) {
		uint32_t point;
		size_t used = text_next(text, len, &point);

		wide[count++] = (wchar_t)point;
		text += used;
		len -= used;
	}
	wide[count] = L'\0';
	return wide;
}

/* --- keys --------------------------------------------------------------------------------------
 */

/* One more byte. 1, 0 at the end, -1 when the line is left. */
static int read_byte(struct repl_editor *editor, char *byte)
{
	for (;;) {
		ssize_t got;

		if (editor->typed.len) {
			*byte = *buf_bytes(&editor->typed);
			buf_consume(&editor->typed, 1);
			return 1;
		}
		switch (editor->owner.wait(editor->owner.data)) {
		case REPL_WAIT_KEY:
			break;
		case REPL_WAIT_REDRAW:
			el_wset(editor->el, EL_REFRESH);
			continue;
		case REPL_WAIT_LEAVE:
			editor->left = true;
			return -1;
		}
		got = read(STDIN_FILENO, byte, 1);
		if (got > 0)
			return 1;
		if (got == 0 || (errno != EINTR && errno != EAGAIN))
			return 0;
	}
}

/* The terminal's size may change at any time; libedit hears of it before the next key. */
static void follow_size(struct repl_editor *editor)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == editor->columns)
		return;
	if (editor->columns)
		el_resize(editor->el);
	editor->columns = size.ws_col;
}

/* libedit's source of keys (el_rfunc_t). */
static int read_key(EditLine *el, wchar_t *key)
{
	struct repl_editor *editor = editor_of(el);
	uint32_t point;

	while (editor->keys.len == 0) {
		char byte;
		int got = read_byte(editor, &byte);

		if (got <= 0)
			return 0;
		text_decode(&editor->decoder, &editor->keys, &byte, 1);
	}
	follow_size(editor);
	buf_consume(&editor->keys, text_next(buf_bytes(&editor->keys), editor->keys.len, &point));
	*key = (wchar_t)point;
	return 1;
}

/* --- what keys do (el_func_t) ------------------------------------------------------------------
 */

static unsigned char insert(EditLine *el, const wchar_t *text)
{
	return el_winsertstr(el, text) == 0 ? CC_REFRESH : CC_ERROR;
}

static unsigned char key_newline(EditLine *el, wint_t key)
{
	(void)key;
	return insert(el, L"\n");
}

/* Where the line of the cursor begins. */
static const wchar_t *row_start(const LineInfoW *line, const wchar_t *at)
{
	while (at > line->buffer && at[-1] != L'\n')
		at--;
	return at;
}

static const wchar_t *row_end(const LineInfoW *line, const wchar_t *at)
{
	while (at < line->lastchar && *at != L'\n')
		at++;
	return at;
}

/* Backspace: within an indentation back to the step before. */
static unsigned char key_backspace(EditLine *el, wint_t key)
{
	const LineInfoW *line = el_wline(el);
	const wchar_t *start = row_start(line, line->cursor);
	size_t blanks = (size_t)(line->cursor - start);

	(void)key;
	if (line->cursor == line->buffer)
		return CC_ERROR;
	for (const wchar_t *at = start; at < line->cursor; at++)
		if (*at != L' ')
			blanks = 0;
	el_wdeletestr(el, blanks ? (int)((blanks - 1) % STEP + 1) : 1);
	return CC_REFRESH;
}

/* Up: to the line above in a text of several lines, else to the entry before (Ctrl-P). */
static unsigned char key_up(EditLine *el, wint_t key)
{
	const LineInfoW *line = el_wline(el);
	const wchar_t *start = row_start(line, line->cursor), *above;
	ptrdiff_t column = line->cursor - start;

	(void)key;
	if (start == line->buffer) {
		el_wpush(el, L"\020");
		return CC_NORM;
	}
	above = row_start(line, start - 1);
	if (column > start - 1 - above)
		column = start - 1 - above;
	el_cursor(el, (int)(above + column - line->cursor));
	return CC_REFRESH;
}

/* Down: as key_up, with Ctrl-N. */
static unsigned char key_down(EditLine *el, wint_t key)
{
	const LineInfoW *line = el_wline(el);
	const wchar_t *end = row_end(line, line->cursor), *below;
	ptrdiff_t column = line->cursor - row_start(line, line->cursor);

	(void)key;
	if (end == line->lastchar) {
		el_wpush(el, L"\016");
		return CC_NORM;
	}
	below = row_end(line, end + 1);
	if (column > below - (end + 1))
		column = below - (end + 1);
	el_cursor(el, (int)(end + 1 + column - line->cursor));
	return CC_REFRESH;
}

static unsigned char key_home(EditLine *el, wint_t key)
{
	const LineInfoW *line = el_wline(el);

	(void)key;
	el_cursor(el, (int)(row_start(line, line->cursor) - line->cursor));
	return CC_REFRESH;
}

static unsigned char key_end(EditLine *el, wint_t key)
{
	const LineInfoW *line = el_wline(el);

	(void)key;
	el_cursor(el, (int)(row_end(line, line->cursor) - line->cursor));
	return CC_REFRESH;
}

static bool ends_paste(const wchar_t *text, size_t len)
{
	const size_t mark = sizeof(PASTE_END) / sizeof(*PASTE_END) - 1;

	return len >= mark && wmemcmp(text + len - mark, PASTE_END, mark) == 0;
}

/* A paste: everything up to its end mark, as it is. */
static unsigned char key_paste(EditLine *el, wint_t key)
{
	cleanup_free wchar_t *text = mem_resize(NULL, 256, sizeof(*text));
	size_t len = 0, cap = 256;
	unsigned char outcome;

	(void)key;
	while (!ends_paste(text, len) && len < PASTE_CHARS_MAX) {
		if (len + 1 == cap)
			text = mem_resize(text, cap *= 2, sizeof(*text));
		if (el_wgetc(el, &text[len]) != 1)
			return CC_EOF;
		/* Terminals send CR for the ends of lines. */
		if (text[len] == L'\r')
			text[len] = L'\n';
		if (text[len] != L'\0')
			len++;
	}
	if (ends_paste(text, len))
		len -= sizeof(PASTE_END) / sizeof(*PASTE_END) - 1;
	text[len] = L'\0';
	outcome = len ? insert(el, text) : CC_NORM;
	return outcome;
}

/* --- TAB ---------------------------------------------------------------------------------------
 */

static void list_matches(struct repl_editor *editor, const struct repl_matches *matches)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct winsize size = {.ws_row = ROWS, .ws_col = COLUMNS};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row < 4)
		size = (struct winsize){.ws_row = ROWS, .ws_col = COLUMNS};
	buf_append_char(&out, '\n');
	repl_matches_list(matches, size.ws_col, size.ws_row - 3u, &out);
	(void)fflush(stdout);
	(void)file_write_all(STDOUT_FILENO, buf_bytes(&out), out.len, NULL);
	(void)editor;
}

/* Puts the text in place of the last `count` characters before the cursor. */
static unsigned char replace(EditLine *el, size_t count, const char *text, size_t len)
{
	cleanup_free wchar_t *wide = to_wide(text, len);

	if (count)
		el_wdeletestr(el, (int)count);
	return insert(el, wide);
}

/* Whether the text before the cursor is this already. */
static bool stands_there(const wchar_t *before, size_t count, const char *text, size_t len)
{
	cleanup_buf struct buf there = BUF_INIT;

	to_utf8(&there, before, count);
	return there.len == len && memcmp(buf_bytes(&there), text, len) == 0;
}

static unsigned char take_matches(struct repl_editor *editor, const struct repl_matches *matches,
				  size_t before_points)
{
	const LineInfoW *line = el_wline(editor->el);
	size_t cursor = before_points + (size_t)(line->cursor - line->buffer);
	size_t common = repl_matches_common(matches), count;

	if (!matches->count || matches->start < before_points || matches->start > cursor)
		return CC_ERROR;
	count = cursor - matches->start;
	if (common && !stands_there(line->cursor - count, count, matches->texts[0], common)) {
		/* Several, of which some do not even begin so (IPython matches fuzzily): only what
		 * is longer than what stands there is an improvement. */
		if (matches->count == 1 || text_count(matches->texts[0], common) > count)
			return replace(editor->el, count, matches->texts[0], common);
	}
	if (matches->count == 1)
		return CC_ERROR;
	list_matches(editor, matches);
	return CC_REDISPLAY;
}

static unsigned char key_complete(EditLine *el, wint_t key)
{
	struct repl_editor *editor = editor_of(el);
	const LineInfoW *line = el_wline(el);
	const wchar_t *start = row_start(line, line->cursor);
	size_t before_points = text_count(buf_bytes(editor->code), editor->code->len);
	size_t blanks = wcsspn(start, L" \t");
	cleanup_buf struct buf code = BUF_INIT;
	cleanup_json struct json *answer = NULL;
	struct repl_matches matches;
	unsigned char outcome;

	(void)key;
	/* At the beginning of a line TAB indents. */
	if (start + blanks >= line->cursor)
		return insert(el, &L"    "[(line->cursor - start) % STEP]);
	buf_append(&code, buf_bytes(editor->code), editor->code->len);
	to_utf8(&code, line->buffer, (size_t)(line->lastchar - line->buffer));
	answer = editor->owner.complete(editor->owner.data, buf_bytes(&code), code.len,
					before_points + (size_t)(line->cursor - line->buffer));
	if (!answer)
		return CC_ERROR;
	repl_matches_read(&matches, answer);
	outcome = take_matches(editor, &matches, before_points);
	repl_matches_release(&matches);
	return outcome;
}

/* --- the editor --------------------------------------------------------------------------------
 */

static wchar_t *prompt_of(EditLine *el)
{
	return editor_of(el)->prompt;
}

static void bind_keys(EditLine *el)
{
	static const struct {
		const wchar_t *name, *help;
		unsigned char (*does)(EditLine *el, wint_t key);
	} functions[] = {
		{L"fh-complete", L"complete the name at the cursor", key_complete},
		{L"fh-backspace", L"delete backwards, indentation by steps", key_backspace},
		{L"fh-up", L"the line above, or the entry before", key_up},
		{L"fh-down", L"the line below, or the entry behind", key_down},
		{L"fh-home", L"the beginning of the line", key_home},
		{L"fh-end", L"the end of the line", key_end},
		{L"fh-newline", L"a new line in the cell", key_newline},
		{L"fh-paste", L"take a paste as it is", key_paste},
	};
	static const struct {
		const wchar_t *key, *function;
	} keys[] = {
		{L"\t", L"fh-complete"},
		{L"\177", L"fh-backspace"},
		{L"\b", L"fh-backspace"},
		{L"\033[A", L"fh-up"},
		{L"\033OA", L"fh-up"},
		{L"\033[B", L"fh-down"},
		{L"\033OB", L"fh-down"},
		{L"\033\r", L"fh-newline"},
		{L"\033\n", L"fh-newline"},
		{PASTE_BEGIN, L"fh-paste"},
		{L"\020", L"ed-prev-history"},
		{L"\016", L"ed-next-history"},
		{L"\022", L"em-inc-search-prev"},
		{L"\001", L"fh-home"},
		{L"\005", L"fh-end"},
		{L"\033[H", L"fh-home"},
		{L"\033OH", L"fh-home"},
		{L"\033[1~", L"fh-home"},
		{L"\033[F", L"fh-end"},
		{L"\033OF", L"fh-end"},
		{L"\033[4~", L"fh-end"},
		{L"\033[3~", L"ed-delete-next-char"},
		{L"\033[1;5C", L"em-next-word"},
		{L"\033[1;5D", L"ed-prev-word"},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		el_wset(el, EL_ADDFN, functions[i].name, functions[i].help, functions[i].does);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		el_wset(el, EL_BIND, keys[i].key, keys[i].function, NULL);
}

/* Text is UTF-8 whatever the locale says: with LANG=C, libedit would show it in octal. */
static void take_locale(void)
{
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void)setlocale(LC_CTYPE, "C.UTF-8");
}

struct repl_editor *repl_editor_new(const struct repl_owner *owner, const char *typed,
				    size_t typed_len, struct err *err)
{
	struct repl_editor *editor = mem_zalloc(sizeof(*editor));
	HistEventW event;

	take_locale();
	editor->owner = *owner;
	buf_append(&editor->typed, typed, typed_len);
	editor->el = el_init("fumehood", stdin, stdout, stderr);
	editor->history = history_winit();
	if (!editor->el || !editor->history) {
		err_set(err, ERR_INTERNAL, "libedit cannot use this terminal");
		repl_editor_free(editor);
		return NULL;
	}
	history_w(editor->history, &event, H_SETSIZE, HISTORY_ENTRIES_MAX);
	el_wset(editor->el, EL_CLIENTDATA, editor);
	el_wset(editor->el, EL_EDITOR, L"emacs");
	el_wset(editor->el, EL_SIGNAL, 1); /* Ctrl-Z; ours are blocked and come through `wait` */
	el_wset(editor->el, EL_HIST, history_w, editor->history);
	el_wset(editor->el, EL_PROMPT_ESC, prompt_of, (int)LITERAL);
	(void)el_source(editor->el, NULL);
	bind_keys(editor->el);
	el_wset(editor->el, EL_GETCFN, read_key);
	return editor;
}

void repl_editor_free(struct repl_editor *editor)
{
	if (!editor)
		return;
	if (editor->history)
		history_wend(editor->history);
	if (editor->el)
		el_end(editor->el);
	buf_release(&editor->typed);
	buf_release(&editor->keys);
	free(editor);
}

void repl_editor_remember(struct repl_editor *editor, const char *text)
{
	cleanup_free wchar_t *wide = to_wide(text, strlen(text));
	HistEventW event;

	history_w(editor->history, &event, H_ENTER, wide);
}

/* libedit forgets literal parts that nothing follows: the blank at the end comes behind the reset.
 */
void repl_editor_prompt(struct repl_editor *editor, const char *prompt, const char *style)
{
	size_t len = strlen(prompt);

	if (style && len)
		swprintf(editor->prompt, PROMPT_CHARS, L"%lc%s%lc%.*s%lc\033[0m%lc%s", LITERAL,
			 style, LITERAL, (int)len - 1, prompt, LITERAL, LITERAL, prompt + len - 1);
	else
		swprintf(editor->prompt, PROMPT_CHARS, L"%s", prompt);
}

/* Whether keys wait already: a paste without brackets brings its own indentation. */
static bool has_keys(const struct repl_editor *editor)
{
	struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};

	return editor->typed.len || editor->keys.len || poll(&fd, 1, 0) > 0;
}

enum repl_line repl_editor_read(struct repl_editor *editor, size_t indent, struct buf *code)
{
	const wchar_t *line;
	int count = 0;

	editor->code = code;
	editor->left = false;
	/* libedit would do it only behind the prompt: what is typed at once would be shown twice.
	 */
	el_wset(editor->el, EL_PREP_TERM, 1);
	if (!has_keys(editor))
		for (; indent > 0; indent--)
			buf_append_char(&editor->keys, ' ');
	(void)file_write_all(STDOUT_FILENO, PASTE_ON, sizeof(PASTE_ON) - 1, NULL);
	line = el_wgets(editor->el, &count);
	(void)fflush(stdout);
	(void)file_write_all(STDOUT_FILENO, PASTE_OFF, sizeof(PASTE_OFF) - 1, NULL);
	editor->code = NULL;
	if (editor->left)
		return REPL_LINE_LEFT;
	if (!line || count <= 0)
		return REPL_LINE_END;
	to_utf8(code, line, (size_t)count);
	if (line[count - 1] != L'\n')
		buf_append_char(code, '\n');
	return REPL_LINE;
}
