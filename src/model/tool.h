/*
 * Running a program to its end: pip, a server that is asked what it can do.
 */
#ifndef FH_MODEL_TOOL_H
#define FH_MODEL_TOOL_H

#include "base/buf.h"
#include "base/err.h"

enum { TOOL_WORDS_MAX = 256 << 10 };

struct tool {
	const char *path;        /* NULL: argv[0]; without '/' looked for on PATH */
	const char *const *argv; /* NULL-terminated */
	const char *const *envp; /* NULL: ours */
	int output;              /* its stdout; -1: among its words */
	int cancel_fd;           /* readable: it is killed; -1: none */
	int wait_ms;             /* then it is killed, too; < 0: for ever */
};

/* Runs it, in a session of its own and without stdin; with it dies what it has started. Appends its
 * words (stdout and stderr, the last TOOL_WORDS_MAX bytes) to `words`. 0 when it ended with status
 * 0; ERR_GONE cancelled, ERR_TIMEOUT, else ERR_ENGINE with the last line of its words. */
int tool_run(const struct tool *tool, struct buf *words, struct err *err);

/* Appends what is in the file `fd`, its last bytes_max bytes. */
void tool_read(int fd, size_t bytes_max, struct buf *out);

#endif
