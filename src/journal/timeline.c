/*
 * The fold; see timeline.h.
 *
 * A change of the state is always the same move: the chain gets another head. All cells of the old
 * chain are given the fate of what is left behind, then all cells of the new one are HELD. This
 * costs one step a cell, and only when something was undone; a cell that ends as most do costs one
 * look-up. The lists of cells that events carry are heeded as well: a journal with damaged lines
 * may lack the event from which the chain would know it.
 */
#include "journal/timeline.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct timeline {
	void *by_id; /* of struct timeline_cell (tsearch) */
	struct timeline_cell *newest;
	struct timeline_cell *head;
	struct timeline_cell *base; /* of a branch: what it began with; else NULL */
};

static int cell_compare(const void *a, const void *b)
{
	return strcmp(((const struct timeline_cell *)a)->id, ((const struct timeline_cell *)b)->id);
}

struct timeline *timeline_new(void)
{
	return mem_zalloc(sizeof(struct timeline));
}

/* The list is the owner; its links are const for those who read it. */
static struct timeline_cell *writable(const struct timeline_cell *cell)
{
	return (struct timeline_cell *)(uintptr_t)cell;
}

void timeline_free(struct timeline *timeline)
{
	struct timeline_cell *older;

	if (!timeline)
		return;
	for (struct timeline_cell *cell = timeline->newest; cell; cell = older) {
		older = writable(cell->older);
		tdelete(cell, &timeline->by_id, cell_compare);
		free(cell->id);
		free(cell);
	}
	free(timeline);
}

static struct timeline_cell *find(const struct timeline *timeline, const char *id)
{
	struct timeline_cell key = {.fate = TIMELINE_OPEN};
	struct timeline_cell **found;

	if (!id)
		return NULL;
	if (timeline->newest && strcmp(timeline->newest->id, id) == 0)
		return timeline->newest;
	key.id = mem_string(id);
	found = tfind(&key, &timeline->by_id, cell_compare);
	free(key.id);
	return found ? *found : NULL;
}

const struct timeline_cell *timeline_find(const struct timeline *timeline, const char *id)
{
	return find(timeline, id);
}

const struct timeline_cell *timeline_last(const struct timeline *timeline)
{
	return timeline->head;
}

const struct timeline_cell *timeline_newest(const struct timeline *timeline)
{
	return timeline->newest;
}

static void add(struct timeline *timeline, const struct event *event)
{
	struct timeline_cell *cell;

	if (!event->cell || find(timeline, event->cell))
		return;
	cell = mem_zalloc(sizeof(*cell));
	cell->id = mem_string(event->cell);
	cell->seq = event->seq;
	cell->older = timeline->newest;
	timeline->newest = cell;
	if (!tsearch(cell, &timeline->by_id, cell_compare))
		abort(); /* out of memory, as in base/mem */
}

static bool list_names(const struct json *list, const char *id)
{
	for (size_t i = 0; i < json_length(list); i++) {
		const char *name = json_string(json_at(list, i), NULL);

		if (name && strcmp(name, id) == 0)
			return true;
	}
	return false;
}

/* The state is now that after `head`; what was in it and no longer is gets this fate. */
static void move(struct timeline *timeline, struct timeline_cell *head, enum timeline_fate fate,
		 const char *by)
{
	for (struct timeline_cell *cell = timeline->head; cell; cell = writable(cell->before)) {
		cell->fate = fate;
		cell->by = by;
	}
	for (struct timeline_cell *cell = head; cell; cell = writable(cell->before)) {
		cell->fate = TIMELINE_HELD;
		cell->by = NULL;
	}
	timeline->head = head;
}

/* The cells that an event names as undone, but for those that are in the state all the same. */
static void mark(struct timeline *timeline, const struct json *list, enum timeline_fate fate,
		 const char *by)
{
	for (size_t i = 0; i < json_length(list); i++) {
		struct timeline_cell *cell = find(timeline, json_string(json_at(list, i), NULL));

		if (!cell || cell->fate == TIMELINE_HELD || cell->fate == TIMELINE_NONE)
			continue;
		cell->fate = fate;
		cell->by = by;
	}
}

