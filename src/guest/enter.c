/*
 * From the zygote into a box, with one copy of the page tables.
 *
 *	zygote  --vfork-->  C1: setns(user, mnt, pid, net, ipc, uts, cgroup)
 *	                     |--vfork-->  C2: the first process born inside the box's pid namespace
 *	                     |             |--fork-->  G: the guest
 *	                     |             '- _exit
 *	                     '- reaps C2, _exit
 *	zygote reaps C1
 *
 * Why two steps: setns(2) into a pid namespace moves only later children, so C1 itself stays
 * outside. If C1 made the guest, the guest's parent would be outside and it would fall to the
 * zygote. C2's parent is outside, but C2 is inside; when it ends, the kernel looks for a new parent
 * of G no further up than the namespace reaches, and that is PID 1 of the box (find_new_reaper in
 * kernel/exit.c). PID 1 then reaps the guest and knows its exit status, and the zygote has nothing
 * to reap.
 *
 * Why vfork: a vfork child shares the memory but is a task of its own, with its own namespaces and
 * directories, so the kernel lets it change them. The real fork() is glibc's, so that the handlers
 * of pthread_atfork run (OpenBLAS, malloc). Calling fork() in a vfork child is beyond what POSIX
 * promises: `plain` makes both steps by fork() for a C library where it does not hold.
 *
 * setns into a user namespace makes the shared memory non-dumpable, so the zygote sets that right
 * again.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HIGH_FD_MIN = 64, EXIT_LOCKDOWN = 125 };

static const struct {
	int type;
	const char *step;
} namespaces[] = {
	{CLONE_NEWUSER, "setns user"},     {CLONE_NEWNS, "setns mnt"},  {CLONE_NEWPID, "setns pid"},
	{CLONE_NEWNET, "setns net"},       {CLONE_NEWIPC, "setns ipc"}, {CLONE_NEWUTS, "setns uts"},
	{CLONE_NEWCGROUP, "setns cgroup"},
};

static int enter_namespaces(const int *fds, volatile struct enter_result *shared)
{
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
		if (setns(fds[i], namespaces[i].type) == 0)
			continue;
		shared->step = namespaces[i].step;
		shared->error = errno;
		return -1;
	}
	return 0;
}

static int wait_for(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

enum { CONTROL, STDOUT, STDERR, WORD, FILTER, RULESET, HIGH_COUNT };

/* Moves control, stdout and stderr to 3, 1 and 2, and maps the word; *filter and *ruleset are what
 * they are now. */
static int place_descriptors(const int *fds, int *filter, int *ruleset, const char **step)
{
	static const int wanted[HIGH_COUNT] = {
		[CONTROL] = ZYGOTE_FD_CONTROL, [STDOUT] = ZYGOTE_FD_STDOUT,
		[STDERR] = ZYGOTE_FD_STDERR,   [WORD] = ZYGOTE_FD_WORD,
		[FILTER] = ZYGOTE_FD_FILTER,   [RULESET] = ZYGOTE_FD_RULESET,
	};
	int high[HIGH_COUNT];
	int null, rc;

	*step = "descriptors";
	for (int i = 0; i < HIGH_COUNT; i++) {
		high[i] = fcntl(fds[wanted[i]], F_DUPFD_CLOEXEC, HIGH_FD_MIN);
		if (high[i] < 0)
			return -errno;
	}
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0) {
		*step = "open /dev/null";
		return -errno;
	}
	if (dup2(null, 0) < 0 || dup2(high[STDOUT], 1) < 0 || dup2(high[STDERR], 2) < 0 ||
	    dup3(high[CONTROL], 3, O_CLOEXEC) < 0)
		return -errno;
	rc = word_map(high[WORD]);
	if (rc < 0) {
		*step = "interrupt word";
		return rc;
	}
	if (null == 0)
		fcntl(0, F_SETFD, 0);
	*filter = high[FILTER];
	*ruleset = high[RULESET];
	return 0;
}

/* All that is not 0 to 3; the filter, if it is there already, allows it. */
static int close_others(const char **step)
{
	*step = "descriptors";
	return syscall(SYS_close_range, 4, ~0U, 0) < 0 ? -errno : 0;
}

/* Not inlined where vfork() is called: its variables would be taken for that function's. */
static int __attribute__((noinline))
settle_in(const struct enter_request *request, const char **step)
{
	int filter = -1, ruleset = -1;
	int rc = place_descriptors(request->fds, &filter, &ruleset, step);

	if (rc < 0)
		return rc;
	lockdown_rseq();
	if (chdir(request->workspace) < 0) {
		*step = "chdir workspace";
		return -errno;
	}
	umask(022);
	rc = lockdown_user(step);
	if (rc == 0) {
		lockdown_group(request->fds + ZYGOTE_FD_TASKS, request->tasks_count);
		rc = lockdown_limits(&request->limits, step);
	}
	if (rc == 0)
		rc = lockdown_privileges(step);
	if (rc == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
		*step = "dumpable";
		rc = -errno;
	}
	if (rc == 0)
		rc = lockdown_ruleset(request->has_ruleset ? ruleset : -1, step);
	if (rc == 0)
		rc = lockdown_filter(filter, step);
	return rc == 0 ? close_others(step) : rc;
}

/* In the guest: nobody can be told of a failure but the session's stderr and the exit status. */
static void become_guest(const struct enter_request *request)
{
	const char *step = "";
	int rc;

	PyOS_AfterFork_Child();
	setsid();
	rc = settle_in(request, &step);
	if (rc < 0) {
		dprintf(2, "fumehood: cannot set up the guest: %s: %s\n", step, strerror(-rc));
		_exit(EXIT_LOCKDOWN);
	}
}

static _Noreturn void fail(volatile struct enter_result *shared, const char *step)
{
	shared->step = step;
	shared->error = errno;
	_exit(1);
}

int enter_box(const struct enter_request *request, struct enter_result *result)
{
	/* Shared with the steps between in both ways of making them. */
	volatile struct enter_result *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
						    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t outer, inner, guest;
	int status;

	if (shared == MAP_FAILED) {
		*result = (struct enter_result){.step = "mmap", .error = errno};
		return -1;
	}
	PyOS_BeforeFork();
	outer = request->plain ? fork() : vfork();
	if (outer == 0) {
		if (enter_namespaces(request->fds + ZYGOTE_FD_NAMESPACE, shared) < 0)
			_exit(1);
		inner = request->plain ? fork() : vfork();
		if (inner < 0)
			fail(shared, "fork into the box");
		if (inner == 0) {
			guest = fork();
			if (guest < 0)
				fail(shared, "fork of the guest");
			if (guest > 0)
				_exit(0);
			munmap((void *)(uintptr_t)shared, sizeof(*shared));
			become_guest(request);
			return 0;
		}
		status = wait_for(inner);
		_exit(status == 0 ? 0 : 1);
	}
	if (outer < 0)
		*result = (struct enter_result){.step = "fork", .error = errno};
	status = outer < 0 ? -1 : wait_for(outer);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	PyOS_AfterFork_Parent();
	if (outer > 0) {
		result->step = shared->step ? shared->step : "fork into the box";
		result->error = shared->error;
	}
	munmap((void *)(uintptr_t)shared, sizeof(*shared));
	return status == 0 ? 1 : -1;
}
