/*
 * Counting, and the text of it; see metrics.h.
 */
#include "serve/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "serve/sessions.h"

static const double BOUNDS_S[METRICS_BUCKETS] = {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
						 0.1,     0.25,   0.5,   1,      5,     30,   300};

static const char *const CELLS[METRICS_CELLS] = {"ok",      "error", "interrupted",
						 "timeout", "died",  "cancelled"};

static const char *const ASKS[METRICS_ASKS] = {"success", "failure", "cancelled", "error"};

static const char *const LIMITS[8] = {"memory_bytes", "wall_s",       "cpu_s",     "disk_bytes",
				      "disk_inodes",  "output_bytes", "processes", "other"};

void histogram_add(struct histogram *histogram, double seconds)
{
	size_t i = 0;

	while (i < METRICS_BUCKETS && seconds > BOUNDS_S[i])
		i++;
	if (i < METRICS_BUCKETS)
		histogram->buckets[i]++;
	else
		histogram->beyond++;
	histogram->count++;
	histogram->sum_s += seconds;
}

static void count_limit(struct metrics *metrics, const char *name)
{
	size_t i = 0;

	while (i < 7 && strcmp(LIMITS[i], name) != 0)
		i++;
	metrics->limit_hits[i]++;
}

static void count_finished(struct metrics *metrics, const char *line, size_t len)
{
	cleanup_json struct json *event = json_parse(line, len, &JSON_LIMITS, NULL);
	const char *status = json_get_string(event, "status");
	const char *limit = json_get_string(json_get(event, "limit"), "name");
	int64_t sync_us = json_get_int(json_get(event, "usage"), "sync_us", 0);

	for (size_t i = 0; status && i < METRICS_CELLS; i++)
		metrics->cells[i] += strcmp(CELLS[i], status) == 0;
	if (limit)
		count_limit(metrics, limit);
	histogram_add(&metrics->cell_s, (double)json_get_int(event, "duration_us", 0) / 1e6);
	if (sync_us > 0)
		histogram_add(&metrics->sync_s, (double)sync_us / 1e6);
}

void metrics_event(struct metrics *metrics, const struct scan *scan, const char *line, size_t len)
{
	metrics->events++;
	metrics->event_bytes += len;
	if (slice_is(&scan->type, "finished"))
		count_finished(metrics, line, len);
	else if (slice_is(&scan->type, "truncated"))
		count_limit(metrics, "output_bytes");
	else if (slice_is(&scan->type, "warning") && memmem(line, len, "\"code\":\"sync\"", 13))
		metrics->warnings_sync++;
}

/* --- the text --------------------------------------------------------------------------------- */

static void head(struct buf *out, const char *name, const char *kind, const char *about)
{
	buf_printf(out, "# HELP fumehood_%s %s\n# TYPE fumehood_%s %s\n", name, about, name, kind);
}

static void counter(struct buf *out, const char *name, const char *about, uint64_t value)
{
	head(out, name, "counter", about);
	buf_printf(out, "fumehood_%s %" PRIu64 "\n", name, value);
}

static void gauge(struct buf *out, const char *name, const char *about, uint64_t value)
{
	head(out, name, "gauge", about);
	buf_printf(out, "fumehood_%s %" PRIu64 "\n", name, value);
}

static void put_histogram(struct buf *out, const char *name, const char *about,
			  const struct histogram *histogram)
{
	uint64_t sum = 0;

	head(out, name, "histogram", about);
	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		sum += histogram->buckets[i];
		buf_printf(out, "fumehood_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, BOUNDS_S[i],
			   sum);
	}
	buf_printf(out,
		   "fumehood_%s_bucket{le=\"+Inf\"} %" PRIu64 "\nfumehood_%s_sum %.6f\n"
		   "fumehood_%s_count %" PRIu64 "\n",
		   name, histogram->count, name, histogram->sum_s, name, histogram->count);
}

