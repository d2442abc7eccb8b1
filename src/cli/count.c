/*
 * Counting. See count.h.
 */
#include "cli/count.h"

#include <string.h>

void count_release(struct count *count)
{
	json_free(count->of);
	count->of = NULL;
}

static void set(struct count *count, int64_t now)
{
	count->now = now;
	count->known = true;
}

/* The state is that after this cell; NULL: the one that the session began with. */
static void go_to(struct count *count, const char *cell)
{
	int64_t of = cell ? json_get_int(count->of, cell, -1) : count->first;

	if (of >= 0)
		set(count, of);
	else
		count->known = false;
}

/* The interpreter has died. */
static void take_death(struct count *count, const struct json *body, const char *state)
{
	const char *recovers_to = json_get_string(body, "recovers_to");

	if (strcmp(state, "reset") == 0 || strcmp(state, "gone") == 0)
		set(count, 0);
	else if (strcmp(state, "recovered") == 0 &&
		 (recovers_to || json_length(json_get(body, "rolled_back")) > 0))
		go_to(count, recovers_to);
}

static void take_finished(struct count *count, const struct event *event, const char *state)
{
	int64_t of = json_get_int(event->body, "execution_count", 0);

	if (of > 0 && event->cell) {
		if (!count->of)
			count->of = json_new_object();
		json_set_int(count->of, event->cell, of);
	}
	if (strcmp(state, "kept") != 0)
		take_death(count, event->body, state);
	else if (of > 0)
		set(count, of);
}

static void take_session(struct count *count, const struct json *body)
{
	int64_t first = json_get_int(json_get(body, "parent"), "execution_count", 0);

	if (first > 0)
		set(count, count->first = first);
}

void count_take(struct count *count, const struct event *event)
{
	const char *state = json_get_string(event->body, "state");
	const char *reason = json_get_string(event->body, "reason");

	if (event->type == EVENT_SESSION)
		take_session(count, event->body);
	else if (event->type == EVENT_RESTARTED)
		set(count, 0);
	else if (event->type == EVENT_FINISHED)
		take_finished(count, event, state ? state : "kept");
	else if (event->type == EVENT_DIED && state)
		take_death(count, event->body, state);
	else if (event->type == EVENT_ROLLBACK && json_get_bool(event->body, "reset", false))
		set(count, 0);
	else if (event->type == EVENT_ROLLBACK && reason && strcmp(reason, "asked") == 0)
		go_to(count, event->cell);
	/* Another rollback is that of a cell which is not counted: all is as it was. */
}
