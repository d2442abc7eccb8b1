/*
 * Writing a guest's bytes to stdout or stderr without letting them do harm.
 *
 * On a terminal only colours, CR, BS and erase-line pass; all other control characters are shown
 * escaped (DESIGN §7). Where the output is no terminal, the bytes pass unchanged. Output is
 * gathered and written by terminal_flush(), so that a flood costs few system calls.
 */
#ifndef FH_CLI_TERMINAL_H
#define FH_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct terminal {
	int fd;
	bool tty;
	bool colour;     /* a terminal that knows escape sequences */
	bool styled;     /* the guest has set a colour: to be reset before Fumehood writes */
	bool line_start; /* nothing has been written since the last LF */
	struct buf out;
	struct buf held; /* the beginning of an escape sequence that the next text may complete */
};

void terminal_init(struct terminal *terminal, int fd);
void terminal_release(struct terminal *terminal);

/* Adds text of the guest (valid UTF-8). */
void terminal_guest(struct terminal *terminal, const char *text, size_t len);

/* Adds text of ours. `own_line`: begins a new line first unless at the start of one. */
void terminal_own(struct terminal *terminal, const char *text, bool own_line);

/* Writes what was added. -1 with ERR_IO (sys EPIPE: the reader has gone). */
int terminal_flush(struct terminal *terminal, struct err *err);

/* Ends the guest's output: an unfinished sequence is shown, colours are reset. Then flushes. */
int terminal_end(struct terminal *terminal, struct err *err);

/* How many bytes at the end of the text are the beginning of a colour or erase sequence (0:
 * none). */
size_t terminal_unfinished(const char *text, size_t len);

#endif
