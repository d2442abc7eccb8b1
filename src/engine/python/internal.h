/*
 * What the files of the engine `python` share: its struct, and its states.
 *
 *             start()           hello              run()
 *   OFF ───────────► STARTING ─────────► IDLE ◄─────────────► RUNNING
 *    ▲                  │ death / time    │ death    done       │ death, kill()
 *    └──────────────────┴─────────────────┴─────────────────────┘
 *   The guest of a start is a new one, or a copy that is woken (guests.h). A copy of it is made
 *   while it is IDLE, or soon RUNNING: the order waits in its socket.
 *
 *                        (ENDING while the control socket is closed but the process still dies;
 *                         ASKING is to ask() and its answer what RUNNING is to run() and done)
 */
#ifndef FH_ENGINE_PYTHON_INTERNAL_H
#define FH_ENGINE_PYTHON_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/text.h"
#include "engine/engine.h"
#include "engine/python/channel.h"
#include "engine/python/guests.h"
#include "engine/python/python.h"

enum python_state {
	PYTHON_OFF,
	PYTHON_STARTING,
	PYTHON_IDLE,
	PYTHON_RUNNING,
	PYTHON_ASKING,
	PYTHON_ENDING
};

enum python_watch { WATCH_OUT, WATCH_ERR, WATCH_CONTROL, WATCH_PIDFD, WATCH_POOL, WATCH_COUNT };

struct python_pipe {
	int fd; /* read end, -1 when closed */
	struct text_decoder decoder;
};

/* A descriptor on the loop. Handles live on the heap until libuv has closed them. */
struct python_watcher {
	uv_poll_t poll;
	struct python *python; /* NULL once the engine has let go */
	enum python_watch kind;
};

struct python {
	struct engine engine; /* first: this is an engine */
	struct python_params params;
	enum python_state state;
	struct python_watcher *watchers[WATCH_COUNT];
	uv_timer_t *timer; /* start-up limit, then the wait for a dying process */
	struct python_pipe pipes[2];
	int control;
	int pidfd;
	pid_t pid;       /* in the box's pid namespace, read from the pidfd */
	pid_t host_pid;  /* in ours; for its clock only */
	int status_fd;   /* its /proc/PID/status; -1: none */
	clockid_t clock; /* CPU clock of the guest */
	int64_t cpu_start_us;
	int64_t rss_peak;
	int word_fd;
	volatile uint32_t *word;
	uint32_t cell; /* running, else the last one; 0: none */
	uint32_t ask;  /* in state ASKING */
	bool in_cell;  /* between run and done or death */
	bool kill_asked;
	bool dying;                 /* its pidfd has said so; false again when that has been told */
	bool closed;                /* it has closed its control socket, and lives */
	struct python *next_in_box; /* guests.c */
	int exit_status;            /* that another engine has heard of its guest, else -1 */
	unsigned copying;           /* so many copies of the guest are on their way */
	bool kill_waits;            /* ... and it is to be killed when that is settled */
	uint32_t waking;            /* in state STARTING: the copy that wakes; 0: none */
	unsigned tries;             /* of this start */
	bool wants_pool;            /* in state STARTING: goes on in python_pool_given() */
	bool sealed;
	bool paused;
	unsigned garbage; /* unreadable messages of this cell */
	int quick_reads;  /* reads in quick succession; < 0: none are counted for a while */
	int64_t last_read_us;
	struct channel_message message;
	char chunk[256 << 10];
};

/* start.c */
int python_start(struct engine *engine, struct err *err);
/* A start that failed for a reason that another try can cure: tries again, or fails with *err after
 * all. */
void python_start_again(struct python *python, const struct err *err);
void python_hello(struct python *python); /* python->message is a GUEST_HELLO in state STARTING */
void python_pool_ready(struct python *python); /* the pool has said something, or is gone */

int python_wake(struct engine *engine, uint32_t number, struct err *err);

/* output.c: reads what is there, in order. False when the guest's control socket has closed. */
bool python_pump(struct python *python);
void python_drain(struct python *python);     /* what FIONREAD says, of both pipes */
void python_drain_end(struct python *python); /* ... and ends the text: nothing more can come */

/* death.c: kills all in the box that is not spared, the guest too. */
void python_clear_box(struct python *python);
/* No copy is on its way any more. */
void python_copy_settled(struct python *python);
void python_control_closed(struct python *python);
void python_pidfd_ready(struct python *python);
void python_timer_fired(uv_timer_t *timer);
void python_start_failed(struct python *python, const struct err *err);

/* python.c: a line "NAME: n kB" of the guest's /proc/PID/status, in bytes; 0: there is none. */
int64_t python_status_bytes(const struct python *python, const char *name);
int python_watch(struct python *python, enum python_watch kind, int fd, struct err *err);
void python_unwatch(struct python *python, enum python_watch kind);
void python_close_guest(struct python *python); /* all descriptors of the present guest */
void python_close_pool(struct python *python);
void python_arm_timer(struct python *python, uint64_t ms);

#endif
