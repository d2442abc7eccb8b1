/*
 * The proxy's life beside the box's; see net.h.
 *
 * A proxy that is closed lets go of its memory only when the loop has run its last callbacks, so
 * there may be more than one for a moment; only the newest is asked anything.
 */
#include "keeper/net.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/home.h"
#include "keeper/net_internal.h"
#include "keeper/session.h"
#include "keeper/spawner.h"
#include "sandbox/proxy_variables.h"

enum {
	DESCRIPTORS_OWN = 128,      /* what the keeper needs for everything else */
	DESCRIPTORS_CONNECTION = 2, /* one to the guest, one to the host */
	SHOWN_RULES_MAX = 12,
};

/* --- rules -------------------------------------------------------------------------------------
 */

static void show_rules(struct net *net, const struct hosts *hosts)
{
	size_t shown = hosts->count < SHOWN_RULES_MAX ? hosts->count : SHOWN_RULES_MAX;

	buf_truncate(&net->allowed, 0);
	for (size_t i = 0; i < shown; i++) {
		if (i > 0)
			buf_append_string(&net->allowed, ", ");
		hosts_write_rule(&hosts->rules[i], &net->allowed);
	}
	if (shown < hosts->count)
		buf_printf(&net->allowed, " and %zu more", hosts->count - shown);
}

/* --- the listener ------------------------------------------------------------------------------
 */

/* Room for all connections, as far as this process may make it; how many there is room for. */
static unsigned make_room(void)
{
	const rlim_t wanted = DESCRIPTORS_OWN + DESCRIPTORS_CONNECTION * PROXY_CONNECTIONS_MAX;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= wanted)
		return PROXY_CONNECTIONS_MAX;
	if (limit.rlim_cur <= DESCRIPTORS_OWN + DESCRIPTORS_CONNECTION)
		return 1;
	return (unsigned)(limit.rlim_cur - DESCRIPTORS_OWN) / DESCRIPTORS_CONNECTION;
}

static struct net *net_of(struct session *session)
{
	struct net *net = session->home->net;

	if (net)
		return net;
	net = session->home->net = mem_zalloc(sizeof(*net));
	net->home = session->home;
	uv_timer_init(session->loop, &net->timer);
	net->timer.data = net;
	return net;
}

/* Each is told its variables before its next cell. */
static void tell_interpreters(struct home *home)
{
	for (struct session *s = home->sessions; s; s = s->next_in_home)
		s->environment_due = true;
}

static int open_proxy(struct session *session, struct hosts *hosts, struct err *err)
{
	struct net *net = net_of(session);
	struct proxy_params params = {
		.loop = session->loop,
		.hosts = hosts,
		.connections_max = make_room(),
		.decided = net_decided,
		.ended = net_ended,
		.data = net,
		.dialer = &SPAWNER_DIALER,
		.dialer_data = session->spawner,
	};
	cleanup_fd int listener = -1;

	if (box_tier(session->box) != TIER_FULL)
		return err_set(
			err, ERR_UNSUPPORTED,
			"hosts can only be allowed in the tier \"full\": below it there is no "
			"network of the session's own; leave --allow-net out");
	net->port = 0;
	listener = spawner_listen(session->spawner, &net->port, err);
	if (listener < 0 || spawner_rules(session->spawner, hosts, err) != 0)
		return -1;
	params.listener = listener;
	show_rules(net, hosts);
	net->proxy = proxy_new(&params, err);
	if (!net->proxy)
		return -1;
	fd_take(&listener);
	tell_interpreters(session->home);
	return 0;
}

int net_box_started(struct session *session, struct err *err)
{
	cleanup_hosts struct hosts hosts = HOSTS_INIT;

	if (hosts_add_all(&hosts, session->policy.net, err) != 0)
		return -1;
	return hosts.count > 0 ? open_proxy(session, &hosts, err) : 0;
}

static void proxy_closed(void *data)
{
	struct net *net = data;

	net->closing--;
}

void net_box_ended(struct session *session)
{
	struct net *net = session->home->net;

	if (!net || !net->proxy)
		return;
	net->closing++;
	proxy_close(net->proxy, proxy_closed, net);
	net->proxy = NULL;
	net_tell_rest(net);
}

int net_set_rules(struct session *session, const char *const *rules, struct err *err)
{
	cleanup_hosts struct hosts hosts = HOSTS_INIT;
	struct net *net = session->home->net;

	if (hosts_add_all(&hosts, rules, err) != 0)
		return -1;
	if (net && net->proxy) {
		if (spawner_rules(session->spawner, &hosts, err) != 0)
			return -1;
		show_rules(net, &hosts);
		proxy_set_rules(net->proxy, &hosts);
		tell_interpreters(session->home); /* NO_PROXY */
		return 0;
	}
	if (hosts.count == 0 || !session->box) /* the next box begins with them */
		return 0;
	return open_proxy(session, &hosts, err);
}

/* --- cells -------------------------------------------------------------------------------------
 */

void net_cell_starts(struct session *session)
{
	if (!session->home->net)
		return;
	net_tell_rest(session->home->net);
	net_forget_rows(session->home->net);
}

void net_cell_ends(struct session *session)
{
	if (session->home->net)
		net_tell_rest(session->home->net);
}

/* --- variables ---------------------------------------------------------------------------------
 */

static void put_variable(void *data, const char *name, const char *value)
{
	json_set_string(data, name, value);
}

void net_add_variables(const struct session *session, struct json *variables)
{
	const struct net *net = session->home->net;

	if (net && net->proxy)
		proxy_variables(proxy_rules(net->proxy), net->port, put_variable, variables);
}

bool net_is_on(const struct session *session)
{
	return session->home->net && session->home->net->proxy;
}

bool net_is_closing(const struct session *session)
{
	return session->home->net && session->home->net->closing > 0;
}

void net_free(struct net *net)
{
	if (!net)
		return;
	net_forget_rows(net);
	buf_release(&net->allowed);
	free(net);
}
