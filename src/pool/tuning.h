/*
 * What of the configuration concerns one pool: which modules its zygote imports, how long it stays
 * without work, and whether it keeps a spare session.
 *
 * The file may change while the pool runs. Whoever is about to act by it refreshes first, which
 * costs one stat(2) as long as nothing has happened. A file that is broken by now changes nothing:
 * the last good values stay, and the log says why. (The person who broke it is told by the next
 * `fumehood run`.)
 */
#ifndef FH_POOL_TUNING_H
#define FH_POOL_TUNING_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/fingerprint.h"

struct tuning {
	const char *python;       /* of the pool; borrowed */
	int64_t idle_s_chosen;    /* on the command line; 0: not */
	struct fingerprint print; /* of the configuration file; none if it can be nowhere */
	char *modules;            /* JSON array; NULL: the zygote's own list */
	uint64_t generation;      /* another number, other modules */
	int64_t idle_s;
	bool spare;
};

/* Reads the configuration. `python` is absolute; `idle_s` above 0 wins over it. */
void tuning_init(struct tuning *tuning, const char *python, int64_t idle_s);
void tuning_release(struct tuning *tuning);

/* Reads the configuration again if the file has changed. */
void tuning_refresh(struct tuning *tuning);

#endif
