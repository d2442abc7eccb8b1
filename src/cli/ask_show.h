/*
 * An ask for people: a fold over its lines (doc/ask.md).
 *
 * On a terminal the tokens of the answer that is first in line show as they come, dim, and then
 * what its program prints; each attempt leaves one line. All of that goes to stderr: stdout gets
 * the answer alone, at the end.
 */
#ifndef FH_CLI_ASK_SHOW_H
#define FH_CLI_ASK_SHOW_H

#include "agent/attempt.h"
#include "base/json.h"
#include "cli/terminal.h"

struct ask_show {
	struct terminal err;
	bool quiet;
	bool live; /* stderr is a terminal */
	bool colour;
	int64_t front;                     /* the attempt whose tokens show; 0: none */
	struct buf held[ATTEMPTS_MAX + 1]; /* tokens of those that wait for it, by attempt */
	bool open[ATTEMPTS_MAX + 1];       /* has begun and not finished */
	bool dim;
};

void ask_show_init(struct ask_show *show, bool quiet);
void ask_show_release(struct ask_show *show);

/* Takes a line. */
void ask_show_line(struct ask_show *show, const struct json *line);

/* The result: the answer on stdout, what is to be said about it on stderr. -1: stdout cannot be
 * written. */
int ask_show_result(struct ask_show *show, const struct json *result, struct err *err);

#endif
