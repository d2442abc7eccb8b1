/*
 * fumehood-serve, the program behind `fumehood serve` and `fumehood slm` (it is told by argv[0]):
 * reads the options, takes the signals, and says where it listens.
 *
 * It is a program of its own for what it is linked with: in `fumehood` itself that would cost each
 * start of it half a millisecond (measured).
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "serve/serve.h"
#include "serve/slm.h"
#include "serve/slm_config.h"

enum { THREADS = 16 };

/* Each connection is a descriptor, each session and stream another. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void say_line(void *data, const char *text)
{
	(void)data;
	say("%s", text);
}

static int run_serve(struct serve_options *options)
{
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	char threads[16];
	struct serve *serve;
	int outcome;

	if (signal_fd < 0)
		return say_err(&err);
	if (options->slm && slm_config_environment(&err) != 0)
		return say_err(&err);
	raise_descriptors();
	/* Before the loop is made: so many sessions can be started at once. */
	snprintf(threads, sizeof(threads), "%d", THREADS);
	(void)setenv("UV_THREADPOOL_SIZE", threads, 1);
	options->say = say_line;
	serve = serve_new(options, &err);
	if (!serve)
		return say_err(&err);
	outcome = serve_run(serve, signal_fd, &err);
	serve_free(serve);
	return outcome == 0 ? 0 : say_err(&err);
}

/* One address for people and programs that wait for it: the original's line. */
static void slm_ready(int port)
{
	printf("[SLMCodeInterpreter] Local VS Code integration server active on "
	       "http://127.0.0.1:%d\n",
	       port);
	(void)fflush(stdout);
}

static bool is_url(const char *text)
{
	return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

/* What would be told to the first who asks is told to whoever starts it. -1: it is fine. */
static int check_slm(const struct command *command, const struct slm_options *options)
{
	if (options->port < 0)
		return say_usage(command, "--port takes a port from 0 to 65535");
	if (options->url && !is_url(options->url))
		return say_usage(command, "--url begins with http:// or https://");
	if (options->model && (options->model[0] == '-' || options->model[0] == '\0'))
		return say_usage(command, "--model takes a name, a GGUF file or a folder with one");
	if (options->workspace && (options->workspace[0] == '-' || options->workspace[0] == '\0'))
		return say_usage(command, "--workspace takes a folder");
	if (options->script && access(options->script, R_OK) != 0)
		return say_usage(command, "--script: %s cannot be read", options->script);
	return -1;
}

static int serve_slm(int argc, char **argv)
{
	const struct command *command = &COMMAND_SLM;
	struct slm_options options = {.port = SLM_PORT, .times = HTTP_TIMES};
	uint64_t port = SLM_PORT;
	const struct option table[] = {
		{"port", 'p', OPTION_COUNT, &port},
		{"model", 'm', OPTION_TEXT, &options.model},
		{"url", '\0', OPTION_TEXT, &options.url},
		{"script", '\0', OPTION_TEXT, &options.script},
		{"workspace", 'w', OPTION_TEXT, &options.workspace},
	};
	cleanup_options struct options words = {.words = NULL};
	int status = command_begin(command, &words, table, sizeof(table) / sizeof(table[0]), argc,
				   argv, 0, 0);
	cleanup_fd int signal_fd = -1;
	struct err err = ERR_INIT;

	if (status >= 0)
		return status;
	options.port = port <= 65535 ? (int)port : -1;
	status = check_slm(command, &options);
	if (status >= 0)
		return status;
	if (slm_config_environment(&err) != 0)
		return say_err(&err);
	signal_fd = signals_open(&err);
	if (signal_fd < 0 || slm_run(&options, signal_fd, slm_ready, &err) != 0)
		return say_err(&err);
	return 0;
}

static int serve_daemon(int argc, char **argv)
{
	const struct command *command = &COMMAND_SERVE;
	struct option_list listen = {.items = NULL}, proxy = {.items = NULL};
	struct option_list origins = {.items = NULL}, ask_urls = {.items = NULL};
	struct slm_options slm = {.port = SLM_PORT, .times = HTTP_TIMES};
	struct serve_options options = {.sessions_max = 100,
					.asks_max = 8,
					.connections_max = 4096,
					.streams_max = 1024,
					.rate_max = 2000,
					.times = HTTP_TIMES};
	uint64_t rate = 2000, port = SLM_PORT;
	bool original = false;
	double header_s = 0, write_s = 0;
	const struct option table[] = {
		{"listen", 'l', OPTION_LIST, &listen},
		{"behind-proxy", '\0', OPTION_LIST, &proxy},
		{"origin", '\0', OPTION_LIST, &origins},
		{"idle", '\0', OPTION_SECONDS, &options.idle_s},
		{"max-sessions", '\0', OPTION_COUNT, &options.sessions_max},
		{"max-connections", '\0', OPTION_COUNT, &options.connections_max},
		{"max-streams", '\0', OPTION_COUNT, &options.streams_max},
		{"rate", '\0', OPTION_COUNT, &rate},
		{"head-time", '\0', OPTION_SECONDS, &header_s},
		{"write-time", '\0', OPTION_SECONDS, &write_s},
		{"redis", '\0', OPTION_TEXT, &options.redis},
		{"redis-stream", '\0', OPTION_COUNT, &options.redis_stream},
		{"original-events", '\0', OPTION_FLAG, &options.original_events},
		{"max-asks", '\0', OPTION_COUNT, &options.asks_max},
		{"ask-url", '\0', OPTION_LIST, &ask_urls},
		{"original", '\0', OPTION_FLAG, &original},
		{"port", '\0', OPTION_COUNT, &port},
	};
	cleanup_options struct options words = {.words = NULL};
	int status = command_begin(command, &words, table, sizeof(table) / sizeof(table[0]), argc,
				   argv, 0, 0);

	if (status >= 0)
		return status;
	if (listen.count > SERVE_LISTEN_MAX)
		return say_usage(command, "--listen can be given %d times", SERVE_LISTEN_MAX);
	if (options.redis_stream && !options.redis)
		return say_usage(command, "--redis-stream needs --redis URL");
	if (options.sessions_max == 0 || options.connections_max == 0 || options.streams_max == 0 ||
	    options.asks_max == 0 || rate == 0)
		return say_usage(command, "a limit is at least 1");
	if (port > 65535 || (port != SLM_PORT && !original))
		return say_usage(command, "--port takes a port from 0 to 65535, with --original");
	for (size_t i = 0; i < ask_urls.count; i++)
		if (!is_url(ask_urls.items[i]))
			return say_usage(command, "--ask-url begins with http:// or https://");
	slm.port = (int)port;
	options.slm = original ? &slm : NULL;
	options.ask_urls = ask_urls.items;
	options.ask_url_count = ask_urls.count;
	for (size_t i = 0; i < listen.count; i++)
		options.listen[options.listen_count++] = listen.items[i];
	options.behind_proxy = proxy.count > 0;
	options.hosts = proxy.items;
	options.host_count = proxy.count;
	options.origins = origins.items;
	options.origin_count = origins.count;
	options.rate_max = (double)rate;
	if (header_s > 0)
		options.times.head_ms = options.times.body_ms = (int64_t)(header_s * 1000);
	if (write_s > 0)
		options.times.write_ms = (int64_t)(write_s * 1000);
	return run_serve(&options);
}

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], COMMAND_SLM.name) == 0)
		return serve_slm(argc, argv);
	return serve_daemon(argc, argv);
}
