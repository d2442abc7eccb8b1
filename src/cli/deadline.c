/*
 * An epoll(7) descriptor over a timer and another descriptor. See deadline.h.
 */
#include "cli/deadline.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SECONDS_MAX 1e9 /* 30 years */

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int deadline_open(struct deadline *deadline, int other_fd, double seconds, struct err *err)
{
	double whole = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)whole}};

	when.it_value.tv_nsec = (long)((whole - (double)when.it_value.tv_sec) * 1e9);
	if (when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0)
		when.it_value.tv_nsec = 1; /* 0 would mean never */
	deadline->fd = epoll_create1(EPOLL_CLOEXEC);
	deadline->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (deadline->fd >= 0 && deadline->timer >= 0 &&
	    timerfd_settime(deadline->timer, 0, &when, NULL) == 0 &&
	    watch(deadline->fd, deadline->timer) == 0 && watch(deadline->fd, other_fd) == 0)
		return 0;
	err_sys(err, "cannot make a timer");
	deadline_close(deadline);
	return -1;
}

void deadline_close(struct deadline *deadline)
{
	if (deadline->fd >= 0)
		close(deadline->fd);
	if (deadline->timer >= 0)
		close(deadline->timer);
	*deadline = (struct deadline)DEADLINE_INIT;
}

bool deadline_passed(const struct deadline *deadline)
{
	struct pollfd look = {.fd = deadline->timer, .events = POLLIN};

	return deadline->timer >= 0 && poll(&look, 1, 0) == 1;
}
