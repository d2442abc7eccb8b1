/*
 * What the loop does next: pure, of what there is so far.
 *
 * Rules, in this order (reasons: doc/decisions/080-*):
 * 1. A program meets the user's checks: done. Without checks: so many have run well that the
 *    leader can no longer be overtaken: done.
 * 2. A budget is used up: done with what there is.
 * 3. A program that failed and has had no repair gets one, if its error is not one that another
 *    program has died of already after a repair; only at the first chance, and never for a repair.
 * 4. Else fresh samples, as many as are missing for the votes, or one.
 */
#ifndef FH_AGENT_PLAN_H
#define FH_AGENT_PLAN_H

#include "agent/attempt.h"
#include "agent/vote.h"

enum effort { EFFORT_LOW, EFFORT_MEDIUM, EFFORT_HIGH };

struct plan_limits {
	unsigned programs;   /* in all */
	unsigned votes;      /* programs that are to run well, when there are no checks */
	unsigned at_once;    /* samples of the first round */
	uint64_t tokens;     /* that the model may write; 0: no limit */
	unsigned faults_max; /* answers that the backend may fail to give */
};

enum plan_step { PLAN_SAMPLE, PLAN_REPAIR, PLAN_DONE };

struct plan {
	enum plan_step step;
	unsigned count;  /* PLAN_SAMPLE: how many at once */
	size_t of;       /* PLAN_REPAIR: index of the program to mend */
	const char *why; /* PLAN_DONE: which budget is used up; NULL: there is an answer */
};

/* The limits of an effort: low 1 vote of at most 2 programs (a sample and its repair), medium 3 of
 * 3, high 5 of 5. */
void plan_limits_of(enum effort effort, struct plan_limits *limits);

/* No attempt is running. */
struct plan plan_next(struct attempt *attempts, size_t count, bool with_checks,
		      const struct plan_limits *limits);

/* Whether the answers that are still under way cannot change anything any more. */
bool plan_is_decided(struct attempt *attempts, size_t count, bool with_checks,
		     const struct plan_limits *limits);

int effort_from_name(const char *name, enum effort *effort);
const char *effort_name(enum effort effort);

#endif
