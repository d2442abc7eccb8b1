/*
 * The daemon's life: listening, signals, the tick of each second, the end. See serve.h.
 *
 *	serve_new: tokens, audit, sockets ─> serve_run: ready ─ SIGTERM ─> ending ─> ended
 *
 * While it ends, it takes no connection; answers that are under way have ten seconds, streams are
 * closed at once (their clients come back with Last-Event-ID), and sessions run on.
 */
#include "serve/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "serve/asking.h"
#include "serve/channel.h"
#include "serve/exchange.h"
#include "serve/notify.h"
#include "serve/serve_internal.h"
#include "serve/slm.h"
#include "serve/stream.h"

enum { TICK_MS = 1000, ENDING_S = 10, ADOPT_S = 10 };

static const char SOCKET_NAME[] = "api.sock";
static const char NOTE_NAME[] = "api.json";

__attribute__((format(printf, 2, 3))) static void say(const struct serve *serve, const char *format,
						      ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	if (serve->options.say)
		serve->options.say(serve->options.data, text);
}

/* --- addresses -------------------------------------------------------------------------------- */

int serve_read_address(const char *text, bool behind_proxy, struct sockaddr_storage *address,
		       struct err *err)
{
	struct sockaddr_in *four = (struct sockaddr_in *)address;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
	const char *colon = strrchr(text, ':');
	char host[64];
	unsigned long port;
	char *end = NULL;
	size_t len = colon ? (size_t)(colon - text) : 0;
	bool loopback;

	*address = (struct sockaddr_storage){0};
	port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) : 65536;
	if (len == 0 || len >= sizeof(host) || port > 65535 || *end != '\0')
		return err_set(err, ERR_USAGE,
			       "--listen has the form 127.0.0.1:PORT or [::1]:PORT, not %s", text);
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		six->sin6_family = AF_INET6;
		six->sin6_port = htons((uint16_t)port);
		if (inet_pton(AF_INET6, host + 1, &six->sin6_addr) != 1)
			return err_set(err, ERR_USAGE, "%s is no IPv6 address", host + 1);
		loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	} else {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
		if (inet_pton(AF_INET, host, &four->sin_addr) != 1)
			return err_set(err, ERR_USAGE,
				       "%s is no address; --listen takes 127.0.0.1:PORT or "
				       "[::1]:PORT, no names",
				       host);
		loopback = four->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
	}
	if (!loopback && !behind_proxy)
		return err_set(err, ERR_USAGE,
			       "%s can be reached by other machines, and tokens would cross the "
			       "network in the clear: put a proxy with TLS before it, and say "
			       "--behind-proxy HOST with the name that clients use",
			       host);
	return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static void request_head(void *data, struct http_request *request)
{
	exchange_begin(data, request);
}

static void request_refused(void *data, int status)
{
	struct serve *serve = data;

	serve->metrics.requests[status]++;
}

static void request_ended(void *data, struct http_request *request)
{
	struct serve *serve = data;
	const struct exchange *exchange = request->owned;
	int64_t us = clock_monotonic_us() - request->began_us;
	char method[24];

	if (!exchange)
		return;
	if (request->status > 0 && request->status < 600)
		serve->metrics.requests[request->status]++;
	if (request->status >= 200)
		histogram_add(&serve->metrics.request_s, (double)us / 1e6);
	if (exchange->route && exchange->route->open)
		return; /* whoever watches over the daemon asks that all the time */
	snprintf(method, sizeof(method), "%.*s", (int)request->head.method.len,
		 request->head.method.at);
	if (audit_write(&serve->audit, exchange->who.id, method,
			exchange->route ? exchange->route->path : NULL, exchange->audit_session,
			request->status, us) != 0)
		serve->metrics.audit_failures++;
}

/* --- sessions --------------------------------------------------------------------------------- */

static void session_event(void *data, struct live *live, const struct scan *scan, const char *line,
			  size_t len)
{
	struct serve *serve = data;

	metrics_event(&serve->metrics, scan, line, len);
	if (serve->publisher)
		publisher_event(serve->publisher, live, scan, line, len);
	if (serve->original)
		original_event(serve->original, live, scan, line, len);
}

