/*
 * Redis by hiredis on the loop; see publish.h.
 *
 *	waiting ─ 0.1 s ... 30 s ─> connecting ─ (auth, select) ─> connected ─ lost ─> waiting
 *
 * Answers are looked at for errors only: one that says NOAUTH or the like ends the connection, and
 * the next try comes later.
 */
#include "serve/publish.h"

#include <hiredis/adapters/libuv.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <string.h>

#include "base/mem.h"

enum {
	WAIT_MS_MIN = 100,
	WAIT_MS_MAX = 30000,
	CONNECT_MS = 10000,
	UNSENT_BYTES_MAX = 16 << 20,
};

struct publisher {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct metrics *metrics;
	char *host, *path, *password; /* host or path */
	int port, database;
	uint64_t stream_max;
	redisAsyncContext *redis; /* NULL: waiting */
	bool connected, closing;
	uint64_t wait_ms;
	size_t unsent; /* bytes of commands without an answer */
};

/* --- the URL ---------------------------------------------------------------------------------- */

static int read_tail(struct publisher *publisher, const char *at)
{
	const char *colon = strchr(at, ':');
	const char *slash = strchr(at, '/');
	const char *end = colon ? colon : slash ? slash : at + strlen(at);
	char *stop = NULL;

	publisher->port = 6379;
	if (end == at)
		return -1;
	publisher->host = mem_copy(at, (size_t)(end - at));
	if (colon) {
		unsigned long port = strtoul(colon + 1, &stop, 10);

		if (stop == colon + 1 || port == 0 || port > 65535 || (*stop && *stop != '/'))
			return -1;
		publisher->port = (int)port;
		slash = *stop ? stop : NULL;
	}
	if (slash && slash[1]) {
		unsigned long database = strtoul(slash + 1, &stop, 10);

		if (*stop || database > 1000000)
			return -1;
		publisher->database = (int)database;
	}
	return 0;
}

static int read_url(struct publisher *publisher, const char *url, struct err *err)
{
	const char *at = url;

	if (strncmp(at, "unix:///", 8) == 0) {
		publisher->path = mem_string(at + 7);
		return 0;
	}
	if (strncmp(at, "redis://", 8) == 0) {
		const char *mark = strrchr(at += 8, '@');

		if (mark) {
			const char *colon = memchr(at, ':', (size_t)(mark - at));

			if (!colon)
				return err_set(err, ERR_USAGE,
					       "the password in a Redis URL stands so: "
					       "redis://:PASSWORD@HOST");
			publisher->password = mem_copy(colon + 1, (size_t)(mark - colon - 1));
			at = mark + 1;
		}
		if (read_tail(publisher, at) == 0)
			return 0;
	}
	return err_set(err, ERR_USAGE,
		       "--redis takes redis://[:PASSWORD@]HOST[:PORT][/DB] or unix:///PATH");
}

/* --- the connection --------------------------------------------------------------------------- */

static void connect_now(uv_timer_t *timer);

static void try_later(struct publisher *publisher)
{
	publisher->redis = NULL;
	publisher->connected = false;
	publisher->unsent = 0;
	if (publisher->closing)
		return;
	uv_timer_start(&publisher->timer, connect_now, publisher->wait_ms, 0);
	publisher->wait_ms *= 2;
	if (publisher->wait_ms > WAIT_MS_MAX)
		publisher->wait_ms = WAIT_MS_MAX;
}

static void connect_is_late(uv_timer_t *timer)
{
	struct publisher *publisher = timer->data;
	redisAsyncContext *redis = mem_take(publisher->redis);

	if (redis)
		redisAsyncFree(redis);
	try_later(publisher);
}

static void disconnected(const redisAsyncContext *redis, int status)
{
	struct publisher *publisher = redis->data;

	(void)status;
	if (publisher->redis == redis)
		try_later(publisher);
}

/* To what is asked first: an error there is one for all that follows. */
static void prepared(redisAsyncContext *redis, void *answer, void *data)
{
	const redisReply *reply = answer;

	(void)data;
	if (reply && reply->type == REDIS_REPLY_ERROR)
		redisAsyncDisconnect(redis);
}

static void connected(const redisAsyncContext *redis, int status)
{
	struct publisher *publisher = redis->data;

	if (publisher->redis != redis)
		return;
	if (status != REDIS_OK) { /* hiredis frees it itself */
		try_later(publisher);
		return;
	}
	uv_timer_stop(&publisher->timer);
	publisher->connected = true;
	publisher->wait_ms = WAIT_MS_MIN;
}

