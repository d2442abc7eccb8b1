/*
 * fumehood-pool: the process that keeps one Python environment's zygote warm.
 *
 *   fumehood-pool --python PATH [--idle-seconds N] [--started]
 *
 * Keepers start it by pool_connect() (pool.c); a person may start it by hand, too. `--started` says
 * that descriptors 3 and 4 are those of enum pool_fd: the first one gets "ok" or the reason of a
 * failure, the second one holds the lock already. After that stdout and stderr are the log file
 * pool-<id>.log in the runtime directory, emptied at each start.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/settings.h"
#include "base/socket.h"
#include "pool/command.h"
#include "pool/log.h"
#include "pool/pool.h"
#include "pool/queue.h"
#include "pool/server.h"

enum {
	/* The queue's descriptors, one a connection, and some to spare. */
	FILES_WANTED = QUEUE_ORDERS_MAX * ZYGOTE_FDS + 1024 + 256,
};

struct options {
	const char *python;
	int64_t idle_s; /* 0: what the configuration says */
	bool started;
};

static int usage(FILE *out)
{
	fprintf(out, "usage: fumehood-pool --python PATH [--idle-seconds N] [--started]\n"
		     "Keeps a Python environment warm for sessions; fumehood starts it when it is "
		     "needed.\n");
	return out == stdout ? 0 : 2;
}

/* 0: go on; else 1 + the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"python", required_argument, NULL, 'p'},
		{"idle-seconds", required_argument, NULL, 'i'},
		{"started", no_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	char *end;
	int option;

	*options = (struct options){.idle_s = 0};
	while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
		switch (option) {
		case 'p':
			options->python = optarg;
			break;
		case 'i':
			errno = 0;
			options->idle_s = strtol(optarg, &end, 10);
			if (errno || *end || options->idle_s < 1 ||
			    options->idle_s > SETTINGS[SETTING_POOL_IDLE_S].max)
				return 1 + usage(stderr);
			break;
		case 's':
			options->started = true;
			break;
		case 'h':
			return 1 + usage(stdout);
		case 'v':
			printf("fumehood-pool %s\n", FH_VERSION);
			return 1;
		default:
			return 1 + usage(stderr);
		}
	}
	if (optind < argc || !options->python || options->python[0] != '/')
		return 1 + usage(stderr);
	return 0;
}

/* Says why there will be no pool, to a starting keeper or to a person. */
static int fail(const struct options *options, const struct err *err)
{
	int fd = options->started ? POOL_FD_REPORT : STDERR_FILENO;

	file_write_all(fd, err->text, strlen(err->text), NULL);
	if (!options->started)
		file_write_all(fd, "\n", 1, NULL);
	return err_exit_status(err->code);
}

/* Opens the log file; it becomes stdout and stderr when nothing can fail any more. */
static int open_log(const char *directory, const char *name, struct err *err)
{
	cleanup_free char *path = mem_format("%s/%s", directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(err, "the log %s cannot be written", path) : fd;
}

/* Takes the lock unless it came with the start; returns the descriptor that holds it. */
static int hold_lock(const struct options *options, const char *directory, const char *name,
		     struct err *err)
{
	cleanup_fd int dirfd = -1;

	if (options->started) {
		if (fcntl(POOL_FD_LOCK, F_SETFD, FD_CLOEXEC) < 0 ||
		    fcntl(POOL_FD_REPORT, F_SETFD, FD_CLOEXEC) < 0)
			return err_sys(err,
				       "descriptors 3 and 4 have not been given to fumehood-pool");
		return POOL_FD_LOCK;
	}
	dirfd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, "the directory %s cannot be opened", directory);
	return file_lock(dirfd, name, err);
}

/* The signals that mean "end", as a descriptor. */
static int watch_signals(struct err *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	fd = sigprocmask(SIG_BLOCK, &set, NULL) < 0
		     ? -1
		     : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_sys(err, "signals cannot be watched") : fd;
}

/* Raises our own limit of open files and returns what it was. If that fails, orders are refused
 * earlier. */
static rlim_t raise_files(void)
{
	struct rlimit files, raised;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return 1024;
	raised = files;
	if (raised.rlim_cur < FILES_WANTED)
		raised.rlim_cur = raised.rlim_max < FILES_WANTED ? raised.rlim_max : FILES_WANTED;
	setrlimit(RLIMIT_NOFILE, &raised);
	return files.rlim_cur;
}

/* All that can fail, before anybody is told that the pool is there. */
static int prepare(const struct options *options, const char *directory,
		   const struct pool_names *names, struct server_params *params, struct err *err)
{
	cleanup_fd int log = -1;

	params->lock = hold_lock(options, directory, names->lock, err);
	if (params->lock < 0)
		return -1;
	log = open_log(directory, names->log, err);
	if (log < 0)
		return -1;
	params->signals = watch_signals(err);
	if (params->signals < 0)
		return -1;
	params->files_soft = raise_files();
	params->listener = socket_listen(directory, names->socket, SOCK_SEQPACKET, err);
	if (params->listener < 0)
		return -1;
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options;
	int status = parse_options(argc, argv, &options);
	struct err err = ERR_INIT;
	struct pool_names names;
	cleanup_free char *directory = NULL, *guest = NULL, *script = NULL;
	struct server_params params;
	struct tuning tuning;

	if (status)
		return status - 1;
	umask(077);
	directory = paths_runtime(&err);
	guest = directory ? paths_helper("python", &err) : NULL;
	if (!guest)
		return fail(&options, &err);
	script = mem_format("%s/fumehood_guest/zygote.py", guest);
	pool_names_init(&names, options.python);
	params = (struct server_params){
		.tuning = &tuning,
		.script = script,
		.directory = directory,
		.socket_name = names.socket,
		.lock_name = names.lock,
	};
	if (prepare(&options, directory, &names, &params, &err) < 0)
		return fail(&options, &err);
	if (options.started) {
		file_write_all(POOL_FD_REPORT, "ok", 2, NULL);
		close(POOL_FD_REPORT);
	}
	pool_log("fumehood-pool %s for %s", FH_VERSION, options.python);
	/* Now that there is a log: a broken file keeps no pool from starting. */
	tuning_init(&tuning, options.python, options.idle_s);
	server_run(&params);
	tuning_release(&tuning);
	return 0;
}
