/*
 * Publishing events to Redis: to the channel fumehood:<session> and, if asked, to a capped stream
 * of the same name.
 *
 * Redis is beside the way: while it is not there, events are counted and passed over (each is in
 * its journal), and the connection is tried again after 0.1 s, 0.2 s ... 30 s. A Redis that takes
 * nothing is given at most 16 MiB.
 */
#ifndef FH_SERVE_PUBLISH_H
#define FH_SERVE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "serve/metrics.h"
#include "serve/sessions.h"

struct publisher;

struct publisher_options {
	const char *url;     /* redis://[:password@]host[:port][/db], or unix:///path */
	uint64_t stream_max; /* events kept in the stream of a session; 0: no streams */
};

/* ERR_USAGE when the URL has another form. */
struct publisher *publisher_new(uv_loop_t *loop, const struct publisher_options *options,
				struct metrics *metrics, struct err *err);
void publisher_event(struct publisher *publisher, const struct live *live, const struct scan *scan,
		     const char *line, size_t len);

/* Any other message, to any channel. */
void publisher_send(struct publisher *publisher, const char *channel, const char *bytes,
		    size_t len);

/* Closes the connection; publisher_free() once the loop has ended. */
void publisher_close(struct publisher *publisher);
void publisher_free(struct publisher *publisher);

#endif
