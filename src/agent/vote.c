/*
 * Counting votes. See vote.h.
 */
#include "agent/vote.h"

#include <stdint.h>
#include <string.h>

/* What makes one win over another. */
struct rank {
	bool checked, sound;
	unsigned alike, same;
};

static bool is_better(const struct rank *a, const struct rank *b)
{
	if (a->checked != b->checked)
		return a->checked;
	if (a->sound != b->sound)
		return a->sound;
	if (a->alike != b->alike)
		return a->alike > b->alike;
	return a->same > b->same;
}

/* The attempt whose program this one has written once more; NULL. It was run before, but may have
 * been asked for later: answers come in any order. */
static const struct attempt *repeated_by(const struct attempt *attempts, size_t count, size_t index)
{
	unsigned number = attempts[index].repeats;

	if (attempts[index].status != ATTEMPT_REPEATED)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (i != index && attempts[i].number == number)
			return &attempts[i];
	return NULL;
}

/* The outcome that it stands for. */
static const struct outcome *outcome_of(const struct attempt *attempts, size_t count, size_t index)
{
	const struct attempt *repeated = repeated_by(attempts, count, index);

	return repeated ? &repeated->outcome : &attempts[index].outcome;
}

static void number_groups(struct attempt *attempts, size_t count)
{
	unsigned groups = 0;

	for (size_t i = 0; i < count; i++) {
		attempts[i].group = 0;
		if (!attempt_counts(&attempts[i]))
			continue;
		for (size_t j = 0; j < i && !attempts[i].group; j++)
			if (attempt_counts(&attempts[j]) &&
			    outcome_same(&attempts[i].outcome, &attempts[j].outcome))
				attempts[i].group = attempts[j].group;
		if (!attempts[i].group)
			attempts[i].group = ++groups;
	}
	for (size_t i = 0; i < count; i++) {
		const struct attempt *repeated = repeated_by(attempts, count, i);

		if (repeated)
			attempts[i].group = repeated->group;
	}
}

static struct rank rank_of(const struct attempt *attempts, size_t count, size_t index)
{
	const struct attempt *one = &attempts[index];
	struct rank rank = {.checked = one->checked, .sound = !one->doubtful};

	for (size_t i = 0; i < count; i++) {
		if (!attempts[i].group)
			continue;
		rank.same += attempts[i].group == one->group;
		rank.alike += attempts[i].group == one->group ||
			      outcome_alike(outcome_of(attempts, count, i), &one->outcome);
	}
	return rank;
}

void vote_count(struct attempt *attempts, size_t count, bool with_checks, struct vote *vote)
{
	struct rank best = {.checked = false};

	*vote = (struct vote){.winner = SIZE_MAX};
	number_groups(attempts, count);
	for (size_t i = 0; i < count; i++) {
		struct rank rank;

		if (!attempts[i].group)
			continue;
		vote->of++;
		if (!attempt_counts(&attempts[i]))
			continue;
		rank = rank_of(attempts, count, i);
		if (vote->winner == SIZE_MAX || is_better(&rank, &best)) {
			vote->winner = i;
			best = rank;
		}
	}
	if (vote->winner == SIZE_MAX)
		return;
	vote->same = best.same;
	vote->alike = best.alike;
	for (size_t i = 0; i < count; i++) {
		struct rank rank;

		if (!attempt_counts(&attempts[i]) ||
		    outcome_alike(&attempts[i].outcome, &attempts[vote->winner].outcome))
			continue;
		rank = rank_of(attempts, count, i);
		if (rank.sound == best.sound && rank.alike > vote->next)
			vote->next = rank.alike;
	}
	if (with_checks)
		vote->confidence = best.checked ? CONFIDENCE_CHECKED : CONFIDENCE_NONE;
	else
		vote->confidence = best.same >= 2 ? CONFIDENCE_AGREED : CONFIDENCE_RAN;
}

size_t vote_best_failure(const struct attempt *attempts, size_t count)
{
	/* From the least to the most that is known. */
	static const unsigned worth[] = {
		[ATTEMPT_RUNNING] = 0,  [ATTEMPT_MODEL] = 1, [ATTEMPT_NO_CODE] = 2,
		[ATTEMPT_REPEATED] = 3, [ATTEMPT_DIED] = 4,  [ATTEMPT_INTERRUPTED] = 5,
		[ATTEMPT_TIMEOUT] = 6,  [ATTEMPT_ERROR] = 7, [ATTEMPT_EMPTY] = 8,
		[ATTEMPT_OK] = 9, /* a check does not hold */
	};
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < count; i++)
		if (best == SIZE_MAX || worth[attempts[i].status] >= worth[attempts[best].status])
			best = i;
	return best;
}

const char *confidence_name(enum confidence confidence)
{
	static const char *const names[] = {
		[CONFIDENCE_NONE] = "none",
		[CONFIDENCE_RAN] = "ran",
		[CONFIDENCE_AGREED] = "agreed",
		[CONFIDENCE_CHECKED] = "checked",
	};

	return names[confidence];
}