static void session_gone(void *data, struct live *live)
{
	struct serve *serve = data;

	serve->metrics.sessions_ended++;
	if (serve->original)
		original_gone(serve->original, live);
}

static void cull_idle(struct serve *serve, int64_t now_us)
{
	int64_t idle_us = (int64_t)(serve->options.idle_s * 1e6);

	if (serve->options.idle_s <= 0)
		return;
	for (struct live *live = sessions_first(serve->sessions); live; live = live->next) {
		if (live->state != LIVE_READY || live->users > 0 || live->cell[0] ||
		    strcmp(live->doing, "idle") != 0 || now_us - live->used_us < idle_us)
			continue;
		live->used_us = now_us;
		serve->metrics.sessions_culled++;
		say(serve, "session %s is stopped: nobody has used it", live->id);
		live_post(live, "{\"op\":\"stop\"}\n");
	}
}

/* --- listening -------------------------------------------------------------------------------- */

static int add_names(struct serve *serve, int family, int port, struct err *err)
{
	static const char *const four[] = {"127.0.0.1", "localhost", NULL};
	static const char *const six[] = {"[::1]", "localhost", NULL};

	for (const char *const *name = family == AF_INET6 ? six : four; *name; name++) {
		cleanup_free char *host = mem_format("%s:%d", *name, port);
		cleanup_free char *origin = mem_format("http://%s", host);

		if (gate_add_host(&serve->gate, host, err) != 0 ||
		    gate_add_origin(&serve->gate, origin, false, err) != 0)
			return -1;
	}
	return 0;
}

/* Where the daemon is, for those of this user who look: 0600, whole, and with a token that ends
 * with the daemon. */
static int write_note(struct serve *serve, const char *url, struct err *err)
{
	struct token token = {.name = "local", .scopes = SCOPE_ALL, .expires_us = INT64_MAX};
	cleanup_json struct json *note = json_new_object();
	cleanup_buf struct buf text = BUF_INIT;
	char secret[TOKEN_TEXT_SIZE];

	if (tokens_create(&serve->tokens, &token, false, secret, err) != 0)
		return -1;
	json_set_string(note, "url", url);
	json_set_int(note, "pid", getpid());
	json_set_string(note, "token", secret);
	json_write(&text, note);
	buf_append_char(&text, '\n');
	(void)unlinkat(serve->runtime_fd, NOTE_NAME, 0);
	if (file_replace(serve->runtime_fd, NOTE_NAME, buf_bytes(&text), text.len, 0600, err) != 0)
		return -1;
	serve->owns_note = true;
	say(serve, "%s (token in %s/%s)", url, serve->runtime, NOTE_NAME);
	return 0;
}

static int listen_tcp(struct serve *serve, const char *text, bool first, struct err *err)
{
	struct sockaddr_storage address;
	cleanup_free char *url = NULL;
	int port = 0;

	if (serve_read_address(text, serve->options.behind_proxy, &address, err) != 0)
		return -1;
	if (http_listen_tcp(serve->http, (struct sockaddr *)&address, &port, err) != 0)
		return err_wrap(err, "%s", text);
	if (add_names(serve, address.ss_family, port, err) != 0)
		return -1;
	url = mem_format("http://%.*s:%d", (int)(strrchr(text, ':') - text), text, port);
	if (first)
		return write_note(serve, url, err);
	say(serve, "%s", url);
	return 0;
}

/* The Unix socket, unless another daemon has it. */
static int listen_unix(struct serve *serve, struct err *err)
{
	int fd = socket_connect(serve->runtime, SOCKET_NAME, SOCK_STREAM, NULL);

	if (fd >= 0) {
		close(fd);
		return err_set(err, ERR_BUSY, "a daemon serves on %s/%s already", serve->runtime,
			       SOCKET_NAME);
	}
	fd = socket_listen(serve->runtime, SOCKET_NAME, SOCK_STREAM, err);
	if (fd < 0 || http_listen_unix(serve->http, fd, err) != 0)
		return -1;
	serve->owns_socket = true;
	say(serve, "unix:%s/%s", serve->runtime, SOCKET_NAME);
	return 0;
}

