/*
 * The proxy: the only way out of a session, and only to the hosts that its rules name.
 *
 * It runs in the keeper, on the keeper's loop, and accepts on a listening socket that it is given:
 * a TCP socket made inside the box's network namespace (netns.h), or a Unix socket. The box has no
 * other network, so a program that ignores HTTP_PROXY and its like reaches nothing.
 *
 * One port speaks HTTP (CONNECT, and plain requests for http://) and SOCKS 5; the first byte tells.
 * A request is read by a pure parser (proxy_http.h, proxy_socks.h), its host is held against the
 * rules (hosts.h), the name is resolved once on a worker thread, each address is checked
 * (address.h) and exactly a checked address is dialled, so that a name cannot be one thing when it
 * is checked and another when it is used. Then bytes are carried both ways, with back-pressure and
 * half-close.
 *
 * Known limits, the same for every proxy of this kind: what an allowed host passes on (an upload to
 * an allowed site, a request for another site behind the same front) is not seen, because the
 * content of a tunnel is not looked at.
 */
#ifndef FH_SANDBOX_PROXY_H
#define FH_SANDBOX_PROXY_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "sandbox/hosts.h"
#include "sandbox/refusal.h"

enum {
	PROXY_CONNECTIONS_MAX = 256,    /* at once, handshakes included; the next is told 503 */
	PROXY_HANDSHAKE_MS_MAX = 10000, /* for the whole request to arrive */
	PROXY_CONNECT_MS_MAX = 10000,   /* for resolving and connecting together */
	PROXY_IDLE_MS_MAX = 600000,     /* without a byte either way */
};

enum proxy_kind { PROXY_UNKNOWN, PROXY_CONNECT, PROXY_HTTP, PROXY_SOCKS };

/* The name in events: "unknown", "connect", "http", "socks". */
const char *proxy_kind_name(enum proxy_kind kind);

/* Each connection whose request was read, or could not be, is decided once, before a byte is
 * carried to its host. */
struct proxy_decision {
	uint64_t id; /* of the connection, from 1 */
	enum proxy_kind kind;
	const char *host; /* as it was asked for, escaped for a terminal, at most 300 bytes; may be
			     empty */
	uint16_t port;    /* 0: not known */
	enum refusal refusal; /* REFUSAL_NONE: allowed */
	const char *address;  /* the one that is dialled, or that was refused; "" if none was */
};

/* Each connection that was allowed ends once. */
struct proxy_ending {
	uint64_t id;
	const char *host;
	uint16_t port;
	const char *address;  /* the one dialled last */
	enum refusal refusal; /* REFUSAL_NONE: its two sides have closed it; or why not */
	uint64_t bytes_in;    /* from the host */
	uint64_t bytes_out;   /* to the host */
	int64_t duration_us;  /* since the decision */
};

struct proxy_counters {
	uint64_t accepted; /* connections, `full` included */
	uint64_t allowed;
	uint64_t refused; /* decided against; `full` not included */
	uint64_t full;    /* told 503 because there were too many */
	uint64_t bytes_in, bytes_out;
	unsigned open; /* now */
};

/*
 * How hosts are reached where this process may not do it itself: somebody else looks names up,
 * checks addresses (against the rules as well) and makes the sockets.
 */
struct proxy_dialer {
	/* Whether the address may be dialled for this target. */
	enum refusal (*check)(void *data, const struct hosts_target *target,
			      const struct sockaddr *address);
	/* The same, and *fd becomes a socket that connects, which the caller owns.
	 * REFUSAL_UNREACHABLE when that failed at once. */
	enum refusal (*dial)(void *data, const struct hosts_target *target,
			     const struct sockaddr *address, int *fd);
	/* Begins to look the target's name up: a descriptor, owned by the caller, that can be read
	 * when that is done; -1: it cannot. */
	int (*look_up)(void *data, const struct hosts_target *target);
	/* Reads from it what was found: at most `max` addresses with the target's port. */
	size_t (*read_found)(int fd, struct sockaddr_storage *addresses, size_t max);
};

struct proxy_params {
	uv_loop_t *loop;
	int listener;        /* a listening stream socket; the proxy takes it over */
	struct hosts *hosts; /* moved out of; NULL: nothing is allowed */
	/* 0: the constants above */
	unsigned connections_max;
	unsigned handshake_ms_max, connect_ms_max, idle_ms_max;
	const struct proxy_dialer *dialer; /* NULL: the proxy reaches them itself */
	void *dialer_data;
	/* Called from the loop; must not call the proxy. What they are given is borrowed. May be
	 * NULL. */
	void (*decided)(void *data, const struct proxy_decision *decision);
	void (*ended)(void *data, const struct proxy_ending *ending);
	void *data;
};

struct proxy;

/* Begins to accept. On failure the listener stays the caller's. */
struct proxy *proxy_new(const struct proxy_params *params, struct err *err);

/* From now on these rules hold (moved out of `hosts`). Connections that they do not allow are
 * closed at once. */
void proxy_set_rules(struct proxy *proxy, struct hosts *hosts);

/* Borrowed. */
const struct hosts *proxy_rules(const struct proxy *proxy);
const struct proxy_counters *proxy_counters(const struct proxy *proxy);

/* Stops accepting and closes every connection (each with its ending). The memory is freed when the
 * loop has run the last callback, `closed` (may be NULL); a name that is just being looked up can
 * delay that by the resolver's own time limit. */
void proxy_close(struct proxy *proxy, void (*closed)(void *data), void *data);

#endif
