/*
 * The backend for OpenAI-compatible endpoints: POST {base_url}/chat/completions, streamed.
 *
 * llama-server, vLLM, Ollama, LM Studio and the clouds differ in what they refuse, in how they end
 * a stream and where they put what a model thinks; doc/decisions/081 lists what is done about each.
 * A server of our own (local.c) is the same backend with hooks: they are asked for it before each
 * request, and may say that it lies elsewhere now.
 *
 * Security: http and https only, certificates are verified, redirects are not followed (a key would
 * go along), no proxy for loopback and Unix sockets. The key is in no error message.
 */
#ifndef FH_MODEL_OPENAI_H
#define FH_MODEL_OPENAI_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "model/backend.h"

enum {
	OPENAI_FIRST_MS = 10 * 60 * 1000, /* default until the first data: a model may be loaded */
	OPENAI_IDLE_MS = 120 * 1000,      /* default between bytes: others' prompts come between */
	OPENAI_KEY_BYTES_MAX = 4096,
};

/* For a server that somebody looks after. Every hook may be NULL. */
struct openai_hooks {
	/*
	 * Called before each request is sent (in backend_ask(), and in backend_wait() when one is
	 * sent again), and before backend_context() asks: sees that the server runs and answers,
	 * or starts it and waits until it does; so it may block. When it now listens elsewhere, it
	 * calls backend_openai_move(). -1 with *err: the request fails with that error.
	 *
	 * A connection that is refused, or closes before the first text of an answer, makes one
	 * more call of this, and the request is sent once more.
	 */
	int (*alive)(void *context, struct backend *backend, struct err *err);
	/* Called when a generation fails because the server was not there or closed its connection
	 * (ERR_GONE): may replace *err by something that says more, such as the server's last words
	 * or the signal that killed it. */
	void (*explain)(void *context, struct err *err);
	/* Called once, last of all, in backend_free() (not when backend_openai_new() fails). */
	void (*release)(void *context);
	void *context;
};

/* Everything is copied; NULL and 0 are the defaults. */
struct backend_openai_params {
	const char *kind;        /* what backend_kind() says, a literal; NULL: "openai" */
	const char *base_url;    /* "http://127.0.0.1:8080/v1"; over a Unix socket
				  * "http://localhost/v1" */
	const char *unix_socket; /* path of at most 107 bytes; NULL: TCP */
	const char *key;         /* sent as "Authorization: Bearer"; NULL or "": none */
	/* The server's name of the model. NULL: the one that it has; backend_openai_new() asks for
	 * it then (two seconds at most), after `alive`. */
	const char *model;
	const char *shown_model;  /* what backend_model() says; NULL: `model` */
	const struct json *extra; /* an object: further members of each request, such as
				   * {"cache_prompt":true}. Dropped when a server refuses them. */
	uint64_t context_tokens;  /* what backend_context() says; 0: the server is asked */
	struct openai_hooks hooks;
};

/* ERR_INVALID: the address, key or extra members have the wrong form. Only when the model's name is
 * asked for: what generation_error() knows, and ERR_INVALID when the server has several. */
struct backend *backend_openai_new(const struct backend_openai_params *params, struct err *err);

/* From now on the server is there. For the hook `alive`, and only for backends made by
 * backend_openai_new(); generations that run go on where they are. Copies; as in the params. */
int backend_openai_move(struct backend *backend, const char *base_url, const char *unix_socket,
			const char *key, struct err *err);

#endif
