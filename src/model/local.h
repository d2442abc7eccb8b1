/*
 * The backend `local`: a model's file, run by a llama.cpp server of our own (owner.h, llama.h).
 *
 * It is the backend `openai` over the server's Unix socket, with a hold on the server (lease.h).
 */
#ifndef FH_MODEL_LOCAL_H
#define FH_MODEL_LOCAL_H

#include <stdint.h>

#include "base/err.h"
#include "base/settings.h"
#include "model/backend.h"

struct backend_local_params {
	const char *model;  /* a name, or the path of a file, as catalog_resolve() takes it; NULL or
			     * "": catalog_default() */
	const char *server; /* a llama-server: an absolute path or a name on PATH; NULL: find one */
	uint64_t context;   /* tokens at most; 0: LLAMA_CONTEXT_MAX */
	uint64_t threads;   /* 0: as many as there are processors */
	int64_t idle_ms;    /* how long the server lives on without a user; 0: LOCAL_IDLE_MS */
	int cancel_fd;      /* readable: waiting for the server ends with ERR_GONE; -1: none */
	/* Monotonic, borrowed as long as the backend lives and looked at whenever it waits: from
	 * then on nobody waits for the server (ERR_TIMEOUT), which goes on loading for whoever asks
	 * next. NULL or 0: none. */
	const int64_t *deadline_us;
};

enum { LOCAL_IDLE_MS = 5 * 60 * 1000 };

/* Takes what the settings say of llama.*; the settings must outlive the params. */
void backend_local_take(struct backend_local_params *params, const struct settings *settings);

/* Looks at the file and finds a server; starts nothing before the first request. Copies. Errors:
 * catalog_resolve(), gguf_load(), lease_new(). */
struct backend *backend_local_new(const struct backend_local_params *params, struct err *err);

#endif
