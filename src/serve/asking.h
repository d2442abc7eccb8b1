/*
 * Asks that are under way, and who listens to them.
 *
 *	asking_start ─> running ─ result, or an error ─> ended ─ kept for a while, if it has a key
 *	                   │ the last listener goes: cancelled, unless it is detached
 *
 * Lines are relayed as they come: while a listener's connection is full the child is not read, so
 * nothing is gathered here but one line. A listener gets the lines from when it came; whoever wants
 * JSON gets the result alone.
 *
 * An Idempotency-Key names an ask of one token for ten minutes behind its end: who asks again
 * becomes one more listener. The daemon holds this in memory; an ask ends with it.
 */
#ifndef FH_SERVE_ASKING_H
#define FH_SERVE_ASKING_H

#include "serve/asker.h"
#include "serve/exchange.h"

enum asking_form { ASKING_JSON, ASKING_SSE, ASKING_NDJSON };

enum {
	ASKINGS_KEPT_MAX = 64,        /* ended ones, for their keys */
	ASKINGS_KEPT_BYTES = 1 << 20, /* of a result that is kept; a larger one is not */
	ASKINGS_KEPT_S = 600,
	ASKING_PING_S = 15,
};

struct asking;

struct asking_params {
	struct asker_params child;
	enum asking_form form;
	const char *key;  /* SHA-256 of the Idempotency-Key; NULL: none */
	const char *body; /* SHA-256 of what is asked */
	bool detach;
};

/* Answers the exchange with what becomes of it. */
void asking_start(struct exchange *exchange, const struct asking_params *params);

/* The ask with this key is there already: answers with it, or with 422 when something else was
 * asked. Returns whether it was there. */
bool asking_follow(struct exchange *exchange, const struct asking_params *params);

/* How many run; of one, or of all (`who` NULL). */
uint64_t askings_running(const struct serve *serve, const char *who);

/* Once a second: pings, and keys that are over. */
void askings_tick(struct serve *serve, int64_t now_us);

/* The daemon ends: all are cancelled, and tell their results; then they are dropped. */
void askings_cancel(struct serve *serve);
void askings_free(struct serve *serve);

#endif
