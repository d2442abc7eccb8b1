/*
 * The op `policy`: the policy in force, and changing it while the session lives.
 *
 * What is a limit goes the way of `limits` (limits_change.c has the order of things), hosts go to
 * the proxy. The rest is built into the box and cannot change: a session that may suddenly read
 * more than it was started with should be another session. Variables could be told, but code that
 * has read one is not told anew.
 */
#include <string.h>

#include "base/mem.h"
#include "keeper/home.h"
#include "keeper/net.h"
#include "keeper/ops.h"

struct json *session_policy_json(const struct session *session)
{
	struct policy policy = session->policy;
	struct limits limits = session->config.limits;
	cleanup_json struct json *in_force = NULL;
	struct json *told;

	limits_take_box(&limits, &session->box_limits, true);
	in_force = limits_json(&limits);
	/* Without the paths of the Python environment, which nobody has asked for. */
	policy.read = (const char *const *)session->config.policy.lists[POLICY_READ];
	told = policy_describe(&policy);
	for (int i = 0; i < POLICY_MEMBER_COUNT; i++) {
		struct json *limit = json_get(in_force, POLICY_INFO[i].key);

		if (limit)
			json_set(told, POLICY_INFO[i].key, json_keep(limit));
	}
	return told;
}

void session_tell_policy(struct session *session)
{
	struct json *body = json_new_object();

	json_set_string(body, "state", session_state_name(session));
	json_set(body, "policy", session_policy_json(session));
	record_body(session->record, EVENT_STATE, NULL, body);
}

/* --- changing ------------------------------------------------------------------------------- */

struct sorting {
	struct json *limits, *rest;
	struct err *err;
};

static int sort_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct sorting *sorting = data;
	enum policy_member member = policy_member_of(key);

	if (strlen(key) != key_len || member == POLICY_MEMBER_COUNT)
		return policy_unknown(key, "policy", sorting->err);
	if (limits_has(key))
		json_set(sorting->limits, key, json_keep(value));
	else if (member == POLICY_NET)
		json_set(sorting->rest, key, json_keep(value));
	else
		return err_set(sorting->err, ERR_UNSUPPORTED,
			       "\"%s\" cannot change while the session lives: start another "
			       "session with it",
			       key);
	return 0;
}

int session_check_policy(const struct session *session, const struct json *policy, struct err *err)
{
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT;

	if (policy_wish_read(&wish, policy, "policy", err) != 0)
		return -1;
	if (json_length(policy) > 0 && home_check_alone(session, "its policy", err) != 0)
		return -1;
	if (json_get(policy, "net") && session->box && box_tier(session->box) != TIER_FULL)
		return err_set(err, ERR_UNSUPPORTED,
			       "hosts can only be allowed in the tier \"full\"");
	return 0;
}

int session_take_policy(struct session *session, const struct json *policy, struct err *err)
{
	struct policy_wish wish = POLICY_WISH_INIT;

	if (json_length(policy) == 0)
		return 0;
	if (policy_wish_read(&wish, policy, "policy", err) != 0 ||
	    net_set_rules(session, (const char *const *)wish.lists[POLICY_NET], err) != 0) {
		policy_wish_release(&wish);
		return err_wrap(err, "written, but not in force before the next restart");
	}
	policy_wish_merge(&session->config.policy, &wish);
	session->policy.net = (const char *const *)session->config.policy.lists[POLICY_NET];
	session_tell_policy(session);
	return 0;
}

int op_policy(const struct call *call, struct err *err)
{
	const struct json *set = json_get(call->json, "set");
	cleanup_json struct json *limits = json_new_object(), *rest = json_new_object();
	struct sorting sorting = {.limits = limits, .rest = rest, .err = err};

	if (json_length(set) == 0) {
		struct json *body = json_new_object();

		json_set(body, "policy", session_policy_json(call->session));
		call_reply(call, body);
		return 0;
	}
	if (json_each(set, sort_member, &sorting) != 0)
		return -1;
	return limits_change_order(call, limits, rest, err);
}
