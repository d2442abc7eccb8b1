/*
 * Engine `python`: cells run in a guest, a fork of the zygote inside the session's box.
 *
 * Start: two pipes, a control socket and the interrupt word are made, and handed with the box's
 * namespaces to the zygote (through a pool connection), which answers nothing that matters: the
 * guest itself says hello on its control socket. Without a pool (tier none, environments that may
 * not be a zygote) the box's init starts a cold interpreter with the same descriptors.
 *
 * Order is exact without acknowledgements. The guest waits until both pipes are empty before it
 * writes to the other stream or sends a message. So the keeper asks FIONREAD how many bytes are
 * there, then drains the control socket, then reads at most that many: a message that is drained
 * was sent before those bytes were written, and one sent after them cannot exist yet. At `done`
 * whatever FIONREAD says is the cell's.
 *
 * In a flood the keeper would be woken for every line. After some reads in quick succession it
 * waits up to half a millisecond, on the control socket only, so that the pipe fills; a guest that
 * waits for order says so (GUEST_WAITING) and ends that wait.
 *
 * Death: the pidfd says that it ended, PID 1 how. Then everything else in the box is killed, what
 * is left in the pipes is delivered, and `died` is called. The kill never depends on what a guest
 * says.
 */
#ifndef FH_ENGINE_PYTHON_PYTHON_H
#define FH_ENGINE_PYTHON_PYTHON_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "engine/engine.h"
#include "engine/python/guests.h"
#include "sandbox/box.h"
#include "sandbox/policy.h"

struct python_params {
	uv_loop_t *loop;
	struct box *box;             /* borrowed; outlives the engine */
	struct guests *guests;       /* of the box; borrowed (guests.h) */
	const struct policy *policy; /* borrowed: rlimits of a guest */
	uint32_t brand;     /* of its guests (box.h), when there are several engines in the box */
	const char *python; /* cold start: path of the interpreter; borrowed */
	const char *cold_script; /* cold start: path of fumehood_guest/cold.py; borrowed */
	int pool_fd; /* a pool connection whose ZYGOTE_READY has been read; -1: cold start. Owned by
			the engine */
	/* Asks for a new such connection when the pool has died; NULL for cold start. Returns -1
	 * when there can be none, else python_pool_given() follows, from the loop. */
	int (*pool_want)(void *data, struct err *err);
	const struct engine_events *events;
	void *data; /* for events and pool_want */
};

struct engine *python_new(const struct python_params *params, struct err *err);

/* What pool_want() has promised: a connection, which the engine takes over, or -1 and why there is
 * none. Whether it still waits for that: */
bool python_wants_pool(const struct engine *engine);
void python_pool_given(struct engine *engine, int pool_fd, const struct err *err);

#endif
