/*
 * Backends: where a model's tokens come from.
 *
 * One interface for three kinds: `openai` (any OpenAI-compatible endpoint, openai.c), `local` (the
 * same client, with a llama.cpp server of our own as a child, local.c) and `script` (answers from a
 * file, script.c). Several generations run at once on one backend: a server that has slots batches
 * them, and they share the prompt's prefix. Nothing here starts a thread or waits anywhere but in
 * backend_wait(), so the caller can wait for its own descriptors at the same time.
 *
 *	struct backend *backend = backend_openai_new(&params, &err);
 *	struct generation *answer = backend_ask(backend, &request, &events, &err);
 *
 *	while (!generation_done(answer))
 *		if (backend_wait(backend, extra, count, -1, &err))
 *			break;
 *	generation_text(answer);
 *	generation_free(answer);	// cancels it if it is not done
 *	backend_free(backend);
 */
#ifndef FH_MODEL_BACKEND_H
#define FH_MODEL_BACKEND_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	GENERATION_BYTES_MAX = 1 << 20, /* of one answer, reasoning included: ERR_LIMIT beyond */
	GENERATION_MESSAGES_MAX = 256,
	GENERATIONS_MAX = 32, /* at once */
	GENERATION_REQUEST_BYTES_MAX = 16 << 20, /* of all messages together */
	GENERATION_STOPS_MAX = 4,                /* what OpenAI takes */
};

enum message_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };

struct message {
	enum message_role role;
	const char *text; /* UTF-8, borrowed during backend_ask() */
	size_t len;
};

struct generation_request {
	const struct message *messages; /* count of them, first the system's */
	size_t count;
	double temperature;      /* 0..2 */
	double top_p;            /* 0..1; 0: the server's default */
	int64_t seed;            /* < 0: none */
	uint32_t tokens_max;     /* of the answer; > 0 */
	const char *const *stop; /* NULL-terminated texts that end the answer; NULL: none */
	int64_t first_ms_max;    /* until the first data; 0: the backend's default, which is long:
				  * a model may have to be loaded */
	int64_t idle_ms_max;     /* between two bytes; 0: the backend's default */
};

enum generation_state {
	GENERATION_RUNNING,
	GENERATION_STOPPED, /* whole */
	GENERATION_LENGTH,  /* cut at tokens_max or at the context's end */
	GENERATION_FAILED,  /* generation_error(); what came before is kept */
};

struct generation_usage {
	uint64_t prompt_tokens, cached_tokens, tokens;
	bool counted; /* told by the server; else estimated at 4 bytes a token */
	/* The server counted far fewer than were sent: it dropped some without a word, as Ollama
	 * does (its context is small unless OLLAMA_CONTEXT_LENGTH or the model's num_ctx says
	 * otherwise). */
	bool prompt_cut;
	double first_seconds; /* until the first text; < 0: there was none */
	double seconds;       /* until the end; while it runs: until its last text */
};

struct generation_events {
	/* Text as it comes, whole code points. `reasoning`: what the model thinks, which is no part
	 * of its answer (a field of its own, or <think>...</think> before the answer). May be NULL.
	 * Called in backend_wait() only, and must not call anything of this header. */
	void (*text)(void *context, const char *text, size_t len, bool reasoning);
	void *context;
};

struct backend;
struct generation;

/* Asks; the answer comes in backend_wait(). The request's texts are copied; bad UTF-8 in them
 * becomes U+FFFD. ERR_LIMIT beyond the limits above, ERR_INVALID when a number is out of range,
 * ERR_BUSY when GENERATIONS_MAX run, ERR_GONE when the server has died and cannot be started
 * again. */
struct generation *backend_ask(struct backend *backend, const struct generation_request *request,
			       const struct generation_events *events, struct err *err);

/* Waits until something has come, one of `extra` is ready (its revents say so), or timeout_ms has
 * passed (-1: for ever), and calls the events. May return early with nothing, as when a signal
 * came. Returns how many of `extra` are ready, or -1. */
int backend_wait(struct backend *backend, struct pollfd *extra, size_t count, int timeout_ms,
		 struct err *err);

enum generation_state generation_state(const struct generation *generation);
bool generation_done(const struct generation *generation);
/* The answer so far, NUL-terminated UTF-8; and what was thought before it. Borrowed. */
const char *generation_text(const struct generation *generation, size_t *len);
const char *generation_reasoning(const struct generation *generation, size_t *len);
const struct generation_usage *generation_usage(const struct generation *generation);
/* Why it failed: ERR_TIMEOUT, ERR_GONE (closed or cut), ERR_LIMIT (the prompt is too long for the
 * model's context, or the answer for us), ERR_DENIED (the key), ERR_NOT_FOUND (the model),
 * ERR_INVALID (it speaks something else), ERR_BUSY (429, 503: again later). */
const struct err *generation_error(const struct generation *generation);
/* After ERR_BUSY: milliseconds after which the server wants to be asked again; -1: it said
 * nothing. */
int64_t generation_retry_ms(const struct generation *generation);

/* Ends it: its connection is closed, so the server stops. NULL is fine, also after
 * backend_free(). */
void generation_free(struct generation *generation);

/* Tokens that prompt and answer may have together; 0: not known. May ask the server once (blocks
 * for at most two seconds). */
uint64_t backend_context(struct backend *backend);
/* "openai", "local", "script"; and the model's name as it is shown. */
const char *backend_kind(const struct backend *backend);
const char *backend_model(const struct backend *backend);

/* Ends all generations (their owners still free them) and a server that it has started. */
void backend_free(struct backend *backend);

#endif
