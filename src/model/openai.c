/*
 * The backend for OpenAI-compatible endpoints.
 *
 * One curl multi handle has all requests; a turn lets curl work, settles what has ended and what
 * has waited too long. Waiting is curl_multi_poll() with the caller's descriptors beside its own.
 * The time limits are ours, not curl's: the long one until the first data, the short one between
 * bytes, and the little one for what comes after the answer's end.
 */
#include "model/openai.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/openai_impl.h"

enum { EXTRA_MAX = 1024, ASK_US_MAX = 2 * 1000 * 1000 };

int openai_alive(struct openai *openai, struct err *err)
{
	if (!openai->hooks.alive)
		return 0;
	return openai->hooks.alive(openai->hooks.context, &openai->base, err);
}

static int openai_start(struct backend *backend, struct generation *generation,
			const struct generation_request *request, struct err *err)
{
	struct openai *openai = (struct openai *)backend;

	if (openai_alive(openai, err))
		return -1;
	return transfer_start(openai, generation, request, err);
}

static void openai_drop(struct backend *backend, struct generation *generation)
{
	(void)backend;
	transfer_free(generation->job);
}

/* What curl says has ended. Settling may add a handle, which is no part of this loop's reading. */
static void settle_ended(struct openai *openai)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(openai->multi, &left))) {
		struct transfer *transfer = NULL;
		CURLcode code = message->data.result;

		if (message->msg == CURLMSG_DONE &&
		    !curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer))
			transfer_settle(transfer, code);
	}
}

static void expire(struct openai *openai)
{
	int64_t now_us = clock_monotonic_us();

	for (struct generation *at = openai->base.first; at; at = at->next) {
		struct transfer *transfer = at->job;

		if (transfer->easy &&
		    (transfer->complete || transfer_deadline(transfer) <= now_us))
			transfer_expire(transfer);
	}
}

static int turn(struct openai *openai, struct err *err)
{
	int running;
	CURLMcode code = curl_multi_perform(openai->multi, &running);

	if (code)
		return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_multi_strerror(code));
	settle_ended(openai);
	expire(openai);
	return 0;
}

/* Milliseconds to wait: the caller's, or less when a limit of a transfer comes before. */
static int wait_ms(const struct openai *openai, int timeout_ms)
{
	int64_t now_us = clock_monotonic_us();
	int64_t wait = timeout_ms < 0 ? INT_MAX : timeout_ms;

	for (const struct generation *at = openai->base.first; at; at = at->next) {
		int64_t deadline_us = transfer_deadline(at->job);
		int64_t ms = deadline_us <= now_us ? 0 : (deadline_us - now_us) / 1000 + 1;

		if (deadline_us != INT64_MAX && ms < wait)
			wait = ms;
	}
	return (int)wait;
}

/* curl's own poll with the caller's descriptors; what it says of those is too little (a pipe's end
 * has no bit there), so they are asked once more. */
static int poll_all(struct openai *openai, const struct pollfd *extra, size_t count,
		    int timeout_ms, struct err *err)
{
	cleanup_free struct curl_waitfd *fds = mem_resize(NULL, count + 1, sizeof(*fds));
	CURLMcode code;

	for (size_t i = 0; i < count; i++) {
		fds[i] = (struct curl_waitfd){.fd = extra[i].fd};
		if (extra[i].events & POLLIN)
			fds[i].events |= CURL_WAIT_POLLIN;
		if (extra[i].events & POLLPRI)
			fds[i].events |= CURL_WAIT_POLLPRI;
		if (extra[i].events & POLLOUT)
			fds[i].events |= CURL_WAIT_POLLOUT;
	}
	code = curl_multi_poll(openai->multi, fds, (unsigned)count, timeout_ms, NULL);
	if (code)
		return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_multi_strerror(code));
	return 0;
}

static int openai_wait(struct backend *backend, struct pollfd *extra, size_t count,
		       int timeout_ms, struct err *err)
{
	struct openai *openai = (struct openai *)backend;
	int ready;

	if (count > EXTRA_MAX)
		return err_set(err, ERR_LIMIT, "more than %d descriptors to wait for", EXTRA_MAX);
	openai->happened = false;
	if (turn(openai, err))
		return -1;
	if (!openai->happened) {
		if (poll_all(openai, extra, count, wait_ms(openai, timeout_ms), err) ||
		    turn(openai, err))
			return -1;
	}
	while ((ready = poll(extra, count, 0)) < 0)
		if (errno != EINTR)
			return err_sys(err, "cannot wait for the model's answer");
	return ready;
}

