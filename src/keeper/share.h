/*
 * The share of the machine's processors that automatic copies may take, of all sessions together.
 *
 * A copy of a small interpreter is some milliseconds of work. One session cannot see what that
 * means when sixty have cells in turn: each has a pause after each cell, and all the copies made in
 * them take the processors from the cells. So a copy is booked before it is made: how long it will
 * take a processor (share_cost()) moves the moment up to which the share is spent, four times as
 * far on one processor, twice as far on two. That moment is one number, in a file of the runtime
 * directory that all keepers of a user have open. While it lies ahead by less than
 * SHARE_BURST_US, copies are made at once; else at the moment that was booked, one after the other
 * in the order of booking. So the machine is never taken for more than SHARE_PART of its
 * processors, nobody is passed over, nobody polls, and where copies take less than that, nothing
 * ever waits.
 *
 * There is no lock: one that is held by a process that was stopped would stop all. Of two that
 * write in the same microsecond one is lost, which is one copy more. What others have written is
 * not believed beyond SHARE_AHEAD_MAX_US. Without the file each session has the share for itself.
 */
#ifndef FH_KEEPER_SHARE_H
#define FH_KEEPER_SHARE_H

#include <stdint.h>

enum {
	SHARE_PART = 4,                    /* a quarter of the processors */
	SHARE_BURST_US = 500 * 1000,       /* what may be made at once, as time of that share */
	SHARE_AHEAD_MAX_US = 60 * 1000000, /* no booking lies further ahead */
};

struct share {
	int fd;           /* of the file; -1: none */
	int64_t spent_us; /* up to when the share is spent (CLOCK_MONOTONIC), as last seen */
	long processors;
};

/* From the file `copies` in the directory `runtime`, which is made if need be. Never fails: without
 * the file it stands alone. */
void share_open(struct share *share, const char *runtime);
void share_close(struct share *share);

/* Books `cost_us` of one processor: returns when the copy may be made, `now_us` or later. */
int64_t share_book(struct share *share, int64_t now_us, int64_t cost_us);

/* The rule of share_book(), pure: moves *spent_us on, returns when. */
int64_t share_move(int64_t *spent_us, int64_t now_us, int64_t cost_us, long processors);

/* What a copy of an interpreter with so much memory will take of a processor, with all that comes
 * of it (the pages that are written to again, the end of an older copy), when the last one took
 * `last_us` from order to sleep (0: there was none). That is the time itself on a quiet machine;
 * on a busy one it is mostly waiting, so it counts only up to what such a copy is known to take. */
int64_t share_cost(int64_t memory_bytes, int64_t last_us);

#endif