/* The interpreter has died. `state` and `recovers_to` say what is left. */
static bool lose(struct timeline *timeline, const struct json *body)
{
	const char *state = json_get_string(body, "state");
	const struct json *list = json_get(body, "rolled_back");
	struct timeline_cell *head = timeline->head;
	struct timeline_cell *named = find(timeline, json_get_string(body, "recovers_to"));

	if (!state)
		return false;
	if (strcmp(state, "reset") == 0 || strcmp(state, "gone") == 0) {
		move(timeline, NULL, TIMELINE_GONE, NULL);
		return true;
	}
	if (strcmp(state, "recovered") != 0)
		return false;
	if (named && named->fate != TIMELINE_OPEN && named->fate != TIMELINE_NONE)
		head = named;
	else
		while (head && list_names(list, head->id))
			head = writable(head->before);
	if (head == timeline->head && json_length(list) == 0)
		return false;
	move(timeline, head, TIMELINE_LOST, NULL);
	mark(timeline, list, TIMELINE_LOST, NULL);
	return true;
}

static bool finish(struct timeline *timeline, const struct event *event)
{
	struct timeline_cell *cell = find(timeline, event->cell);
	const char *state = json_get_string(event->body, "state");
	const char *status = json_get_string(event->body, "status");

	if (!cell || cell->fate != TIMELINE_OPEN)
		return false;
	if (state && strcmp(state, "rolled_back") == 0) {
		/* The rollback event says why; "try" until then. */
		cell->fate = TIMELINE_ROLLED_BACK;
		cell->by = "try";
		cell->before = timeline->head;
		return true;
	}
	if (!state || strcmp(state, "kept") != 0 || !status || strcmp(status, "cancelled") == 0) {
		cell->fate = TIMELINE_NONE;
		return lose(timeline, event->body);
	}
	cell->fate = TIMELINE_HELD;
	cell->before = timeline->head;
	timeline->head = cell;
	return false;
}

/* Why a rollback was made, as one of the constants. */
static const char *rollback_by(const struct json *body)
{
	const char *reason = json_get_string(body, "reason");

	if (json_get_bool(body, "reset", false))
		return "reset";
	if (reason && strcmp(reason, "atomic") == 0)
		return "atomic";
	if (reason && strcmp(reason, "try") == 0)
		return "try";
	return "rollback";
}

static bool roll_back(struct timeline *timeline, const struct event *event)
{
	const struct json *list = json_get(event->body, "rolled_back");
	bool reset = json_get_bool(event->body, "reset", false);
	struct timeline_cell *head = event->cell ? find(timeline, event->cell)
				     : reset     ? NULL
						 : timeline->base;
	const char *by = rollback_by(event->body);

	/* What a damaged line should have told: the list is better than nothing. */
	if (head && (head->fate == TIMELINE_OPEN || head->fate == TIMELINE_NONE))
		head = NULL;
	if (!head && event->cell)
		for (head = timeline->head; head && list_names(list, head->id);)
			head = writable(head->before);
	move(timeline, head, TIMELINE_ROLLED_BACK, by);
	mark(timeline, list, TIMELINE_ROLLED_BACK, by);
	return true;
}

void timeline_begin(struct timeline *timeline, const char *id)
{
	timeline->base = find(timeline, id);
	move(timeline, timeline->base, TIMELINE_ROLLED_BACK, "rollback");
}

bool timeline_apply(struct timeline *timeline, const struct event *event)
{
	switch (event->type) {
	case EVENT_CELL:
		add(timeline, event);
		return false;
	case EVENT_FINISHED:
		return finish(timeline, event);
	case EVENT_DIED:
		return lose(timeline, event->body);
	case EVENT_ROLLBACK:
		return roll_back(timeline, event);
	case EVENT_RESTARTED:
		move(timeline, NULL, TIMELINE_GONE, NULL);
		return true;
	case EVENT_SESSION:
	case EVENT_SECTION:
	case EVENT_NOTE:
	case EVENT_STARTED:
	case EVENT_STREAM:
	case EVENT_DISPLAY:
	case EVENT_UPDATE_DISPLAY:
	case EVENT_CLEAR:
	case EVENT_RESULT:
	case EVENT_ERROR:
	case EVENT_INPUT_REQUEST:
	case EVENT_INPUT:
	case EVENT_TRUNCATED:
	case EVENT_COMMITTED:
	case EVENT_CHECKPOINT:
	case EVENT_FORKED:
	case EVENT_STATE:
	case EVENT_WARNING:
	case EVENT_NETWORK:
	case EVENT_ASK:
	case EVENT_ATTEMPT:
	case EVENT_TOKEN:
	case EVENT_CODE:
	case EVENT_VERDICT:
	case EVENT_GAP:
	case EVENT_STOPPED:
	case EVENT_OTHER:
	case EVENT_TYPE_COUNT:
		break;
	}
	return false;
}
