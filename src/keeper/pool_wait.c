/*
 * One connection at a time, watched by a poll, and a timer for all of them; see pool_wait.h.
 */
#include "keeper/pool_wait.h"

#include <assert.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/spawner.h"
#include "pool/pool.h"

enum { WAIT_MS = 120 * 1000, TRIES_MAX = 3 };

struct pool_wait {
	uv_loop_t *loop;
	uv_poll_t *poll; /* of fd; NULL: none */
	uv_timer_t *timer;
	int fd;
	unsigned tries;
	struct spawner *spawner;
	const char *python;
	bool join;
	pool_wait_done *done;
	void *data;
};

static void handle_free(uv_handle_t *handle)
{
	free(handle);
}

/* Takes the descriptor off the loop. */
static int take_fd(struct pool_wait *wait)
{
	int fd = wait->fd;

	if (wait->poll)
		uv_close((uv_handle_t *)wait->poll, handle_free);
	wait->poll = NULL;
	wait->fd = -1;
	return fd;
}

void pool_wait_free(struct pool_wait *wait)
{
	int fd;

	if (!wait)
		return;
	fd = take_fd(wait);
	if (fd >= 0)
		close(fd);
	uv_close((uv_handle_t *)wait->timer, handle_free);
	free(wait);
}

/* `done` may begin another wait, so this one is over before it. */
static void end(struct pool_wait *wait, int fd, struct json *environment, int family,
		const struct err *err)
{
	pool_wait_done *done = wait->done;
	void *data = wait->data;

	pool_wait_free(wait);
	done(data, fd, environment, family, err);
}

static void pool_said(uv_poll_t *poll, int status, int events);

static int connect_pool(struct pool_wait *wait, struct err *err)
{
	int failed;

	wait->tries++;
	wait->fd = spawner_pool(wait->spawner, wait->join, err);
	if (wait->fd < 0)
		return -1;
	wait->poll = mem_zalloc(sizeof(*wait->poll));
	failed = uv_poll_init(wait->loop, wait->poll, wait->fd);
	assert(!failed); /* a socket can be polled */
	wait->poll->data = wait;
	failed = uv_poll_start(wait->poll, UV_READABLE, pool_said);
	assert(!failed);
	(void)failed;
	return 0;
}

static void pool_said(uv_poll_t *poll, int status, int events)
{
	struct pool_wait *wait = poll->data;
	struct err err = ERR_INIT;
	int family = -1;
	struct json *environment = pool_environment(wait->fd, 0, &family, &err);

	(void)status;
	(void)events;
	if (environment) {
		end(wait, take_fd(wait), environment, family, NULL);
		return;
	}
	if (err.code == ERR_TIMEOUT) /* something else that it had to say */
		return;
	close(take_fd(wait));
	if (err.code == ERR_GONE && wait->tries < TRIES_MAX && connect_pool(wait, &err) == 0)
		return;
	err_wrap(&err, "%s", wait->python);
	end(wait, -1, NULL, -1, &err);
}

static void time_is_up(uv_timer_t *timer)
{
	struct pool_wait *wait = timer->data;
	struct err err = ERR_INIT;

	err_set(&err, ERR_TIMEOUT, "%s: its pool was not ready within %d s", wait->python,
		WAIT_MS / 1000);
	end(wait, -1, NULL, -1, &err);
}

struct pool_wait *pool_wait_new(uv_loop_t *loop, struct spawner *spawner, const char *python,
				bool join, pool_wait_done *done, void *data, struct err *err)
{
	struct pool_wait *wait = mem_zalloc(sizeof(*wait));

	*wait = (struct pool_wait){.loop = loop,
				   .fd = -1,
				   .spawner = spawner,
				   .python = python,
				   .join = join,
				   .done = done,
				   .data = data};
	wait->timer = mem_zalloc(sizeof(*wait->timer));
	uv_timer_init(loop, wait->timer);
	wait->timer->data = wait;
	if (connect_pool(wait, err) != 0) {
		pool_wait_free(wait);
		return NULL;
	}
	uv_timer_start(wait->timer, time_is_up, WAIT_MS, 0);
	return wait;
}
