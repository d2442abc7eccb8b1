/*
 * The program is a direct child, so there is no init: the plan is applied in the process that
 * clone3 makes, which then becomes the program. Where that fails it says so on a socket that execve
 * closes.
 *
 * Root's nursery maps two things: the zygote's own uid, and, from NURSERY_SESSIONS on, those of all
 * sessions, so that boxes can be made beneath it.
 */
#include "sandbox/nursery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/socket.h"
#include "sandbox/apply.h"
#include "sandbox/descriptors.h"
#include "sandbox/idmap.h"
#include "sandbox/init.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "sandbox/policy.h"
#include "sandbox/report.h"

enum { NURSERY_SESSIONS = 65536, NURSERY_FDS_MAX = 16, STEP_EXEC = UINT16_MAX };

struct nursery_start {
	const struct nursery_params *params;
	struct plan plan;
	int sockets[2]; /* ours, the child's */
	int fds[NURSERY_FDS_MAX];
};

/* --- the child --- */

static void unblock_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Signals and abstract sockets stay inside, for the guests as well. */
static int scope(int abi)
{
	int ruleset, result;

	if (abi < LANDLOCK_ABI_SCOPES)
		return 0;
	ruleset = landlock_create(0, LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT);
	if (ruleset < 0)
		return -1;
	result = landlock_restrict(ruleset);
	close(ruleset);
	return result;
}

static void __attribute__((noreturn)) become_program(struct nursery_start *start)
{
	const struct nursery_params *params = start->params;
	struct init_report report = {.type = INIT_FAILED, .count = STEP_EXEC};
	struct applied applied = {.failed = 0};
	int socket = start->sockets[1];

	/* As long as no step is under way it is the program that failed. */
	if (apply_plan(&start->plan, socket, &applied) < 0) {
		report.count = (uint32_t)applied.failed;
	} else if (descriptors_place(start->fds, (unsigned)params->fd_count, NURSERY_FDS_MAX,
				     &socket) == 0 &&
		   scope(start->plan.host.landlock_abi) == 0 &&
		   filter_apply(&start->plan.filter) == 0) {
		unblock_signals();
		execve(params->path, (char *const *)(uintptr_t)params->argv,
		       (char *const *)(uintptr_t)params->envp);
	}
	report.sys = errno;
	(void)init_report(socket, &report, -1);
	kernel_exit(127);
}

/* --- its parent --- */

static int write_map(pid_t pid, const char *name, const struct host *host)
{
	cleanup_free char *text = NULL;
	uint32_t first, count;

	if (uids_of(UID_OF_SESSION, &first, &count, NULL) < 0) {
		errno = EPERM;
		return -1;
	}
	text = mem_format("%d %" PRIu32 " 1\n%d %" PRIu32 " %" PRIu32 "\n", KERNEL_ID,
			  (uint32_t)host->box_uid, NURSERY_SESSIONS, first, count);
	return idmap_write(pid, name, text);
}

static int write_id_maps(const struct nursery_start *start, pid_t pid)
{
	if (write_map(pid, "uid_map", &start->plan.host) < 0 ||
	    write_map(pid, "gid_map", &start->plan.host) < 0)
		return -1;
	return send(start->sockets[0], "", 1, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* Waits until the program runs, or for the report of what failed. */
static int await_program(struct nursery_start *start, struct err *err)
{
	struct init_report report;
	ssize_t size;

	do
		size = recv(start->sockets[0], &report, sizeof(report), 0);
	while (size < 0 && errno == EINTR);
	if (size == 0)
		return 0;
	if (size != (ssize_t)sizeof(report))
		return err_sys(err, "sandbox: nursery");
	if (report.count != STEP_EXEC)
		return report_failure(&start->plan, report.count, report.sys, err);
	errno = report.sys;
	err_sys(err, "%.150s cannot be run", start->params->path);
	return -1;
}

static void end_child(struct child *child)
{
	kernel_pidfd_signal(child->pidfd, SIGKILL);
	(void)child_wait(child);
}

static int launch(struct nursery_start *start, struct nursery *nursery, struct err *err)
{
	struct clone_args args = {
		.flags = start->plan.namespaces | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&nursery->child.pidfd,
		.exit_signal = SIGCHLD,
	};
	sigset_t all, before;
	int sys;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	nursery->child.pid = kernel_clone3(&args);
	if (nursery->child.pid == 0)
		become_program(start);
	sys = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(start->sockets[1]);
	start->sockets[1] = -1;
	if (nursery->child.pid < 0) {
		nursery->child.pid = -1;
		return report_refusal(start->plan.namespaces, sys, err);
	}
	if (plan_has_own_ids(&start->plan) && write_id_maps(start, nursery->child.pid) < 0) {
		err_sys(err, "sandbox: id maps");
		end_child(&nursery->child);
		return -1;
	}
	/* Once it is the program, it is no business of ours to be let in. */
	nursery->user_ns = idmap_namespace_of(nursery->child.pid);
	if (nursery->user_ns < 0)
		err_sys(err, "sandbox: namespace of the nursery");
	if (nursery->user_ns < 0 || await_program(start, err) < 0) {
		end_child(&nursery->child);
		return -1;
	}
	return 0;
}

static int choose_ids(struct nursery *nursery, struct host *host, struct err *err)
{
	struct err why = ERR_INIT;

	if (host->uid != 0)
		return 0;
	if (uid_lease_take(&nursery->lease, UID_OF_ZYGOTE, UIDS_DIR, &why) < 0) {
		if (why.code == ERR_UNSUPPORTED)
			return 0;
		if (err)
			*err = why;
		return -1;
	}
	host->box_uid = nursery->lease.uid;
	host->box_gid = nursery->lease.uid;
	return 0;
}

int nursery_start(struct nursery *nursery, const struct nursery_params *params, struct err *err)
{
	struct nursery_start start = {.params = params, .plan = PLAN_INIT, .sockets = {-1, -1}};
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct policy policy;
	struct host host;
	int result = -1;

	policy_init(&policy);
	policy.read = params->read;
	host_look(&host);
	for (size_t i = 0; i < params->fd_count && i < NURSERY_FDS_MAX; i++)
		start.fds[i] = params->fds[i] < 0 ? null : params->fds[i];
	if (choose_ids(nursery, &host, err) == 0 &&
	    plan_compile_nursery(&start.plan, &policy, &host, err) == 0 &&
	    (!plan_has_own_ids(&start.plan) || idmap_prepare(&start.plan, err) == 0) &&
	    socket_pair(SOCK_SEQPACKET, start.sockets, err) == 0)
		result = launch(&start, nursery, err);
	nursery->landlock_abi = host.landlock_abi;
	for (size_t i = 0; i < 2; i++) {
		if (start.sockets[i] >= 0)
			close(start.sockets[i]);
	}
	plan_release(&start.plan);
	if (result < 0)
		nursery_release(nursery);
	return result;
}

void nursery_release(struct nursery *nursery)
{
	if (nursery->user_ns >= 0)
		close(nursery->user_ns);
	uid_lease_release(&nursery->lease);
	*nursery = (struct nursery)NURSERY_INIT;
}

int nursery_adopt(struct host *host, int user_ns, struct err *err)
{
	uint32_t first, count;

	host->family = user_ns;
	host->outer_uid = KERNEL_ID;
	host->outer_gid = KERNEL_ID;
	if (host->box_uid == host->uid)
		return 0;
	if (uids_of(UID_OF_SESSION, &first, &count, err) < 0)
		return -1;
	host->outer_uid = NURSERY_SESSIONS + (host->box_uid - first);
	host->outer_gid = host->outer_uid;
	return 0;
}
