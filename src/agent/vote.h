/*
 * Which of the programs is the answer, and how that is known.
 *
 * Programs of the same outcome are a group. Groups whose outcomes are alike (they differ in how
 * numbers are written) are a family. The answer is of the largest family, in it of the largest
 * group, in that of the first program; what says itself that it failed ("Error: ...") comes behind
 * all that does not. A program that meets the user's checks comes before all others.
 *
 * Agreement counts programs of the very same outcome only: a family decides which group wins, and
 * `alike` tells how large it was, but nothing is called agreed that was not the same
 * (doc/decisions/080-*). A program that the model has written once more, to another prompt or at
 * another temperature, is not run again and counts like the first.
 */
#ifndef FH_AGENT_VOTE_H
#define FH_AGENT_VOTE_H

#include "agent/attempt.h"

enum confidence { CONFIDENCE_NONE, CONFIDENCE_RAN, CONFIDENCE_AGREED, CONFIDENCE_CHECKED };

struct vote {
	size_t winner;  /* index of the attempt; SIZE_MAX: none counts */
	unsigned same;  /* programs of its outcome, itself counted */
	unsigned alike; /* and those that only write numbers differently */
	unsigned of;    /* programs that ran well in all */
	unsigned next;  /* of the largest family but the winner's */
	enum confidence confidence;
};

/* Gives each attempt that counts the number of its group, and counts. `with_checks`: the user has
 * given some. Pure. */
void vote_count(struct attempt *attempts, size_t count, bool with_checks, struct vote *vote);

/* When none counts, the attempt that came farthest; SIZE_MAX: there is none. */
size_t vote_best_failure(const struct attempt *attempts, size_t count);

/* "checked", "agreed", "ran"; "none". */
const char *confidence_name(enum confidence confidence);

#endif
