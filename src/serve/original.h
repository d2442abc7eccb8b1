/*
 * The messages of the original for programs that listen to them: on the Redis channel
 * task:<id>:messages, and on its WebSocket path /task/<id>, where <id> is the session's name (or
 *its id, if it has none).
 *
 *	cell      SystemMessage "start", InterpreterMessage with input {code}
 *	finished  SystemMessage "done", InterpreterMessage with all outputs of the cell
 *
 * An output is {res_type, format, msg} as there: what was printed and values are "result" (text,
 * html, markdown, png, jpeg, svg, latex, json), an exception is "stderr"; what a cell wrote to
 * stderr, which the original drops, is "stderr" as well.
 */
#ifndef FH_SERVE_ORIGINAL_H
#define FH_SERVE_ORIGINAL_H

#include "serve/scan.h"
#include "serve/sessions.h"

enum { ORIGINAL_OUTPUT_BYTES_MAX = 16 << 20 };

struct serve;
struct original;

struct original *original_new(struct serve *serve);
void original_free(struct original *original);

/* Takes an event; messages that come of it go to Redis and to all who listen. */
void original_event(struct original *original, const struct live *live, const struct scan *scan,
		    const char *line, size_t len);
void original_gone(struct original *original, const struct live *live);

/* Once a second: pings; and at the daemon's end. */
void originals_tick(struct serve *serve, int64_t now_us);
void originals_close(struct serve *serve);

#endif
