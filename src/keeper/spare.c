/*
 * The life of a spare session up to its client's first line; see spare.h.
 *
 * That line is read here and not by the server: a server greets its clients first, and here the
 * greeting is the answer. Only the line itself is taken out of the socket (MSG_PEEK), so that what
 * the client has sent behind it is the server's to read.
 */
#include "keeper/spare.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "journal/unborn.h"
#include "keeper/net.h"
#include "keeper/monitor.h"
#include "pool/pool.h"

enum spare_state { SPARE_MAKING, SPARE_WAITING, SPARE_ASKED };

/* A descriptor on the loop. The handle lives on the heap until libuv has closed it. */
struct listening {
	uv_poll_t poll;
	int fd;
};

struct spare {
	struct session *session;
	enum spare_state state;
	int sessions_fd;
	int pool_fd;   /* while it is not watched */
	int config_fd; /* session.json to be: making a file takes longer than all else at the
			  hand-over */
	struct listening *pool;
	struct listening *client; /* only while its line is not whole */
	struct buf line;
};

/* --- making ----------------------------------------------------------------------------------- */

static int make_directory(struct session *session, int sessions_fd, int *lock_fd, struct err *err)
{
	const char *id = session->config.id;

	if (mkdirat(sessions_fd, id, 0700) != 0)
		return err_sys(err, "cannot make the directory of a session");
	session->dirfd = openat(sessions_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (session->dirfd < 0)
		return err_sys(err, "cannot open the directory of a session");
	*lock_fd = file_lock(session->dirfd, "lock", err);
	if (*lock_fd < 0)
		return -1;
	if (mkdirat(session->dirfd, "workspace", 0700) != 0)
		return err_sys(err, "cannot make a workspace");
	return 0;
}

int spare_make(struct session *session, const char *python, int pool_fd, int *lock_fd,
	       struct err *err)
{
	cleanup_free char *state = paths_state(err);
	cleanup_free char *sessions = state ? mem_format("%s/sessions", state) : NULL;
	cleanup_fd int sessions_fd = -1;
	struct config *config = &session->config;
	char id[HASH_ID_SIZE];

	if (!sessions || file_make_dirs(sessions, 0700, err) != 0)
		return -1;
	sessions_fd = open(sessions, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sessions_fd < 0)
		return err_sys(err, "cannot open %s", sessions);
	unborn_sweep(sessions_fd);
	hash_random_id(id);
	config_init(config);
	config->id = mem_string(id);
	config->python = mem_string(python);
	config->workspace = mem_format("%s/%s/workspace", sessions, id);
	config->workspace_private = true;
	if (make_directory(session, sessions_fd, lock_fd, err) != 0) {
		(void)file_remove_tree(sessions_fd, id, NULL);
		return -1;
	}
	session->spare = mem_zalloc(sizeof(*session->spare));
	session->spare->session = session;
	session->spare->sessions_fd = fd_take(&sessions_fd);
	session->spare->pool_fd = pool_fd;
	session->spare->config_fd = -1;
	return 0;
}

/* --- descriptors on the loop ------------------------------------------------------------------ */

static void listening_closed(uv_handle_t *handle)
{
	free(handle);
}

static struct listening *listening_open(struct spare *spare, int fd, uv_poll_cb event)
{
	struct listening *listening = mem_zalloc(sizeof(*listening));
	int failed = uv_poll_init(spare->session->loop, &listening->poll, fd);

	assert(!failed);
	listening->fd = fd;
	listening->poll.data = spare;
	failed = uv_poll_start(&listening->poll, UV_READABLE, event);
	assert(!failed);
	(void)failed;
	return listening;
}

/* Stops watching; returns the descriptor, or -1. */
static int listening_end(struct listening **listening)
{
	int fd = *listening ? (*listening)->fd : -1;

	if (*listening)
		uv_close((uv_handle_t *)&(*listening)->poll, listening_closed);
	*listening = NULL;
	return fd;
}

static void forget(struct listening **listening)
{
	int fd = listening_end(listening);

	if (fd >= 0)
		close(fd);
}

/* --- the client ------------------------------------------------------------------------------- */

static void client_came(uv_poll_t *poll, int status, int events);

/* The session's part of the request; anything else in it is refused. */
static int check_request(const struct json *request, struct json **session, struct err *err)
{
	const char *op = json_get_string(request, "op");

	if (!op || strcmp(op, "start") != 0)
		return err_set(err, ERR_INVALID,
			       "the first request to a spare session is \"start\"");
	*session = json_get(request, "session");
	if (json_type_of(*session) != JSON_OBJECT || json_length(request) != 2)
		return err_set(err, ERR_INVALID,
			       "\"start\" has \"session\", an object, and nothing else");
	return 0;
}

/* session.json, whole or not at all. The disk has it with the journal's first sync. */
static int write_config(const struct spare *spare, const struct json *chosen, struct err *err)
{
	const struct session *session = spare->session;
	cleanup_buf struct buf text = BUF_INIT;

	config_write(&text, &session->config, chosen);
	if (file_write_all(spare->config_fd, buf_bytes(&text), text.len, err) != 0)
		return -1;
	if (renameat(session->dirfd, "session.json.new", session->dirfd, "session.json") != 0)
		return err_sys(err, "cannot write session.json");
	return 0;
}

/* The box stands already: its network gets its proxy now. */
static int take_hosts(struct session *session, struct err *err)
{
	session->policy.net = (const char *const *)session->config.policy.lists[POLICY_NET];
	return net_box_started(session, err);
}

/* Makes it the session that the client wants. */
static int become(const struct spare *spare, struct err *err)
{
	cleanup_json struct json *request =
		json_parse(buf_bytes(&spare->line), spare->line.len, &JSON_LIMITS, err);
	struct session *session = spare->session;
	struct json *chosen = NULL;

	if (!request || check_request(request, &chosen, err) != 0 ||
	    config_choose(&session->config, chosen, err) != 0 || take_hosts(session, err) != 0 ||
	    write_config(spare, chosen, err) != 0)
		return -1;
	record_set_limit(session->record, session->config.limits.record_bytes);
	session_take_limits(session);
	return session_open(session, err);
}

/* The line is whole: from here on the client is one like any other, greeted or refused. */
static void answer(struct spare *spare, int client)
{
	struct session *session = spare->session;
	struct err err = ERR_INIT;

	if (become(spare, &err) == 0) {
		session->spare = NULL;
		spare_free(spare);
		server_adopt(session->server, client);
		return;
	}
	server_refuse(session->server, &err);
	server_adopt(session->server, client);
	session_stop(session, "failed");
}

/* Takes what is there of the line out of the socket. 1: it is whole, 0: not yet, -1: it will not
 * be. */
static int read_line(struct spare *spare, int client)
{
	for (;;) {
		char *room = buf_reserve(&spare->line, 64 << 10);
		ssize_t there = recv(client, room, 64 << 10, MSG_PEEK | MSG_DONTWAIT);
		const char *end;
		ssize_t got;

		if (there < 0 && errno == EINTR)
			continue;
		if (there < 0 && errno == EAGAIN)
			return 0;
		if (there <= 0 || spare->line.len > CONFIG_BYTES_MAX)
			return -1;
		end = memchr(room, '\n', (size_t)there);
		got = recv(client, room, end ? (size_t)(end - room) + 1 : (size_t)there,
			   MSG_DONTWAIT);
		if (got <= 0)
			return -1;
		buf_added(&spare->line, (size_t)got);
		if (end) {
			buf_truncate(&spare->line, spare->line.len - 1);
			return 1;
		}
	}
}

static void hear(struct spare *spare, int client)
{
	int whole = read_line(spare, client);

	if (whole == 0) {
		spare->client = listening_open(spare, client, client_came);
	} else if (whole > 0) {
		answer(spare, client);
	} else {
		close(client);
		session_stop(spare->session, "client");
	}
}

static void client_came(uv_poll_t *poll, int status, int events)
{
	struct spare *spare = poll->data;

	(void)status;
	(void)events;
	hear(spare, listening_end(&spare->client));
}

/* --- the pool --------------------------------------------------------------------------------- */

static void pool_said(uv_poll_t *poll, int status, int events)
{
	struct spare *spare = poll->data;
	struct session *session = spare->session;
	struct err err = ERR_INIT;
	int client = pool_spare_client(spare->pool->fd, &err);

	(void)status;
	(void)events;
	if (client < 0 && err.code == ERR_BUSY)
		return;
	spare->pool_fd = listening_end(&spare->pool); /* a pool that ends waits for its end */
	if (client >= 0 && spare->state == SPARE_WAITING && session->state == SESSION_IDLE) {
		close(fd_take(&spare->pool_fd));
		spare->state = SPARE_ASKED;
		hear(spare, client);
		return;
	}
	if (client >= 0) /* the guest has died in this moment: the client goes another way */
		close(client);
	if (session->state != SESSION_STOPPING)
		session_stop(session, "pool");
}

void spare_watch(struct spare *spare)
{
	spare->pool = listening_open(spare, fd_take(&spare->pool_fd), pool_said);
}

/* What a person should read of this session is in its directory from now on, not in the pool's log.
 */
static void open_log(const struct session *session)
{
	cleanup_fd int log = openat(session->dirfd, "keeper.log",
				    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (log < 0)
		return;
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
}

/* The first work makes libuv start its threads, which takes a good part of a millisecond. */
static void work_nothing(uv_work_t *work)
{
	(void)work;
}

static void work_ended(uv_work_t *work, int status)
{
	(void)status;
	free(work);
}

/* What would otherwise be done for the first time when the client waits. */
static void get_ready(struct spare *spare)
{
	uv_work_t *work = mem_zalloc(sizeof(*work));

	open_log(spare->session);
	spare->config_fd = openat(spare->session->dirfd, "session.json.new",
				  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	uv_queue_work(spare->session->loop, work, work_nothing, work_ended);
	session_rehearse(spare->session);
}

void spare_ready(struct spare *spare)
{
	assert(spare->state == SPARE_MAKING);
	get_ready(spare);
	if (spare->config_fd < 0 || !spare->pool || pool_spare_ready(spare->pool->fd, NULL) != 0) {
		session_stop(spare->session, "pool");
		return;
	}
	spare->state = SPARE_WAITING;
}

/* --- the end ---------------------------------------------------------------------------------- */

int spare_sessions_fd(const struct spare *spare)
{
	return spare->sessions_fd;
}

void spare_remove(struct spare *spare)
{
	(void)unborn_remove(spare->sessions_fd, spare->session->config.id, NULL);
}

void spare_free(struct spare *spare)
{
	if (!spare)
		return;
	forget(&spare->pool);
	forget(&spare->client);
	if (spare->pool_fd >= 0)
		close(spare->pool_fd);
	if (spare->config_fd >= 0)
		close(spare->config_fd);
	close(spare->sessions_fd);
	buf_release(&spare->line);
	free(spare);
}
