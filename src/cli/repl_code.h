/*
 * Is what was typed so far a whole cell, or is more to come? And how far is the next line indented?
 *
 * A look at brackets, quotes, backslashes and colons, not a parser: the guest's compiler has the
 * last word. What is broken counts as whole, so that the guest says what is wrong with it. As in
 * IPython, a block ends with an empty line; `name?`, `%magic` and `!command` are whole at the end
 * of their line, a `%%cell magic` at an empty one.
 */
#ifndef FH_CLI_REPL_CODE_H
#define FH_CLI_REPL_CODE_H

#include <stdbool.h>
#include <stddef.h>

/* `code` is lines, each ended by LF. *indent (may be NULL) is set to the columns that the next line
 * should begin with. */
bool repl_code_is_whole(const char *code, size_t len, size_t *indent);

/* Whether there is nothing to run: blanks and comments only. */
bool repl_code_is_blank(const char *code, size_t len);

/* Whether it is exit, quit, exit() or quit(). */
bool repl_code_is_exit(const char *code, size_t len);

#endif
