/*
 * What the functions behind the ops share. Private to ops.c and ops_query.c.
 */
#ifndef FH_KEEPER_OPS_H
#define FH_KEEPER_OPS_H

#include "base/err.h"
#include "base/json.h"
#include "keeper/request.h"
#include "keeper/session.h"

/* Everything an op needs. It answers by itself, or returns -1 with *err. */
struct call {
	struct session *session;
	struct client *client;
	const struct request *request;
	const struct json *json;
};

/* Answers; `body` is taken, NULL means {}. */
void call_reply(const struct call *call, struct json *body);

/* The ops that change nothing (ops_query.c). */
int op_text(const struct call *call, struct err *err);
int op_notebook(const struct call *call, struct err *err);
int op_blob(const struct call *call, struct err *err);
int op_status(const struct call *call, struct err *err);
int op_files(const struct call *call, struct err *err);
int op_images(const struct call *call, struct err *err);
int op_outputs(const struct call *call, struct err *err);

#endif
