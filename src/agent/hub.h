/*
 * The one place where the loop waits: for tokens, for a program's events, for a signal, for the end
 * of the time.
 *
 * The agent is one thread that does one thing after the other: it asks, runs a program, asks again.
 * While it waits for any one of these the others go on, because every wait is a hub_wait(): tokens
 * of other answers come in (their events only store and show them) while a program runs.
 */
#ifndef FH_AGENT_HUB_H
#define FH_AGENT_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/backend.h"

struct hub {
	struct backend *backend; /* borrowed; NULL: none is waited for */
	int cancel_fd;           /* borrowed; readable: everything is to end. -1: none */
	int64_t deadline_us;     /* monotonic; 0: none */
	bool cancelled;          /* cancel_fd was readable. Stays */
	bool late;               /* the deadline has passed. Stays */
	/* Called after each wait; its answer in milliseconds is how long the next one may take at
	 * most
	 * (-1: no bound). May be NULL. */
	int (*tick)(void *context);
	void *context;
};

/* Waits until `fd` is readable (-1: none is waited for) or a token may have come, at most
 * `timeout_ms` (-1: no bound). Returns at once when cancelled or late. -1: waiting itself fails. */
int hub_wait(struct hub *hub, int fd, int timeout_ms, struct err *err);

/* Whether what runs is to end now. */
bool hub_ended(const struct hub *hub);

#endif
