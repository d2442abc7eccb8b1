/*
 * What comes next. See plan.h.
 */
#include "agent/plan.h"

#include <stdint.h>
#include <string.h>

static const char *const EFFORTS[] = {"low", "medium", "high"};

int effort_from_name(const char *name, enum effort *effort)
{
	for (size_t i = 0; i < sizeof(EFFORTS) / sizeof(EFFORTS[0]); i++) {
		if (strcmp(EFFORTS[i], name) != 0)
			continue;
		*effort = (enum effort)i;
		return 0;
	}
	return -1;
}

const char *effort_name(enum effort effort)
{
	return EFFORTS[effort];
}

void plan_limits_of(enum effort effort, struct plan_limits *limits)
{
	static const struct plan_limits of[] = {
		[EFFORT_LOW] = {.programs = 2, .votes = 1, .at_once = 1},
		[EFFORT_MEDIUM] = {.programs = 3, .votes = 3, .at_once = 2},
		[EFFORT_HIGH] = {.programs = 5, .votes = 5, .at_once = 3},
	};

	*limits = of[effort];
	limits->faults_max = 2;
}

/* What a program can be told so that it does better. */
static bool can_be_mended(const struct attempt *attempt)
{
	switch (attempt->status) {
	case ATTEMPT_ERROR:
	case ATTEMPT_DIED:
	case ATTEMPT_TIMEOUT:
	case ATTEMPT_EMPTY:
	case ATTEMPT_NO_CODE:
		return true;
	case ATTEMPT_OK: /* a check does not hold, or it says so itself */
		return attempt->doubtful || (attempt->checks && !attempt->checked);
	case ATTEMPT_RUNNING:
	case ATTEMPT_INTERRUPTED:
	case ATTEMPT_REPEATED:
	case ATTEMPT_MODEL:
		break;
	}
	return false;
}

static bool same_error(const struct attempt *a, const struct attempt *b)
{
	return a->outcome.ename && b->outcome.ename &&
	       strcmp(a->outcome.ename, b->outcome.ename) == 0 && a->outcome.evalue &&
	       b->outcome.evalue && strcmp(a->outcome.evalue, b->outcome.evalue) == 0;
}

/* Whether a repair has been tried for it, or has failed already by the same error. */
static bool was_mended(const struct attempt *attempts, size_t count, const struct attempt *one)
{
	for (size_t i = 0; i < count; i++) {
		if (attempts[i].repairs == one->number)
			return true;
		if (attempts[i].repairs && same_error(&attempts[i], one))
			return true;
	}
	return false;
}

/* The index of a program to mend; SIZE_MAX: none. */
static size_t find_broken(const struct attempt *attempts, size_t count)
{
	for (size_t i = count; i-- > 0;)
		if (!attempts[i].repairs && can_be_mended(&attempts[i]) &&
		    !was_mended(attempts, count, &attempts[i]))
			return i;
	return SIZE_MAX;
}

/* What there is and what is left. */
struct state {
	struct vote vote;
	unsigned programs, running, faults;
	unsigned left;    /* programs that can still be asked for */
	unsigned missing; /* votes that can still come */
	uint64_t tokens;
};

static struct state look(struct attempt *attempts, size_t count, bool with_checks,
			 const struct plan_limits *limits)
{
	struct state state = {.programs = 0};
	unsigned can_come;

	vote_count(attempts, count, with_checks, &state.vote);
	for (size_t i = 0; i < count; i++) {
		state.tokens += attempts[i].tokens;
		state.running += attempts[i].status == ATTEMPT_RUNNING;
		state.faults += attempts[i].status == ATTEMPT_MODEL;
		state.programs += attempts[i].status != ATTEMPT_MODEL;
	}
	if (state.programs < limits->programs)
		state.left = limits->programs - state.programs;
	can_come = state.left + state.running;
	if (state.vote.of < limits->votes)
		state.missing = limits->votes - state.vote.of;
	if (state.missing > can_come)
		state.missing = can_come;
	return state;
}

static bool is_decided(const struct attempt *attempts, const struct state *state, bool with_checks)
{
	const struct vote *vote = &state->vote;

	if (vote->confidence == CONFIDENCE_CHECKED)
		return true;
	if (with_checks || vote->winner == SIZE_MAX || attempts[vote->winner].doubtful)
		return false;
	return vote->alike > vote->next + state->missing;
}

bool plan_is_decided(struct attempt *attempts, size_t count, bool with_checks,
		     const struct plan_limits *limits)
{
	struct state state = look(attempts, count, with_checks, limits);

	return is_decided(attempts, &state, with_checks);
}

static struct plan done(const char *why)
{
	return (struct plan){.step = PLAN_DONE, .why = why};
}

struct plan plan_next(struct attempt *attempts, size_t count, bool with_checks,
		      const struct plan_limits *limits)
{
	struct state state = look(attempts, count, with_checks, limits);
	unsigned samples = 1;
	size_t broken;

	if (is_decided(attempts, &state, with_checks))
		return done(NULL);
	if (!state.left || count == ATTEMPTS_MAX)
		return done("programs");
	if (limits->tokens && state.tokens >= limits->tokens)
		return done("tokens");
	if (state.faults >= limits->faults_max)
		return done("backend");
	broken = find_broken(attempts, count);
	if (broken != SIZE_MAX)
		return (struct plan){.step = PLAN_REPAIR, .of = broken};
	if (count == 0)
		samples = limits->at_once < state.left ? limits->at_once : state.left;
	return (struct plan){.step = PLAN_SAMPLE, .count = samples};
}
