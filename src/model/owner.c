/*
 * The owner of a running model. See owner.h.
 *
 * One thread, one poll(2): the listening socket, the server's pidfd, SIGTERM and the clients. It
 * does what it is told by processes of the same user only (the folder's mode, and the peer's uid).
 */
#include "model/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"

enum {
	HEALTH_EVERY_MS = 100,
	LOCK_TRY_MS = 50,
	LOCK_TRIES = 400, /* 20 s: the one before ends its server */
	DEATH_WAIT_MS = 500,
};

enum owner_state { OWNER_NONE, OWNER_STARTING, OWNER_READY };

static const char *const STATE_NAMES[] = {
	[OWNER_NONE] = "stopped", [OWNER_STARTING] = "starting", [OWNER_READY] = "ready"};

struct client {
	int fd;
	bool user;  /* it has said "use" */
	bool waits; /* for the answer to it */
};

struct owner {
	struct json *wish; /* the arguments */
	const char *folder;
	int64_t idle_ms, ready_ms;
	int dirfd, lock, listener, signals;
	struct client clients[OWNER_CLIENTS_MAX];
	size_t count;
	enum owner_state state;
	struct owner_server server;
	int64_t since_us;      /* of the state STARTING */
	int64_t idle_since_us; /* without a user; meaningless with one */
	uint64_t starts;
	struct err last; /* how the server ended */
	bool ended;
};

/* --- answers ---------------------------------------------------------------------------------- */

