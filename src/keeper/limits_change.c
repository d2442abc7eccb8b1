/*
 * The op `limits`: asking, and changing them while the session lives. The op `policy` changes in
 * the same way (policy_change.c).
 *
 *	checked ──> session.json rewritten, on a worker ──> put in force, told, answered
 *
 * The file comes first, so that what is in force is what the next keeper will read, and nothing is
 * in force that the disk refused. Changes are made one after another, because each rewrites what
 * the one before has written.
 *
 * What this process enforces holds at once, for the running cell too. The kernel's limits on
 * processes are lowered at once by PID 1 (box_lower_limit()), because lowering needs no privilege.
 * Raising does, and /tmp has the size that it was mounted with: those wait in config.limits for the
 * next interpreter, as interpreter.c starts it.
 */
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "keeper/home.h"
#include "keeper/monitor.h"
#include "keeper/ops.h"

struct limits_change {
	struct limits_change *next;
	struct session *session;
	struct client *client;
	struct json *id;
	struct json *set;    /* of no other owner: the worker reads it */
	struct json *policy; /* likewise; of a change by the op `policy`, else NULL */
	uv_work_t work;
	struct err err;
};

struct json *session_limits_json(const struct session *session)
{
	struct limits in_force = session->config.limits;

	limits_take_box(&in_force, &session->box_limits, true);
	return limits_json(&in_force);
}

static struct json *describe(const struct session *session)
{
	struct limits in_force = session->config.limits;

	limits_take_box(&in_force, &session->box_limits, true);
	return limits_describe(&in_force, &session->config.limits);
}

void session_tell_limits(struct session *session)
{
	struct json *body = json_new_object();

	json_set_string(body, "state", session_state_name(session));
	json_set(body, "limits", session_limits_json(session));
	json_set(body, "next", limits_next(&session->box_limits, &session->config.limits));
	record_body(session->record, EVENT_STATE, NULL, body);
}

/* --- putting in force --------------------------------------------------------------------------
 */

/* Of every process in the box that has more. One that cannot be lowered waits like one that is
 * raised. */
static void lower_in_box(struct session *session)
{
	struct limits lower = session->box_limits;
	struct limits *in_force = &session->box_limits;

	limits_take_box(&lower, &session->config.limits, false);
	if (!session->box)
		return;
	if (lower.processes < in_force->processes &&
	    box_lower_limit(session->box, RLIMIT_NPROC, lower.processes, NULL) == 0)
		in_force->processes = lower.processes;
	if (lower.files < in_force->files &&
	    box_lower_limit(session->box, RLIMIT_NOFILE, lower.files, NULL) == 0)
		in_force->files = lower.files;
	if (lower.file_bytes < in_force->file_bytes &&
	    box_lower_limit(session->box, RLIMIT_FSIZE, lower.file_bytes, NULL) == 0)
		in_force->file_bytes = lower.file_bytes;
}

static void put_in_force(struct session *session, const struct json *set)
{
	int failed = limits_set(&session->config.limits, set, NULL);

	if (failed || json_length(set) == 0) /* checked before it was written */
		return;
	record_set_limit(session->record, session->config.limits.record_bytes);
	lower_in_box(session);
	session_take_limits(session);
	session_time_again(session);
	session_tell_limits(session);
}

/* --- one change --------------------------------------------------------------------------------
 */

static void change_work(uv_work_t *work)
{
	struct limits_change *change = work->data;

	(void)config_rewrite(change->session->dirfd, change->set, change->policy, &change->err);
}

static void change_ended(uv_work_t *work, int status);

static void change_begin(struct limits_change *change)
{
	change->work.data = change;
	uv_queue_work(change->session->loop, &change->work, change_work, change_ended);
}

static void change_free(struct limits_change *change)
{
	client_drop(change->client);
	json_free(change->id);
	json_free(change->set);
	json_free(change->policy);
	free(change);
}

static void change_ended(uv_work_t *work, int status)
{
	struct limits_change *change = work->data;
	struct session *session = change->session;

	(void)status; /* nobody cancels it */
	session->limits_changes = change->next;
	if (change->err.code == ERR_OK) {
		put_in_force(session, change->set);
		(void)session_take_policy(session, change->policy, &change->err);
	}
	if (change->err.code == ERR_OK) {
		struct json *body = json_new_object();

		if (change->policy)
			json_set(body, "policy", session_policy_json(session));
		else
			json_set(body, "limits", describe(session));
		client_reply(change->client, change->id, body);
	} else {
		client_refuse(change->client, change->id, &change->err);
	}
	change_free(change);
	if (session->limits_changes)
		change_begin(session->limits_changes);
	else if (session->state == SESSION_STOPPING)
		session_later(session); /* which waited for this */
	else
		session_next(session); /* a longer queue, or room in the record */
}

/* The record must still be able to say how things end. */
static int check_record(const struct session *session, const struct limits *limits, struct err *err)
{
	uint64_t used = journal_bytes(record_journal(session->record));
	uint64_t least = used + 2 * (uint64_t)JOURNAL_RESERVE_BYTES;

	if (limits->record_bytes >= least ||
	    limits->record_bytes == session->config.limits.record_bytes)
		return 0;
	return err_set(err, ERR_INVALID,
		       "the record has %llu bytes already: \"record_bytes\" must be %llu or more",
		       (unsigned long long)used, (unsigned long long)least);
}

static int find_shared(const char *key, size_t key_len, struct json *value, void *data)
{
	bool *found = data;

	(void)key_len;
	(void)value;
	*found = *found || limits_is_shared(key);
	return 0;
}

/* What would change the box of other sessions waits until they have stopped. */
static int check_others(const struct session *session, const struct json *set, struct err *err)
{
	bool found = false;

	json_each(set, find_shared, &found);
	return found ? home_check_alone(session, "limits of the box", err) : 0;
}

static int check_change(const struct session *session, const struct json *set, struct err *err)
{
	struct limits limits = session->config.limits;

	if (session->state == SESSION_STOPPING)
		return err_set(err, ERR_GONE, "the session is stopping");
	if (limits_set(&limits, set, err) != 0 || check_others(session, set, err) != 0 ||
	    check_record(session, &limits, err) != 0)
		return -1;
	return session_check_durable(session, err);
}

int op_limits(const struct call *call, struct err *err)
{
	const struct json *set = json_get(call->json, "set");

	if (json_length(set) == 0) {
		struct json *body = json_new_object();

		json_set(body, "limits", describe(call->session));
		call_reply(call, body);
		return 0;
	}
	return limits_change_order(call, set, NULL, err);
}

int limits_change_order(const struct call *call, const struct json *set, const struct json *policy,
			struct err *err)
{
	struct session *session = call->session;
	struct limits_change *change, **last = &session->limits_changes;

	if (check_change(session, set, err) != 0 ||
	    (policy && session_check_policy(session, policy, err) != 0))
		return -1;
	change = mem_zalloc(sizeof(*change));
	change->session = session;
	change->client = client_keep(call->client);
	change->id = call->request->id ? json_copy(call->request->id) : NULL;
	change->set = json_copy(set);
	change->policy = policy ? json_copy(policy) : NULL;
	while (*last)
		last = &(*last)->next;
	*last = change;
	if (session->limits_changes == change)
		change_begin(change);
	return 0;
}
