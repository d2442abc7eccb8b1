/*
 * The monitor: what nobody but the keeper can limit, and what the kernel's limits have done.
 *
 * While a cell runs it looks every MONITOR_RUNNING_MS at what the box uses: memory, where no
 * control group holds it (soft: code can take more for that time, and a memfd that no descriptor
 * names and no process has touched is not seen), and seconds of processor time.
 * Between cells it looks more seldom, and only at memory. A private workspace is counted by a
 * thread when a cell has ended, and every few seconds while one runs.
 *
 * Over the limit of memory the interpreter is killed; a cell over that of processor time or of the
 * disk is interrupted like one whose time is up, so its variables are kept. A workspace that is
 * over its limit already stops a cell only if it has grown since that cell began: how else could
 * something be deleted?
 */
#ifndef FH_KEEPER_MONITOR_H
#define FH_KEEPER_MONITOR_H

#include <stdbool.h>

#include "base/json.h"
#include "engine/engine.h"
#include "keeper/cells.h"

enum {
	MONITOR_RUNNING_MS = 200,
	MONITOR_IDLE_MS = 2000,
	MONITOR_DISK_MS = 2000, /* and 20 times what the last count took */
};

struct monitor;
struct session;

/* The caller owns it; it needs the loop until monitor_stop() and no work under way. */
struct monitor *monitor_new(struct session *session);
void monitor_free(struct monitor *monitor);

/* Ends looking. True: nothing is under way; false: session_later() is called when that is so. */
bool monitor_stop(struct monitor *monitor);

/* A cell starts; it has ended (before it is told): warns of processes that were killed or could not
 * be made, and may set cell->hint. */
void monitor_cell_started(struct monitor *monitor);
void monitor_cell_ended(struct monitor *monitor, struct cell *cell);

/* An interpreter is ready: what its forerunner has met is forgotten. */
void monitor_began(struct monitor *monitor);

/* A copy of the interpreter has been made: from here on what both share becomes less. */
void monitor_copied(struct monitor *monitor);

/* The limit that the interpreter has died of, by the counters of the kernel; NULL: none. */
const char *monitor_cause(struct monitor *monitor, const struct engine_death *death);

/* Whether the interpreter has died for want of memory and its box holds half of the limit or more
 * without it, as files in /tmp do: the next one would die as well, so it needs another box. */
bool monitor_box_is_full(const struct monitor *monitor);

/* Puts the session's limits (config.limits) into session->policy, and in force for the box that
 * there is. */
void session_take_limits(struct session *session);

/* {"memory_bytes":"hard: cgroup v1","disk_bytes":"soft","cpus":"none",...}: who holds each limit.
 * hard: it is never passed; soft: that is found out afterwards; none: nobody does. The caller owns
 * it. */
struct json *session_limits_how(const struct session *session);

/* Appends "out of memory: limit memory_bytes, 2 GiB", of the limit as it is in force. */
void session_limit_reason(const struct session *session, const char *limit, struct buf *out);

#endif