static uint64_t openai_context(struct backend *backend)
{
	struct openai *openai = (struct openai *)backend;

	if (openai->context_tokens || openai->context_asked)
		return openai->context_tokens;
	if (openai_alive(openai, NULL))
		return 0;
	openai->context_asked = true;
	openai->context_tokens = probe_context(openai, clock_monotonic_us() + ASK_US_MAX);
	return openai->context_tokens;
}

static void openai_free(struct backend *backend)
{
	struct openai *openai = (struct openai *)backend;

	curl_multi_cleanup(openai->multi);
	place_release(&openai->place);
	json_free(openai->extra);
	free(openai->model);
	backend_release(&openai->base);
	if (openai->hooks.release)
		openai->hooks.release(openai->hooks.context);
	free(openai);
	curl_global_cleanup();
}

static const struct backend_ops OPENAI_OPS = {
	.kind = "openai",
	.start = openai_start,
	.wait = openai_wait,
	.drop = openai_drop,
	.context = openai_context,
	.free = openai_free,
};

static int check_extra(const struct json *extra, struct err *err)
{
	static const char *const ours[] = {"messages", "stream", "model", "n", NULL};

	if (!extra)
		return 0;
	if (json_type_of(extra) != JSON_OBJECT)
		return err_set(err, ERR_INVALID,
			       "further members of a model's request are a JSON object");
	for (size_t i = 0; ours[i]; i++)
		if (json_has(extra, ours[i]))
			return err_set(err, ERR_INVALID,
				       "\"%s\" of a model's request is not yours to set", ours[i]);
	return 0;
}

/* The model when none is named: the only one that the server has. */
static int find_model(struct openai *openai, struct err *err)
{
	cleanup_json struct json *models = NULL;
	cleanup_buf struct buf names = BUF_INIT;

	if (openai_alive(openai, err))
		return -1;
	models = probe_models(openai, clock_monotonic_us() + ASK_US_MAX, err);
	if (!models)
		return -1;
	if (json_length(models) == 1) {
		openai->model = mem_string(json_string(json_at(models, 0), NULL));
		return 0;
	}
	for (size_t i = 0; i < json_length(models); i++)
		buf_printf(&names, "%s%s", i > 0 ? ", " : "",
			   json_string(json_at(models, i), NULL));
	return err_set(err, ERR_INVALID, "%s has %zu models: say which by --model%s%.100s",
		       openai->place.shown, json_length(models), names.len ? ": " : "",
		       buf_bytes(&names));
}

struct backend *backend_openai_new(const struct backend_openai_params *params, struct err *err)
{
	struct openai *openai;

	if (check_extra(params->extra, err))
		return NULL;
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		err_set(err, ERR_INTERNAL, "libcurl cannot begin");
		return NULL;
	}
	openai = mem_zalloc(sizeof(*openai));
	openai->multi = curl_multi_init();
	backend_init(&openai->base, &OPENAI_OPS, params->kind, NULL);
	openai->context_tokens = params->context_tokens;
	openai->extra = params->extra ? json_copy(params->extra) : NULL;
	openai->model = mem_string(params->model && params->model[0] ? params->model : NULL);
	if (!openai->multi)
		err_set(err, ERR_INTERNAL, "libcurl cannot begin");
	if (!openai->multi || place_init(&openai->place, params->base_url, params->unix_socket,
					 params->key, err)) {
		openai_free(&openai->base);
		return NULL;
	}
	openai->hooks = params->hooks;
	if (!openai->model && find_model(openai, err)) {
		openai->hooks.release = NULL;
		openai_free(&openai->base);
		return NULL;
	}
	openai->base.model =
		mem_string(params->shown_model ? params->shown_model : openai->model);
	return &openai->base;
}

int backend_openai_move(struct backend *backend, const char *base_url, const char *unix_socket,
			const char *key, struct err *err)
{
	struct openai *openai = (struct openai *)backend;
	struct place place = {0};

	if (place_init(&place, base_url, unix_socket, key, err))
		return -1;
	place_release(&openai->place);
	openai->place = place;
	return 0;
}
