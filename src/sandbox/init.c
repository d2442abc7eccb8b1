/*
 * One poll over two descriptors: the keeper's socket and a signalfd (SIGCHLD; outside a pid
 * namespace also SIGTERM, which the kernel sends when the keeper dies). Everything in here keeps
 * the rules of apply.h, since this is still the process that clone3 has made.
 *
 * Clearing the box (INIT_KILL). Inside a pid namespace kill(-1) is one atomic act of the kernel: it
 * reaches every process but PID 1, and a fork in progress starts anew when a signal is pending. So
 * all are stopped at once, a fork bomb too, then those not spared are killed one by one, and the
 * spared are continued. (Stopping one by one loses the race against a fork bomb for hundreds of
 * rounds: measured 0.3 s.) Without a pid namespace only what descends from the init may be touched,
 * so there it is rounds of stop and kill.
 *
 * Several interpreters can live in a box, and when one has ended only what it has started is to go.
 * Parents do not tell: who loses its own becomes a child of the init. So each interpreter but the
 * first gets a brand, which all that it starts inherits, whatever becomes of its parents: a hard
 * limit on RLIMIT_RTTIME (time that a real-time process may run without a pause; nothing in a box
 * is one) just below a number that is no limit to anybody. A hard limit can be lowered without
 * privilege, and never raised again. Those of one brand are stopped and killed in rounds, so that
 * nothing else in the box is stopped with them; only against a bomb that outruns some rounds are
 * all stopped at once, and the others continued. Children of one that is spared are, too: a copy
 * that wakes shares its memory with one for a moment (guest/copy.c), and locks in it with that.
 */
#include "sandbox/init.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "sandbox/census.h"
#include "sandbox/descriptors.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"

enum { SIGNALS = 64, GENTLE_ROUNDS = 20 };

struct init {
	int socket, signals;
	const struct init_setup *setup;
	struct census now, before;
};

int init_report(int socket, const struct init_report *report, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {.iov_base = (void *)(uintptr_t)report, .iov_len = sizeof(*report)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t size;

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	do
		size = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (size < 0 && errno == EINTR);
	return size < 0 ? -1 : 0;
}

static void tell(const struct init *init, const struct init_report *report)
{
	/* A failure means that the keeper has gone; the next poll sees it. */
	(void)init_report(init->socket, report, -1);
}

static void reap(const struct init *init)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		struct init_report report = {.type = INIT_EXITED, .pid = pid, .status = status};

		tell(init, &report);
	}
}

/* --- starting a program --- */

/* The pointers of the strings; NULL ends both lists. */
static void relocate(struct init_strings *strings)
{
	uint64_t total = strings->argc + 1 + strings->envc + 1;
	char *at = (char *)(strings->pointers + total);

	for (uint64_t i = 0; i < total; i++) {
		if (i == strings->argc || i == total - 1) {
			strings->pointers[i] = NULL;
			continue;
		}
		strings->pointers[i] = at;
		at += strlen(at) + 1;
	}
}

static int set_limits(const struct init_setup *setup)
{
	for (unsigned i = 0; i < setup->limit_count; i++) {
		struct rlimit limit;

		if (getrlimit((__rlimit_resource_t)setup->limits[i].resource, &limit) < 0)
			return -1;
		if (limit.rlim_max == RLIM_INFINITY || setup->limits[i].value < limit.rlim_max)
			limit.rlim_max = setup->limits[i].value;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit((__rlimit_resource_t)setup->limits[i].resource, &limit) < 0)
			return -1;
	}
	return 0;
}

static void unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A terminal that was made for the program becomes its own; anything else is none, or another's. */
static void take_terminal(void)
{
	(void)ioctl(0, TIOCSCTTY, 0);
}

/* In the new process: becomes the program, or writes errno to `problem`. Landlock comes first,
 * while the ruleset's descriptor is not yet something else; the filter last. PID 1 itself is under
 * neither: it has to signal all that is inside. */
