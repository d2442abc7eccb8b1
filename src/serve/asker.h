/*
 * `fumehood ask` as a child of the loop: what it is told, its lines, its end.
 *
 *	asker_start ─> lines ... ─ the child has ended and its output is read ─> end, freed
 *	                 │ asker_cancel: SIGTERM, after some seconds SIGKILL
 *	                 └ asker_drop: SIGKILL, nothing is told any more
 *
 * The loop of programs, models and sessions is the child's (doc/ask.md); here is only the pipe. A
 * child that dies takes nothing of ours with it, and one that is not read stands still: its lines
 * are never gathered.
 *
 * The instruction goes through stdin, options and system prompt through files without a name, for
 * what is on a command line can be read by every user.
 */
#ifndef FH_SERVE_ASKER_H
#define FH_SERVE_ASKER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/err.h"

enum {
	ASKER_LINE_BYTES_MAX = 32 << 20, /* a longer line ends the child */
	ASKER_SAID_BYTES_MAX = 4 << 10,  /* of stderr, the last */
	ASKER_KILL_MS = 5000,            /* from SIGTERM to SIGKILL */
};

struct asker;

struct asker_params {
	const char *const *words; /* long options, "--name=value"; NULL-terminated */
	const char *instruction;
	size_t instruction_len;
	const char *system; /* another system prompt; NULL: none */
	size_t system_len;
};

/* How it ended. */
struct asker_end {
	int status;       /* as exit(3) was given it; -1: it was killed */
	bool cancelled;   /* by asker_cancel() */
	bool too_long;    /* a line was */
	const char *said; /* the last of its stderr: UTF-8, without "fumehood: " and LF */
};

struct asker_events {
	/* A line, without LF; borrowed. */
	void (*line)(void *data, const char *line, size_t len);
	/* All is told; the asker is gone with this call. */
	void (*end)(void *data, const struct asker_end *end);
};

/* Starts it. `events` must live as long as it. ERR_NOT_FOUND when the program is not installed. */
struct asker *asker_start(uv_loop_t *loop, const struct asker_params *params,
			  const struct asker_events *events, void *data, struct err *err);

/* Its output is not read until asker_resume(). */
void asker_pause(struct asker *asker);
void asker_resume(struct asker *asker);

/* Asks it to end: it stops model and program, tells its result and ends. */
void asker_cancel(struct asker *asker);

/* Ends it at once; no event comes any more. NULL is fine. */
void asker_drop(struct asker *asker);

#endif
