/*
 * Keeping a spare, and giving it away; spare.h has the states and the rules.
 *
 * The keeper is started as an orphan, because it is to outlive us as any session does: it is known
 * by its end of a socket pair and nothing else. The end of that socket is its death, and the end of
 * ours is its order to go: so a pool that is killed leaves no spare behind, and a spare that is
 * killed is noticed at once.
 *
 * Clients that wait are not watched. One that has gone meanwhile is passed over when its turn
 * comes.
 */
#include "pool/spare.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "guest/protocol.h"
#include "pool/command.h"
#include "pool/log.h"

enum { ACCEPTS_A_TURN = 16, SPARE_FD = 3 };

/* A descriptor on the loop. The handle lives on the heap until libuv has closed it. */
struct watch {
	uv_poll_t poll;
	int fd;
};

struct spare {
	struct spare_params params;
	enum spare_state state;
	struct watch *keeper;   /* in STARTING, READY and ENDING */
	struct watch *listener; /* NULL: nobody can connect */
	char socket_name[SPARE_NAME_SIZE];
	struct stat socket_file;
	uv_timer_t timer;
	uint64_t generation; /* of the zygote when the keeper was started */
	pid_t pid;
	unsigned deaths; /* in a row */
	int64_t start_us, ready_us, busy_us;
	int clients[SPARE_CLIENTS_MAX]; /* that wait, oldest first */
	size_t client_count;
};

/* ---- pure parts ---- */

enum spare_state spare_next(enum spare_state state, enum spare_event event)
{
	/* No move leads to OFF: it stands for "no such move". */
	static const enum spare_state moves[SPARE_STATE_COUNT][SPARE_EVENT_COUNT] = {
		[SPARE_OFF] =
			{
				[SPARE_WANTED] = SPARE_DUE,
				[SPARE_FAILED] = SPARE_RESTING,
				[SPARE_END] = SPARE_ENDING,
			},
		[SPARE_DUE] =
			{
				[SPARE_TIME] = SPARE_STARTING,
				[SPARE_FAILED] = SPARE_RESTING,
				[SPARE_END] = SPARE_ENDING,
			},
		[SPARE_STARTING] =
			{
				[SPARE_SAID] = SPARE_READY,
				[SPARE_DROPPED] = SPARE_DUE,
				[SPARE_DIED] = SPARE_DUE,
				[SPARE_FAILED] = SPARE_RESTING,
				[SPARE_END] = SPARE_ENDING,
			},
		[SPARE_READY] =
			{
				[SPARE_GIVEN] = SPARE_DUE,
				[SPARE_DROPPED] = SPARE_DUE,
				[SPARE_DIED] = SPARE_DUE,
				[SPARE_FAILED] = SPARE_RESTING,
				[SPARE_END] = SPARE_ENDING,
			},
		[SPARE_RESTING] =
			{
				[SPARE_TIME] = SPARE_DUE,
				[SPARE_END] = SPARE_ENDING,
			},
		[SPARE_ENDING] =
			{
				[SPARE_ENDED] = SPARE_CLOSED,
			},
	};
	enum spare_state next = moves[state][event];

	return next == SPARE_OFF ? SPARE_STATE_COUNT : next;
}

static void move(struct spare *spare, enum spare_event event)
{
	spare->state = spare_next(spare->state, event);
	assert(spare->state != SPARE_STATE_COUNT);
}

static uint64_t left_ms(int64_t now_us, int64_t since_us, int64_t ms)
{
	int64_t passed_ms = (now_us - since_us) / 1000;

	if (passed_ms < 0)
		passed_ms = 0;
	return passed_ms >= ms ? 0 : (uint64_t)(ms - passed_ms);
}

uint64_t spare_wait_ms(int64_t now_us, int64_t busy_us, int64_t start_us, unsigned deaths,
		       bool wanted)
{
	uint64_t quiet_ms = wanted ? 0 : left_ms(now_us, busy_us, SPARE_QUIET_MS);
	uint64_t gap_ms = 0;

	if (deaths > 0 && start_us != 0)
		gap_ms = left_ms(now_us, start_us, SPARE_START_GAP_MS);
	return quiet_ms > gap_ms ? quiet_ms : gap_ms;
}

