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

/* Writes an event that a reply promises, then answers, then lets the readers see it. `cell` may be
 * NULL; `body` and `answer` (NULL means {}) are taken. -1: nothing has happened. */
int call_record(const struct call *call, enum event_type type, const char *cell, struct json *body,
		struct json *answer, struct err *err);

/* ops_record.c */
int op_record(const struct call *call, struct err *err);

/* ops_files.c */
int op_list_files(const struct call *call, struct err *err);
int op_read_file(const struct call *call, struct err *err);
int op_write_file(const struct call *call, struct err *err);
int op_remove_file(const struct call *call, struct err *err);
int op_make_folder(const struct call *call, struct err *err);

/* limits_change.c */
int op_limits(const struct call *call, struct err *err);

/* Orders a change: limits, and with `policy` (NULL: none) what else of a policy can change.
 * Answered when it is on the disk and in force: with the limits, or with the policy. */
int limits_change_order(const struct call *call, const struct json *set, const struct json *policy,
			struct err *err);

/* policy_change.c. What is in `policy` is not a limit. */
int op_policy(const struct call *call, struct err *err);
int session_check_policy(const struct session *session, const struct json *policy, struct err *err);
int session_take_policy(struct session *session, const struct json *policy, struct err *err);

/* The ops that change nothing (ops_query.c). */
int op_text(const struct call *call, struct err *err);
int op_notebook(const struct call *call, struct err *err);
int op_blob(const struct call *call, struct err *err);
int op_status(const struct call *call, struct err *err);
int op_files(const struct call *call, struct err *err);
int op_images(const struct call *call, struct err *err);
int op_outputs(const struct call *call, struct err *err);

#endif
