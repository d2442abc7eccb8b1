/*
 * The line editor of `fumehood repl`: libedit (editline(3), editline(7)) on a terminal.
 *
 * What its own reading of a key cannot do is done here: while it waits for a key, the owner waits
 * for events and signals too (`wait`); a paste in brackets (ESC [ 200 ~) becomes one text of
 * several lines; TAB asks the owner; the arrows move within a recalled text of several lines before
 * they move through the history.
 * ~/.editrc is respected.
 */
#ifndef FH_CLI_REPL_EDITOR_H
#define FH_CLI_REPL_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum repl_wait {
	REPL_WAIT_KEY,    /* stdin can be read */
	REPL_WAIT_REDRAW, /* something was written over the line */
	REPL_WAIT_LEAVE,  /* the line is given up */
};

/* Who owns the editor. */
struct repl_owner {
	void *data;
	enum repl_wait (*wait)(void *data);
	/* The answer to `complete` at the cursor (code points) of the code, owned by the caller;
	 * NULL: none. */
	struct json *(*complete)(void *data, const char *code, size_t len, size_t cursor);
};

enum repl_line {
	REPL_LINE,
	REPL_LINE_END,  /* Ctrl-D on an empty line, or the terminal has gone */
	REPL_LINE_LEFT, /* as `wait` said */
};

struct repl_editor;

/* `typed`: bytes that were read from the terminal already. The caller owns the editor. ERR_INTERNAL
 * when libedit cannot be had for this terminal. */
struct repl_editor *repl_editor_new(const struct repl_owner *owner, const char *typed,
				    size_t typed_len, struct err *err);
/* Also gives the terminal its old settings. NULL is fine. */
void repl_editor_free(struct repl_editor *editor);

/* The prompt from now on, at most REPL_PROMPT_BYTES_MAX long. `style` is the SGR sequence for it
 * (NULL: none). A line that is being typed has it after the next REPL_WAIT_REDRAW. */
enum { REPL_PROMPT_BYTES_MAX = 40 };
void repl_editor_prompt(struct repl_editor *editor, const char *prompt, const char *style);

/* Adds an entry of the history, which may have several lines. */
void repl_editor_remember(struct repl_editor *editor, const char *text);

/*
 * Reads a line and appends it, with its LF, to `code`: the lines of the cell that came before,
 * which TAB looks at too. A recalled or pasted text may have more than one. `indent` blanks are put
 * before the cursor, unless something has been typed or pasted ahead.
 */
enum repl_line repl_editor_read(struct repl_editor *editor, size_t indent, struct buf *code);

#endif