void spare_socket_name(char name[static SPARE_NAME_SIZE], const char *python, const char *state)
{
	cleanup_free char *identity = mem_format("%s\n%s\n%s", python, state, FH_VERSION);
	char hex[HASH_HEX_SIZE];

	hash_sha256(identity, strlen(identity), hex);
	snprintf(name, SPARE_NAME_SIZE, "spare-%.16s.sock", hex);
}

const char *spare_state_name(const struct spare *spare)
{
	static const char *const names[SPARE_STATE_COUNT] = {
		[SPARE_OFF] = "off",           [SPARE_DUE] = "due",
		[SPARE_STARTING] = "starting", [SPARE_READY] = "ready",
		[SPARE_RESTING] = "resting",   [SPARE_ENDING] = "ending",
		[SPARE_CLOSED] = "ending",
	};

	return names[spare->state];
}

pid_t spare_pid(const struct spare *spare)
{
	return spare->state == SPARE_READY ? spare->pid : 0;
}

/* ---- descriptors on the loop ---- */

static void on_watch_closed(uv_handle_t *handle)
{
	free(handle);
}

static struct watch *watch_open(struct spare *spare, int fd, uv_poll_cb event)
{
	struct watch *watch = mem_zalloc(sizeof(*watch));
	int failed = uv_poll_init(spare->params.loop, &watch->poll, fd);

	assert(!failed);
	watch->fd = fd;
	watch->poll.data = spare;
	failed = uv_poll_start(&watch->poll, UV_READABLE, event);
	assert(!failed);
	(void)failed;
	return watch;
}

static void watch_close(struct watch **watch)
{
	if (!*watch)
		return;
	uv_close((uv_handle_t *)&(*watch)->poll, on_watch_closed);
	close(fd_take(&(*watch)->fd));
	*watch = NULL;
}

/* ---- the keeper ---- */

static void on_keeper(uv_poll_t *poll, int status, int events);
static void serve(struct spare *spare);

static void close_clients(struct spare *spare)
{
	for (size_t i = 0; i < spare->client_count; i++)
		close(spare->clients[i]);
	spare->client_count = 0;
}

static void on_time(uv_timer_t *timer);

/* In DUE: sets the timer for the next start. */
static void start_soon(struct spare *spare)
{
	uv_timer_start(&spare->timer, on_time,
		       spare_wait_ms(clock_monotonic_us(), spare->busy_us, spare->start_us,
				     spare->deaths, spare->client_count > 0),
		       0);
}

static void rest(struct spare *spare, const char *why)
{
	pool_log("no spare sessions for %d s: %s", SPARE_REST_MS / 1000, why);
	watch_close(&spare->keeper);
	close_clients(spare);
	move(spare, SPARE_FAILED);
	spare->deaths = SPARE_DEATHS_MAX - 1; /* then one more try, not three */
	uv_timer_start(&spare->timer, on_time, SPARE_REST_MS, 0);
}

/* Gives the keeper up, which it notices by the end of its socket. */
static void drop(struct spare *spare, const char *why)
{
	pool_log("the spare session is given up: %s", why);
	watch_close(&spare->keeper);
	move(spare, SPARE_DROPPED);
	start_soon(spare);
}

static void keeper_died(struct spare *spare)
{
	if (spare->state == SPARE_READY &&
	    clock_monotonic_us() - spare->ready_us >= SPARE_SOUND_MS * INT64_C(1000))
		spare->deaths = 0;
	if (++spare->deaths >= SPARE_DEATHS_MAX) {
		rest(spare, "they end by themselves");
		return;
	}
	pool_log("the spare session has ended; death %u in a row", spare->deaths);
	watch_close(&spare->keeper);
	close_clients(spare);
	move(spare, SPARE_DIED);
	start_soon(spare);
}

/* Runs a keeper with its end of the socket pair `theirs`. What it says goes to our log until it has
 * one of its own. */
static int run_keeper(const struct spare *spare, int theirs, struct err *err)
{
	cleanup_free char *program = paths_helper("fumehood-keeper", err);
	const char *const argv[] = {
		"fumehood-keeper", "--spare", "--python", spare->params.python, "--fd", "3", NULL};
	const int fds[] = {-1, STDERR_FILENO, STDERR_FILENO, [SPARE_FD] = theirs};
	const struct child_params params = {
		.path = program,
		.argv = argv,
		.fds = fds,
		.fd_count = sizeof(fds) / sizeof(fds[0]),
		.new_session = true,
		.orphan = true,
		.directory = "/",
	};
	struct child child;

	return program ? child_start(&params, &child, err) : -1;
}

