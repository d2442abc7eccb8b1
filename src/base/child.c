/*
 * Starting a program, without copying the parent's page tables.
 *
 * clone(CLONE_VM | CLONE_VFORK) is what vfork(2) does, with two gains: the child has a stack of its
 * own, so it cannot overwrite what the parent's frame holds, and CLONE_PIDFD gives a pidfd that
 * names the child beyond doubt. The parent stands still until the child has called execve or ended,
 * so the child can leave an errno in the parent's memory.
 *
 * Because memory is shared, the child does nothing but system calls on what was prepared before.
 * All signals are blocked from before the clone until the child has reset the handlers: a handler
 * of the parent must not run in the child.
 *
 * Descriptors: each source is first copied above the targets, because a target may be the source of
 * another; then the copies are put in place, and all else is closed.
 */
#include "base/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

enum { STACK_BYTES = 64 << 10 };

struct start {
	const struct child_params *params;
	char **paths;      /* what to try in turn, NULL-terminated */
	int *copies;       /* fd_count of them: the sources above the targets */
	char *stack;       /* of the child */
	char *mid_stack;   /* of the child between, for an orphan */
	int sys;           /* errno of what failed in the child */
	const char *what;  /* the step that failed */
};

static const char DEFAULT_PATH[] = "/usr/local/bin:/usr/bin:/bin";

static void start_release(struct start *start)
{
	for (char **path = start->paths; path && *path; path++)
		free(*path);
	free(start->paths);
	free(start->copies);
	free(start->stack);
	free(start->mid_stack);
}

#define cleanup_start __attribute__((cleanup(start_release)))

/* One path, or a candidate for each absolute part of PATH; a relative part would run what a guest
 * has put into the directory that happens to be the current one. */
static char **find_paths(const char *program)
{
	const char *part = getenv("PATH");
	char **paths;
	size_t count = 0;

	if (!part || part[0] == '\0')
		part = DEFAULT_PATH;
	paths = mem_resize(NULL, strlen(part) + 2, sizeof(*paths));
	if (strchr(program, '/')) {
		paths[count++] = mem_string(program);
	} else {
		while (*part != '\0') {
			int len = (int)strcspn(part, ":");

			if (part[0] == '/')
				paths[count++] = mem_format("%.*s/%s", len, part, program);
			part += len + (part[len] == ':');
		}
	}
	paths[count] = NULL;
	return paths;
}

static int child_fail(struct start *start, const char *what)
{
	start->sys = errno;
	start->what = what;
	return 127;
}

static void reset_signals(void)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t none;

	/* SIGKILL, SIGSTOP and the C library's own two refuse; they are never ignored either. */
	for (int number = 1; number < NSIG; number++)
		sigaction(number, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int place_descriptors(struct start *start)
{
	const struct child_params *params = start->params;
	int above = (int)params->fd_count;

	for (int i = 0; i < above; i++) {
		int source = params->fds[i];

		if (source < 0)
			source = open("/dev/null", O_RDWR | O_CLOEXEC);
		start->copies[i] = source < 0 ? -1 : fcntl(source, F_DUPFD_CLOEXEC, above);
		if (start->copies[i] < 0)
			return -1;
	}
	for (int i = 0; i < above; i++) {
		if (dup2(start->copies[i], i) < 0) /* without FD_CLOEXEC */
			return -1;
	}
	return (int)syscall(SYS_close_range, (unsigned)above, ~0U, 0U);
}

/* What the PATH search of execvp does: a directory that cannot be entered does not end it. */
static void try_paths(struct start *start)
{
	const struct child_params *params = start->params;
	const char *const *envp = params->envp ? params->envp : (const char *const *)environ;
	int denied = 0;

	errno = ENOENT;
	for (char **path = start->paths; *path; path++) {
		execve(*path, (char *const *)(uintptr_t)params->argv,
		       (char *const *)(uintptr_t)envp);
		if (errno == EACCES)
			denied = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return;
	}
	if (denied)
		errno = denied;
}

/* The child. Returning from here ends it. */
static int child_main(void *data)
{
	struct start *start = data;
	const struct child_params *params = start->params;

	if (params->new_session && setsid() < 0)
		return child_fail(start, "cannot start a session for");
	if (params->directory && chdir(params->directory) < 0)
		return child_fail(start, "cannot enter the directory of");
	if (place_descriptors(start) < 0)
		return child_fail(start, "cannot place the descriptors of");
	reset_signals();
	try_paths(start);
	return child_fail(start, "cannot run");
}

/* The child between, whose end makes the program an orphan. It never runs a handler: signals are
 * blocked in it. */
static int mid_main(void *data)
{
	struct start *start = data;
	const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;

	if (clone(child_main, start->stack + STACK_BYTES, flags, start) < 0)
		return child_fail(start, "cannot fork for");
	return 0;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* Runs the child up to its execve; returns its pid, or -1 with start->sys. */
static pid_t launch(struct start *start, int *pidfd)
{
	bool orphan = start->params->orphan;
	pid_t pid;

	/* The child between has no exit signal: its end is no SIGCHLD to the program we are part
	 * of. */
	if (orphan)
		pid = clone(mid_main, start->mid_stack + STACK_BYTES, CLONE_VM | CLONE_VFORK,
			    start);
	else
		pid = clone(child_main, start->stack + STACK_BYTES,
			    CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, start, pidfd);
	if (pid < 0) {
		child_fail(start, "cannot fork for");
		return -1;
	}
	if (orphan || start->sys != 0)
		reap(pid);
	return pid;
}

int child_start(const struct child_params *params, struct child *child, struct err *err)
{
	cleanup_start struct start start = {.params = params};
	cleanup_fd int pidfd = -1;
	sigset_t all, before;
	pid_t pid;

	assert(params->path && params->argv && (params->fds || params->fd_count == 0));
	start.paths = find_paths(params->path);
	start.copies = mem_resize(NULL, params->fd_count, sizeof(*start.copies));
	start.stack = mem_resize(NULL, STACK_BYTES, 1);
	if (params->orphan)
		start.mid_stack = mem_resize(NULL, STACK_BYTES, 1);

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = launch(&start, &pidfd);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0 || start.sys != 0) {
		errno = start.sys;
		return err_sys(err, "%s %s", start.what, params->path);
	}
	child->pid = params->orphan ? -1 : pid;
	child->pidfd = params->orphan ? -1 : fd_take(&pidfd);
	return 0;
}

int child_wait(struct child *child)
{
	int status = -1;
	pid_t pid;

	if (child->pid <= 0) {
		errno = ECHILD;
		return -1;
	}
	do {
		pid = waitpid(child->pid, &status, 0);
	} while (pid < 0 && errno == EINTR);
	if (child->pidfd >= 0)
		close(child->pidfd);
	*child = (struct child){.pid = -1, .pidfd = -1};
	return pid < 0 ? -1 : status;
}
