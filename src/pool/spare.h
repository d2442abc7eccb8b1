/*
 * The spare session: one keeper of the environment whose box and guest are ready before anybody
 * asks.
 *
 *                    wanted            time             ready
 *   SPARE_OFF ────────────> SPARE_DUE ───> SPARE_STARTING ───> SPARE_READY
 *                            ^  ^   ^         │ dropped           │ given to a client, or
 *                            │  │   └─────────┴───────────────────┘ dropped: it is stale
 *                       time │  └──── died ───┤                   │
 *                            │                │ died: the third   │ ... in a row
 *                     SPARE_RESTING <─────────┴───────────────────┘
 *
 *   any ──end──> SPARE_ENDING (the keeper removes its directory) ──> SPARE_CLOSED
 *
 * Clients connect to a stream socket of ours; the connection is passed on to the waiting keeper,
 * which is an ordinary session from then on and knows nothing of us any more. What the client says
 * is never read here (doc/protocol.md, "Starting a keeper").
 *
 * Rules:
 * - Nothing is kept before somebody has had a guest in the ordinary way: a single run pays nothing.
 * - The next spare is started after SPARE_QUIET_MS without an order, so that it takes nothing from
 *   the session that has just begun; at once when another client waits for it.
 * - A spare belongs to the zygote that it was forked from. If that has been replaced, or the
 *   environment has changed, the spare is dropped and the clients wait for the next one.
 * - At least SPARE_START_GAP_MS from start to start after a death; three deaths in a row, and there
 *   are no spares for a minute. A death ends the wait of all clients: they start their sessions in
 *   the ordinary way, and hear there what is wrong.
 */
#ifndef FH_POOL_SPARE_H
#define FH_POOL_SPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "pool/warmer.h"

enum spare_state {
	SPARE_OFF,
	SPARE_DUE,
	SPARE_STARTING,
	SPARE_READY,
	SPARE_RESTING,
	SPARE_ENDING,
	SPARE_CLOSED,
	SPARE_STATE_COUNT
};

enum spare_event {
	SPARE_WANTED, /* the first guest was given */
	SPARE_TIME,   /* it is time to start one, or to stop resting */
	SPARE_SAID,   /* the keeper has said that it is ready */
	SPARE_GIVEN,
	SPARE_DROPPED, /* by us: stale, or too slow */
	SPARE_DIED,
	SPARE_FAILED, /* the third death in a row, or it cannot even be started */
	SPARE_END,
	SPARE_ENDED, /* the keeper has gone, or there was none */
	SPARE_EVENT_COUNT
};

enum {
	SPARE_CLIENTS_MAX = 16, /* that wait; the next one is sent away */
	SPARE_QUIET_MS = 50,
	SPARE_START_GAP_MS = 1000,
	SPARE_DEATHS_MAX = 3,
	SPARE_SOUND_MS = 10 * 1000, /* ready for so long: its death opens a new row */
	SPARE_REST_MS = 60 * 1000,
	SPARE_START_MS_MAX = 30 * 1000, /* a start takes 10 ms; who needs longer hangs */
	SPARE_END_MS_MAX = 2000,        /* a keeper needs some ms to remove its directory */
	SPARE_NAME_SIZE = 32,
};

struct spare_params {
	uv_loop_t *loop;
	struct warmer *warmer;
	const char *python;        /* absolute */
	const char *directory;     /* of the socket */
	void (*given)(void *data); /* a client has got a session */
	void *data;
};

struct spare;

/* The strings are borrowed. Nothing is started yet. */
struct spare *spare_new(const struct spare_params *params);
void spare_free(struct spare *spare); /* after the loop has ended */

/* Somebody has had a guest: from now on a spare is kept. Nothing the second time. */
void spare_want(struct spare *spare);

/* An order has come: the next start is put off. */
void spare_put_off(struct spare *spare);

/* The warmer has become WARM_READY or WARM_FAILED. */
void spare_settled(struct spare *spare);

/* Ends the waiting keeper, and waits on the loop until it has gone. No client is taken any more.
 * Nothing the second time. */
void spare_close(struct spare *spare);

/* "off", "due", "starting", "ready", "resting" (after deaths), "ending". Constant. */
const char *spare_state_name(const struct spare *spare);

/* The keeper that waits, or 0. */
pid_t spare_pid(const struct spare *spare);

/* The table above; SPARE_STATE_COUNT: there is no such move. */
enum spare_state spare_next(enum spare_state state, enum spare_event event);

/* How many milliseconds to wait before a start, at `now_us` of the monotonic clock: `busy_us` is
 * the last order or hand-over, `start_us` the last start (0: none), `deaths` how many spares have
 * died in a row; `wanted`: a client waits. */
uint64_t spare_wait_ms(int64_t now_us, int64_t busy_us, int64_t start_us, unsigned deaths,
		       bool wanted);

/* The socket's name for a Python and the directory of the state (paths_state()), by the rule of
 * doc/protocol.md. */
void spare_socket_name(char name[static SPARE_NAME_SIZE], const char *python, const char *state);

#endif
