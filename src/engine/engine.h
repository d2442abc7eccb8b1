/*
 * The engine interface: what the keeper asks of whatever executes cells.
 *
 * A keeper holds one engine. Calls go down and never block for longer than a start; what happens
 * comes back through struct engine_events, always from the loop and never from inside a call. All
 * text given to the events is valid UTF-8; JSON is parsed and checked, and owned by the callee of
 * the event. At most one cell runs; the keeper queues.
 */
#ifndef FH_ENGINE_ENGINE_H
#define FH_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct engine;

enum engine_end { ENGINE_CELL_OK, ENGINE_CELL_ERROR, ENGINE_CELL_INTERRUPTED };

/* Kinds of messages that carry JSON through unchanged: they become the events of the same name. */
enum engine_output { ENGINE_DISPLAY, ENGINE_UPDATE_DISPLAY, ENGINE_RESULT, ENGINE_ERROR };

struct engine_death {
	const char *
		reason; /* "signal 11 (segmentation fault)", "exit status 3", "out of memory" ... */
	int signal;     /* that ended it; 0: none, or it is not known */
	bool by_keeper; /* engine_kill() was called for it */
};

/* `cell` is the number given to engine_run; 0 means none has run yet. */
struct engine_events {
	/* Bytes written to stdout/stderr, decoded. `background`: not by the running cell's own
	 * code. */
	void (*stream)(void *data, uint32_t cell, bool is_stderr, bool background, const char *text,
		       size_t len);
	void (*output)(void *data, uint32_t cell, enum engine_output kind, struct json *body);
	void (*clear)(void *data, uint32_t cell, bool wait);
	void (*input_request)(void *data, uint32_t cell, const char *prompt, size_t len,
			      bool password);
	/* The cell has ended and all it wrote has been delivered. */
	void (*done)(void *data, uint32_t cell, enum engine_end end, int64_t execution_count);
	/* What was asked under this number is answered; body NULL: by nothing that can be read. */
	void (*answer)(void *data, uint32_t number, struct json *body);
	/* Something that the user should know, such as "garbage": unreadable messages from the
	 * guest. */
	void (*warning)(void *data, uint32_t cell, const char *code, const char *message);
	/* engine_copy(): the copy sleeps, `copy_us` after it was asked for. `info` is what will not
	 * be in it: {"threads":[..],"native_threads":[..]}, or NULL; owned by the callee. */
	void (*copied)(void *data, uint32_t number, int64_t copy_us, struct json *info);
	/* There is none; `came`: there was one, which has ended by itself. */
	void (*copy_failed)(void *data, uint32_t number, bool came, const struct err *err);
	/* engine_measure(): the memory that is the copy's alone, and all that it has. */
	void (*copy_measured)(void *data, uint32_t number, int64_t private_bytes,
			      int64_t rss_bytes);
	/* The interpreter is gone, all it wrote has been delivered, and everything it had started
	 * is killed. */
	void (*died)(void *data, const struct engine_death *death);
	/* engine_start() or engine_restart() has succeeded: versions and language_info of the
	 * interpreter. */
	void (*ready)(void *data, const struct json *hello);
	/* ... or failed for good. */
	void (*failed)(void *data, const struct err *err);
};

/* What a cell runs; all borrowed. */
struct engine_code {
	const char *text;
	size_t len;
	bool script; /* `text` is the JSON of GUEST_FLAG_SCRIPT (guest/protocol.h) */
	bool allow_stdin;
};

struct engine_ops {
	/* Starts an interpreter; `ready` or `failed` follows. */
	int (*start)(struct engine *engine, struct err *err);
	/* Runs code (valid UTF-8, may hold NUL) as cell `cell` (> 0, growing). Only when ready and
	 * idle. */
	int (*run)(struct engine *engine, uint32_t cell, const struct engine_code *code,
		   struct err *err);
	/* Asks a question about the variables: `body` is JSON as guest/protocol.h has it. Only when
	 * ready and idle; `answer` follows, or `died`. The top bit of `number` is set: it is never
	 * that of a cell. */
	int (*ask)(struct engine *engine, uint32_t number, const char *body, size_t len,
		   struct err *err);
	/* Sets variables of the interpreter's environment, from now on: {"variables":{name: string,
	 * or null to take it away},"packages": the folder for what is installed (optional)}. Only
	 * when ready and idle; no event follows. */
	int (*set_environment)(struct engine *engine, const struct json *order, struct err *err);
	/* Asks the running cell (or ask) to stop. A number that is not running is left alone. */
	int (*interrupt)(struct engine *engine, uint32_t cell, struct err *err);
	/* Answers input_request; NULL is end of file. */
	int (*input)(struct engine *engine, const char *text, size_t len, struct err *err);
	/* Makes a sleeping copy of the interpreter, which must be idle, under a new number (from
	 * 1): `copied` or `copy_failed` follows. A cell may be run meanwhile: it starts behind it.
	 * ERR_UNSUPPORTED: this engine has none. */
	int (*copy)(struct engine *engine, uint32_t *number, struct err *err);
	/* From the loop, not from an event: waits at most `ms` for copies that are on their way,
	 * and tells of them. */
	void (*await_copies)(struct engine *engine, unsigned ms);
	/* After `died`, instead of start(): the interpreter is a living copy of this copy, which
	 * sleeps on. `ready`, with "lost" in it, or `failed` follows. ERR_NOT_FOUND: it has ended.
	 */
	int (*wake)(struct engine *engine, uint32_t number, struct err *err);
	/* Ends a copy; an unknown number is fine. */
	void (*drop)(struct engine *engine, uint32_t number);
	/* `copy_measured` follows, if it lives. */
	int (*measure)(struct engine *engine, uint32_t number, struct err *err);
	/* It has ended, and `died` will say so: it is of no use to ask it anything. */
	bool (*is_dying)(const struct engine *engine);
	/* What the interpreter has in memory now, in bytes; 0: not known. About 20 us. */
	int64_t (*memory)(const struct engine *engine);
	/* Kills the interpreter and all it started, but for copies; `died` follows. While a copy is
	 * on its way that is waited for. */
	void (*kill)(struct engine *engine);
	/* Pauses and resumes reading of output (a full disk): the writer then blocks in its pipe.
	 */
	void (*pause)(struct engine *engine, bool paused);
	/* usage since the start of the running (or last) cell: CPU of the whole box is not known
	 * yet; of the interpreter it is. */
	void (*usage)(struct engine *engine, int64_t *cpu_us, int64_t *rss_peak_bytes);
	/* From the loop, not from an event: looks for what the running cell says, again and again
	 * for at most `us` microseconds (about a hundred), and handles it. Between the looks the
	 * processor is yielded. */
	void (*await)(struct engine *engine, unsigned us);
	/* Closes all; no event comes after it. */
	void (*free)(struct engine *engine);
};

/* Every engine begins with this. */
struct engine {
	const struct engine_ops *ops;
	const struct engine_events *events;
	void *data; /* for the events */
};

#endif
