/*
 * Saving the session's notebook while it grows: one save in flight, the next no sooner than
 * max(200 ms, 20 x the last one's duration) later, so that saving takes a few per cent of the time
 * whatever the notebook's size. The bytes are made on the loop (a copy of cached cells), written
 * and synced on a worker thread.
 */
#ifndef FH_KEEPER_SAVER_H
#define FH_KEEPER_SAVER_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "notebook/notebook.h"

struct saver;

struct saver_events {
	/* The save found a foreign edit and goes to `name` from now on. */
	void (*moved)(void *data, const char *name);
	/* A save failed; it is tried again. Called once until one succeeds. */
	void (*failed)(void *data, const struct err *err);
};

/* `adopt`: the session is reopened, so a notebook.ipynb in dirfd is ours. All borrowed, all outlive
 * it. */
struct saver *saver_new(uv_loop_t *loop, int dirfd, bool adopt, struct notebook *notebook,
			const struct saver_events *events, void *data, struct err *err);

/* The notebook has changed: saves soon. */
void saver_touch(struct saver *saver);

/* Calls done(data, err) once everything applied to the notebook until now is in the file (err
 * NULL), or a save of it has failed. */
void saver_wait(struct saver *saver, void (*done)(void *data, const struct err *err), void *data);

const char *saver_name(const struct saver *saver); /* file name in use; borrowed */

/* No save begins any more. For the time after the last saver_wait(), whose `done` may call it. */
void saver_stop(struct saver *saver);

/* Nothing may be in flight (see saver_wait). */
void saver_free(struct saver *saver);

#endif