static void connect_now(uv_timer_t *timer)
{
	struct publisher *publisher = timer->data;
	redisAsyncContext *redis = publisher->path
					   ? redisAsyncConnectUnix(publisher->path)
					   : redisAsyncConnect(publisher->host, publisher->port);

	if (!redis || redis->err || redisLibuvAttach(redis, publisher->loop) != REDIS_OK) {
		if (redis)
			redisAsyncFree(redis);
		try_later(publisher);
		return;
	}
	redis->data = publisher;
	publisher->redis = redis;
	(void)redisAsyncSetConnectCallback(redis, connected);
	(void)redisAsyncSetDisconnectCallback(redis, disconnected);
	uv_timer_start(&publisher->timer, connect_is_late, CONNECT_MS, 0);
	if (publisher->password)
		(void)redisAsyncCommand(redis, prepared, NULL, "AUTH %s", publisher->password);
	if (publisher->database)
		(void)redisAsyncCommand(redis, prepared, NULL, "SELECT %d", publisher->database);
}

/* --- publishing ------------------------------------------------------------------------------- */

static void taken(redisAsyncContext *redis, void *answer, void *data)
{
	struct publisher *publisher = redis->data;
	size_t len = (size_t)(uintptr_t)data;
	const redisReply *reply = answer;

	if (publisher->redis == redis && publisher->unsent >= len)
		publisher->unsent -= len;
	if (reply && reply->type == REDIS_REPLY_ERROR)
		publisher->metrics->redis_dropped++;
	else if (reply)
		publisher->metrics->redis_published++;
}

static void command(struct publisher *publisher, int count, const char *const *words,
		    const size_t *lens)
{
	size_t len = 0;

	for (int i = 0; i < count; i++)
		len += lens[i];
	if (!publisher->connected || publisher->unsent + len > UNSENT_BYTES_MAX) {
		publisher->metrics->redis_dropped++;
		return;
	}
	publisher->unsent += len;
	if (redisAsyncCommandArgv(publisher->redis, taken, (void *)(uintptr_t)len, count,
				  (const char **)(uintptr_t)words, lens) != REDIS_OK)
		publisher->metrics->redis_dropped++;
}

void publisher_send(struct publisher *publisher, const char *channel, const char *bytes, size_t len)
{
	const char *const words[] = {"PUBLISH", channel, bytes};
	const size_t lens[] = {7, strlen(channel), len};

	command(publisher, 3, words, lens);
}

void publisher_event(struct publisher *publisher, const struct live *live, const struct scan *scan,
		     const char *line, size_t len)
{
	char key[64], most[24], id[32];
	int key_len = snprintf(key, sizeof(key), "fumehood:%s", live->id);

	publisher_send(publisher, key, line, len);
	if (publisher->stream_max > 0) {
		int most_len = snprintf(most, sizeof(most), "%llu",
					(unsigned long long)publisher->stream_max);
		/* The event's number is the entry's: whoever has it once more is refused it. */
		int id_len = snprintf(id, sizeof(id), "%llu-0", (unsigned long long)scan->seq);
		const char *const words[] = {"XADD", key, "MAXLEN", "~", most, id, "event", line};
		const size_t lens[] = {
			4, (size_t)key_len, 6, 1, (size_t)most_len, (size_t)id_len, 5, len};

		command(publisher, 8, words, lens);
	}
}

/* --- life ------------------------------------------------------------------------------------- */

struct publisher *publisher_new(uv_loop_t *loop, const struct publisher_options *options,
				struct metrics *metrics, struct err *err)
{
	struct publisher *publisher = mem_zalloc(sizeof(*publisher));

	publisher->loop = loop;
	publisher->metrics = metrics;
	publisher->stream_max = options->stream_max;
	publisher->wait_ms = WAIT_MS_MIN;
	uv_timer_init(loop, &publisher->timer);
	publisher->timer.data = publisher;
	if (read_url(publisher, options->url, err) != 0) {
		publisher->closing = true;
		uv_close((uv_handle_t *)&publisher->timer, NULL);
		(void)uv_run(loop, UV_RUN_NOWAIT);
		publisher_free(publisher);
		return NULL;
	}
	uv_timer_start(&publisher->timer, connect_now, 0, 0);
	return publisher;
}

void publisher_close(struct publisher *publisher)
{
	redisAsyncContext *redis = mem_take(publisher->redis);

	publisher->closing = true;
	publisher->connected = false;
	if (redis)
		redisAsyncFree(redis);
	uv_close((uv_handle_t *)&publisher->timer, NULL);
}

void publisher_free(struct publisher *publisher)
{
	if (!publisher)
		return;
	free(publisher->host);
	free(publisher->path);
	free(publisher->password);
	free(publisher);
}
