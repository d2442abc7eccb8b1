/*
 * fumehood-keeper: the process that owns one session.
 *
 *     fumehood-keeper --session DIR [--fd N]
 *     fumehood-keeper --spare --python PATH --fd N      (spare.h)
 *     fumehood-keeper --version
 *
 * Start: lock (who holds it owns the session), session.json, socket, journal, interpreter. Whatever
 * fails is told to the clients that wait, as `refused`; stderr is for people who start a keeper by
 * hand. After that everything happens on the loop. SIGTERM and SIGINT end the session in order.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "keeper/net.h"
#include "keeper/guard.h"
#include "keeper/monitor.h"
#include "keeper/session.h"
#include "keeper/spare.h"
#include "sandbox/cgroup.h"

enum { AWAIT_US = 200, AWAIT_ROUNDS = 4 };
enum { EXIT_USAGE = 2, EXIT_FAULT = 125 };

struct options {
	const char *directory; /* NULL: a spare */
	const char *python;
	int fd; /* of the first client, or the pool; -1: none */
};

struct keeper {
	uv_loop_t loop;
	uv_prepare_t turn;
	uv_poll_t signals;
	int signal_fd;
	int lock_fd;
	char *runtime;
	char *socket_name;
	struct session session;
};

/* --- what the loop calls -------------------------------------------------------------------------
 */

static void turn_ends(uv_prepare_t *prepare)
{
	struct session *session = prepare->data;

	/* Most cells of an agent end within this time. To sleep and be woken by another processor
	 * would take as long, and the client would be woken twice: for `started`, and for the end
	 * (x=1 from the C client: 0.13 ms so, 0.095 ms with the wait). */
	for (int round = 0; session->just_started && round < AWAIT_ROUNDS; round++) {
		session->just_started = false;
		session->engine->ops->await(session->engine, AWAIT_US);
	}
	record_flush(session->record);
	server_flush(session->server);
	if (server_awaits_sync(session->server))
		record_sync_now(session->record);
}

