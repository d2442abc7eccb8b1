/*
 * The original's service; see slm.h.
 *
 *	head ─> host, origin ─> method, path ─> body ─> waiting ─> running ─> answered
 *
 * A request's run lives until its child has ended, also when its client has gone.
 */
#include "serve/slm.h"

#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "serve/asker.h"
#include "serve/slm_config.h"
#include "serve/slm_request.h"

enum { CONNECTIONS_MAX = 256 };

static const char TYPE[] = "application/json";

struct slm {
	uv_loop_t *loop;
	struct slm_options options;
	struct http_server *http;
	int port;
	bool ending;
	struct run *runs; /* in the order of their coming */
	size_t running, waiting;
};

struct run {
	struct run *next, **prev;
	struct slm *slm;
	struct http_request *request; /* NULL: its client has gone */
	struct slm_request asked;
	struct asker *asker; /* NULL: it waits */
	struct buf last;     /* the line that came last */
};

/* --- answers ---------------------------------------------------------------------------------- */

static void reply(struct http_request *request, int status, const struct buf *body)
{
	request->on_gone = NULL;
	http_last(request);
	http_reply(request, status, TYPE, buf_bytes(body), body->len);
}

static void reply_error(struct http_request *request, int status, const char *text)
{
	cleanup_buf struct buf body = BUF_INIT;

	slm_write_error(&body, text, strlen(text));
	reply(request, status, &body);
}