static void start(struct spare *spare)
{
	struct err err = ERR_INIT;
	cleanup_fd int theirs = -1;
	int sockets[2];

	if (socket_pair(SOCK_SEQPACKET, sockets, &err) < 0) {
		rest(spare, err.text);
		return;
	}
	theirs = sockets[1];
	if (run_keeper(spare, theirs, &err) < 0) {
		close(sockets[0]);
		rest(spare, err.text);
		return;
	}
	spare->keeper = watch_open(spare, sockets[0], on_keeper);
	spare->generation = warmer_generation(spare->params.warmer);
	spare->start_us = clock_monotonic_us();
	move(spare, SPARE_TIME);
	uv_timer_start(&spare->timer, on_time, SPARE_START_MS_MAX, 0);
}

static void on_ready(struct spare *spare, const char *text, size_t len)
{
	cleanup_json struct json *body = json_parse(text, len, &JSON_LIMITS, NULL);

	spare->pid = (pid_t)json_get_int(body, "pid", 0);
	spare->ready_us = clock_monotonic_us();
	uv_timer_stop(&spare->timer);
	move(spare, SPARE_SAID);
	pool_log("spare session %d is ready after %lld ms", (int)spare->pid,
		 (long long)(spare->ready_us - spare->start_us) / 1000);
	serve(spare);
}

static void end_now(struct spare *spare)
{
	watch_close(&spare->keeper);
	uv_close((uv_handle_t *)&spare->timer, NULL);
	move(spare, SPARE_ENDED);
}

static void on_keeper(uv_poll_t *poll, int status, int events)
{
	struct spare *spare = poll->data;
	struct guest_header header;
	char bytes[256];
	bool truncated = false;
	ssize_t len = socket_receive(spare->keeper->fd, bytes, sizeof(bytes), NULL, NULL,
				     &truncated, MSG_DONTWAIT);

	(void)status;
	(void)events;
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len <= 0) {
		if (spare->state == SPARE_ENDING)
			end_now(spare);
		else
			keeper_died(spare);
		return;
	}
	if (truncated || (size_t)len < sizeof(header) || spare->state != SPARE_STARTING)
		return;
	memcpy(&header, bytes, sizeof(header));
	if (header.type == POOL_SPARE_READY)
		on_ready(spare, bytes + sizeof(header), (size_t)len - sizeof(header));
}

/* ---- clients ---- */

/* Passes the connection on. False: the keeper is dead or dying. */
static bool give(struct spare *spare, int client)
{
	const struct guest_header header = {.type = POOL_SPARE_CLIENT};

	if (socket_send(spare->keeper->fd, &header, sizeof(header), &client, 1) < 0)
		return false;
	watch_close(&spare->keeper); /* what was sent is still read */
	spare->deaths = 0;
	spare->busy_us = clock_monotonic_us();
	move(spare, SPARE_GIVEN);
	spare->params.given(spare->params.data);
	return true;
}

