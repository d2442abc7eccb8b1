/*
 * The `network` events, and the folding of those that are alike; see net.h.
 *
 * The first refusal of a host is told before its program hears of it, so it stands in the record
 * before what the program says about it.
 */
#include <string.h>

#include "base/mem.h"
#include "keeper/home.h"
#include "keeper/net_internal.h"
#include "keeper/session.h"

enum { TELL_MS = 1000 };

static void tell(const struct net *net, struct json *body)
{
	home_tell_network(net->home, body);
}

static void timer_fired(uv_timer_t *timer)
{
	net_tell_rest(timer->data);
}

static bool cell_runs(const struct home *home)
{
	const struct session *session = home->sessions;

	while (session && !session->running)
		session = session->next_in_home;
	return session != NULL;
}

/* Something has been folded. A running cell's end will tell it. */
static void tell_later(struct net *net)
{
	if (!cell_runs(net->home) && !uv_is_active((uv_handle_t *)&net->timer))
		uv_timer_start(&net->timer, timer_fired, TELL_MS, 0);
}

/* --- refusals ----------------------------------------------------------------------------------
 */

/* Those that `+private` behind a rule opens (address.h). */
static bool is_for_private(enum refusal refusal)
{
	static const enum refusal OPENED[] = {
		REFUSAL_ADDRESS_LOOPBACK,  REFUSAL_ADDRESS_PRIVATE,       REFUSAL_ADDRESS_SHARED,
		REFUSAL_ADDRESS_BENCHMARK, REFUSAL_ADDRESS_DOCUMENTATION, REFUSAL_ADDRESS_OWN,
	};

	for (size_t i = 0; i < sizeof(OPENED) / sizeof(*OPENED); i++) {
		if (OPENED[i] == refusal)
			return true;
	}
	return false;
}

static bool is_for_rules(enum refusal refusal)
{
	return refusal == REFUSAL_NOT_ALLOWED || refusal == REFUSAL_PORT_NOT_ALLOWED ||
	       refusal == REFUSAL_RULES_CHANGED;
}

/* What a person or a model can make use of: the host, what is the matter, and what would help. */
static void write_message(const struct net *net, const char *host, uint16_t port,
			  enum refusal refusal, struct buf *out)
{
	buf_append_string(out, *host ? host : "a host without a name");
	if (port)
		buf_printf(out, ":%u", port);
	buf_append_char(out, ' ');
	buf_append_string(out, refusal_text(refusal));
	if (is_for_rules(refusal))
		buf_printf(out, "; allowed: %s",
			   net->allowed.len ? buf_bytes(&net->allowed) : "no host");
	else if (is_for_private(refusal))
		buf_append_string(out, "; only a rule that ends with +private leads there");
}

/* `count` 0: one, told now. */
static struct json *refused_body(const struct net *net, const char *host, uint16_t port,
				 enum refusal refusal, uint64_t count)
{
	cleanup_buf struct buf message = BUF_INIT;
	struct json *body = json_new_object();

	json_set(body, "allowed", json_new_bool(false));
	if (host) {
		json_set_string(body, "host", host);
		json_set_int(body, "port", port);
	}
	json_set_string(body, "reason", refusal_name(refusal));
	if (count) {
		json_set_int(body, "count", (int64_t)count);
		return body;
	}
	write_message(net, host, port, refusal, &message);
	json_set_string(body, "message", buf_bytes(&message));
	return body;
}

static struct net_row *find_row(struct net *net, const struct proxy_decision *decision)
{
	for (unsigned i = 0; i < net->row_count; i++) {
		struct net_row *row = &net->rows[i];

		if (row->refusal == decision->refusal && row->port == decision->port &&
		    strcmp(row->host, decision->host) == 0)
			return row;
	}
	return NULL;
}

