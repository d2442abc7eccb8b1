/*
 * fumehood-serve, the program behind `fumehood serve`: reads the options, takes the signals, and
 * says where it listens.
 *
 * It is a program of its own for what it is linked with: in `fumehood` itself that would cost each
 * start of it half a millisecond (measured).
 */
#include <sys/resource.h>

#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "serve/serve.h"

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

int main(int argc, char **argv)
{
	const struct command *command = &COMMAND_SERVE;
	struct option_list listen = {.items = NULL}, proxy = {.items = NULL};
	struct option_list origins = {.items = NULL};
	struct serve_options options = {.sessions_max = 100,
					.connections_max = 4096,
					.streams_max = 1024,
					.rate_max = 2000,
					.times = HTTP_TIMES};
	uint64_t rate = 2000;
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
	    rate == 0)
		return say_usage(command, "a limit is at least 1");
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
