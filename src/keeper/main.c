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
#include "engine/python/guests.h"
#include "keeper/branch.h"
#include "keeper/checkpoints.h"
#include "keeper/confine.h"
#include "keeper/home.h"
#include "keeper/net.h"
#include "keeper/guard.h"
#include "keeper/monitor.h"
#include "keeper/session.h"
#include "keeper/shell.h"
#include "keeper/snapshots.h"
#include "keeper/spare.h"
#include "keeper/spawner.h"

enum { EXIT_USAGE = 2, EXIT_FAULT = 125 };

struct options {
	char *title; /* the command line, for the spawner's */
	size_t title_len;
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
	struct err spawner_err; /* why there is none */
	char *socket_name;
	struct session session;
};

/* --- what the loop calls -------------------------------------------------------------------------
 */

static void turn_ends(uv_prepare_t *prepare)
{
	struct keeper *keeper = prepare->data;

	shell_turn(keeper->session.home);
	branch_free_ended(keeper->session.home);
}

static void stop_all(const struct home *home, const char *reason)
{
	for (struct session *s = home->sessions; s; s = s->next_in_home)
		if (s->state != SESSION_STOPPING)
			session_stop(s, reason);
}

static void signal_came(uv_poll_t *poll, int status, int events)
{
	struct keeper *keeper = poll->data;
	struct signalfd_siginfo info;

	(void)status;
	(void)events;
	while (read(keeper->signal_fd, &info, sizeof(info)) == sizeof(info))
		;
	stop_all(keeper->session.home, "signal");
}

/* The name first: once the lock is free, the next keeper's socket may be there. */
static void on_released(void *data)
{
	struct keeper *keeper = data;
	struct session *session = &keeper->session;

	if (session->spawner && (keeper->socket_name || session->spare))
		spawner_release(session->spawner, session->spare != NULL);
	free(keeper->socket_name);
	keeper->socket_name = NULL;
	home_let_spawner_go(session);
	spare_free(session->spare);
	session->spare = NULL;
	if (keeper->lock_fd >= 0)
		close(keeper->lock_fd);
	keeper->lock_fd = -1;
}

static void on_ended(void *data)
{
	struct keeper *keeper = data;

	home_ended(&keeper->session);
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

/* The loop, the session's empty shell and the first client: from here on a failure can be told. */
static void keeper_shell(struct keeper *keeper, int client_fd)
{
	struct session *session = &keeper->session;

	uv_loop_init(&keeper->loop);
	session->loop = &keeper->loop;
	session->pool_fd = -1;
	session->family = -1;
	session->home = home_new(session);
	session->guests = guests_new();
	session->released = on_released;
	session->ended = on_ended;
	session->ended_data = keeper;
	shell_open(session);
	if (client_fd >= 0)
		server_adopt(session->server, client_fd);
}

static int listen_open(struct keeper *keeper, struct err *err)
{
	struct home *home = keeper->session.home;
	int fd;

	home->runtime = paths_runtime(err);
	if (!home->runtime)
		return -1;
	share_open(&home->share, home->runtime);
	keeper->socket_name = mem_format("%s.sock", keeper->session.config.id);
	fd = socket_listen(home->runtime, keeper->socket_name, SOCK_STREAM, err);
	if (fd < 0)
		return -1;
	return server_listen(keeper->session.server, fd, err);
}

static int record_start(struct keeper *keeper, int above, struct err *err)
{
	if (shell_record(&keeper->session, above, err) != 0)
		return -1;
	uv_prepare_init(&keeper->loop, &keeper->turn);
	keeper->turn.data = keeper;
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

/* Without it nothing can be built: the session ends, and says why. */
static void spawner_gone(void *data)
{
	const struct session *session = data;

	stop_all(session->home, "spawner");
}

static int keeper_start(struct keeper *keeper, const struct options *options, struct err *err)
{
	struct session *session = &keeper->session;
	cleanup_fd int above = -1;

	if (!session->spare && take_directory(keeper, options->directory, err) != 0)
		return -1;
	if (!session->spawner) /* it could not be started */
		return err_set(err, ERR_IO, "%s", keeper->spawner_err.text);
	spawner_prepare(session->spawner);
	spawner_watch(session->spawner, &keeper->loop, spawner_gone, session);
	if (signals_open(keeper, err) != 0 || listen_open(keeper, err) != 0 ||
	    session_prepare(session, err) != 0)
		return -1;
	above = openat(session->dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (session_confine(session, err) != 0 || record_start(keeper, fd_take(&above), err) != 0)
		return -1;
	if (session->spare)
		spare_watch(session->spare);
	return session_start_engine(session, err);
}

static void keeper_release(struct keeper *keeper)
{
	struct session *session = &keeper->session;

	on_released(keeper);
	reach_release(&session->reach);
	free(session->overlay);
	guard_free(session->guard);
	branch_free_ended(session->home);
	shell_close(session);
	guests_free(session->guests);
	home_free(session->home);
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

	*options = (struct options){
		.title = argv[0],
		.title_len = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]),
		.fd = -1};
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

/* While this process is small, and before there is anything that must not be forked. */
static void fork_spawner(struct keeper *keeper, const struct options *options)
{
	if (keeper->session.dirfd >= 0)
		keeper->session.spawner = spawner_new(&keeper->session, options->title,
						      options->title_len, &keeper->spawner_err);
}

/* The directory, and with it the session's shell. False: there is nobody to tell. */
static bool keeper_open(struct keeper *keeper, const struct options *options)
{
	struct session *session = &keeper->session;
	struct err err = ERR_INIT;

	if (options->directory) {
		session->dirfd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fork_spawner(keeper, options);
		keeper_shell(keeper, options->fd);
		return true;
	}
	if (spare_make(session, options->python, options->fd, &keeper->lock_fd, &err) != 0) {
		fprintf(stderr, "fumehood-keeper: %s\n", err.text);
		return false;
	}
	fork_spawner(keeper, options);
	keeper_shell(keeper, -1);
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
