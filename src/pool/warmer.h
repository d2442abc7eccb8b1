/*
 * The warmer keeps one zygote of one environment ready, and says honestly when it cannot.
 *
 *              asked                   ZYGOTE_READY
 *   WARM_COLD ───────> WARM_STARTING ───────────────> WARM_READY
 *                        │  │     ^                       │
 *     it says FAILED, or │  │     │ 1 s after the         │ it dies, or the
 *     cannot be executed │  │dies │ last start            │ environment or the list of
 *                        │  │     │                       │ modules has changed
 *                        │  v     │                       │
 *                        │ WARM_WAITING <─────────────────┘
 *                        v
 *                   WARM_FAILED, also by the third death in a row
 *                        └─ asked after 10 s, or after a change ─> WARM_WAITING
 *
 * Any state leads to WARM_CLOSED by warmer_close(). WARM_WAITING is passed over when its time is
 * over already.
 *
 * Rules:
 * - At least 1 s from start to start, so that a broken environment cannot eat the machine (as s6
 * does it).
 * - Three deaths in a row are a failure. A zygote that answered an order, or was ready for 10 s,
 * ends the row.
 * - A failure that the zygote itself explains (ZYGOTE_FAILED) is not tried again: it would say the
 *   same.
 * - One order at a time is with the zygote. If it dies then, the order may or may not have been
 *   carried out: it is reported lost, and given to another zygote only if the first one has left it
 *   unread. Two guests on one control socket would be worse than none.
 */
#ifndef FH_POOL_WARMER_H
#define FH_POOL_WARMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "pool/tuning.h"
#include "pool/zygote.h"

enum warmth { WARM_COLD, WARM_STARTING, WARM_WAITING, WARM_READY, WARM_FAILED, WARM_CLOSED };

enum {
	WARMER_START_GAP_MS = 1000,
	WARMER_FAILURES_MAX = 3,
	WARMER_SOUND_MS = 10 * 1000,      /* ready for so long: its death opens a new row */
	WARMER_RETRY_MS = 10 * 1000,      /* from a failure to the next try */
	WARMER_READY_MS_MAX = 180 * 1000, /* imports from a cold disk are slow, but not slower */
	WARMER_ANSWER_MS_MAX = 10 * 1000, /* an order takes 2 ms; who needs longer hangs */
};

struct warmer_events {
	/* The state has become WARM_READY or WARM_FAILED. */
	void (*settled)(void *data);
	/* The answer to the order. */
	void (*answered)(void *data, const void *bytes, size_t len);
	/* The zygote died with the order, for this reason. `unread`: it had not even read it, so
	 * the order can be given again; else nobody knows. */
	void (*lost)(void *data, const char *reason, bool unread);
};

struct warmer;

/* `script` (zygote.py) is an absolute path, copied; `tuning`, which has the Python, and `events`
 * are borrowed. Nothing is started yet. */
struct warmer *warmer_new(uv_loop_t *loop, struct tuning *tuning, const char *script,
			  rlim_t files_soft, const struct warmer_events *events, void *data);

/* After warmer_close(); the loop frees the processes when they have ended. */
void warmer_free(struct warmer *warmer);

/* Somebody wants a guest: starts, restarts or retries what is due by the rules above and returns
 * the state. Unless it is READY or FAILED, `settled` will follow. Costs a few stat(2) when ready.
 */
enum warmth warmer_ask(struct warmer *warmer);

enum warmth warmer_state(const struct warmer *warmer);

/* The message for keepers: ZYGOTE_READY in WARM_READY, ZYGOTE_FAILED in WARM_FAILED, as it goes
 * over the socket. Borrowed. */
const struct buf *warmer_message(const struct warmer *warmer);

/* The descriptor that goes with it: zygote_family() of the zygote that is ready, else -1. Borrowed.
 */
int warmer_family(const struct warmer *warmer);

/* Why there is no zygote, in WARM_FAILED. Borrowed. */
const char *warmer_reason(const struct warmer *warmer);

/* The running zygote, or 0. */
pid_t warmer_pid(const struct warmer *warmer);

/* How many zygotes there have been: another number, another zygote. */
uint64_t warmer_generation(const struct warmer *warmer);

/* Whether an order is with the zygote. */
bool warmer_busy(const struct warmer *warmer);

/* Gives the zygote an order (ZYGOTE_ENTER); only in WARM_READY and when not busy. `answered` or
 * `lost` follows. -1 with errno: it was not sent. After EPIPE and ECONNRESET the zygote is on its
 * way out, and asking again helps. */
int warmer_enter(struct warmer *warmer, const void *bytes, size_t len, const int *fds,
		 size_t fd_count);

/* Ends the zygote; no event follows. */
void warmer_close(struct warmer *warmer);

/* How many milliseconds to wait before a start, at `now_us` of the monotonic clock. `last_start_us`
 * is 0 if there was none. */
uint64_t warmer_gap_ms(int64_t now_us, int64_t last_start_us);

/* Makes a ZYGOTE_FAILED message that fits into GUEST_INLINE_BYTES_MAX: `words` are cut at their
 * front. */
void warmer_write_failed(struct buf *out, const char *message, const char *words, size_t words_len);

#endif
