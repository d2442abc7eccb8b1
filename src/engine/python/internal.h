/*
 * What the files of the engine `python` share: its struct, and its states.
 *
 *             start()           hello              run()
 *   OFF ───────────► STARTING ─────────► IDLE ◄─────────────► RUNNING
 *    ▲                  │ death / time    │ death    done       │ death, kill()
 *    └──────────────────┴─────────────────┴─────────────────────┘
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
	pid_t host_pid;  /* in ours; for /proc only */
	clockid_t clock; /* CPU clock of the guest */
	int64_t cpu_start_us;
	int64_t rss_peak;
	int word_fd;
	volatile uint32_t *word;
	uint32_t cell; /* running, else the last one; 0: none */
	uint32_t ask;  /* in state ASKING */
	bool in_cell;  /* between run and done or death */
	bool kill_asked;
	unsigned tries;  /* of this start */
	bool wants_pool; /* in state STARTING: goes on in python_pool_given() */
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

/* output.c: reads what is there, in order. False when the guest's control socket has closed. */
bool python_pump(struct python *python);
void python_drain(struct python *python);     /* what FIONREAD says, of both pipes */
void python_drain_end(struct python *python); /* ... and ends the text: nothing more can come */

/* death.c */
void python_control_closed(struct python *python);
void python_pidfd_ready(struct python *python);
void python_timer_fired(uv_timer_t *timer);
void python_start_failed(struct python *python, const struct err *err);

/* python.c */
int python_watch(struct python *python, enum python_watch kind, int fd, struct err *err);
void python_unwatch(struct python *python, enum python_watch kind);
void python_close_guest(struct python *python); /* all descriptors of the present guest */
void python_close_pool(struct python *python);
void python_arm_timer(struct python *python, uint64_t ms);

#endif
