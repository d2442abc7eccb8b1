/*
 * setns(2) into a user namespace is refused to a process with several threads, and the keeper has
 * some (libuv's workers) and could not come back. So a child does it that shares the keeper's
 * memory and its table of descriptors (CLONE_VM | CLONE_FILES) but not its threads nor its file
 * system state, while the calling thread waits (CLONE_VFORK). What the child opens is the keeper's
 * descriptor. It makes raw system calls only, on a stack of its own, and has no exit signal, so no
 * one else's wait(2) or SIGCHLD handler sees it.
 */
#include "sandbox/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 64 * 1024, BACKLOG = 128 };

struct task {
	int user_fd, net_fd;
	struct sockaddr_in address;
	/* The child's answer. */
	int fd;
	int sys;
	const char *step;
};

static int fail(struct task *task, const char *step)
{
	task->sys = errno;
	task->step = step;
	return 1;
}

static int in_child(void *data)
{
	struct task *task = data;
	socklen_t size = sizeof(task->address);

	if (setns(task->user_fd, CLONE_NEWUSER) < 0)
		return fail(task, "enter the user namespace");
	if (setns(task->net_fd, CLONE_NEWNET) < 0)
		return fail(task, "enter the network namespace");
	task->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (task->fd < 0)
		return fail(task, "socket");
	if (bind(task->fd, (const struct sockaddr *)&task->address, sizeof(task->address)) < 0)
		return fail(task, "bind");
	if (listen(task->fd, BACKLOG) < 0)
		return fail(task, "listen");
	if (getsockname(task->fd, (struct sockaddr *)&task->address, &size) < 0)
		return fail(task, "getsockname");
	return 0;
}

/* Runs the child to its end. -1 and errno: it could not be started. */
static int run(struct task *task)
{
	sigset_t all;
	sigset_t before;
	pid_t pid;
	int sys;
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return -1;
	/* A handler of ours must not run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone(in_child, (char *)stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES,
		    task);
	sys = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid > 0) {
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			continue;
	}
	munmap(stack, STACK_BYTES);
	errno = sys;
	return pid > 0 ? 0 : -1;
}

int netns_listen(int user_fd, int net_fd, uint16_t *port, struct err *err)
{
	struct task task = {
		.user_fd = user_fd,
		.net_fd = net_fd,
		.address = {.sin_family = AF_INET,
			    .sin_port = htons(*port),
			    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
		.fd = -1,
	};

	if (run(&task) < 0)
		return err_sys(err, "proxy: a child to enter the box");
	if (task.step) {
		if (task.fd >= 0)
			close(task.fd);
		errno = task.sys;
		return err_sys(err, "proxy: listen inside the box: %s", task.step);
	}
	*port = ntohs(task.address.sin_port);
	return task.fd;
}
