/*
 * What a round trip costs that nobody can avoid: bytes over two hops of Unix sockets and back.
 *
 *     bench-floor N                -> N lines: microseconds of each round trip
 *
 * Three processes stand where client, keeper and guest stand: client ─stream─► middle ─seqpacket─►
 * far end, and back. Each blocks in the kernel until it is woken, as the real ones do; the messages
 * have the size of a request of `x=1` and do nothing. A product with a process between client and
 * interpreter cannot be faster than this on the same machine; what it costs above it is its own.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_BYTES = 32, ORDER_BYTES = 12, EVENTS_BYTES = 400, WARM_UP = 50 };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Passes what comes from one side to the other until one of them closes. */
static void serve_middle(int near, int far)
{
	char bytes[EVENTS_BYTES] = {0};

	while (read(near, bytes, sizeof(bytes)) > 0 && write(far, bytes, ORDER_BYTES) > 0 &&
	       read(far, bytes, sizeof(bytes)) > 0 && write(near, bytes, EVENTS_BYTES) > 0)
		;
}

static void serve_far(int near)
{
	char bytes[EVENTS_BYTES] = {0};

	while (read(near, bytes, sizeof(bytes)) > 0 && write(near, bytes, ORDER_BYTES) > 0)
		;
}

static int measure(int far, long times)
{
	char bytes[EVENTS_BYTES] = {0};

	for (long i = -WARM_UP; i < times; i++) {
		int64_t began = now_ns();

		if (write(far, bytes, REQUEST_BYTES) != REQUEST_BYTES ||
		    read(far, bytes, sizeof(bytes)) != EVENTS_BYTES)
			return 1;
		if (i >= 0)
			printf("%.1f\n", (double)(now_ns() - began) / 1000);
	}
	return 0;
}

/* Forks; true in the child, which ends with its parent whatever happens. */
static int in_child(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		exit(1);
	if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
		_exit(1);
	return pid == 0;
}

int main(int argc, char **argv)
{
	long times = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	int near[2], far[2];

	if (times <= 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, near) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, far) != 0) {
		fprintf(stderr, "usage: bench-floor N\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	if (in_child()) {
		close(near[0]);
		close(near[1]);
		close(far[0]);
		serve_far(far[1]);
		_exit(0);
	}
	if (in_child()) {
		close(near[0]);
		close(far[1]);
		serve_middle(near[1], far[0]);
		_exit(0);
	}
	close(near[1]);
	close(far[0]);
	close(far[1]);
	return measure(near[0], times);
}
