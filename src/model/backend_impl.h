/*
 * What backends implement and what they are given for it: for the files of this folder only.
 *
 * A backend is a struct that begins with `struct backend` and a table of operations; a generation
 * belongs to its asker and is known to the backend until it has ended. The backend hands over what
 * it receives by generation_feed(), as bytes, and says once how it ended by generation_end() or
 * generation_fail(); everything else (code points, <think>, limits, sums) is done here for all.
 */
#ifndef FH_MODEL_BACKEND_IMPL_H
#define FH_MODEL_BACKEND_IMPL_H

#include "base/buf.h"
#include "base/text.h"
#include "model/backend.h"
#include "model/think.h"

struct backend_ops {
	const char *kind;
	/* Begins to ask; generation->job is the backend's to set. After -1 the generation is freed
	 * without any other call. */
	int (*start)(struct backend *backend, struct generation *generation,
		     const struct generation_request *request, struct err *err);
	/* As backend_wait(). */
	int (*wait)(struct backend *backend, struct pollfd *extra, size_t count, int timeout_ms,
		    struct err *err);
	/* Frees generation->job, whatever state it is in. Called once for each that was started,
	 * when it is freed or the backend is. */
	void (*drop)(struct backend *backend, struct generation *generation);
	uint64_t (*context)(struct backend *backend); /* NULL: not known */
	void (*free)(struct backend *backend);        /* all generations have been dropped */
};

struct backend {
	const struct backend_ops *ops;
	const char *kind;         /* a literal */
	char *model;              /* as it is shown */
	struct generation *first; /* all that were started and not freed, oldest first */
};

struct generation {
	struct backend *backend; /* NULL: freed before it */
	struct generation *next;
	enum generation_state state;
	struct generation_events events;
	struct text_decoder text_decoder, reasoning_decoder;
	struct think think;
	struct buf text, reasoning;
	struct generation_usage usage;
	size_t prompt_bytes;
	int64_t start_us; /* monotonic */
	int64_t retry_ms;
	struct err err;
	void *job;
};

void backend_init(struct backend *backend, const struct backend_ops *ops, const char *kind,
		  const char *model);
/* Frees the model's name. */
void backend_release(struct backend *backend);

/* Bytes of the answer, or of what it thinks. Nothing happens once it is done. -1 when it has
 * become too long: it has failed with ERR_LIMIT then. */
int generation_feed(struct generation *generation, const void *bytes, size_t len, bool reasoning);

/* It is whole or cut at its length: `state` is GENERATION_STOPPED or GENERATION_LENGTH. */
void generation_end(struct generation *generation, enum generation_state state);
void generation_fail(struct generation *generation, const struct err *err);

#endif
