/*
 * A descriptor that becomes readable at a signal or when time is up: for waits that can be
 * cancelled through one descriptor (`cancel_fd` of fumehood.h).
 */
#ifndef FH_CLI_DEADLINE_H
#define FH_CLI_DEADLINE_H

#include <stdbool.h>

#include "base/err.h"

struct deadline {
	int fd;    /* the one to wait for; owned */
	int timer; /* owned */
};

#define DEADLINE_INIT \
	{ \
		.fd = -1, .timer = -1 \
	}

/* Begins now. `other_fd` is borrowed. `seconds` > 0. */
int deadline_open(struct deadline *deadline, int other_fd, double seconds, struct err *err);
void deadline_close(struct deadline *deadline);
#define cleanup_deadline __attribute__((cleanup(deadline_close)))

/* Whether the time is up. */
bool deadline_passed(const struct deadline *deadline);

#endif