static void put_sessions(struct buf *out, struct sessions *sessions)
{
	static const char *const tiers[] = {"full", "degraded", "none"};
	static const char *const states[] = {"idle", "running", "other"};
	uint64_t counts[3][3] = {{0}};
	uint64_t queue = 0;

	for (struct live *live = sessions_first(sessions); live; live = live->next) {
		size_t tier = 0, state = 0;

		if (live->state != LIVE_READY)
			continue;
		while (tier < 2 && strcmp(tiers[tier], live->tier) != 0)
			tier++;
		while (state < 2 && strcmp(states[state], live->doing) != 0)
			state++;
		counts[tier][state]++;
		queue += live->queue;
	}
	head(out, "sessions", "gauge", "Running sessions that the daemon is linked to.");
	for (size_t tier = 0; tier < 3; tier++)
		for (size_t state = 0; state < 3; state++)
			buf_printf(out, "fumehood_sessions{tier=\"%s\",state=\"%s\"} %" PRIu64 "\n",
				   tiers[tier], states[state], counts[tier][state]);
	gauge(out, "queued_cells", "Cells that wait.", queue);
}

void metrics_write(struct buf *out, const struct metrics *metrics, struct sessions *sessions,
		   size_t connections, size_t streams, size_t asks)
{
	put_sessions(out, sessions);
	gauge(out, "connections", "Open connections.", connections);
	gauge(out, "streams", "Open streams of events.", streams);
	gauge(out, "asks", "Asks of a model that are under way.", asks);
	head(out, "requests_total", "counter", "Answers by HTTP status.");
	for (int status = 100; status < 600; status++)
		if (metrics->requests[status] > 0)
			buf_printf(out, "fumehood_requests_total{status=\"%d\"} %" PRIu64 "\n",
				   status, metrics->requests[status]);
	head(out, "cells_total", "counter", "Cells that have finished, by status.");
	for (size_t i = 0; i < METRICS_CELLS; i++)
		buf_printf(out, "fumehood_cells_total{status=\"%s\"} %" PRIu64 "\n", CELLS[i],
			   metrics->cells[i]);
	head(out, "asks_total", "counter", "Asks of a model that have ended, by outcome.");
	for (size_t i = 0; i < METRICS_ASKS; i++)
		buf_printf(out, "fumehood_asks_total{outcome=\"%s\"} %" PRIu64 "\n", ASKS[i],
			   metrics->asks[i]);
	head(out, "limit_hits_total", "counter", "Limits that were met, by name.");
	for (size_t i = 0; i < 8; i++)
		buf_printf(out, "fumehood_limit_hits_total{limit=\"%s\"} %" PRIu64 "\n", LIMITS[i],
			   metrics->limit_hits[i]);
	counter(out, "events_total", "Events that sessions have told.", metrics->events);
	counter(out, "event_bytes_total", "Bytes of these.", metrics->event_bytes);
	counter(out, "sessions_started_total", "Sessions started.", metrics->sessions_started);
	counter(out, "sessions_ended_total", "Sessions that have ended.", metrics->sessions_ended);
	counter(out, "sessions_culled_total", "Sessions stopped because nobody used them.",
		metrics->sessions_culled);
	counter(out, "start_failures_total", "Sessions that could not start.",
		metrics->start_failures);
	counter(out, "sandbox_failures_total", "... because of their sandbox.",
		metrics->sandbox_failures);
	counter(out, "sync_failures_total", "Journals that could not be synced.",
		metrics->warnings_sync);
	counter(out, "auth_failures_total", "Requests without a right token.",
		metrics->auth_failures);
	counter(out, "audit_failures_total", "Lines that the audit log could not take.",
		metrics->audit_failures);
	counter(out, "websocket_errors_total", "WebSocket connections ended for their protocol.",
		metrics->ws_protocol_errors);
	counter(out, "redis_published_total", "Events given to Redis.", metrics->redis_published);
	counter(out, "redis_dropped_total", "Events that Redis was not there to take.",
		metrics->redis_dropped);
	put_histogram(out, "request_seconds", "Time of answers that are no streams.",
		      &metrics->request_s);
	put_histogram(out, "cell_seconds", "Time of cells, as sessions tell it.", &metrics->cell_s);
	put_histogram(out, "journal_sync_seconds",
		      "Time of the slowest sync of a journal between the ends of two cells.",
		      &metrics->sync_s);
	put_histogram(out, "start_seconds", "Time of starts of sessions.", &metrics->start_s);
}
