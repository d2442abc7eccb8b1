/*
 * What the files of the loop share: loop.c (the order of things), answering.c (the model's
 * answers), trying.c (running what is in them) and verdict.c (the end).
 */
#ifndef FH_AGENT_LOOP_IMPL_H
#define FH_AGENT_LOOP_IMPL_H

#include "agent/chat.h"
#include "agent/loop.h"
#include "agent/record.h"
#include "agent/vote.h"

/* An answer that the model is giving. */
struct answering {
	struct agent *agent;
	size_t attempt;                /* its index */
	struct generation *generation; /* NULL: none is under way */
	struct buf tokens[2];          /* not told yet: text, thoughts */
	int64_t told_us;               /* when some were told last, monotonic */
	size_t failed;                 /* index of the program to mend; SIZE_MAX: a sample */
	unsigned tries;                /* how often it was asked */
	size_t bytes_max;              /* of the messages */
	uint64_t tokens_max;           /* its share of the budget; AGENT_ANSWER_TOKENS at most */
	int64_t again_us;              /* when it is to be asked again, monotonic; 0: not */
	bool taken;                    /* its attempt has its answer */
	bool shortest;                 /* the messages cannot be made shorter */
};

struct agent {
	const struct agent_params *params;
	struct record record;
	struct hub hub;
	struct runner runner;
	struct look look;
	struct attempt attempts[ATTEMPTS_MAX];
	size_t count;
	struct answering answering[ATTEMPTS_MAX];
	size_t answering_count;
	size_t running;       /* the attempt whose program runs; SIZE_MAX: none */
	uint64_t output_left; /* bytes of its output that are still told */
	uint64_t context;     /* tokens; 0: not known */
	unsigned samples;     /* that were asked for */
	int64_t start_us;
	bool fatal;             /* the backend will not answer: no use in asking again */
	double model_seconds;   /* in which at least one answer was under way */
	int64_t model_since_us; /* 0: none is */
};

/* The last attempt for which the backend has failed to answer; NULL: there is none. */
const struct attempt *agent_backend_failed(const struct agent *agent);

/* --- answering.c ------------------------------------------------------------------------------ */

/* Begins `count` samples, or (with `failed` an index) a repair. */
void answering_begin(struct agent *agent, unsigned count, size_t failed);

/* Waits until an answer is whole: the index of its attempt, whose `response` is set, or whose
 * status is ATTEMPT_MODEL. SIZE_MAX: there are none any more, or everything is to end. */
size_t answering_next(struct agent *agent, struct err *err);

/* Ends those that are under way: their attempts are interrupted. */
void answering_stop(struct agent *agent);

/* Tells tokens that are due; the hub's tick. */
int answering_tick(void *context);

/* --- trying.c --------------------------------------------------------------------------------- */

/* Takes the program out of the attempt's response, runs it and the checks. Tells all but its end.
 * -1: a fault. */
int try_attempt(struct agent *agent, size_t index, struct err *err);

/* Checks an outcome against what the user expects; `kept`: of the program that was run for good.
 * Fills attempt->checks and `checked`. */
int try_checks(struct agent *agent, struct attempt *attempt, const struct outcome *outcome,
	       bool kept, struct err *err);

/* --- verdict.c -------------------------------------------------------------------------------- */

/* Tells that an attempt has finished. */
void verdict_attempt(struct agent *agent, size_t index);

/* Runs the chosen program in the session and tells the verdict; *result as of agent_ask(). `why`:
 * as of struct plan. */
enum agent_end verdict_give(struct agent *agent, const char *why, struct json **result,
			    struct err *err);

/* Tells that it ended by a fault, so that the ask does not stay open. */
void verdict_fault(struct agent *agent, const struct err *err);

#endif
