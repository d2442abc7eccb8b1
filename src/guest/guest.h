/*
 * What the files of the extension `_guest` share. The extension is the part of a guest that cannot
 * be written in Python: entering the box, messages with descriptors, the interrupt word, and the
 * order of the two output streams. It is built once, against the limited API of CPython 3.9, and
 * loaded by every Python.
 *
 * The functions here need no GIL unless they take or return Python objects. They return 0 or
 * -errno, so that they can run between fork and exec; module.c turns that into exceptions.
 *
 * State: a process is one guest (or one zygote), the limited API of 3.9 gives methods of types no
 * way to their module, and signal and fork paths cannot take arguments. So each file that needs it
 * keeps one static struct, said at its place.
 */
#ifndef FH_GUEST_GUEST_H
#define FH_GUEST_GUEST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "native.h"

/* ---- channel.c: SEQPACKET messages ---- */

enum { CHANNEL_FDS_MAX = 20 };

struct channel_message {
	struct guest_header header;
	PyObject *body;           /* bytes; owned */
	int fds[CHANNEL_FDS_MAX]; /* owned; the descriptor of a body is already closed */
	size_t fd_count;
};

/* Sends one message; a body above GUEST_INLINE_BYTES_MAX goes as a sealed memfd (then `fds` must
 * be empty). Blocks without the GIL, runs signal handlers on EINTR. -1 with an exception set. */
int channel_send(int sock, struct guest_header header, const char *body, size_t len, const int *fds,
		 size_t fd_count);

/* Receives one message, blocking in the same way. 1: *message is filled, 0: end of file, -1:
 * exception. */
int channel_receive(int sock, struct channel_message *message);

/* Sends one message that fits (GUEST_INLINE_BYTES_MAX), without Python: -errno. */
int channel_send_once(int sock, const struct guest_header *header, const char *body, size_t len,
		      const int *fds, size_t fd_count);

/* A pidfd of the calling process, CLOEXEC; -errno. */
int channel_own_pidfd(void);

/* ---- stream.c: the types behind sys.stdout and sys.stderr ---- */

/* Adds the types Raw and Text to the module. -1 with an exception set. */
int stream_add_types(PyObject *module);
/* set_fast(stream or None): that stream's writes pass straight through. */
PyObject *stream_set_fast(PyObject *module, PyObject *arguments);
/* set_hook(callable): called as hook(stream, text) for writes to any other. */
PyObject *stream_set_hook(PyObject *module, PyObject *hook);

/* ---- lockdown.c: what a guest gives up ---- */

struct lockdown_limits {
	uint64_t processes_max, files_max, file_bytes_max; /* 0: leave */
};

/* Each returns -errno, and names what failed in *step (a constant). */
int lockdown_user(const char **step);
int lockdown_privileges(const char **step);
int lockdown_limits(const struct lockdown_limits *limits, const char **step);
/* The Landlock ruleset (-1: none) and the system call filter, a memfd of struct sock_filter: the
 * last of all. The descriptors stay open. */
int lockdown_ruleset(int ruleset, const char **step);
int lockdown_filter(int memfd, const char **step);
/* Joins the box's control group: "0" to each. One that does not take it is no failure: the keeper
 * looks, and moves the guest. To be called when the uid is the box's. The descriptors stay open. */
void lockdown_group(const int *tasks, unsigned count);
/* Registers the calling thread's rseq area again; a copy made by vfork and fork has lost it. */
void lockdown_rseq(void);

/* ---- pages.c: memory that guests share ---- */

/* From now on Python's arenas lie side by side. Nothing where this Python has none to set. */
void pages_own_arenas(void);
/* Makes large pages of what this process has; returns how many. Some milliseconds. */
size_t pages_collapse(void);

/* ---- enter.c: from the zygote into a box ---- */

struct enter_request {
	int fds[ZYGOTE_FDS];
	struct lockdown_limits limits;
	int has_ruleset;
	unsigned tasks_count;
	const char *workspace;
	int plain; /* fork where vfork would do */
};

struct enter_result {
	const char *step; /* what failed; a constant */
	int error;        /* errno of it */
};

/*
 * Returns 0 in the new guest (locked down, descriptors 0 to 3 in place, in the workspace), 1 in the
 * zygote, -1 in the zygote with *result filled. The GIL is held throughout and Python's fork hooks
 * have run.
 */
int enter_box(const struct enter_request *request, struct enter_result *result);

/* ---- copy.c: checkpoints ---- */

/* Descriptors of a copy that lead nowhere any more. */
struct copy_plugged {
	int sockets, pipes, others; /* others: epoll, eventfd, timerfd, inotify, pidfd ... */
};

/*
 * Makes a sleeping copy of this process, which tells GUEST_COPIED with this body (JSON, short) on
 * `control`, the keeper's; that is closed here unless it fails. The GIL is held throughout and
 * Python's fork hooks run. Returns 1 in the process that has called; 0, each time that the copy is
 * woken, in a living copy of it, whose descriptors 1 to 3 are new and *plugged is filled; -errno
 * when there is none.
 */
int copy_make(int control, uint32_t number, const char *body, size_t len,
	      struct copy_plugged *plugged);

#endif
