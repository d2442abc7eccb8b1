/*
 * A hold on a running model. See lease.h.
 *
 * Which folder: a hash of all that makes one server different from another: the model's file as it
 * is now, the program, context and threads. So a model that was fetched anew, or another setting,
 * is another server, and the old one ends when nobody has used it for a while; or at once, when
 * memory is wanted for another (lease_yield_others).
 */
#include "model/lease.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "model/owner.h"

enum {
	FOLDER_CHARS = 12,
	BEGIN_MS_MAX = 30000,   /* until an owner listens */
	READY_MS_MIN = 120000,  /* until its server is healthy ... */
	READY_BYTES_MS = 10000, /* ... and this much longer for so many bytes a ms */
	ANSWER_MS_MAX = 10000,
	STOP_MS_MAX = 15000,
	TRIES_MAX = 4,
};

struct lease {
	struct llama llama;
	struct json *wish; /* what the owner is told; without argv */
	char *folder, *socket;
	uint64_t context;
	unsigned threads;
	int64_t ready_ms;
	int cancel_fd;
	const int64_t *deadline_us;
	int fd;      /* the connection; -1 */
	bool wanted; /* an owner was told that its model is wanted */
};

/* --- making ----------------------------------------------------------------------------------- */

static char *models_folder(struct err *err)
{
	cleanup_free char *runtime = paths_runtime(err);

	return runtime ? mem_format("%s/models", runtime) : NULL;
}

static int make_folder(struct lease *lease, const struct stat *st, struct err *err)
{
	cleanup_free char *models = models_folder(err);
	cleanup_free char *key = mem_format(
		"%s\n%s\n%s\n%llu %u\n%llu %llu %lld.%ld", json_get_string(lease->wish, "model"),
		lease->llama.program, lease->llama.site ? lease->llama.site : "",
		(unsigned long long)lease->context, lease->threads, (unsigned long long)st->st_ino,
		(unsigned long long)st->st_size, (long long)st->st_mtim.tv_sec,
		st->st_mtim.tv_nsec);
	char hex[HASH_HEX_SIZE];

	if (!models)
		return -1;
	hash_sha256(key, strlen(key), hex);
	lease->folder = mem_format("%s/%.*s", models, FOLDER_CHARS, hex);
	lease->socket = mem_format("%s/" OWNER_SERVER_SOCKET, lease->folder);
	if (strlen(lease->socket) > LLAMA_SOCKET_BYTES_MAX)
		return err_set(err, ERR_LIMIT,
			       "XDG_RUNTIME_DIR is too long for the socket of a model's server: "
			       "%zu bytes, %d at most",
			       strlen(lease->socket), LLAMA_SOCKET_BYTES_MAX);
	return file_make_dirs(lease->folder, 0700, err);
}

struct lease *lease_new(const struct lease_params *params, struct err *err)
{
	struct lease *lease = mem_zalloc(sizeof(*lease));
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct stat st;

	lease->fd = -1;
	lease->cancel_fd = params->cancel_fd;
	lease->deadline_us = params->deadline_us;
	lease->context = params->context;
	lease->threads =
		params->threads ? params->threads : (unsigned)(processors > 0 ? processors : 1);
	lease->wish = json_new_object();
	json_set_string(lease->wish, "model", params->model);
	json_set_string(lease->wish, "name", params->name);
	json_set_int(lease->wish, "context", (int64_t)params->context);
	json_set_int(lease->wish, "idle_ms", params->idle_ms);
	if (stat(params->model, &st) != 0) {
		err_sys(err, "cannot use %s", params->model);
		lease_free(lease);
		return NULL;
	}
	lease->ready_ms = READY_MS_MIN + (int64_t)st.st_size / READY_BYTES_MS;
	json_set_int(lease->wish, "ready_ms", lease->ready_ms);
	if (llama_find(&lease->llama, params->server, err) != 0 ||
	    make_folder(lease, &st, err) != 0) {
		lease_free(lease);
		return NULL;
	}
	json_set_string(lease->wish, "folder", lease->folder);
	return lease;
}

void lease_free(struct lease *lease)
{
	if (!lease)
		return;
	if (lease->fd >= 0)
		close(lease->fd);
	llama_release(&lease->llama);
	json_free(lease->wish);
	free(lease->folder);
	free(lease->socket);
	free(lease);
}

const char *lease_socket(const struct lease *lease)
{
	return lease->socket;
}

/* --- time ------------------------------------------------------------------------------------- */

/* Of `most_ms` as much as there is before the deadline. */
static int64_t time_left_ms(const struct lease *lease, int64_t most_ms)
{
	return clock_left_ms(lease->deadline_us ? *lease->deadline_us : 0, most_ms);
}

static bool is_late(const struct lease *lease)
{
	return time_left_ms(lease, 1) == 0;
}

/* What is told then: the load itself goes on (owner.c). */
static int fail_late(const struct lease *lease, struct err *err)
{
	if (!lease->wanted)
		return err_set(err, ERR_TIMEOUT, "there was no time left to load the model %.100s",
			       json_get_string(lease->wish, "name"));
	return err_set(err, ERR_TIMEOUT,
		       "the model %.100s was not loaded in time; its server goes on loading: ask "
		       "again in a while (fumehood model status tells when it is ready), or give "
		       "more time",
		       json_get_string(lease->wish, "name"));
}

