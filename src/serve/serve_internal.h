/*
 * The inside of the daemon, for the files of this folder.
 */
#ifndef FH_SERVE_SERVE_INTERNAL_H
#define FH_SERVE_SERVE_INTERNAL_H

#include <uv.h>

#include "serve/audit.h"
#include "serve/gate.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/original.h"
#include "serve/publish.h"
#include "serve/serve.h"
#include "serve/sessions.h"
#include "serve/token.h"

struct stream;
struct channel;
struct asking;

struct serve {
	struct serve_options options;
	uv_loop_t loop;
	struct http_server *http;
	struct tokens tokens;
	struct gate gate;
	struct sessions *sessions;
	struct metrics metrics;
	struct audit audit;
	struct publisher *publisher; /* NULL: none */
	struct original *original;   /* NULL: not wanted */
	struct stream *streams;      /* all, for their pings */
	struct channel *channels;
	struct asking *askings;
	struct slm *slm; /* NULL: not wanted */
	uint64_t starting; /* sessions that are being started */
	char *runtime;     /* folder of the sockets */
	int runtime_fd;
	uv_timer_t tick;
	uv_poll_t signals;
	int signal_fd;
	bool ready, ending;
	int64_t ending_us;
	int64_t adopted_us;
	bool owns_socket; /* api.sock was made here, and is removed here */
	bool owns_note;   /* api.json likewise */
};

struct exchange;

/* Whether one more session may be started by this one; else answers, and returns -1. */
int serve_has_room(struct exchange *exchange);

/* How many streams this one has open. */
uint64_t serve_streams_of(const struct serve *serve, const char *who);

#endif