/* Takes the oldest client that is still there; -1: none. */
static int next_client(struct spare *spare)
{
	while (spare->client_count > 0) {
		int client = spare->clients[0];
		char byte;
		ssize_t got;

		memmove(spare->clients, spare->clients + 1,
			--spare->client_count * sizeof(*spare->clients));
		got = recv(client, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
		if (got > 0 || (got < 0 && errno == EAGAIN))
			return client;
		close(client);
	}
	return -1;
}

/* Whether a spare of this moment's environment can be had, now or soon. */
static bool look_at_environment(struct spare *spare)
{
	enum warmth warmth = warmer_ask(spare->params.warmer);
	bool current = warmth == WARM_READY &&
		       warmer_generation(spare->params.warmer) == spare->generation;

	if (!current && (spare->state == SPARE_READY || spare->state == SPARE_STARTING))
		drop(spare, "its environment or its zygote is not the same any more");
	return warmth != WARM_FAILED;
}

/* Does for the waiting clients what can be done now. */
static void serve(struct spare *spare)
{
	int client;

	if (!look_at_environment(spare))
		close_clients(spare); /* they will hear the reason where they go now */
	if (spare->state == SPARE_READY) {
		client = next_client(spare);
		if (client < 0)
			return;
		if (!give(spare, client)) {
			close(client);
			keeper_died(spare);
			return;
		}
		close(client);
	}
	if (spare->state == SPARE_DUE)
		start_soon(spare);
}

static void take_client(struct spare *spare, int client)
{
	bool full = spare->client_count == SPARE_CLIENTS_MAX;

	if (full || spare->state == SPARE_RESTING || socket_peer_uid(client) != geteuid()) {
		close(client);
		return;
	}
	spare->clients[spare->client_count++] = client;
	serve(spare);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct spare *spare = poll->data;

	(void)status;
	(void)events;
	for (unsigned i = 0; i < ACCEPTS_A_TURN && spare->listener; i++) {
		int client = accept4(spare->listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client < 0)
			return; /* out of descriptors: orders are refused by then, too */
		take_client(spare, client);
	}
}

static int listen_for_clients(struct spare *spare, struct err *err)
{
	cleanup_free char *state = paths_state(err);
	cleanup_free char *path = NULL;
	int fd;

	if (!state)
		return -1;
	spare_socket_name(spare->socket_name, spare->params.python, state);
	fd = socket_listen(spare->params.directory, spare->socket_name, SOCK_STREAM, err);
	if (fd < 0)
		return -1;
	path = mem_format("%s/%s", spare->params.directory, spare->socket_name);
	if (stat(path, &spare->socket_file) < 0)
		spare->socket_file = (struct stat){.st_ino = 0};
	spare->listener = watch_open(spare, fd, on_listener);
	return 0;
}

/* Only what is still ours: see remove_file() in server.c. */
static void remove_socket(const struct spare *spare)
{
	cleanup_free char *path = mem_format("%s/%s", spare->params.directory, spare->socket_name);
	struct stat now;

	if (stat(path, &now) == 0 && now.st_dev == spare->socket_file.st_dev &&
	    now.st_ino == spare->socket_file.st_ino)
		unlink(path);
}

/* ---- time ---- */

static void on_time(uv_timer_t *timer)
{
	struct spare *spare = timer->data;
	bool ready;

	switch (spare->state) {
	case SPARE_DUE:
		ready = warmer_ask(spare->params.warmer) == WARM_READY;
		if (ready) /* else spare_settled() comes */
			start(spare);
		break;
	case SPARE_STARTING:
		close_clients(spare);
		drop(spare, "it was not ready in time");
		break;
	case SPARE_RESTING:
		move(spare, SPARE_TIME);
		start_soon(spare);
		break;
	case SPARE_ENDING:
		end_now(spare);
		break;
	case SPARE_OFF:
	case SPARE_READY:
	case SPARE_CLOSED:
	case SPARE_STATE_COUNT:
		break;
	}
}

/* ---- what the server calls ---- */

struct spare *spare_new(const struct spare_params *params)
{
	struct spare *spare = mem_zalloc(sizeof(*spare));

	spare->params = *params;
	uv_timer_init(params->loop, &spare->timer);
	spare->timer.data = spare;
	return spare;
}

void spare_free(struct spare *spare)
{
	assert(!spare || spare->state == SPARE_CLOSED);
	free(spare);
}

void spare_want(struct spare *spare)
{
	struct err err = ERR_INIT;

	if (spare->state != SPARE_OFF)
		return;
	spare->busy_us = clock_monotonic_us();
	if (listen_for_clients(spare, &err) < 0) {
		rest(spare, err.text);
		return;
	}
	move(spare, SPARE_WANTED);
	start_soon(spare);
}

void spare_put_off(struct spare *spare)
{
	spare->busy_us = clock_monotonic_us();
	if (spare->state == SPARE_DUE && spare->client_count == 0)
		start_soon(spare);
}

void spare_settled(struct spare *spare)
{
	if (spare->state != SPARE_OFF && spare->state != SPARE_ENDING &&
	    spare->state != SPARE_CLOSED)
		serve(spare);
}

void spare_close(struct spare *spare)
{
	if (spare->state == SPARE_ENDING || spare->state == SPARE_CLOSED)
		return;
	if (spare->listener)
		remove_socket(spare);
	watch_close(&spare->listener);
	close_clients(spare);
	move(spare, SPARE_END);
	if (!spare->keeper) {
		end_now(spare);
		return;
	}
	shutdown(spare->keeper->fd, SHUT_WR);
	uv_timer_start(&spare->timer, on_time, SPARE_END_MS_MAX, 0);
}
