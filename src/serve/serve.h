/*
 * The daemon, `fumehood serve`: from HTTP to sessions and back. It holds no session state: it may
 * be killed at any moment, and what runs goes on.
 *
 *	http  ─ a request ─> gate ─> routes ─> an exchange ─> sessions / a stream ─> keeper
 *
 * Options are checked by who makes them (cli/serve.c); the loop belongs to the daemon.
 */
#ifndef FH_SERVE_SERVE_H
#define FH_SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "serve/http.h"

struct slm_options;

enum { SERVE_LISTEN_MAX = 4 };

struct serve_options {
	const char *listen[SERVE_LISTEN_MAX]; /* "127.0.0.1:8000", "[::1]:0" */
	size_t listen_count;
	bool behind_proxy; /* other addresses than those of the loopback may be listened on */
	const char *const *hosts; /* names by which a proxy reaches us */
	size_t host_count;
	const char *const *origins; /* whose pages may use us */
	size_t origin_count;
	uint64_t sessions_max; /* that run at once, of all, and of a token that has no own number */
	uint64_t connections_max;
	uint64_t streams_max;  /* of one token, or of the Unix socket */
	double rate_max;       /* requests a second of a token */
	double idle_s;         /* a session that nobody uses for so long is stopped; 0: never */
	const char *redis;     /* URL; NULL: none */
	uint64_t redis_stream; /* events kept in a stream of its own for each session; 0: none */
	bool original_events;
	uint64_t asks_max;           /* of a model, that run at once */
	const char *const *ask_urls;    /* whose endpoints a token may ask, too */
	size_t ask_url_count;
	const struct slm_options *slm;  /* the original's service beside it; NULL: none */
	struct http_times times;
	/* Says one line, without LF, to whoever runs the daemon. */
	void (*say)(void *data, const char *text);
	void *data;
};

struct serve;

/* Listens and looks for running sessions. The caller owns the daemon. */
struct serve *serve_new(const struct serve_options *options, struct err *err);

/* Serves until a signal ends it (SIGTERM, SIGINT; SIGHUP reads tokens and sessions anew). The
 * signals must be blocked; `signal_fd` reads them (signalfd(2)). */
int serve_run(struct serve *serve, int signal_fd, struct err *err);
void serve_free(struct serve *serve);

/* Whether an address may be listened on as it is ("127.0.0.1:PORT", "[::1]:PORT") or only behind a
 * proxy. Fills *address. ERR_USAGE says in words what is wrong. Pure. */
int serve_read_address(const char *text, bool behind_proxy, struct sockaddr_storage *address,
		       struct err *err);

#endif
