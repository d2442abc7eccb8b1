/*
 * The guests of a box: the living ones and their sleeping copies.
 *
 * A copy is asked of a guest (GUEST_COPY), which sends it off with the socket that is meant for it;
 * the copy says hello there, with a pidfd of itself, and sleeps. To wake it makes a living copy of
 * itself, so it stays what it is: guest/copy.c. Two rules make that exact, both found by killing at
 * random moments (reference: fork-engine 4.3):
 *
 *   - nothing is killed while a copy is on its way: between the order and its hello only code of
 *     ours runs in the guest, so the wait is short, and bounded;
 *   - when a guest dies by itself meanwhile, the hello is waited for before the box is cleared.
 *
 *   COMING ──hello──► ASLEEP ──drop──► (gone)
 *     │ failed, time     │ end of file
 *     └──────────────────┴────────────► (gone)
 *
 * What is told by a copy comes from a process that foreign code has run in, so it is checked like
 * everything else from a guest. A program that takes the place of a copy gains nothing: it stays in
 * the box, and is spared when the others in it are killed.
 */
#ifndef FH_ENGINE_PYTHON_GUESTS_H
#define FH_ENGINE_PYTHON_GUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct guests; /* opaque; one per box */
struct python;
struct sleeper;

enum { GUESTS_KEEP_MAX = 128, GUESTS_COMING_MAX = 16 /* of one guest */ };

struct guests *guests_new(void);
/* NULL is fine. No engine may use it any more. */
void guests_free(struct guests *guests);

/* An engine whose guests are in this box; it leaves before it is freed, and its copies end then. */
void guests_join(struct guests *guests, struct python *python);
void guests_leave(struct guests *guests, struct python *python);

/* The pids, inside, of all that is to be spared when `dying` (NULL: nobody) has ended: other
 * engines' guests, and copies. Returns how many, at most GUESTS_KEEP_MAX. */
size_t guests_to_spare(const struct guests *guests, const struct python *dying, pid_t *pids);

/* There is more than one engine: what ends one of them must not touch the others. */
bool guests_are_shared(const struct guests *guests);

/* The init has reaped `pid`: whose guest it was finds the status in its exit_status. */
void guests_exited(const struct guests *guests, pid_t pid, int status);

/* Asks the idle guest of `python` for a copy. Its number is the box's, growing from 1. The engine
 * events `copied` or `copy_failed` follow. */
struct sleeper *guests_copy(struct guests *guests, struct python *python, struct err *err);
uint32_t sleeper_number(const struct sleeper *sleeper);

/* The copies of `python`'s that are on their way are here, failed, or will not come: waits at most
 * a second. Their events are told. */
void guests_settle(struct python *python);

/* The same without an end for those that have not come after `ms`. */
void guests_await(struct python *python, unsigned ms);

/* NULL: there is none, or it has ended. */
struct sleeper *guests_find(const struct guests *guests, uint32_t number);

/* Wakes it: the new guest gets these descriptors (GUEST_WAKE_FDS, kept by the caller), and says
 * hello on its control socket. If it cannot, `python`'s start fails. */
int sleeper_wake(struct sleeper *sleeper, struct python *python, const int *fds, struct err *err);

/* Asks how much memory is its own; the engine event `copy_measured` follows. */
int sleeper_measure(struct sleeper *sleeper, struct err *err);

/* Ends it. No event follows. */
void sleeper_drop(struct sleeper *sleeper);

#endif
