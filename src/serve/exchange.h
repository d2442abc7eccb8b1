/*
 * One request on its way: who asks, for what, of which session.
 *
 * An exchange lives as long as its request, and as long as somebody who was asked has not answered:
 * then `request` is NULL when the client has gone meanwhile, and the answer is for nobody.
 */
#ifndef FH_SERVE_EXCHANGE_H
#define FH_SERVE_EXCHANGE_H

#include "base/json.h"
#include "serve/gate.h"
#include "serve/head.h"
#include "serve/http.h"
#include "serve/problem.h"
#include "serve/route.h"
#include "serve/serve_internal.h"
#include "serve/sessions.h"

enum { EXCHANGE_JSON_BYTES_MAX = 20 << 20 };

struct exchange {
	unsigned references;
	struct serve *serve;
	struct http_request *request; /* NULL: it has ended */
	const struct route *route;
	struct target target;
	struct principal who;
	bool local;          /* over the Unix socket */
	const char *session; /* as the path names it; NULL: none */
	const char *item;    /* the path's second word, such as a cell; NULL: none */
	size_t rest_at;      /* the segment where the rest of the path begins */
	struct live *live;   /* held */
	struct json *body;   /* of BODY_JSON: an object */
	bool body_complete;
	char audit_session[HASH_ID_SIZE]; /* its id; "": none */
};

/* Takes a request that has its head through the gate and to its route. */
void exchange_begin(struct serve *serve, struct http_request *request);

struct exchange *exchange_keep(struct exchange *exchange);
void exchange_drop(struct exchange *exchange);

/* Answers; nothing happens when the client has gone. */
void exchange_problem(struct exchange *exchange, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void exchange_err(struct exchange *exchange, const struct err *err);
void exchange_json(struct exchange *exchange, int status, const struct json *json);
void exchange_bytes(struct exchange *exchange, int status, const char *type, const void *bytes,
		    size_t len);

/* A parameter of the query as a whole number or a truth; -1 with *err when it is none. */
int exchange_count(const struct exchange *exchange, const char *name, uint64_t *value,
		   struct err *err);
int exchange_bool(const struct exchange *exchange, const char *name, bool *value, struct err *err);

/* What of these the client would have: the first that its Accept lists, by its order; `types` ends
 * with NULL. Without the field, or for any type, the first of `types`. NULL: none of them. */
const char *exchange_accepts(const struct exchange *exchange, const char *const *types);

#endif
