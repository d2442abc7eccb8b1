/*
 * Census: which processes are there, read from /proc, without allocation.
 *
 * Used by the init to clear a box. Under the rules of apply.h: raw system calls and memory mapped
 * before.
 */
#ifndef FH_SANDBOX_CENSUS_H
#define FH_SANDBOX_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More processes than this at one moment are met in the next round, when the first are dead. */
enum { CENSUS_MAX = 65536 };

struct census_entry {
	int32_t pid, parent;
	bool dead;   /* a zombie: it can neither run nor be killed */
	bool target; /* for the killer */
};

struct census {
	struct census_entry *entries; /* pids ascending, as /proc lists them */
	size_t count;
};

/* Maps the memory. 0, or -1 with errno. It is returned by the end of the process only. */
int census_init(struct census *census);

/* Reads /proc anew. 0, or -1 with errno. */
int census_take(struct census *census);

/* The entry of `pid`, or NULL. */
struct census_entry *census_find(const struct census *census, int32_t pid);

/* Whether `entry` descends from `ancestor`, by the parents in the census. */
bool census_descends(const struct census *census, const struct census_entry *entry,
		     int32_t ancestor);

#endif
