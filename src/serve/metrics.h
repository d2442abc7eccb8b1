/*
 * What the daemon counts, and its text for Prometheus (text exposition format 0.0.4).
 *
 * Counters begin at 0 with the daemon. Labels have few values, all of our own making: a path or a
 * session's name never becomes one.
 */
#ifndef FH_SERVE_METRICS_H
#define FH_SERVE_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "serve/scan.h"

struct sessions;

enum { METRICS_BUCKETS = 14 };

struct histogram {
	uint64_t buckets[METRICS_BUCKETS]; /* not cumulative */
	uint64_t beyond, count;
	double sum_s;
};

enum metrics_cell {
	METRICS_CELL_OK,
	METRICS_CELL_ERROR,
	METRICS_CELL_INTERRUPTED,
	METRICS_CELL_TIMEOUT,
	METRICS_CELL_DIED,
	METRICS_CELL_CANCELLED,
	METRICS_CELLS
};

enum metrics_ask {
	METRICS_ASK_SUCCESS,
	METRICS_ASK_FAILURE,   /* it has a result, and that is no success */
	METRICS_ASK_CANCELLED, /* its client has gone, or the daemon has ended */
	METRICS_ASK_ERROR,     /* no model, no server, a fault of ours */
	METRICS_ASKS
};

struct metrics {
	uint64_t requests[600]; /* by status */
	uint64_t cells[METRICS_CELLS];
	uint64_t asks[METRICS_ASKS];
	uint64_t events, event_bytes;
	uint64_t limit_hits[8];
	uint64_t sandbox_failures, start_failures, sessions_started, sessions_ended,
		sessions_culled;
	uint64_t warnings_sync;
	uint64_t auth_failures, audit_failures;
	uint64_t ws_protocol_errors;
	uint64_t redis_published, redis_dropped;
	struct histogram request_s, cell_s, sync_s, start_s;
};

void histogram_add(struct histogram *histogram, double seconds);

/* Counts what an event tells. */
void metrics_event(struct metrics *metrics, const struct scan *scan, const char *line, size_t len);

/* Appends the text. */
void metrics_write(struct buf *out, const struct metrics *metrics, struct sessions *sessions,
		   size_t connections, size_t streams, size_t asks);

#endif
