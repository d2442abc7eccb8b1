/*
 * Getting into a group without waiting for the kernel.
 *
 * Whoever moves another process takes a lock that all forks and exits take for reading; on the way
 * there the kernel waits for a grace period of RCU, with the lock on all groups held. A task that
 * moves only itself, a single thread, needs none of that: "0" written to `tasks` of version 1
 * (cgroup_procs_write_start() in kernel/cgroup/cgroup.c, since Linux 5.5; before it, it works and
 * waits). Version 2 has no such file, so there the wait can only begin early.
 *
 * The kernel asks what the opener of the file may move: root everything, another only tasks of its
 * own uid (__cgroup1_procs_write() in cgroup-v1.c). The descriptors come into the hands of a
 * zygote, so root opens them as the session's uid, which nobody else has: with them nothing but
 * tasks of this session can be moved. A short-lived task does that, since credentials are each
 * task's own; it keeps its capabilities in spite of the uid (SECBIT_NO_SETUID_FIXUP), or it could
 * not open a file of root's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_arm.h"

enum { STACK_BYTES = 64 * 1024 };

struct opening {
	const struct cgroup_arm *arms;
	size_t arm_count;
	uid_t uid;
	int *fds;
	size_t count;
	int sys; /* what went wrong */
};

static int open_all(struct opening *opening)
{
	while (opening->count < opening->arm_count) {
		int fd = openat(opening->arms[opening->count].dir, "tasks", O_WRONLY | O_CLOEXEC);

		if (fd < 0) {
			opening->sys = errno;
			return -1;
		}
		opening->fds[opening->count++] = fd;
	}
	return 0;
}

/* In a task of its own, which shares memory and descriptors. Raw: glibc's wrapper changes the ids
 * of all threads. */
static int open_as_other(void *data)
{
	struct opening *opening = data;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
	    syscall(SYS_setresuid, -1, opening->uid, -1) < 0) {
		opening->sys = errno;
		return 1;
	}
	return open_all(opening) < 0;
}

static void run_as_other(struct opening *opening)
{
	char *stack = mem_resize(NULL, STACK_BYTES, 1);
	int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
	sigset_t all, before;
	pid_t pid;

	/* A handler of ours must not run in it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone(open_as_other, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES,
		    opening);
	if (pid < 0)
		opening->sys = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	/* A change of ids makes the shared memory non-dumpable. */
	(void)prctl(PR_SET_DUMPABLE, dumpable == 1, 0, 0, 0);
	free(stack);
}

int cgroup_open_tasks(const struct cgroup *group, uid_t uid, int fds[static CGROUP_TASKS_MAX],
		      size_t *count, struct err *err)
{
	struct opening opening = {.uid = uid, .fds = fds};

	*count = 0;
	if (cgroup_version(group) != 1)
		return err_set(err, ERR_UNSUPPORTED, "only version 1 lets a task join alone");
	if (geteuid() == 0 && uid == 0)
		return err_set(err, ERR_UNSUPPORTED,
			       "root's descriptors would move every process of the machine");
	opening.arm_count = cgroup_arms(group, &opening.arms);
	if (uid == geteuid())
		(void)open_all(&opening);
	else
		run_as_other(&opening);
	if (opening.count == opening.arm_count) {
		*count = opening.count;
		return 0;
	}
	while (opening.count > 0)
		close(fds[--opening.count]);
	return err_set(err, ERR_UNSUPPORTED, "tasks of a control group: %s", strerror(opening.sys));
}

/* --- where there is no such way ----------------------------------------------------------------
 */

/* Moves this process to where it is: the kernel prepares for a move all the same. */
static void *begin_wait(void *data)
{
	static const char *const controllers[] = {"pids", "memory", ""};
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", (int)getpid());
	bool done = false;

	(void)data;
	for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]) && !done; i++) {
		cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;
		cleanup_free char *path = NULL;
		cleanup_fd int fd = -1;

		if (!cgroup_place_find(controllers[i], &place))
			continue;
		path = mem_format("%s%s/cgroup.procs", place.mount, place.path);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		done = fd >= 0 && write(fd, text, (size_t)len) == len;
	}
	return NULL;
}

void cgroup_prepare(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	if (pthread_attr_init(&attributes) != 0)
		return;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_create(&thread, &attributes, begin_wait, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}
