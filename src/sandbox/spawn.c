/*
 * clone3 without CLONE_VM is a fork: the child has a copy of everything, the plan included. It must
 * not run any handler of the parent (CLONE_CLEAR_SIGHAND) nor be interrupted (all signals are
 * blocked round the call), and it must never return from here.
 */
#include "sandbox/spawn.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/socket.h"
#include "sandbox/apply.h"
#include "sandbox/kernel.h"

enum { READY_MS_MAX = 10000, END_MS_MAX = 10000 };

static void __attribute__((noreturn))
run_child(const struct plan *plan, const struct init_setup *setup, int socket)
{
	struct init_report report = {.type = INIT_READY};
	size_t failed = 0;

	if (apply_plan(plan, socket, &failed) < 0) {
		report.type = INIT_FAILED;
		report.sys = errno;
		report.count = (uint32_t)failed;
	} else if (setup) {
		init_run(socket, setup);
	}
	(void)init_report(socket, &report);
	kernel_exit(0);
}

int spawn_plan(const struct plan *plan, const struct init_setup *setup, struct spawned *spawned)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = plan->namespaces | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
	};
	sigset_t all;
	sigset_t before;
	int pair[2];
	int pid;
	int sys;

	if (socket_pair(SOCK_SEQPACKET, pair, NULL) < 0)
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = kernel_clone3(&args);
	if (pid == 0)
		run_child(plan, setup, pair[1]);
	sys = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		errno = sys;
		return -1;
	}
	*spawned = (struct spawned){.pid = pid, .pidfd = pidfd, .socket = pair[0]};
	return 0;
}

int spawn_wait(const struct spawned *spawned, struct init_report *report)
{
	struct pollfd fd = {.fd = spawned->socket, .events = POLLIN};
	int ready;
	ssize_t size;

	do
		ready = poll(&fd, 1, READY_MS_MAX);
	while (ready < 0 && errno == EINTR);
	if (ready == 0) {
		errno = ETIMEDOUT;
		return -1;
	}
	size = ready < 0 ? -1 : recv(spawned->socket, report, sizeof(*report), 0);
	if (size != (ssize_t)sizeof(*report)) {
		errno = ECHILD;
		return -1;
	}
	return 0;
}

void spawn_end(struct spawned *spawned)
{
	struct pollfd fd = {.fd = spawned->pidfd, .events = POLLIN};
	siginfo_t info;
	int ready;

	if (spawned->pidfd < 0)
		return;
	kernel_pidfd_signal(spawned->pidfd, SIGKILL);
	do
		ready = poll(&fd, 1, END_MS_MAX);
	while (ready < 0 && errno == EINTR);
	if (ready > 0)
		waitid(P_PIDFD, (id_t)spawned->pidfd, &info, WEXITED | __WALL);
	close(spawned->pidfd);
	close(spawned->socket);
	*spawned = (struct spawned)SPAWNED_INIT;
}
