/*
 * clone3 without CLONE_VM is a fork: the child has a copy of everything, the plan included. It must
 * not run any handler of the parent (CLONE_CLEAR_SIGHAND) nor be interrupted (all signals are
 * blocked round the call), and it must never return from here.
 */
#include "sandbox/spawn.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/socket.h"
#include "sandbox/apply.h"
#include "sandbox/idmap.h"
#include "sandbox/kernel.h"
#include "sandbox/own_stack.h"

enum { READY_MS_MAX = 10000, END_MS_MAX = 10000, STACK_BYTES = 256 * 1024 };

static void __attribute__((noreturn))
run_child(const struct plan *plan, struct init_setup *setup, int socket)
{
	struct init_report report = {.type = INIT_READY};
	struct applied applied;

	if (apply_plan(plan, socket, &applied) < 0) {
		report.type = INIT_FAILED;
		report.sys = errno;
		report.count = (uint32_t)applied.failed;
	} else if (setup) {
		setup->ruleset = applied.ruleset;
		init_run(socket, setup);
	}
	(void)init_report(socket, &report, -1);
	kernel_exit(0);
}

/* Maps the box's ids to what they are in the namespace above. The process is our own child and not
 * reaped, so its pid is still its. */
static int write_id_maps(const struct plan *plan, pid_t pid)
{
	if (idmap_write_one(pid, "uid_map", KERNEL_ID, plan->host.outer_uid) < 0)
		return -1;
	return idmap_write_one(pid, "gid_map", KERNEL_ID, plan->host.outer_gid);
}

/* --- the child --- */

struct birth {
	const struct plan *plan;
	struct clone_args args;
	int pidfd;
	int pid; /* -1: not born, for the reason `sys` */
	int sys;
	int socket; /* the child's end */
	int other;  /* the parent's: while the child had a copy, the parent's death were no end */
	struct init_setup *setup;
};

/* 0, or -1 with birth->sys. */
static int bear(struct birth *birth)
{
	birth->args.pidfd = (uint64_t)(uintptr_t)&birth->pidfd;
	birth->pid = kernel_clone3(&birth->args);
	if (birth->pid == 0) {
		close(birth->other);
		run_child(birth->plan, birth->setup, birth->socket);
	}
	birth->sys = errno;
	if (birth->pid > 0 && plan_has_own_ids(birth->plan) &&
	    write_id_maps(birth->plan, birth->pid) < 0) {
		birth->sys = errno;
		kill(birth->pid, SIGKILL);
		waitpid(birth->pid, NULL, __WALL);
		close(birth->pidfd);
		birth->pid = -1;
	}
	return birth->pid < 0 ? -1 : 0;
}

/*
 * In a task of its own that shares this process's memory and descriptors: the namespace above the
 * new one is where its creator is, and a process cannot leave it again. Root becomes the user of
 * the zygote there, since only the creator's uid may enter what it has made. CLONE_PARENT makes the
 * child ours. A change of credentials makes the shared memory non-dumpable, which would shut
 * /proc/PID of the child: undone at once.
 */
static int bear_in_family(void *data)
{
	struct birth *birth = data;
	const struct host *host = &birth->plan->host;

	if (setns(host->family, CLONE_NEWUSER) < 0 ||
	    (host->uid == 0 &&
	     (syscall(SYS_setgroups, 0, NULL) < 0 || kernel_set_ids(KERNEL_ID) < 0)) ||
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
		birth->sys = errno;
		return 1;
	}
	birth->args.flags |= CLONE_PARENT;
	return bear(birth) < 0;
}

static void bear_elsewhere(struct birth *birth)
{
	char *stack = mem_resize(NULL, STACK_BYTES, 1);
	const int flags = CLONE_VM | CLONE_VFORK | CLONE_FILES;
	struct own_stack own;
	pid_t pid;
	int sys;

	own_stack_enter(&own, stack, STACK_BYTES);
	pid = clone(bear_in_family, stack + STACK_BYTES, flags, birth);
	sys = errno;
	own_stack_leave(&own);
	if (pid < 0)
		birth->sys = sys;
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	free(stack);
}

int spawn_plan(const struct plan *plan, struct init_setup *setup, struct spawned *spawned)
{
	struct birth birth = {
		.plan = plan,
		.args = {.flags = plan->namespaces | CLONE_PIDFD | CLONE_CLEAR_SIGHAND},
		.pidfd = -1,
		.pid = -1,
		.setup = setup,
	};
	sigset_t all;
	sigset_t before;
	int pair[2];

	if (socket_pair(SOCK_SEQPACKET, pair, NULL) < 0)
		return -1;
	birth.socket = pair[1];
	birth.other = pair[0];
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (plan->namespaces && plan->host.family >= 0)
		bear_elsewhere(&birth);
	else
		(void)bear(&birth);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	if (birth.pid < 0) {
		close(pair[0]);
		errno = birth.sys;
		return -1;
	}
	*spawned = (struct spawned){
		.pid = birth.pid, .pidfd = birth.pidfd, .socket = pair[0], .ruleset = -1};
	if (plan_has_own_ids(plan) && send(pair[0], "", 1, MSG_NOSIGNAL) != 1) {
		spawn_end(spawned);
		errno = ECHILD;
		return -1;
	}
	return 0;
}

int spawn_wait(struct spawned *spawned, struct init_report *report)
{
	struct pollfd fd = {.fd = spawned->socket, .events = POLLIN};
	size_t count = 1;
	int ruleset = -1;
	int ready;
	ssize_t size;

	do
		ready = poll(&fd, 1, READY_MS_MAX);
	while (ready < 0 && errno == EINTR);
	if (ready == 0) {
		errno = ETIMEDOUT;
		return -1;
	}
	size = ready < 0 ? -1
			 : socket_receive(spawned->socket, report, sizeof(*report), &ruleset,
					  &count, NULL, 0);
	if (size > 0 && count == 1)
		spawned->ruleset = ruleset;
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
	if (spawned->ruleset >= 0)
		close(spawned->ruleset);
	*spawned = (struct spawned)SPAWNED_INIT;
}
