/*
 * What net.c and net_events.c share: the network of one box.
 */
#ifndef FH_KEEPER_NET_INTERNAL_H
#define FH_KEEPER_NET_INTERNAL_H

#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "keeper/net.h"
#include "sandbox/proxy.h"

/* A refusal that has been told, and how often it has happened since. */
struct net_row {
	char *host;
	uint16_t port;
	enum refusal refusal;
	uint64_t count;
};

struct net {
	struct home *home;   /* whose network it is */
	struct proxy *proxy; /* of the present box; NULL: none */
	uint16_t port;       /* where it listens in the box */
	unsigned closing;    /* proxies that have not let go of everything yet */
	struct buf allowed;  /* the rules, for people: "pypi.org, *.example.org" */

	/* of the running cell, or since the last one */
	struct net_row rows[NET_EVENTS_MAX];
	unsigned row_count;
	uint64_t refused_more[REFUSAL_COUNT]; /* by others than those in rows */
	unsigned allowed_told, ended_told;
	uint64_t allowed_more, ended_more, bytes_in_more, bytes_out_more;
	uv_timer_t timer; /* runs while there is something to tell and no cell */
};

/* net_events.c: what proxy.h calls; data is the net. */
void net_decided(void *data, const struct proxy_decision *decision);
void net_ended(void *data, const struct proxy_ending *ending);

/* Tells what is folded. */
void net_tell_rest(struct net *net);
/* A new count. Nothing may be folded. */
void net_forget_rows(struct net *net);

#endif
