/*
 * What all backends share: the list of generations, and the calls that go to a backend's table.
 *
 * A generation may outlive its backend and the other way round: whichever is freed first tells the
 * backend to drop its part, and after that nothing of the other is touched.
 */
#include "model/backend.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/backend_impl.h"

void backend_init(struct backend *backend, const struct backend_ops *ops, const char *kind,
		  const char *model)
{
	backend->ops = ops;
	backend->kind = kind ? kind : ops->kind;
	backend->model = mem_string(model);
	backend->first = NULL;
}

void backend_release(struct backend *backend)
{
	free(backend->model);
	backend->model = NULL;
}

static size_t count_running(const struct backend *backend)
{
	size_t running = 0;

	for (const struct generation *at = backend->first; at; at = at->next)
		running += at->state == GENERATION_RUNNING;
	return running;
}

static int check_request(const struct generation_request *request, size_t *bytes, struct err *err)
{
	*bytes = 0;
	if (request->count == 0 || request->count > GENERATION_MESSAGES_MAX)
		return err_set(err, ERR_LIMIT, "a model is asked with 1 to %d messages, not %zu",
			       GENERATION_MESSAGES_MAX, request->count);
	for (size_t i = 0; i < request->count; i++) {
		*bytes += request->messages[i].len;
		if (*bytes > GENERATION_REQUEST_BYTES_MAX)
			return err_set(err, ERR_LIMIT,
				       "the prompt has more than %d MiB: shorten it",
				       GENERATION_REQUEST_BYTES_MAX >> 20);
	}
	for (size_t i = 0; request->stop && request->stop[i]; i++)
		if (i >= GENERATION_STOPS_MAX)
			return err_set(err, ERR_LIMIT, "at most %d texts can end an answer",
				       GENERATION_STOPS_MAX);
	if (!(request->temperature >= 0 && request->temperature <= 2))
		return err_set(err, ERR_INVALID, "a temperature is from 0 to 2");
	if (!(request->top_p >= 0 && request->top_p <= 1))
		return err_set(err, ERR_INVALID, "top_p is from 0 to 1");
	if (request->tokens_max == 0)
		return err_set(err, ERR_INVALID, "an answer must be allowed at least one token");
	return 0;
}

struct generation *backend_ask(struct backend *backend, const struct generation_request *request,
			       const struct generation_events *events, struct err *err)
{
	struct generation *generation;
	struct generation **last = &backend->first;
	size_t bytes;

	if (check_request(request, &bytes, err))
		return NULL;
	if (count_running(backend) >= GENERATIONS_MAX) {
		err_set(err, ERR_BUSY, "%d answers are being written: wait for one",
			GENERATIONS_MAX);
		return NULL;
	}
	generation = mem_zalloc(sizeof(*generation));
	generation->backend = backend;
	generation->state = GENERATION_RUNNING;
	if (events)
		generation->events = *events;
	generation->think = (struct think)THINK_INIT;
	generation->usage.first_seconds = -1;
	generation->prompt_bytes = bytes;
	generation->retry_ms = -1;
	generation->start_us = clock_monotonic_us();
	if (backend->ops->start(backend, generation, request, err)) {
		free(generation);
		return NULL;
	}
	while (*last)
		last = &(*last)->next;
	*last = generation;
	return generation;
}

int backend_wait(struct backend *backend, struct pollfd *extra, size_t count, int timeout_ms,
		 struct err *err)
{
	return backend->ops->wait(backend, extra, count, timeout_ms, err);
}

/* Takes the backend's part away: the generation stands alone from now on. */
static void detach(struct generation *generation)
{
	struct backend *backend = generation->backend;
	struct generation **at = &backend->first;

	while (*at != generation)
		at = &(*at)->next;
	*at = generation->next;
	backend->ops->drop(backend, generation);
	generation->next = NULL;
	generation->job = NULL;
	generation->backend = NULL;
}

void generation_free(struct generation *generation)
{
	if (!generation)
		return;
	if (generation->backend)
		detach(generation);
	buf_release(&generation->text);
	buf_release(&generation->reasoning);
	free(generation);
}

uint64_t backend_context(struct backend *backend)
{
	return backend->ops->context ? backend->ops->context(backend) : 0;
}

const char *backend_kind(const struct backend *backend)
{
	return backend->kind;
}

const char *backend_model(const struct backend *backend)
{
	return backend->model ? backend->model : "";
}

void backend_free(struct backend *backend)
{
	struct err ended = ERR_INIT;

	if (!backend)
		return;
	err_set(&ended, ERR_GONE, "the backend was ended before the answer was whole");
	while (backend->first) {
		struct generation *generation = backend->first;

		detach(generation);
		generation_fail(generation, &ended);
	}
	backend->ops->free(backend);
}
