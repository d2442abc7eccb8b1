/*
 * Waiting. See hub.h.
 */
#include "agent/hub.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"

static int shorter(int a, int b)
{
	return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int until_deadline(const struct hub *hub)
{
	int64_t left = hub->deadline_us - clock_monotonic_us();
	enum { DAY_MS = 24 * 3600 * 1000 };

	if (!hub->deadline_us)
		return -1;
	if (left <= 0)
		return 0;
	return left / 1000 >= DAY_MS ? DAY_MS : (int)(left / 1000) + 1;
}

int hub_wait(struct hub *hub, int fd, int timeout_ms, struct err *err)
{
	struct pollfd fds[] = {
		{.fd = hub->cancel_fd, .events = POLLIN},
		{.fd = fd, .events = POLLIN},
	};
	int ready;

	timeout_ms = shorter(timeout_ms, until_deadline(hub));
	if (hub->tick)
		timeout_ms = shorter(timeout_ms, hub->tick(hub->context));
	if (hub->backend)
		ready = backend_wait(hub->backend, fds, 2, timeout_ms, err);
	else
		ready = poll(fds, 2, timeout_ms);
	if (ready < 0 && !(errno == EINTR && !hub->backend))
		return hub->backend ? -1 : err_sys(err, "cannot wait");
	if (fds[0].revents)
		hub->cancelled = true;
	if (hub->deadline_us && clock_monotonic_us() >= hub->deadline_us)
		hub->late = true;
	return 0;
}

bool hub_ended(const struct hub *hub)
{
	return hub->cancelled || hub->late;
}