static void signal_came(uv_poll_t *poll, int status, int events)
{
	struct keeper *keeper = poll->data;
	struct signalfd_siginfo info;

	(void)status;
	(void)events;
	while (read(keeper->signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	if (keeper->session.state != SESSION_STOPPING)
		session_stop(&keeper->session, "signal");
}

static void on_line(void *data, struct client *client, const char *line, size_t len)
{
	session_line(data, client, line, len);
}

static void on_too_long(void *data, struct client *client)
{
	struct err err = ERR_INIT;

	(void)data;
	err_set(&err, ERR_LIMIT, "the line is longer than 64 MiB; it was skipped");
	client_refuse(client, NULL, &err);
}

static void on_hello(void *data, struct buf *out)
{
	session_hello(data, out);
}

static void on_deserted(void *data)
{
	struct session *session = data;

	if (session->config.ends_with_client && session->state != SESSION_STOPPING)
		session_stop(session, "client");
}

static const struct server_events SERVER_EVENTS = {
	.hello = on_hello, .line = on_line, .too_long = on_too_long, .deserted = on_deserted};

/* The name first: once the lock is free, the next keeper's socket may be there. */
static void on_released(void *data)
{
	struct keeper *keeper = data;

	if (keeper->socket_name) {
		cleanup_free char *path = mem_format("%s/%s", keeper->runtime, keeper->socket_name);

		unlink(path);
	}
	free(keeper->socket_name);
	keeper->socket_name = NULL;
	if (keeper->session.spare)
		spare_remove(keeper->session.spare);
	spare_free(keeper->session.spare);
	keeper->session.spare = NULL;
	if (keeper->lock_fd >= 0)
		close(keeper->lock_fd);
	keeper->lock_fd = -1;
}

static void on_ended(void *data)
{
	struct keeper *keeper = data;

	uv_stop(&keeper->loop);
}

/* --- start and end -------------------------------------------------------------------------------
 */

static int signals_open(struct keeper *keeper, struct err *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of write(2) like any other */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return err_sys(err, "blocking signals");
	keeper->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (keeper->signal_fd < 0)
		return err_sys(err, "signalfd");
	uv_poll_init(&keeper->loop, &keeper->signals, keeper->signal_fd);
	keeper->signals.data = keeper;
	uv_poll_start(&keeper->signals, UV_READABLE, signal_came);
	return 0;
}

static uv_timer_t *timer_new(struct keeper *keeper)
{
	uv_timer_t *timer = mem_zalloc(sizeof(*timer));

	uv_timer_init(&keeper->loop, timer);
	timer->data = &keeper->session;
	return timer;
}

/* The loop, the session's empty shell and the first client: from here on a failure can be told. */
static void shell_open(struct keeper *keeper, int client_fd)
{
	struct session *session = &keeper->session;

	uv_loop_init(&keeper->loop);
	session->loop = &keeper->loop;
	session->state = SESSION_STARTING;
	session->pool_fd = -1;
	session->family = -1;
	session->cells = cells_new();
	session->cell_timer = timer_new(keeper);
	session->ask_timer = timer_new(keeper);
	session->later_timer = timer_new(keeper);
	session->monitor = monitor_new(session);
	session->guard_timer = timer_new(keeper);
	session->released = on_released;
	session->ended = on_ended;
	session->ended_data = keeper;
	session->server = server_new(&keeper->loop, session->dirfd, &SERVER_EVENTS, session);
	if (client_fd >= 0)
		server_adopt(session->server, client_fd);
}

static int listen_open(struct keeper *keeper, struct err *err)
{
	int fd;

	keeper->runtime = paths_runtime(err);
	if (!keeper->runtime)
		return -1;
	keeper->socket_name = mem_format("%s.sock", keeper->session.config.id);
	fd = socket_listen(keeper->runtime, keeper->socket_name, SOCK_STREAM, err);
	if (fd < 0)
		return -1;
	return server_listen(keeper->session.server, fd, err);
}

static int record_start(struct keeper *keeper, struct err *err)
{
	struct session *session = &keeper->session;
	struct journal_report report;

	session->record =
		record_open(&keeper->loop, session->dirfd, session->config.limits.record_bytes,
			    &SESSION_RECORD_EVENTS, session, &report, err);
	if (!session->record)
		return -1;
	server_set_journal(session->server, record_journal(session->record));
	uv_prepare_init(&keeper->loop, &keeper->turn);
	keeper->turn.data = session;
	uv_prepare_start(&keeper->turn, turn_ends);
	return 0;
}

/* The directory of a session that was made by a client, perhaps long ago. */
static int take_directory(struct keeper *keeper, const char *directory, struct err *err)
{
	struct session *session = &keeper->session;

	if (session->dirfd < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no session directory %s", directory);
	keeper->lock_fd = file_lock(session->dirfd, "lock", err);
	if (keeper->lock_fd < 0)
		return err_wrap(err, "the session has a keeper already");
	return config_read(session->dirfd, &session->config, err);
}

static int keeper_start(struct keeper *keeper, const struct options *options, struct err *err)
{
	struct session *session = &keeper->session;

	if (!session->spare && take_directory(keeper, options->directory, err) != 0)
		return -1;
	if (signals_open(keeper, err) != 0 || listen_open(keeper, err) != 0 ||
	    record_start(keeper, err) != 0)
		return -1;
	if (session->spare)
		spare_watch(session->spare);
	if (session_prepare(session, err) != 0)
		return -1;
	return session_start_engine(session, err);
}

static void keeper_release(struct keeper *keeper)
{
	struct session *session = &keeper->session;

	on_released(keeper);
	json_free(session->environment);
	if (session->family >= 0)
		close(session->family);
	json_free(session->hello);
	net_free(session->net);
	free(session->packages);
	free(session->section);
	free(session->python);
	free(session->cold_script);
	free(session->guest_folder);
	free(session->tmp);
	free(session->overlay);
	free(session->tier_reason);
	reach_release(&session->reach);
	free(session->read_paths);
	watch_close(session->watch);
	monitor_free(session->monitor);
	guard_free(session->guard);
	cells_free(session->cells);
	record_free(session->record);
	server_free(session->server);
	config_release(&session->config);
	free(keeper->runtime);
}

/* Tells those who wait why nothing comes, and gives them a moment to read it. */
static void fail(struct keeper *keeper, const struct err *err)
{
	struct session *session = &keeper->session;

	fprintf(stderr, "fumehood-keeper: %s\n", err->text);
	session_move(
		session,
		SESSION_STOP); /* so that a signal, or the clients' going, stops nothing twice */
	server_refuse(session->server, err);
	session_release_engine(session);
	server_close(session->server, on_ended, keeper);
	uv_run(&keeper->loop, UV_RUN_DEFAULT);
}

static int parse_arguments(int argc, char **argv, struct options *options)
{
	bool spare = false;

	*options = (struct options){.fd = -1};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--session") == 0 && i + 1 < argc)
			options->directory = argv[++i];
		else if (strcmp(argv[i], "--python") == 0 && i + 1 < argc)
			options->python = argv[++i];
		else if (strcmp(argv[i], "--fd") == 0 && i + 1 < argc)
			options->fd = (int)strtol(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--spare") == 0)
			spare = true;
		else
			return -1;
	}
	if (spare)
		return options->python && options->fd >= 0 && !options->directory ? 0 : -1;
	return options->directory && !options->python ? 0 : -1;
}

/* The directory, and with it the session's shell. False: there is nobody to tell. */
static bool keeper_open(struct keeper *keeper, const struct options *options)
{
	struct session *session = &keeper->session;
	struct err err = ERR_INIT;

	if (options->directory) {
		session->dirfd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		shell_open(keeper, options->fd);
		return true;
	}
	if (spare_make(session, options->python, options->fd, &keeper->lock_fd, &err) != 0) {
		fprintf(stderr, "fumehood-keeper: %s\n", err.text);
		return false;
	}
	shell_open(keeper, -1);
	return true;
}

int main(int argc, char **argv)
{
	static struct keeper keeper = {.signal_fd = -1, .lock_fd = -1};
	struct err err = ERR_INIT;
	struct options options;
	int status = 0;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("fumehood-keeper %s\n", FH_VERSION);
		return 0;
	}
	if (parse_arguments(argc, argv, &options) != 0) {
		fprintf(stderr,
			"usage: fumehood-keeper --session DIR [--fd N]\n"
			"       fumehood-keeper --spare --python PATH --fd N\n"
			"Started by fumehood itself; `fumehood run` is the command for people.\n");
		return EXIT_USAGE;
	}
	if (options.fd >= 0)
		(void)fcntl(options.fd, F_SETFD, FD_CLOEXEC);
	if (options.directory) /* a spare has time */
		cgroup_prepare();
	if (!keeper_open(&keeper, &options))
		return EXIT_FAULT;
	if (keeper_start(&keeper, &options, &err) != 0) {
		fail(&keeper, &err);
		status = EXIT_FAULT;
	} else {
		uv_run(&keeper.loop, UV_RUN_DEFAULT);
		if (keeper.session.start_err.code != ERR_OK) {
			fprintf(stderr, "fumehood-keeper: %s\n", keeper.session.start_err.text);
			status = EXIT_FAULT;
		}
	}
	/* A thread that looks up a name for the proxy cannot be interrupted, and libuv's destructor
	 * waits for its threads. */
	if (net_is_closing(&keeper.session)) {
		on_released(&keeper);
		_exit(status);
	}
	keeper_release(&keeper);
	return status;
}
