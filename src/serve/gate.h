/*
 * The gate: what every request meets before it is routed, whatever its method and path.
 *
 *	Host    of TCP: one of those that this daemon is reached by, to the byte
 *	Origin  none (no browser), or one that is allowed; `null` never
 *	Sec-Fetch-Site  none, same-origin, or a browser has sent it for another site
 *	token   of TCP: needed; of the Unix socket: not needed, but checked when it is there
 *
 * Why so: a page of any site can make its browser send requests to 127.0.0.1, with any name that
 * an attacker's DNS leads there (rebinding), also as WebSocket, which no same-origin rule stops.
 *
 * Pure but for the tokens.
 */
#ifndef FH_SERVE_GATE_H
#define FH_SERVE_GATE_H

#include "serve/head.h"
#include "serve/token.h"

enum { GATE_NAMES_MAX = 64 };

struct gate {
	char *hosts[GATE_NAMES_MAX];   /* "127.0.0.1:8000"; owned */
	char *origins[GATE_NAMES_MAX]; /* "http://127.0.0.1:8000"; owned */
	bool foreign[GATE_NAMES_MAX];  /* origins[i] is another site, for which CORS is spoken */
	size_t host_count, origin_count;
	struct tokens *tokens; /* borrowed */
	double failures;       /* allowance for wrong tokens */
	int64_t failures_us;
	double rate_max; /* requests a second of a token */
};

void gate_init(struct gate *gate, struct tokens *tokens, double rate_max);
void gate_release(struct gate *gate);

/* ERR_USAGE when it has another form than host[:port], or scheme://host[:port]. */
int gate_add_host(struct gate *gate, const char *host, struct err *err);
int gate_add_origin(struct gate *gate, const char *origin, bool foreign, struct err *err);

/* Who asks, and what that one may. */
struct principal {
	char id[32]; /* "unix", or the token's */
	unsigned scopes;
	char prefix[TOKEN_NAME_BYTES_MAX + 1];
	uint64_t sessions_max; /* 0: as the daemon has it */
};

struct verdict {
	int status; /* 0: pass; 204: a preflight to be answered */
	const char *detail;
	char cors_origin[256]; /* "": no CORS fields in the answer */
	struct principal who;
};

/* `local`: it came over the Unix socket. `now_us`: monotonic. */
void gate_check(struct gate *gate, const struct head *head, bool local, int64_t now_us,
		struct verdict *verdict);

/* Whether the session of this name (NULL: none) is one that the principal may touch. */
bool principal_sees(const struct principal *who, const char *name);

#endif
