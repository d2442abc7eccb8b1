/*
 * The session's network: a proxy of this process for the hosts that the policy names, and what the
 * session is told of it.
 *
 * A box has no network. When its policy has rules, a listener is made inside its network namespace
 * (netns.h) and the keeper accepts on it; the interpreter is told by the usual variables
 * (HTTP_PROXY and its like). Another box has another listener. Rules that come to a session without
 * any make it then. Each decision is a `network` event; doc/protocol.md has its fields.
 *
 * A guest must not be able to flood the record: of what is the same the first is told at once and
 * the rest as a number, at the cell's end (or each second, when none runs); and of each cell at
 * most NET_EVENTS_MAX refusals, connections and endings are told one by one.
 */
#ifndef FH_KEEPER_NET_H
#define FH_KEEPER_NET_H

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct net;
struct session;

enum { NET_EVENTS_MAX = 256 };

/* The box has just been built: listens in it if the session's policy has rules. ERR_UNSUPPORTED
 * when it has rules but no network namespace (tiers `none` and `degraded`), ERR_INVALID for a rule
 * that cannot be read, ERR_SANDBOX or ERR_IO when there can be no listener. */
int net_box_started(struct session *session, struct err *err);

/* The box is about to go: closes all connections. What is folded is told. */
void net_box_ended(struct session *session);

/* Puts other rules in force (NULL-terminated, borrowed for the call) for a session that lives:
 * connections that they do not allow are closed. The caller then makes policy.net agree. On failure
 * (as above) nothing has changed. */
int net_set_rules(struct session *session, const char *const *rules, struct err *err);

/* A cell starts, or ends: its count begins; what was folded in it is told. */
void net_cell_starts(struct session *session);
void net_cell_ends(struct session *session);

/* Adds the variables, name -> string, that lead programs to the proxy. None when there is none. */
void net_add_variables(const struct session *session, struct json *variables);

/* Whether the session has, or had, hosts it may reach. */
bool net_is_on(const struct session *session);

/* Whether a proxy has not let go of everything yet: a name that is being looked up holds a thread,
 * for which an orderly exit(3) would wait. */
bool net_is_closing(const struct session *session);

/* When the loop has ended. NULL is fine. */
void net_free(struct net *net);

#endif
