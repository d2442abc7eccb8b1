/*
 * The routes: a table of method, path, scope, what the query may have and what the body is.
 *
 * In a path {} is one segment and {...} the rest. Everything that a client can send is named in the
 * table, and refused when it is not there.
 */
#ifndef FH_SERVE_ROUTE_H
#define FH_SERVE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "serve/head.h"

struct exchange;

enum route_session {
	SESSION_NONE,
	SESSION_RUNNING, /* refused while it is stopped */
	SESSION_START,   /* started when it is stopped */
	SESSION_NAMED,   /* the handler looks for it */
};

enum route_body {
	BODY_NONE,
	BODY_JSON,     /* an object, application/json */
	BODY_OPTIONAL, /* the same, or nothing */
	BODY_STREAM,   /* given to the handler as it comes */
};

enum route_param_kind { PARAM_TEXT, PARAM_COUNT, PARAM_BOOL };

struct route_param {
	const char *name; /* NULL ends a list */
	enum route_param_kind kind;
};

struct route {
	const char *method;
	const char *path;
	unsigned scope; /* of enum scope; 0: none is needed */
	enum route_session session;
	enum route_body body;
	size_t body_bytes_max;
	void (*handle)(struct exchange *exchange);
	const char *op; /* of the session protocol, for handlers that only pass it on */
	const struct route_param *params;
	bool open; /* needs no token (health) */
	bool end_is_gone;
};

extern const struct route ROUTES[];

/* The route of a request. NULL with 404, or 405 and what is allowed in *allow (for the field Allow;
 * at least 64 bytes). */
const struct route *route_find(const struct slice *method, const struct target *target, int *status,
			       char allow[static 64]);

/* Where the segments {} of the route's path are in the target: the first two, or SIZE_MAX; and
 * where its {...} begins. */
void route_places(const struct route *route, size_t *first, size_t *second, size_t *rest);

/* The handlers, by their files. */
void rest_health(struct exchange *exchange); /* rest_meta.c */
void rest_ready(struct exchange *exchange);
void rest_openapi(struct exchange *exchange);
void rest_metrics(struct exchange *exchange);
void rest_sessions_list(struct exchange *exchange); /* rest_session.c */
void rest_session_start(struct exchange *exchange);
void rest_session_get(struct exchange *exchange);
void rest_session_open(struct exchange *exchange);
void rest_session_delete(struct exchange *exchange);
void rest_session_fork(struct exchange *exchange);
void rest_op(struct exchange *exchange); /* rest_op.c */
void rest_note(struct exchange *exchange);
void rest_text(struct exchange *exchange);
void rest_notebook(struct exchange *exchange);
void rest_checkpoint_drop(struct exchange *exchange);
void rest_blob(struct exchange *exchange);
void rest_policy(struct exchange *exchange);
void rest_run(struct exchange *exchange); /* rest_run.c */
void rest_cell(struct exchange *exchange);
void rest_run_once(struct exchange *exchange);
void rest_events(struct exchange *exchange);
void rest_ask(struct exchange *exchange); /* rest_ask.c */
void rest_files_get(struct exchange *exchange); /* rest_files.c */
void rest_files_put(struct exchange *exchange);
void rest_files_delete(struct exchange *exchange);
void rest_folder_make(struct exchange *exchange);
void rest_channel(struct exchange *exchange);  /* channel.c */
void rest_original(struct exchange *exchange); /* original.c */

#endif