static void answer(struct client *client, const struct json *message)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, message);
	/* Who does not read what it has asked for loses it: nobody waits here. */
	(void)send(client->fd, buf_bytes(&text), text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_state(struct client *client, const struct err *failure)
{
	cleanup_json struct json *message = json_new_object();

	json_set_string(message, "state", failure ? "failed" : "ready");
	if (failure) {
		json_set_string(message, "code", err_name(failure->code));
		json_set_string(message, "message", failure->text);
	}
	answer(client, message);
	client->waits = false;
}

static void answer_all(struct owner *owner, const struct err *failure)
{
	for (size_t i = 0; i < owner->count; i++)
		if (owner->clients[i].waits)
			answer_state(&owner->clients[i], failure);
}

static size_t count_users(const struct owner *owner)
{
	size_t users = 0;

	for (size_t i = 0; i < owner->count; i++)
		users += owner->clients[i].user;
	return users;
}

static void answer_status(struct owner *owner, struct client *client)
{
	cleanup_json struct json *message = json_new_object();
	size_t users = count_users(owner);
	int64_t idle_us = users ? 0 : clock_monotonic_us() - owner->idle_since_us;

	json_set(message, "model", json_keep(json_get(owner->wish, "model")));
	json_set(message, "name", json_keep(json_get(owner->wish, "name")));
	json_set(message, "context", json_keep(json_get(owner->wish, "context")));
	json_set_string(message, "state", STATE_NAMES[owner->state]);
	json_set_int(message, "pid", getpid());
	json_set_int(message, "server_pid", owner->server.pidfd < 0 ? 0 : owner->server.pid);
	json_set_int(message, "users", (int64_t)users);
	json_set_int(message, "idle_s", idle_us / 1000000);
	json_set_int(message, "idle_s_max", owner->idle_ms / 1000);
	json_set_int(message, "starts", (int64_t)owner->starts);
	if (owner->last.code)
		json_set_string(message, "last", owner->last.text);
	answer(client, message);
}

/* --- the server ------------------------------------------------------------------------------- */

static void start(struct owner *owner)
{
	struct err err = ERR_INIT;

	(void)unlinkat(owner->dirfd, OWNER_SERVER_SOCKET, 0);
	if (owner_server_start(&owner->server, json_get(owner->wish, "argv"), &err) != 0) {
		owner->last = err;
		answer_all(owner, &err);
		return;
	}
	owner->state = OWNER_STARTING;
	owner->since_us = clock_monotonic_us();
	owner->starts++;
}

static void server_died(struct owner *owner)
{
	owner->last = (struct err)ERR_INIT;
	owner_server_reap(&owner->server, &owner->last);
	owner->state = OWNER_NONE;
	(void)unlinkat(owner->dirfd, OWNER_SERVER_SOCKET, 0);
	answer_all(owner, &owner->last);
}

static void look_at_health(struct owner *owner)
{
	int64_t taken_ms = (clock_monotonic_us() - owner->since_us) / 1000;

	if (owner_server_healthy(&owner->server)) {
		owner->state = OWNER_READY;
		/* Who wanted it may have had no time to wait, and comes again. */
		owner->idle_since_us = clock_monotonic_us();
		answer_all(owner, NULL);
		return;
	}
	if (taken_ms < owner->ready_ms)
		return;
	owner_server_stop(&owner->server);
	owner->state = OWNER_NONE;
	err_set(&owner->last, ERR_TIMEOUT,
		"the model's server was not ready after %lld s; its log: %.120s/" OWNER_LOG,
		(long long)(owner->ready_ms / 1000), owner->folder);
	answer_all(owner, &owner->last);
}

/* --- clients ---------------------------------------------------------------------------------- */

static void drop(struct owner *owner, size_t at)
{
	bool was_user = owner->clients[at].user;

	close(owner->clients[at].fd);
	owner->clients[at] = owner->clients[--owner->count];
	if (was_user && count_users(owner) == 0)
		owner->idle_since_us = clock_monotonic_us();
}

static void use(struct owner *owner, struct client *client)
{
	client->user = client->waits = true;
	if (owner->state == OWNER_READY)
		answer_state(client, NULL);
	else if (owner->state == OWNER_NONE)
		start(owner);
}

/* The connection of a client can break a moment before the kernel tells of the server's death. */
static void answer_last(struct owner *owner, struct client *client)
{
	cleanup_json struct json *message = json_new_object();
	struct pollfd fd = {.fd = owner->server.pidfd, .events = POLLIN};

	if (fd.fd >= 0 && poll(&fd, 1, DEATH_WAIT_MS) > 0)
		server_died(owner);
	if (owner->last.code)
		json_set_string(message, "message", owner->last.text);
	answer(client, message);
}

static void obey(struct owner *owner, struct client *client, const char *op)
{
	if (strcmp(op, "use") == 0)
		use(owner, client);
	else if (strcmp(op, "last") == 0)
		answer_last(owner, client);
	else if (strcmp(op, "status") == 0)
		answer_status(owner, client);
	else if (strcmp(op, "stop") == 0 || (strcmp(op, "yield") == 0 && count_users(owner) == 0))
		owner->ended = true;
	else
		answer_status(owner, client); /* also "yield" while it is used */
}

/* -1: it has gone. */
static int hear(struct owner *owner, struct client *client)
{
	char bytes[OWNER_MESSAGE_MAX];
	ssize_t len = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	cleanup_json struct json *message = NULL;
	const char *op;

	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (len == 0)
		return -1;
	message = json_parse(bytes, (size_t)len, &JSON_LIMITS, NULL);
	op = json_get_string(message, "op");
	if (!op)
		return -1;
	obey(owner, client, op);
	return 0;
}

static void greet(struct owner *owner)
{
	int fd = accept4(owner->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (owner->count == OWNER_CLIENTS_MAX || socket_peer_uid(fd) != geteuid()) {
		close(fd);
		return;
	}
	owner->clients[owner->count++] = (struct client){.fd = fd};
}

/* --- the loop --------------------------------------------------------------------------------- */

enum { FD_LISTENER, FD_SERVER, FD_SIGNALS, FD_CLIENTS };

static int time_left_ms(const struct owner *owner)
{
	int64_t left_us;

	if (owner->state == OWNER_STARTING)
		return HEALTH_EVERY_MS;
	if (count_users(owner) > 0)
		return -1;
	left_us = owner->idle_since_us + owner->idle_ms * 1000 - clock_monotonic_us();
	if (left_us <= 0)
		return 0;
	return left_us > INT64_C(3600) * 1000000 ? 3600 * 1000 : (int)(left_us / 1000) + 1;
}

static void turn(struct owner *owner)
{
	struct pollfd fds[FD_CLIENTS + OWNER_CLIENTS_MAX] = {
		[FD_LISTENER] = {.fd = owner->listener, .events = POLLIN},
		[FD_SERVER] = {.fd = owner->server.pidfd, .events = POLLIN},
		[FD_SIGNALS] = {.fd = owner->signals, .events = POLLIN},
	};
	size_t count = owner->count;
	int ready;

	for (size_t i = 0; i < count; i++)
		fds[FD_CLIENTS + i] = (struct pollfd){.fd = owner->clients[i].fd, .events = POLLIN};
	ready = poll(fds, FD_CLIENTS + count, time_left_ms(owner));
	if (ready < 0)
		return;
	if (fds[FD_SIGNALS].revents)
		owner->ended = true;
	if (fds[FD_SERVER].revents)
		server_died(owner);
	else if (owner->state == OWNER_STARTING)
		look_at_health(owner);
	/* From the last one on, because drop() puts the last into the gap. */
	for (size_t i = count; i > 0; i--)
		if (fds[FD_CLIENTS + i - 1].revents && hear(owner, &owner->clients[i - 1]) != 0)
			drop(owner, i - 1);
	if (fds[FD_LISTENER].revents)
		greet(owner);
	if (ready == 0 && time_left_ms(owner) == 0)
		owner->ended = true;
}

/* --- begin and end ---------------------------------------------------------------------------- */

/* 0: this is the owner; 1: another one listens; -1. */
static int become(struct owner *owner, struct err *err)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		struct err why = ERR_INIT;
		int fd;

		owner->lock = file_lock(owner->dirfd, "lock", &why);
		if (owner->lock >= 0)
			return 0;
		if (why.code != ERR_BUSY) {
			*err = why;
			return -1;
		}
		fd = socket_connect(owner->folder, OWNER_SOCKET, SOCK_SEQPACKET, NULL);
		if (fd >= 0) {
			close(fd);
			return 1;
		}
		(void)poll(NULL, 0, LOCK_TRY_MS);
	}
	return err_set(err, ERR_BUSY, "the model's last server does not end: %s", owner->folder);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int begin(struct owner *owner, const char *arguments, struct err *err)
{
	int outcome;

	owner->wish = json_parse(arguments, strlen(arguments), &JSON_LIMITS, err);
	owner->folder = json_get_string(owner->wish, "folder");
	owner->idle_ms = json_get_int(owner->wish, "idle_ms", 0);
	owner->ready_ms = json_get_int(owner->wish, "ready_ms", 0);
	if (!owner->folder || json_length(json_get(owner->wish, "argv")) == 0)
		return err_set(err, ERR_USAGE, "this is started by fumehood ask");
	owner->dirfd = open(owner->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (owner->dirfd < 0)
		return err_sys(err, "cannot open %s", owner->folder);
	owner->server.folder = mem_string(owner->folder);
	owner->server.dirfd = owner->dirfd;
	outcome = become(owner, err);
	if (outcome != 0)
		return outcome;
	owner->signals = open_signals();
	owner->listener = socket_listen(owner->folder, OWNER_SOCKET, SOCK_SEQPACKET, err);
	owner->idle_since_us = clock_monotonic_us();
	return owner->listener < 0 ? -1 : 0;
}

static void tell_starter(const char *text)
{
	(void)file_write_all(OWNER_READY_FD, text, strlen(text), NULL);
	close(OWNER_READY_FD);
}

/* Nobody can connect any more before the server is told to end; the lock goes last. */
static void end(struct owner *owner)
{
	if (owner->listener >= 0) {
		(void)unlinkat(owner->dirfd, OWNER_SOCKET, 0);
		close(owner->listener);
	}
	while (owner->count > 0)
		drop(owner, owner->count - 1);
	owner_server_stop(&owner->server);
	if (owner->lock >= 0) {
		(void)unlinkat(owner->dirfd, OWNER_SERVER_SOCKET, 0);
		(void)unlinkat(owner->dirfd, OWNER_LOG, 0);
		close(owner->lock);
	}
	free(owner->server.program);
	free(owner->server.folder);
	json_free(owner->wish);
}

int owner_run(int argc, char **argv)
{
	struct owner owner = {.dirfd = -1,
			      .lock = -1,
			      .listener = -1,
			      .signals = -1,
			      .server = {.pidfd = -1, .pid = -1, .dirfd = -1},
			      .last = ERR_INIT};
	struct err err = ERR_INIT;
	int outcome = begin(&owner, argc > 1 ? argv[1] : "", &err);

	tell_starter(outcome < 0 ? err.text : "ok");
	while (outcome == 0 && !owner.ended)
		turn(&owner);
	end(&owner);
	return outcome < 0 ? 1 : 0;
}
