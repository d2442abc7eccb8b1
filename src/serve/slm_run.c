/*
 * `fumehood slm`: the original's service with a loop of its own. See slm.h.
 */
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/slm.h"

enum { END_S = 10, LOOK_MS = 100 };

struct alone {
	uv_loop_t loop;
	uv_poll_t signals;
	uv_timer_t timer;
	struct slm *slm;
	int signal_fd;
	int64_t ending_us; /* 0: it runs */
};

/* While it ends: is everyone answered? */
static void look(uv_timer_t *timer)
{
	struct alone *alone = timer->data;
	int64_t us = clock_monotonic_us() - alone->ending_us;

	if (slm_connections(alone->slm) == 0 || us > (int64_t)END_S * 1000000)
		uv_stop(&alone->loop);
}

static void signal_ready(uv_poll_t *poll, int status, int events)
{
	struct alone *alone = poll->data;
	struct signalfd_siginfo info;

	(void)events;
	if (status < 0 || read(alone->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (alone->ending_us) { /* asked twice */
		uv_stop(&alone->loop);
		return;
	}
	alone->ending_us = clock_monotonic_us();
	slm_end(alone->slm);
	uv_timer_start(&alone->timer, look, 0, LOOK_MS);
}

static void alone_release(struct alone *alone)
{
	slm_close(alone->slm);
	uv_close((uv_handle_t *)&alone->timer, NULL);
	if (alone->signals.data)
		uv_close((uv_handle_t *)&alone->signals, NULL);
	(void)uv_run(&alone->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&alone->loop);
	slm_free(alone->slm);
}

static int serve_alone(struct alone *alone, void (*ready)(int port), struct err *err)
{
	if (slm_listen(alone->slm, err) != 0)
		return -1;
	if (uv_poll_init(&alone->loop, &alone->signals, alone->signal_fd) != 0)
		return err_set(err, ERR_IO, "cannot wait for signals");
	alone->signals.data = alone;
	uv_poll_start(&alone->signals, UV_READABLE, signal_ready);
	ready(slm_port(alone->slm));
	(void)uv_run(&alone->loop, UV_RUN_DEFAULT);
	return 0;
}

int slm_run(const struct slm_options *options, int signal_fd, void (*ready)(int port),
	    struct err *err)
{
	struct alone alone = {.signal_fd = signal_fd};
	int outcome;

	uv_loop_init(&alone.loop);
	uv_timer_init(&alone.loop, &alone.timer);
	alone.timer.data = &alone;
	alone.slm = slm_new(&alone.loop, options);
	outcome = serve_alone(&alone, ready, err);
	alone_release(&alone);
	return outcome;
}