/* The sockets that systemd has opened for us. */
static int adopt_sockets(struct serve *serve, int count, struct err *err)
{
	for (int fd = NOTIFY_FDS_START; fd < NOTIFY_FDS_START + count; fd++) {
		struct sockaddr_storage address = {0};
		socklen_t len = sizeof(address);
		int port = 0;

		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
		if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
			return err_sys(err, "descriptor %d is no socket", fd);
		if (address.ss_family == AF_UNIX) {
			if (http_listen_unix(serve->http, fd, err) != 0)
				return -1;
			continue;
		}
		if (http_adopt_tcp(serve->http, fd, &port, err) != 0 ||
		    add_names(serve, address.ss_family, port, err) != 0)
			return -1;
	}
	return 0;
}

static int listen_all(struct serve *serve, struct err *err)
{
	const struct serve_options *options = &serve->options;
	int given = notify_sockets();

	for (size_t i = 0; i < options->host_count; i++) {
		cleanup_free char *origin = mem_format("https://%s", options->hosts[i]);

		if (gate_add_host(&serve->gate, options->hosts[i], err) != 0 ||
		    gate_add_origin(&serve->gate, origin, false, err) != 0)
			return -1;
	}
	for (size_t i = 0; i < options->origin_count; i++)
		if (gate_add_origin(&serve->gate, options->origins[i], true, err) != 0)
			return -1;
	if (given > 0 ? adopt_sockets(serve, given, err) != 0 : listen_unix(serve, err) != 0)
		return -1;
	if (serve->slm && slm_listen(serve->slm, err) != 0)
		return -1;
	if (serve->slm)
		say(serve, "http://127.0.0.1:%d (the original's service)", slm_port(serve->slm));
	for (size_t i = 0; i < options->listen_count; i++)
		if (listen_tcp(serve, options->listen[i], i == 0, err) != 0)
			return -1;
	return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static size_t connections(const struct serve *serve)
{
	return http_connections(serve->http) + (serve->slm ? slm_connections(serve->slm) : 0);
}

static void tick(uv_timer_t *timer)
{
	struct serve *serve = timer->data;
	int64_t now_us = clock_monotonic_us();

	sessions_tick(serve->sessions, now_us);
	streams_ping(serve, now_us);
	channels_tick(serve, now_us);
	originals_tick(serve, now_us);
	askings_tick(serve, now_us);
	if (serve->ending) {
		if (connections(serve) == 0 ||
		    now_us - serve->ending_us > (int64_t)ENDING_S * 1000000)
			uv_stop(&serve->loop);
		return;
	}
	cull_idle(serve, now_us);
	if (now_us - serve->adopted_us > (int64_t)ADOPT_S * 1000000) {
		serve->adopted_us = now_us;
		sessions_adopt_all(serve->sessions, false);
	}
}

static int open_runtime(struct serve *serve, struct err *err)
{
	serve->runtime = paths_runtime(err);
	if (!serve->runtime)
		return -1;
	serve->runtime_fd = open(serve->runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (serve->runtime_fd < 0)
		return err_sys(err, "cannot open %s", serve->runtime);
	return 0;
}

static int begin(struct serve *serve, struct err *err)
{
	const struct http_handler handler = {.head = request_head,
					     .refused = request_refused,
					     .ended = request_ended,
					     .data = serve};
	const struct sessions_events events = {
		.event = session_event, .gone = session_gone, .data = serve};
	const struct serve_options *options = &serve->options;

	if (options->slm)
		serve->slm = slm_new(&serve->loop, options->slm);
	if (open_runtime(serve, err) != 0 || tokens_open(&serve->tokens, err) != 0 ||
	    audit_open(&serve->audit, err) != 0)
		return -1;
	gate_init(&serve->gate, &serve->tokens, options->rate_max);
	serve->http =
		http_server_new(&serve->loop, &handler, &options->times, options->connections_max);
	/* The original's messages carry images whole. */
	serve->sessions =
		sessions_new(&serve->loop, serve->runtime_fd, options->original_events, &events);
	if (options->original_events)
		serve->original = original_new(serve);
	if (options->redis) {
		const struct publisher_options redis = {.url = options->redis,
							.stream_max = options->redis_stream};

		serve->publisher = publisher_new(&serve->loop, &redis, &serve->metrics, err);
		if (!serve->publisher)
			return -1;
	}
	return listen_all(serve, err);
}

struct serve *serve_new(const struct serve_options *options, struct err *err)
{
	struct serve *serve = mem_zalloc(sizeof(*serve));

	serve->options = *options;
	serve->tokens = (struct tokens)TOKENS_INIT;
	serve->audit = (struct audit)AUDIT_INIT;
	serve->runtime_fd = -1;
	uv_loop_init(&serve->loop);
	uv_timer_init(&serve->loop, &serve->tick);
	serve->tick.data = serve;
	if (begin(serve, err) == 0)
		return serve;
	serve_free(serve);
	return NULL;
}

static void end_gracefully(struct serve *serve)
{
	if (serve->ending) { /* asked twice */
		uv_stop(&serve->loop);
		return;
	}
	serve->ending = true;
	serve->ending_us = clock_monotonic_us();
	notify_state("STOPPING=1");
	http_drain(serve->http);
	streams_end_all(serve);
	channels_close(serve);
	originals_close(serve);
	askings_cancel(serve);
	if (serve->slm)
		slm_end(serve->slm);
	if (connections(serve) == 0)
		uv_stop(&serve->loop);
}

static void signal_ready(uv_poll_t *poll, int status, int events)
{
	struct serve *serve = poll->data;
	struct signalfd_siginfo info;

	(void)events;
	if (status < 0 || read(serve->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo != SIGHUP) {
		end_gracefully(serve);
		return;
	}
	notify_state("RELOADING=1");
	serve->tokens.changed = (struct timespec){0};
	tokens_refresh(&serve->tokens);
	sessions_adopt_all(serve->sessions, true);
	notify_state("READY=1");
	say(serve, "tokens and sessions were read anew");
}

int serve_run(struct serve *serve, int signal_fd, struct err *err)
{
	serve->signal_fd = signal_fd;
	if (uv_poll_init(&serve->loop, &serve->signals, signal_fd) != 0)
		return err_set(err, ERR_IO, "cannot wait for signals");
	serve->signals.data = serve;
	uv_poll_start(&serve->signals, UV_READABLE, signal_ready);
	uv_timer_start(&serve->tick, tick, TICK_MS, TICK_MS);
	serve->adopted_us = clock_monotonic_us();
	sessions_adopt_all(serve->sessions, true);
	serve->ready = true;
	notify_state("READY=1");
	(void)uv_run(&serve->loop, UV_RUN_DEFAULT);
	return 0;
}

static void close_handle(uv_handle_t *handle, void *data)
{
	(void)data;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

void serve_free(struct serve *serve)
{
	if (!serve)
		return;
	if (serve->http) {
		http_drain(serve->http);
		http_close_all(serve->http);
	}
	askings_free(serve);
	if (serve->slm)
		slm_close(serve->slm);
	if (serve->sessions)
		sessions_close(serve->sessions);
	if (serve->publisher)
		publisher_close(serve->publisher);
	uv_close((uv_handle_t *)&serve->tick, NULL);
	if (serve->signals.data)
		uv_close((uv_handle_t *)&serve->signals, NULL);
	(void)uv_run(&serve->loop, UV_RUN_DEFAULT);
	uv_walk(&serve->loop, close_handle, NULL);
	(void)uv_run(&serve->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&serve->loop);
	if (serve->owns_socket)
		(void)unlinkat(serve->runtime_fd, SOCKET_NAME, 0);
	if (serve->owns_note)
		(void)unlinkat(serve->runtime_fd, NOTE_NAME, 0);
	http_server_free(serve->http);
	slm_free(serve->slm);
	sessions_free(serve->sessions);
	publisher_free(serve->publisher);
	original_free(serve->original);
	gate_release(&serve->gate);
	tokens_release(&serve->tokens);
	audit_release(&serve->audit);
	free(serve->runtime);
	if (serve->runtime_fd >= 0)
		close(serve->runtime_fd);
	free(serve);
}