static void __attribute__((noreturn)) become_program(const struct init_setup *setup, int *fds,
						     unsigned count, uint64_t bytes, int problem)
{
	struct init_strings *strings =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[0], 0);
	int sys;

	if (strings != MAP_FAILED &&
	    (setup->ruleset < 0 || landlock_restrict(setup->ruleset) == 0) &&
	    descriptors_place(fds + 1, count - 1, INIT_FDS_MAX + 1, &problem) == 0 &&
	    setsid() >= 0 && chdir(setup->directory) == 0 && set_limits(setup) == 0) {
		take_terminal();
		relocate(strings);
		unblock_signals();
		if (!setup->filter || filter_apply(setup->filter) == 0)
			execve(strings->pointers[0], strings->pointers,
			       strings->pointers + strings->argc + 1);
	}
	sys = errno;
	(void)!write(problem, &sys, sizeof(sys));
	kernel_exit(127);
}

/* The errno that the new process could not become the program with; 0 at end-of-file: execve closed
 * it. */
static int read_problem(int fd)
{
	int sys = 0;
	ssize_t size;

	do
		size = read(fd, &sys, sizeof(sys));
	while (size < 0 && errno == EINTR);
	return size == (ssize_t)sizeof(sys) ? sys : 0;
}

static void close_all(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

/* Closes the descriptors before it answers: the keeper may count on being the only other holder. */
static void start_program(const struct init *init, const struct init_order *order, int *fds,
			  unsigned count)
{
	struct init_report report = {.type = INIT_DONE};
	int problem[2];
	pid_t pid;

	if (count == 0 || pipe2(problem, O_CLOEXEC) < 0) {
		report.sys = count ? errno : EINVAL;
		close_all(fds, count);
		tell(init, &report);
		return;
	}
	pid = kernel_fork();
	if (pid == 0)
		become_program(init->setup, fds, count, order->bytes, problem[1]);
	report.sys = pid < 0 ? errno : 0;
	report.pid = pid;
	close_all(fds, count);
	close(problem[1]);
	if (pid > 0)
		report.sys = read_problem(problem[0]);
	close(problem[0]);
	if (pid > 0 && report.sys)
		waitpid(pid, NULL, __WALL);
	tell(init, &report);
}

/* --- brands --- */

/* Some 146,000 years in microseconds. */
static const rlim_t BRAND_TOP = UINT64_C(1) << 62;

static void brand(const struct init *init, const struct init_order *order)
{
	struct init_report report = {.type = INIT_DONE};
	const struct rlimit mark = {.rlim_cur = BRAND_TOP - order->brand,
				    .rlim_max = BRAND_TOP - order->brand};

	if (order->pid <= 1 || order->brand == 0 || order->brand > INIT_BRAND_MAX)
		report.sys = EINVAL;
	else if (prlimit(order->pid, RLIMIT_RTTIME, &mark, NULL) < 0)
		report.sys = errno;
	tell(init, &report);
}

/* 0: none. One that cannot be asked is none of ours. */
static uint32_t brand_of(int32_t pid)
{
	struct rlimit mark;

	if (prlimit(pid, RLIMIT_RTTIME, NULL, &mark) < 0 || mark.rlim_max >= BRAND_TOP ||
	    mark.rlim_max < BRAND_TOP - INIT_BRAND_MAX)
		return 0;
	return (uint32_t)(BRAND_TOP - mark.rlim_max);
}

/* --- killing --- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_spared(const struct init_order *order, int32_t pid)
{
	for (uint32_t i = 0; i < order->count && i < INIT_KEEP_MAX; i++) {
		if (order->pids[i] == pid)
			return true;
	}
	return false;
}

/* A round in which all in the box are stopped at once: all are meant, or those of one brand could
 * not be met one by one. */
static bool stops_at_once(const struct init *init, const struct init_order *order, unsigned round)
{
	return init->setup->boxed && (order->brand == INIT_ALL || round >= GENTLE_ROUNDS);
}

static bool is_meant(const struct init *init, const struct init_order *order,
		     const struct census_entry *entry)
{
	int32_t self = getpid();

	if (entry->pid == self || entry->dead || is_spared(order, entry->pid))
		return false;
	if (!init->setup->boxed && !census_descends(&init->now, entry, self))
		return false;
	return order->brand == INIT_ALL ||
	       (brand_of(entry->pid) == order->brand && !is_spared(order, entry->parent));
}

/* Marks whom to kill, stopping each where that is not done for all at once. */
static void choose_targets(struct init *init, const struct init_order *order, bool at_once)
{
	for (size_t i = 0; i < init->now.count; i++) {
		struct census_entry *entry = &init->now.entries[i];

		entry->target = is_meant(init, order, entry);
		if (entry->target && !at_once)
			kill(entry->pid, SIGSTOP);
	}
}

/* Kills the targets. Returns how many can still be there; *killed counts those not met in the round
 * before. */
static uint32_t kill_targets(const struct init *init, uint32_t *killed)
{
	uint32_t left = 0;

	for (size_t i = 0; i < init->now.count; i++) {
		const struct census_entry *entry = &init->now.entries[i];
		const struct census_entry *old = census_find(&init->before, entry->pid);

		/* Refused for what has gained another uid (tier none): it is not ours to kill. */
		if (!entry->target || kill(entry->pid, SIGKILL) < 0)
			continue;
		left++;
		if (!old || !old->target)
			(*killed)++;
	}
	return left;
}

/* What was stopped with the others goes on. */
static void go_on(const struct init *init, const struct init_order *order)
{
	int32_t self = getpid();

	for (uint32_t i = 0; i < order->count && i < INIT_KEEP_MAX; i++)
		kill(order->pids[i], SIGCONT);
	for (size_t i = 0; order->brand != INIT_ALL && i < init->now.count; i++) {
		const struct census_entry *entry = &init->now.entries[i];

		if (entry->pid != self && !entry->target)
			kill(entry->pid, SIGCONT);
	}
}

static void clear_box(struct init *init, const struct init_order *order)
{
	struct init_report report = {.type = INIT_DONE};
	const struct timespec pause = {.tv_sec = 0, .tv_nsec = 200000};
	int64_t end = now_ms() + INIT_KILL_MS_MAX;
	bool at_once = false;

	init->before.count = 0;
	for (unsigned round = 0;; round++) {
		struct census swap = init->before;

		at_once = stops_at_once(init, order, round);
		if (at_once)
			kill(-1, SIGSTOP);
		if (census_take(&init->now) < 0) {
			report.sys = errno;
			break;
		}
		choose_targets(init, order, at_once);
		report.left = kill_targets(init, &report.count);
		reap(init);
		if (report.left == 0 || now_ms() >= end)
			break;
		init->before = init->now;
		init->now = swap;
		nanosleep(&pause, NULL);
	}
	if (at_once)
		go_on(init, order);
	tell(init, &report);
}

/* --- limits --- */

enum { LOWER_ROUNDS_MAX = 100 };

/* 1 when the process had more, 0 when it had not or is none of ours to change, -1 with errno. */
static int lower_one(int32_t pid, const struct init_order *order)
{
	__rlimit_resource_t resource = (__rlimit_resource_t)order->resource;
	struct rlimit now, lower = {.rlim_cur = order->bytes, .rlim_max = order->bytes};

	if (prlimit(pid, resource, NULL, &now) < 0)
		return errno == ESRCH || errno == EPERM ? 0 : -1;
	if (now.rlim_max <= order->bytes)
		return 0;
	if (now.rlim_cur < lower.rlim_cur)
		lower.rlim_cur = now.rlim_cur;
	if (prlimit(pid, resource, &lower, NULL) < 0)
		return errno == ESRCH ? 0 : -1;
	return 1;
}

/*
 * Lowers a limit of all that run. A process that forks meanwhile hands on what it has: the old
 * limit only until it has been met itself. So the rounds go on until one meets none that has more.
 */
static void lower_limit(struct init *init, const struct init_order *order)
{
	struct init_report report = {.type = INIT_DONE, .sys = EAGAIN};
	int32_t self = getpid();

	for (int round = 0; round < LOWER_ROUNDS_MAX && report.sys == EAGAIN; round++) {
		int had_more = census_take(&init->now);

		for (size_t i = 0; i < init->now.count && had_more >= 0; i++) {
			const struct census_entry *entry = &init->now.entries[i];
			int more = 0;

			if (entry->pid != self && !entry->dead &&
			    (init->setup->boxed || census_descends(&init->now, entry, self)))
				more = lower_one(entry->pid, order);
			had_more = more < 0 ? -1 : had_more + more;
		}
		if (had_more <= 0)
			report.sys = had_more < 0 ? errno : 0;
	}
	tell(init, &report);
}

/* --- the loop --- */

static void send_signal(const struct init *init, const struct init_order *order)
{
	struct init_report report = {.type = INIT_DONE};

	/* Group 1 would be kill(-1), group 0 the init's own. */
	if (order->pid <= 1)
		report.sys = EINVAL;
	else if (kill(-order->pid, order->signal) < 0 && errno != ESRCH)
		report.sys = errno;
	tell(init, &report);
}

static void seal(const struct init *init)
{
	struct init_report report = {.type = INIT_DONE};

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		report.sys = errno;
	tell(init, &report);
}

/* Without a pid namespace nothing else kills what is left. */
static void __attribute__((noreturn)) finish(struct init *init)
{
	static const struct init_order all = {.type = INIT_KILL, .brand = INIT_ALL};

	if (!init->setup->boxed)
		clear_box(init, &all);
	kernel_exit(0);
}

/* Receives one order with its descriptors. False at the end of the socket. */
static bool receive(const struct init *init, struct init_order *order, int *fds, unsigned *count)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int) * (INIT_FDS_MAX + 1))];
	} control;
	struct iovec part = {.iov_base = order, .iov_len = sizeof(*order)};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t size;

	do
		size = recvmsg(init->socket, &message, MSG_CMSG_CLOEXEC);
	while (size < 0 && errno == EINTR);
	*count = 0;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); size > 0 && head;
	     head = CMSG_NXTHDR(&message, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		*count = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(head), *count * sizeof(int));
	}
	return size == (ssize_t)sizeof(*order);
}