static void reply_unsupported(struct http_request *request)
{
	const struct slice *method = &request->head.method;
	cleanup_buf struct buf page = BUF_INIT;

	slm_write_unsupported(&page, method->at, method->len);
	http_last(request);
	http_reply(request, 501, "text/html;charset=utf-8", buf_bytes(&page), page.len);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void run_next(struct slm *slm);

static void run_free(struct run *run)
{
	*run->prev = run->next;
	if (run->next)
		run->next->prev = run->prev;
	*(run->asker ? &run->slm->running : &run->slm->waiting) -= 1;
	if (run->request)
		run->request->on_gone = NULL;
	slm_request_release(&run->asked);
	buf_release(&run->last);
	free(run);
}

/* The answer to a run whose child has told this. */
static void answer(struct run *run, const struct asker_end *end)
{
	cleanup_json struct json *last =
		json_parse(buf_bytes(&run->last), run->last.len, &JSON_LIMITS, NULL);
	const char *type = json_get_string(last, "type");
	const char *message = json_get_string(last, "message");
	const char *code = json_get_string(last, "code");
	cleanup_free char *text = NULL;
	cleanup_buf struct buf body = BUF_INIT;

	if (!run->request)
		return;
	if (type && strcmp(type, "result") == 0) {
		slm_write_result(&body, last, &run->asked);
		reply(run->request, 200, &body);
		run->request = NULL;
		return;
	}
	if (type && strcmp(type, "error") == 0 && message)
		text = mem_format("%s: %s",
				  code && slm_is_load_error(err_from_name(code))
					  ? "Failed to load ONNX model"
					  : "Inference execution failed",
				  message);
	else
		text = mem_format("Inference execution failed: %s",
				  end->cancelled      ? "the service is about to end"
				  : end->too_long     ? "a line of it was too long"
				  : end->status == -1 ? "fumehood ask was killed"
						      : end->said);
	reply_error(run->request, 500, text);
	run->request = NULL;
}

static void child_line(void *data, const char *line, size_t len)
{
	struct run *run = data;

	buf_clear(&run->last);
	buf_append(&run->last, line, len);
}

static void child_end(void *data, const struct asker_end *end)
{
	struct run *run = data;
	struct slm *slm = run->slm;

	answer(run, end);
	run_free(run);
	run_next(slm);
}

static const struct asker_events CHILD_EVENTS = {.line = child_line, .end = child_end};

/* What the child is asked with: the model by the options, or as the original finds it. The word is
 * NULL when they say nothing. */
static int find_model(const struct slm *slm, char **word, struct err *err)
{
	const struct slm_options *options = &slm->options;
	cleanup_slm_model struct slm_model model = SLM_MODEL_INIT;
	cleanup_free char *file = NULL;

	*word = NULL;
	if (options->script)
		*word = mem_format("--script=%s", options->script);
	else if (options->model && (options->url || !strchr(options->model, '/')))
		*word = mem_format("--model=%s", options->model);
	if (*word || options->url)
		return 0;
	if (options->model)
		model.path = mem_string(options->model);
	else if (slm_config_model(&model, err) != 0)
		return -1;
	if (model.url)
		*word = mem_format("--url=%s", model.url);
	else if (model.name)
		*word = mem_format("--model=%s", model.name);
	if (!model.path)
		return 0;
	file = slm_model_file(model.path, err);
	if (!file)
		return -1;
	*word = mem_format("--model=%s", file);
	return 0;
}

static int start_child(struct run *run, struct err *err)
{
	const struct slm *slm = run->slm;
	int64_t programs = run->asked.max_retries < SLM_PROGRAMS_MAX ? run->asked.max_retries
								     : SLM_PROGRAMS_MAX;
	cleanup_free char *count = mem_format("--programs=%lld", (long long)programs);
	cleanup_free char *model = NULL;
	cleanup_free char *url = slm->options.url ? mem_format("--url=%s", slm->options.url) : NULL;
	cleanup_free char *workspace =
		slm->options.workspace ? mem_format("--workspace=%s", slm->options.workspace)
				       : mem_string("--private");
	const char *words[6] = {count, programs <= 1   ? "--effort=low"
				       : programs <= 3 ? "--effort=medium"
						       : "--effort=high",
				workspace};
	const struct asker_params params = {.words = words,
					    .instruction = run->asked.instruction,
					    .instruction_len = run->asked.instruction_len};
	size_t i = 3;

	if (find_model(slm, &model, err) != 0)
		return -1;
	if (model)
		words[i++] = model;
	if (url)
		words[i++] = url;
	run->asker = asker_start(slm->loop, &params, &CHILD_EVENTS, run, err);
	return run->asker ? 0 : -1;
}

/* Begins those that wait, as far as there is room. */
static void run_next(struct slm *slm)
{
	struct run *next;

	for (struct run *run = slm->runs; run && slm->running < SLM_RUNS_MAX; run = next) {
		struct err err = ERR_INIT;

		next = run->next;
		if (run->asker)
			continue;
		if (start_child(run, &err) == 0) {
			slm->running++;
			slm->waiting--;
			continue;
		}
		if (run->request) {
			cleanup_free char *text =
				mem_format("Failed to load ONNX model: %s", err.text);

			reply_error(run->request, 500, text);
			run->request = NULL;
		}
		run_free(run);
	}
}

static void client_gone(struct http_request *request)
{
	struct run *run = request->data;

	run->request = NULL;
	if (run->asker)
		asker_cancel(run->asker);
	else
		run_free(run);
}

static void queue_run(struct slm *slm, struct http_request *request, struct slm_request *asked)
{
	struct run *run = mem_zalloc(sizeof(*run));
	struct run **end = &slm->runs;

	while (*end)
		end = &(*end)->next;
	run->prev = end;
	*end = run;
	run->slm = slm;
	run->request = request;
	run->asked = *asked;
	*asked = (struct slm_request)SLM_REQUEST_INIT;
	slm->waiting++;
	request->data = run;
	request->on_gone = client_gone;
	request->end_is_gone = true;
	run_next(slm);
}

/* --- requests --------------------------------------------------------------------------------- */

static void execute(struct http_request *request)
{
	struct slm *slm = request->data;
	struct slm_request asked;
	cleanup_buf struct buf error = BUF_INIT, body = BUF_INIT;
	int outcome =
		slm_request_read(buf_bytes(&request->body), request->body.len, &asked, &error);

	if (outcome != 0) {
		reply_error(request, 400, buf_bytes(&error));
	} else if (asked.max_retries <= 0) {
		slm_write_result(&body, NULL, &asked);
		reply(request, 200, &body);
	} else if (slm->ending || slm->waiting >= SLM_WAITING_MAX) {
		reply_error(request, 503, "too many requests wait already; try again later");
	} else {
		queue_run(slm, request, &asked);
	}
	slm_request_release(&asked);
}

static bool is_editor(const struct slice *origin)
{
	static const char prefix[] = "vscode-webview://";

	return origin->len > sizeof(prefix) - 1 &&
	       strncasecmp(origin->at, prefix, sizeof(prefix) - 1) == 0;
}

/* Whether a browser has sent it for a page that has no business here. */
static bool is_foreign(const struct slm *slm, const struct http_request *request)
{
	const struct slice *origin = head_find(&request->head, "origin", NULL);
	const struct slice *site = head_find(&request->head, "sec-fetch-site", NULL);
	cleanup_free char *by_number = mem_format("http://127.0.0.1:%d", slm->port);
	cleanup_free char *by_name = mem_format("http://localhost:%d", slm->port);

	if (origin)
		return !is_editor(origin) && !slice_is(origin, by_number) &&
		       !slice_is(origin, by_name);
	return site && !slice_is(site, "same-origin") && !slice_is(site, "none");
}

static bool is_host(const struct slm *slm, const struct slice *host)
{
	cleanup_free char *by_number = mem_format("127.0.0.1:%d", slm->port);
	cleanup_free char *by_name = mem_format("localhost:%d", slm->port);

	return host && (slice_is_word(host, by_number) || slice_is_word(host, by_name));
}

/* Refuses what comes from elsewhere. Returns whether it was refused. */
static bool guard(const struct slm *slm, struct http_request *request)
{
	if (!is_host(slm, head_find(&request->head, "host", NULL))) {
		reply_error(request, 403,
			    "this service is 127.0.0.1 or localhost and no other Host");
		return true;
	}
	if (is_foreign(slm, request)) {
		reply_error(request, 403, "pages of other sites may not use this service");
		return true;
	}
	return false;
}

/* For an editor's own pages: the fields of CORS, and the question before a request. */
static bool preflight(struct http_request *request)
{
	const struct slice *origin = head_find(&request->head, "origin", NULL);

	if (!origin || !is_editor(origin))
		return false;
	http_field(request, "Access-Control-Allow-Origin", "%.*s", (int)origin->len, origin->at);
	http_field(request, "Vary", "Origin");
	if (!slice_is(&request->head.method, "OPTIONS") ||
	    !head_find(&request->head, "access-control-request-method", NULL))
		return false;
	http_field(request, "Access-Control-Allow-Methods", "GET, POST");
	http_field(request, "Access-Control-Allow-Headers", "Content-Type");
	http_last(request);
	http_reply(request, 204, NULL, "", 0);
	return true;
}

/* Python's parser of URLs leaves the query away. */
static bool is_path(const struct http_request *request, const char *path)
{
	struct slice target = request->head.target;
	size_t len = 0;

	while (len < target.len && !memchr("?#;", target.at[len], 3))
		len++;
	target.len = len;
	return slice_is(&target, path);
}

/* JSON, or no type at all: what a form or a page can send without asking first has one of three
 * other types, or comes with an Origin. */
static bool is_json(const struct http_request *request)
{
	const struct slice *type = head_find(&request->head, "content-type", NULL);
	struct slice media = type ? *type : (struct slice){"", 0};
	const char *semicolon = type ? memchr(type->at, ';', type->len) : NULL;

	if (semicolon)
		media.len = (size_t)(semicolon - media.at);
	while (media.len > 0 && media.at[media.len - 1] == ' ')
		media.len--;
	return !type || slice_is_word(&media, TYPE);
}

static void request_head(void *data, struct http_request *request)
{
	struct slm *slm = data;
	bool get = slice_is(&request->head.method, "GET");
	bool post = slice_is(&request->head.method, "POST");
	cleanup_buf struct buf body = BUF_INIT;

	if (guard(slm, request) || preflight(request))
		return;
	if (!get && !post) {
		reply_unsupported(request);
	} else if (get && is_path(request, "/status")) {
		slm_write_status(&body, slm->port);
		reply(request, 200, &body);
	} else if (!post || !is_path(request, "/execute")) {
		http_last(request);
		http_reply(request, 404, NULL, "", 0);
	} else if (!is_json(request)) {
		reply_error(request, 415, "the body is JSON: send Content-Type: application/json");
	} else {
		request->data = slm;
		request->body_bytes_max = SLM_BODY_BYTES_MAX;
		request->on_complete = execute;
	}
}

/* A request that is none: told as the original tells errors. */
static void request_refused(void *data, struct http_request *request, int status, const char *why)
{
	(void)data;
	if (status == 405)
		reply_unsupported(request);
	else
		reply_error(request, status, why);
}

static void count_nothing(void *data, int status)
{
	(void)data;
	(void)status;
}

static void request_over(void *data, struct http_request *request)
{
	(void)data;
	(void)request;
}

/* --- life ------------------------------------------------------------------------------------- */

struct slm *slm_new(uv_loop_t *loop, const struct slm_options *options)
{
	struct slm *slm = mem_zalloc(sizeof(*slm));
	const struct http_handler handler = {.head = request_head,
					     .refused = count_nothing,
					     .refuse = request_refused,
					     .ended = request_over,
					     .data = slm};

	slm->loop = loop;
	slm->options = *options;
	slm->http = http_server_new(loop, &handler, &options->times, CONNECTIONS_MAX);
	return slm;
}

int slm_listen(struct slm *slm, struct err *err)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons((uint16_t)slm->options.port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (http_listen_tcp(slm->http, (const struct sockaddr *)&address, &slm->port, err) != 0)
		return err_wrap(err, "127.0.0.1:%d", slm->options.port);
	return 0;
}

int slm_port(const struct slm *slm)
{
	return slm->port;
}

void slm_end(struct slm *slm)
{
	struct run *next;

	slm->ending = true;
	http_drain(slm->http);
	for (struct run *run = slm->runs; run; run = next) {
		next = run->next;
		if (run->asker) {
			asker_cancel(run->asker);
			continue;
		}
		if (run->request)
			reply_error(run->request, 503, "the service is about to end");
		run->request = NULL;
		run_free(run);
	}
}

size_t slm_connections(const struct slm *slm)
{
	return http_connections(slm->http);
}

void slm_close(struct slm *slm)
{
	slm_end(slm);
	http_close_all(slm->http);
	while (slm->runs) {
		asker_drop(slm->runs->asker);
		run_free(slm->runs);
	}
}

void slm_free(struct slm *slm)
{
	if (!slm)
		return;
	http_server_free(slm->http);
	free(slm);
}
