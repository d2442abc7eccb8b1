/*
 * Probes: what this kernel allows, found by doing it in a child that is thrown away.
 */
#ifndef FH_SANDBOX_PROBE_H
#define FH_SANDBOX_PROBE_H

#include <stdbool.h>
#include <stddef.h>

struct probe {
	const char *name; /* "user namespace", "mount namespace with own root", "/proc in a pid
			     namespace" ... */
	bool holds;
	char detail[160];   /* why not, with the errno's text */
	const char *effect; /* what is lost without it; constant */
	const char *cure;   /* what to do about it; constant */
};

enum { PROBES_MAX = 24 };

/* Runs all probes; fills at most PROBES_MAX. Returns how many. */
size_t probe_run(struct probe probes[static PROBES_MAX]);

struct probe_landlock {
	int abi;          /* 0: the kernel has none, or it is switched off */
	unsigned errata;  /* its mistakes that have been mended, as bits; 0 also: unknown */
	char detail[160]; /* why it does not hold */
};

/* Whether a process can shut itself out by Landlock. Fills all of *found. */
bool probe_landlock(struct probe_landlock *found);

#endif