/* --- messages --------------------------------------------------------------------------------- */

static int send_op(int fd, const char *op)
{
	cleanup_free char *text = mem_format("{\"op\":\"%s\"}", op);

	return send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* The next message, owned by the caller; NULL with ERR_GONE (the owner has gone; *cancelled: or the
 * user wants to end), ERR_TIMEOUT. */
static struct json *receive(int fd, int cancel_fd, int64_t wait_ms, bool *cancelled,
			    struct err *err)
{
	struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = cancel_fd, .events = POLLIN}};
	int64_t until_us = clock_monotonic_us() + wait_ms * 1000;
	char bytes[OWNER_MESSAGE_MAX];
	struct json *message;
	ssize_t len;
	int ready;

	do {
		int64_t left_ms = (until_us - clock_monotonic_us()) / 1000;

		ready = poll(fds, 2, left_ms > 0 ? (int)left_ms : 0);
	} while (ready < 0 && errno == EINTR);
	*cancelled = ready > 0 && fds[1].revents != 0;
	if (ready <= 0 || !fds[0].revents) {
		err_set(err, *cancelled ? ERR_GONE : ERR_TIMEOUT,
			*cancelled ? "interrupted" : "the owner of the model's server is silent");
		return NULL;
	}
	len = recv(fd, bytes, sizeof(bytes), 0);
	message = len > 0 ? json_parse(bytes, (size_t)len, &JSON_LIMITS, NULL) : NULL;
	if (!message)
		err_set(err, ERR_GONE, "the owner of the model's server has ended");
	return message;
}

/* --- starting an owner ------------------------------------------------------------------------ */

static struct json *make_argv(const struct lease *lease, struct err *err)
{
	const struct llama_wish wish = {.model = json_get_string(lease->wish, "model"),
					.socket = lease->socket,
					.context = lease->context,
					.parallel = LLAMA_PARALLEL,
					.threads = lease->threads};
	struct llama_words words;
	struct json *argv;

	if (llama_words(&words, &lease->llama, &wish, err) != 0)
		return NULL;
	argv = json_new_array();
	for (size_t i = 0; i < words.count; i++)
		json_push(argv, json_new_string(words.words[i], strlen(words.words[i])));
	llama_words_release(&words);
	return argv;
}

/* What it says when it listens, or why it does not. */
static int hear_owner(int fd, int64_t wait_ms, struct err *err)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char text[sizeof(err->text)] = "";
	ssize_t len = poll(&ready, 1, (int)wait_ms) > 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (len > 0 && strcmp(text, "ok") == 0)
		return 0;
	return err_set(err, ERR_ENGINE, "the owner of the model's server did not start%s%s",
		       len > 0 ? ": " : "", len > 0 ? text : "");
}

/* Others that nobody uses give their memory back. */
static void yield_others(const struct lease *lease);

static int start_owner(struct lease *lease, struct err *err)
{
	cleanup_free char *program = paths_helper("fumehood-ask", err);
	struct json *argv = program ? make_argv(lease, err) : NULL;
	cleanup_json struct json *wish = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_fd int ours = -1, theirs = -1;
	const char *words[] = {OWNER_NAME, NULL, NULL};
	struct child child;
	int ends[2];

	if (!argv)
		return -1;
	yield_others(lease);
	wish = json_copy(lease->wish);
	json_set(wish, "argv", argv);
	json_write(&text, wish);
	words[1] = buf_bytes(&text);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_sys(err, "pipe");
	ours = ends[0];
	theirs = ends[1];
	const int fds[] = {-1, -1, -1, theirs};
	const struct child_params params = {.path = program,
					    .argv = words,
					    .fds = fds,
					    .fd_count = 4,
					    .new_session = true,
					    .orphan = true,
					    .directory = "/"};

	if (child_start(&params, &child, err) != 0)
		return -1;
	close(fd_take(&theirs));
	return hear_owner(ours, time_left_ms(lease, BEGIN_MS_MAX), err);
}

static int connect_owner(struct lease *lease, struct err *err)
{
	struct err why = ERR_INIT;

	lease->fd = socket_connect(lease->folder, OWNER_SOCKET, SOCK_SEQPACKET, &why);
	if (lease->fd >= 0)
		return 0;
	if (why.code != ERR_NOT_FOUND) {
		if (err)
			*err = why;
		return -1;
	}
	if (start_owner(lease, err) != 0)
		return -1;
	lease->fd = socket_connect(lease->folder, OWNER_SOCKET, SOCK_SEQPACKET, err);
	return lease->fd < 0 ? -1 : 0;
}

static void disconnect(struct lease *lease)
{
	if (lease->fd >= 0)
		close(lease->fd);
	lease->fd = -1;
}

