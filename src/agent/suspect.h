/*
 * What makes an outcome doubtful although the program ended well: what it says of itself.
 *
 * A program that catches its own exception, prints "Error: ..." and ends with 0 has failed without
 * anyone being told; pandas says in a warning that an assignment did nothing. Pure.
 */
#ifndef FH_AGENT_SUSPECT_H
#define FH_AGENT_SUSPECT_H

#include "agent/attempt.h"

/* Looks at code and outcome of an attempt that ended well: adds suspicions, sets `doubtful`. */
void suspect(struct attempt *attempt);

/* Appends what libraries have warned of on stderr, one a line, each once, at most three; CPython's
 * form "path:line: SomeWarning: text". Returns how many. */
unsigned suspect_warnings(struct buf *out, const char *text, size_t len);

/* Whether the program does nothing but print what is written in it. */
bool suspect_typed_in(const char *code);

#endif
