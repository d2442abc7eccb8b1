/*
 * Starting a program: exactly the descriptors, environment and session it is meant to have.
 *
 * vfork + execve with everything prepared before, so that nothing is allocated in the child. All
 * signals are unblocked and back to SIG_DFL in the child (a shell starts background jobs with
 * SIGINT ignored). Every descriptor but those named is closed by close_range(2).
 */
#ifndef FH_BASE_CHILD_H
#define FH_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct child_params {
	const char *path;          /* with a slash, or found in the absolute parts of PATH */
	const char *const *argv;   /* NULL-terminated */
	const char *const *envp;   /* NULL: the caller's */
	const int *fds;            /* fds[i] becomes descriptor i in the child; -1: /dev/null */
	size_t fd_count;           /* at least 3 for a normal program */
	bool new_session;          /* setsid(): no terminal, no Ctrl-C from it */
	bool orphan; /* double fork: the program is no child of ours and needs no reaping */
	const char *directory;     /* chdir there; NULL: stay */
};

struct child {
	pid_t pid;  /* -1 for an orphan */
	int pidfd;  /* O_CLOEXEC; -1 for an orphan */
};

/* Starts it; when execve fails, that errno comes back here. The caller owns child->pidfd. */
int child_start(const struct child_params *params, struct child *child, struct err *err);

/* Waits for the end; returns the wait status (see waitpid(2)) or -1. Closes pidfd. */
int child_wait(struct child *child);

#endif