static void join_group(const struct init *init, const int *fds, unsigned count)
{
	struct init_report report = {.type = INIT_DONE};

	for (unsigned i = 0; i < count && report.sys == 0; i++)
		report.sys = write(fds[i], "0", 1) == 1 ? 0 : errno;
	close_all(fds, count);
	tell(init, &report);
}

static void serve(struct init *init)
{
	struct init_order order;
	int fds[INIT_FDS_MAX + 1];
	unsigned count;

	if (!receive(init, &order, fds, &count))
		finish(init);
	switch (order.type) {
	case INIT_EXEC:
		start_program(init, &order, fds, count);
		break;
	case INIT_SIGNAL:
		send_signal(init, &order);
		break;
	case INIT_KILL:
		clear_box(init, &order);
		break;
	case INIT_BRAND:
		brand(init, &order);
		break;
	case INIT_SEAL:
		seal(init);
		break;
	case INIT_LOWER:
		lower_limit(init, &order);
		break;
	case INIT_JOIN:
		join_group(init, fds, count);
		break;
	default:
		finish(init);
	}
}

static void take_signals(struct init *init)
{
	struct signalfd_siginfo info;

	while (read(init->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGTERM)
			finish(init);
	}
	reap(init);
}

void init_run(int socket, const struct init_setup *setup)
{
	struct init init = {.socket = socket, .signals = -1, .setup = setup};
	struct init_report report = {.type = INIT_READY};
	sigset_t set;

	/* clone3 has cleared handlers, not what is ignored; with SIGCHLD ignored no child would be
	 * reported. */
	for (int number = 1; number <= SIGNALS; number++)
		signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (!setup->boxed)
		sigaddset(&set, SIGTERM);
	init.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (init.signals < 0 || census_init(&init.now) < 0 || census_init(&init.before) < 0) {
		report = (struct init_report){
			.type = INIT_FAILED, .sys = errno, .count = UINT32_MAX};
		(void)init_report(socket, &report, -1);
		kernel_exit(1);
	}
	(void)init_report(socket, &report, setup->ruleset);
	for (;;) {
		struct pollfd fds[] = {
			{.fd = init.signals, .events = POLLIN},
			{.fd = socket, .events = POLLIN},
		};

		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			take_signals(&init);
		if (fds[1].revents)
			serve(&init);
	}
}