static void refused(struct net *net, const struct proxy_decision *decision)
{
	struct net_row *row = find_row(net, decision);
	struct json *body;

	if (row || net->row_count == NET_EVENTS_MAX) {
		++*(row ? &row->count : &net->refused_more[decision->refusal]);
		tell_later(net);
		return;
	}
	row = &net->rows[net->row_count++];
	*row = (struct net_row){.host = mem_string(decision->host),
				.port = decision->port,
				.refusal = decision->refusal};
	body = refused_body(net, decision->host, decision->port, decision->refusal, 0);
	json_set_string(body, "kind", proxy_kind_name(decision->kind));
	if (*decision->address)
		json_set_string(body, "address", decision->address);
	tell(net, body);
}

/* --- connections -------------------------------------------------------------------------------
 */

void net_decided(void *data, const struct proxy_decision *decision)
{
	struct net *net = data;
	struct json *body;

	if (decision->refusal != REFUSAL_NONE) {
		refused(net, decision);
		return;
	}
	if (net->allowed_told == NET_EVENTS_MAX) {
		net->allowed_more++;
		tell_later(net);
		return;
	}
	net->allowed_told++;
	body = json_new_object();
	json_set(body, "allowed", json_new_bool(true));
	json_set_int(body, "connection", (int64_t)decision->id);
	json_set_string(body, "host", decision->host);
	json_set_int(body, "port", decision->port);
	json_set_string(body, "kind", proxy_kind_name(decision->kind));
	json_set_string(body, "address", decision->address);
	tell(net, body);
}

void net_ended(void *data, const struct proxy_ending *ending)
{
	struct net *net = data;
	struct json *body;

	if (net->ended_told == NET_EVENTS_MAX) {
		net->ended_more++;
		net->bytes_in_more += ending->bytes_in;
		net->bytes_out_more += ending->bytes_out;
		tell_later(net);
		return;
	}
	net->ended_told++;
	body = json_new_object();
	json_set(body, "ended", json_new_bool(true));
	json_set_int(body, "connection", (int64_t)ending->id);
	json_set_string(body, "host", ending->host);
	json_set_int(body, "port", ending->port);
	if (ending->refusal != REFUSAL_NONE)
		json_set_string(body, "reason", refusal_name(ending->refusal));
	json_set_int(body, "bytes_in", (int64_t)ending->bytes_in);
	json_set_int(body, "bytes_out", (int64_t)ending->bytes_out);
	json_set_int(body, "duration_us", ending->duration_us);
	tell(net, body);
}

/* --- the rest ----------------------------------------------------------------------------------
 */

static void tell_refused(struct net *net)
{
	for (unsigned i = 0; i < net->row_count; i++) {
		struct net_row *row = &net->rows[i];

		if (row->count)
			tell(net,
			     refused_body(net, row->host, row->port, row->refusal, row->count));
		row->count = 0;
	}
	for (enum refusal refusal = 0; refusal < REFUSAL_COUNT; refusal++) {
		uint64_t count = net->refused_more[refusal];

		if (count)
			tell(net, refused_body(net, NULL, 0, refusal, count));
		net->refused_more[refusal] = 0;
	}
}

void net_tell_rest(struct net *net)
{
	struct json *body;

	uv_timer_stop(&net->timer);
	tell_refused(net);
	if (net->allowed_more) {
		body = json_new_object();
		json_set(body, "allowed", json_new_bool(true));
		json_set_int(body, "count", (int64_t)net->allowed_more);
		tell(net, body);
	}
	if (net->ended_more) {
		body = json_new_object();
		json_set(body, "ended", json_new_bool(true));
		json_set_int(body, "count", (int64_t)net->ended_more);
		json_set_int(body, "bytes_in", (int64_t)net->bytes_in_more);
		json_set_int(body, "bytes_out", (int64_t)net->bytes_out_more);
		tell(net, body);
	}
	net->allowed_more = net->ended_more = net->bytes_in_more = net->bytes_out_more = 0;
}

void net_forget_rows(struct net *net)
{
	for (unsigned i = 0; i < net->row_count; i++)
		free(net->rows[i].host);
	net->row_count = 0;
	net->allowed_told = net->ended_told = 0;
}