int lease_ensure(struct lease *lease, struct err *err)
{
	struct err why = ERR_INIT;

	for (int i = 0; i < TRIES_MAX; i++) {
		cleanup_json struct json *message = NULL;
		const char *state;
		bool cancelled = false;

		if (is_late(lease))
			return fail_late(lease, err);
		why = (struct err)ERR_INIT;
		if (lease->fd < 0 && connect_owner(lease, &why) != 0) {
			if (why.code == ERR_NOT_FOUND && lease->llama.program)
				continue; /* it has ended in between */
			break;
		}
		if (send_op(lease->fd, "use") == 0) {
			lease->wanted = true;
			message = receive(lease->fd, lease->cancel_fd,
					  time_left_ms(lease, lease->ready_ms + BEGIN_MS_MAX),
					  &cancelled, &why);
		} else {
			err_set(&why, ERR_GONE, "the owner of the model's server has ended");
		}
		state = json_get_string(message, "state");
		if (state && strcmp(state, "ready") == 0)
			return 0;
		if (state)
			return err_set(err, err_from_name(json_get_string(message, "code")), "%s",
				       json_get_string(message, "message"));
		disconnect(lease);
		if (cancelled || why.code == ERR_TIMEOUT)
			break;
	}
	if (why.code != ERR_GONE && is_late(lease))
		return fail_late(lease, err);
	if (err)
		*err = why;
	return -1;
}

void lease_explain(struct lease *lease, struct err *err)
{
	cleanup_json struct json *message = NULL;
	bool cancelled = false;
	const char *text;

	if (lease->fd < 0 || send_op(lease->fd, "last") != 0)
		return;
	message = receive(lease->fd, lease->cancel_fd, ANSWER_MS_MAX, &cancelled, NULL);
	text = json_get_string(message, "message");
	if (text)
		err_set(err, ERR_GONE, "%s", text);
}

/* --- all that run ----------------------------------------------------------------------------- */

/* Calls `each` with a connection to every owner that listens. */
static int each_owner(void (*each)(int fd, const char *folder, void *data), void *data,
		      struct err *err)
{
	cleanup_free char *models = models_folder(err);
	DIR *directory;

	if (!models)
		return -1;
	directory = opendir(models);
	if (!directory)
		return errno == ENOENT ? 0 : err_sys(err, "cannot open %s", models);
	for (struct dirent *entry; (entry = readdir(directory));) {
		cleanup_free char *folder = mem_format("%s/%s", models, entry->d_name);
		cleanup_fd int fd = -1;

		if (entry->d_name[0] == '.')
			continue;
		fd = socket_connect(folder, OWNER_SOCKET, SOCK_SEQPACKET, NULL);
		if (fd >= 0)
			each(fd, folder, data);
	}
	closedir(directory);
	return 0;
}

static void yield_other(int fd, const char *folder, void *data)
{
	const struct lease *lease = data;
	bool cancelled;

	if (strcmp(folder, lease->folder) == 0 || send_op(fd, "yield") != 0)
		return;
	/* Its answer, or its end. */
	json_free(receive(fd, lease->cancel_fd, time_left_ms(lease, ANSWER_MS_MAX), &cancelled,
			  NULL));
}

static void yield_others(const struct lease *lease)
{
	(void)each_owner(yield_other, (void *)(uintptr_t)lease, NULL);
}

static struct json *ask_status(int fd)
{
	bool cancelled;

	return send_op(fd, "status") == 0 ? receive(fd, -1, ANSWER_MS_MAX, &cancelled, NULL) : NULL;
}

static void list_one(int fd, const char *folder, void *data)
{
	struct json *status = ask_status(fd);

	(void)folder;
	if (status)
		json_push(data, status);
}

struct json *lease_list(struct err *err)
{
	struct json *list = json_new_array();

	if (each_owner(list_one, list, err) == 0)
		return list;
	json_free(list);
	return NULL;
}

struct stopping {
	const char *model;
	unsigned stopped;
};

static bool is_meant(const struct json *status, const char *model)
{
	const char *path = json_get_string(status, "model");
	const char *name = json_get_string(status, "name");

	return !model || (path && strcmp(path, model) == 0) || (name && strcmp(name, model) == 0);
}

/* Its lock is free again when it and its server have ended. */
static void wait_for_end(const char *folder)
{
	cleanup_fd int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int64_t until_us = clock_monotonic_us() + STOP_MS_MAX * 1000;

	while (dirfd >= 0 && clock_monotonic_us() < until_us) {
		int lock = file_lock(dirfd, "lock", NULL);

		if (lock >= 0) {
			close(lock);
			return;
		}
		(void)poll(NULL, 0, 20);
	}
}

static void stop_one(int fd, const char *folder, void *data)
{
	struct stopping *stopping = data;
	cleanup_json struct json *status = ask_status(fd);

	if (!status || !is_meant(status, stopping->model) || send_op(fd, "stop") != 0)
		return;
	wait_for_end(folder);
	stopping->stopped++;
}

int lease_stop(const char *model, unsigned *stopped, struct err *err)
{
	struct stopping stopping = {.model = model};

	if (each_owner(stop_one, &stopping, err) != 0)
		return -1;
	*stopped = stopping.stopped;
	return 0;
}
