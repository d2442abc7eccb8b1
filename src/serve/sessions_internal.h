/*
 * What sessions.c (the sessions' lives) and sessions_calls.c (what goes over their links) share.
 * Private to these two.
 */
#ifndef FH_SERVE_SESSIONS_INTERNAL_H
#define FH_SERVE_SESSIONS_INTERNAL_H

#include "serve/sessions.h"

struct sessions {
	uv_loop_t *loop;
	int runtime_fd;
	bool inlined;
	struct sessions_events events;
	struct live *lives;
	bool closing;
};

/* An answer has come on the main link: who has asked is told. One that nobody waits for any more is
 * passed over. */
void calls_answer(struct live *live, const struct scan *scan, const char *line, size_t len);

/* The session has gone: all who wait for an answer are told why. */
void calls_fail(struct live *live, const struct err *err);

/* Closes the links that wait for a stream. */
void links_close_idle(struct live *live);

#endif
