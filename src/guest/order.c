/*
 * Exact order of stdout, stderr and messages, without acknowledgements.
 *
 * stdout and stderr are two pipes and messages are a socket; a reader that finds something in two
 * of them cannot know which came first. So the guest never lets that happen: before it writes to
 * the other pipe, or sends a message, it waits until both pipes are empty (FIONREAD on a pipe's
 * write end gives what is still in it). The keeper usually needs a few microseconds, so we spin for
 * 20, then tell it that we wait (it may be letting a flood collect), and sleep a little at a time.
 * The wait ends 5 ms after the keeper has read and there is more all the same: then a child in the
 * background keeps a pipe full, and its output has no order to keep. A keeper that has read nothing
 * yet is one that a busy machine does not let run, and gets up to a second.
 *
 * The private copies of the write ends serve two purposes: FIONREAD asks the right pipe even after
 * the program has redirected descriptor 1, and the next cell can be given its pipes back.
 */
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	PRIVATE_FD_MIN = 100,
	SPIN_NS = 20 * 1000,
	YIELD_NS = 80 * 1000,
	SLEEP_NS = 50 * 1000,
	WAIT_NS = 5 * 1000 * 1000,
	STALLED_NS = 1000 * 1000 * 1000,
};

/* Static: one pair of pipes a process; reached from Raw.write, which has no way to module state. */
static struct {
	int fds[2];
	pid_t owner; /* the guest; a child that its program forks must not speak */
} order = {.fds = {-1, -1}};

int order_open(void)
{
	for (int i = 0; i < 2; i++) {
		int fd = fcntl(i + 1, F_DUPFD_CLOEXEC, PRIVATE_FD_MIN);

		if (fd < 0)
			return -errno;
		order.fds[i] = fd;
	}
	order.owner = getpid();
	return 0;
}

int order_place(int out, int err)
{
	const int fds[2] = {out, err};

	for (int i = 0; i < 2; i++)
		if (dup2(fds[i], i + 1) < 0 ||
		    (order.fds[i] >= 0 && dup3(fds[i], order.fds[i], O_CLOEXEC) < 0))
			return -errno;
	order.owner = getpid();
	return 0;
}

static int same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

int order_restore(int *restored)
{
	*restored = 0;
	for (int i = 0; i < 2; i++) {
		if (order.fds[i] < 0 || same_file(i + 1, order.fds[i]))
			continue;
		if (dup2(order.fds[i], i + 1) < 0)
			return -errno;
		(*restored)++;
	}
	return 0;
}

/* Bytes that nobody has read yet, in both pipes. */
static int waiting_bytes(void)
{
	int sum = 0;

	for (int i = 0; i < 2; i++) {
		int bytes = 0;

		if (order.fds[i] >= 0 && ioctl(order.fds[i], FIONREAD, &bytes) == 0 && bytes > 0)
			sum += bytes;
	}
	return sum;
}

int order_settled(void)
{
	return waiting_bytes() == 0;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Ends the pause that the keeper makes in a flood. Without an effect on anything if it does not
 * arrive. */
static void tell_waiting(void)
{
	const struct guest_header waiting = {.type = GUEST_WAITING};

	if (getpid() != order.owner)
		return;
	(void)send(GUEST_CONTROL_FD, &waiting, sizeof(waiting), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void order_settle(void)
{
	int64_t start = now_ns();
	int64_t read_at = STALLED_NS;
	int most = 0, told = 0;

	for (;;) {
		int bytes = waiting_bytes();
		int64_t waited = now_ns() - start;

		if (bytes == 0)
			return;
		if (bytes < most && read_at == STALLED_NS)
			read_at = waited;
		if (bytes > most)
			most = bytes;
		if (waited > STALLED_NS || waited - read_at > WAIT_NS)
			return;
		if (waited > SPIN_NS && !told) {
			tell_waiting();
			told = 1;
		}
		if (waited > YIELD_NS) {
			const struct timespec pause = {.tv_nsec = SLEEP_NS};

			nanosleep(&pause, NULL);
		} else if (told) {
			sched_yield();
		}
	}
}
