/*
 * A hold on a running model: who has one keeps its server alive. The client's side of owner.h.
 *
 * The owner is started by whoever comes first. It may be killed at any moment; then the next
 * lease_ensure() starts another one.
 */
#ifndef FH_MODEL_LEASE_H
#define FH_MODEL_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "model/llama.h"

struct lease;

struct lease_params {
	const char *model;  /* absolute path of the file */
	const char *name;   /* as it is shown */
	const char *server; /* as llama_find() takes it */
	uint64_t context;
	unsigned threads; /* 0: as many as there are processors */
	int64_t idle_ms;  /* how long the server lives without a user */
	int cancel_fd;    /* readable: lease_ensure() ends with ERR_GONE; -1: none */
	/* Monotonic, borrowed: lease_ensure() waits no longer (ERR_TIMEOUT); NULL or 0: none. */
	const int64_t *deadline_us;
};

/* Finds what is needed and starts nothing. Copies. ERR_NOT_FOUND: no server; ERR_LIMIT: the path of
 * its socket would be too long. */
struct lease *lease_new(const struct lease_params *params, struct err *err);
void lease_free(struct lease *lease); /* NULL is fine; the server lives on for idle_ms */

/* Sees that the server runs and is healthy; waits as long as a model of this size may take to load.
 * ERR_ENGINE or ERR_TIMEOUT says why not, ERR_GONE that it was cancelled. Who leaves before does
 * not stop the loading: the server is ready for the next one. */
int lease_ensure(struct lease *lease, struct err *err);

/* The path of the server's socket. Borrowed. */
const char *lease_socket(const struct lease *lease);

/* Replaces *err by how the server has ended, if it has. */
void lease_explain(struct lease *lease, struct err *err);

/* --- all that run ----------------------------------------------------------------------------- */

/* An array of what owners say of themselves (owner.h). The caller owns it. */
struct json *lease_list(struct err *err);

/* Stops those whose model has this name or path, NULL: all; waits for their end. */
int lease_stop(const char *model, unsigned *stopped, struct err *err);

#endif
