/*
 * Which checkpoint leads where, and the requests for them; see checkpoints.h.
 */
#include "keeper/checkpoints_internal.h"

#include <string.h>

#include "base/mem.h"
#include "keeper/session.h"
#include "keeper/snapshots.h"

enum { AWAIT_MS_MAX = 200 }; /* a copy of 3 GB takes some 30 */

uint32_t checkpoints_newest(const struct checkpoints *checkpoints)
{
	const struct checkpoint *checkpoint = checkpoint_newest(checkpoints, true);

	return checkpoint ? checkpoint->number : 0;
}

/* Appends what one could go back to. */
static void put_choices(const struct checkpoints *checkpoints, struct buf *out)
{
	const char *between = "";

	for (const struct checkpoint *c = checkpoints->list; c; c = c->next) {
		if (!c->held)
			continue;
		if (c->name) {
			buf_printf(out, "%s\"%s\"", between, c->name);
		} else if (c->depth < checkpoints->depth) {
			buf_printf(
				out, "%sbefore cell %s", between,
				checkpoint_cell_at(checkpoints, checkpoints->cells, c->depth)->id);
		} else {
			continue;
		}
		between = ", ";
	}
	if (!*between)
		buf_append_string(out, "nothing");
}

/* How many cells are before the one with this id on the timeline; SIZE_MAX: it is not on it. */
static size_t depth_before(const struct checkpoints *checkpoints, const char *id)
{
	const struct cell *cell = cells_find(checkpoints->session->cells, id);
	size_t depth = checkpoints->depth;

	while (cell && depth > 0)
		if (checkpoints->cells[--depth] == cell->number)
			return depth;
	return SIZE_MAX;
}

void checkpoints_await(struct checkpoints *checkpoints)
{
	struct engine *engine = checkpoints->session->engine;

	if (engine && !engine->ops->is_dying(engine))
		engine->ops->await_copies(engine, AWAIT_MS_MAX);
}

int checkpoints_find(const struct checkpoints *checkpoints, const char *to, uint32_t *number,
		     struct err *err)
{
	const struct checkpoint *checkpoint = to ? checkpoint_by_name(checkpoints, to) : NULL;
	cleanup_buf struct buf choices = BUF_INIT;
	size_t depth;

	if (!to && checkpoints->depth == 0)
		return err_set(err, ERR_NOT_FOUND, "no cell has run that could be rolled back");
	depth = checkpoint ? 0 : to ? depth_before(checkpoints, to) : checkpoints->depth - 1;
	if (!checkpoint && depth != SIZE_MAX)
		checkpoint = checkpoint_at_depth(checkpoints, depth, true);
	*number = checkpoint ? checkpoint->number : 0;
	if (checkpoint ? checkpoint->held : depth == 0 && !checkpoints->forked)
		return 0;
	put_choices(checkpoints, &choices);
	if (depth == SIZE_MAX)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no checkpoint \"%s\", and no cell \"%s\" whose effect is "
			       "in the variables; held: %.120s",
			       to, to, buf_bytes(&choices));
	return err_set(err, ERR_NOT_FOUND,
		       "the state before %s is not held any more (limit checkpoints: %llu); held: "
		       "%.120s",
		       to ? to : "the last cell",
		       (unsigned long long)checkpoints->session->config.limits.checkpoints,
		       buf_bytes(&choices));
}

struct snapshot *checkpoints_files(const struct checkpoints *checkpoints, uint32_t number)
{
	const struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);

	return checkpoint ? checkpoint->files : NULL;
}

uint64_t checkpoints_seq(const struct checkpoints *checkpoints, uint32_t number)
{
	const struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);

	return checkpoint ? checkpoint->seq : 0;
}

const struct cell *checkpoints_went_back(struct checkpoints *checkpoints, uint32_t number,
					 struct json **rolled_back)
{
	struct checkpoint *to = number ? checkpoint_by_number(checkpoints, number) : NULL;
	size_t shared = to ? checkpoint_common(checkpoints, to) : 0;
	struct checkpoint *next;

	*rolled_back = json_new_array();
	for (size_t i = shared; i < checkpoints->depth; i++) {
		const struct cell *cell = checkpoint_cell_at(checkpoints, checkpoints->cells, i);

		json_push(*rolled_back, json_new_string(cell->id, strlen(cell->id)));
	}
	for (struct checkpoint *c = checkpoints->list; c; c = next) {
		next = c->next;
		if (!c->name && c->depth > shared)
			checkpoint_drop(checkpoints, c);
	}
	checkpoints->depth = shared;
	checkpoints->why = (struct err)ERR_INIT; /* it was about another state */
	while (to && checkpoints->depth < to->depth)
		checkpoints_cell_kept(
			checkpoints, checkpoint_cell_at(checkpoints, to->cells, checkpoints->depth),
			0);
	checkpoints->execution_count = to ? to->execution_count : 0;
	return checkpoints->depth
		       ? checkpoint_cell_at(checkpoints, checkpoints->cells, checkpoints->depth - 1)
		       : NULL;
}

/* --- branches ----------------------------------------------------------------------------------
 */

struct json *checkpoints_origin(const struct checkpoints *checkpoints, uint32_t number,
				const char *id)
{
	const struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);
	struct json *origin = json_new_object();

	json_set_string(origin, "session", id);
	json_set_int(origin, "seq", checkpoint ? (int64_t)checkpoint->seq : 0);
	checkpoint_set_cell(origin, "cell",
			    checkpoint ? checkpoint_last_cell(checkpoints, checkpoint) : NULL);
	json_set_int(origin, "cells", cells_count(checkpoints->session->cells));
	json_set_int(origin, "asks", checkpoints->session->asked.count);
	json_set_int(origin, "execution_count", checkpoint ? checkpoint->execution_count : 0);
	return origin;
}

void checkpoints_begin(struct checkpoints *checkpoints, const struct checkpoints *parent,
		       uint32_t number)
{
	const struct checkpoint *checkpoint = checkpoint_by_number(parent, number);

	checkpoints->forked = checkpoint != NULL;
	checkpoints->execution_count = checkpoint ? checkpoint->execution_count : 0;
}

/* --- requests ----------------------------------------------------------------------------------
 */

int checkpoints_make(struct checkpoints *checkpoints, const char *name, bool files,
		     struct client *client, struct json *id, struct err *err)
{
	struct session *session = checkpoints->session;
	struct checkpoint *checkpoint;

	if (checkpoint_by_name(checkpoints, name))
		return err_set(err, ERR_DUPLICATE,
			       "there is a checkpoint \"%s\" already; drop it first", name);
	if (checkpoint_named_count(checkpoints) >= CHECKPOINTS_NAMED_MAX)
		return err_set(err, ERR_LIMIT,
			       "there are %d named checkpoints already; drop one first",
			       CHECKPOINTS_NAMED_MAX);
	if (session->state != SESSION_IDLE || session->back.kind != BACK_NONE ||
	    snapshots_busy(session->snapshots))
		return err_set(err, ERR_BUSY, "a cell runs or waits; ask again when it has ended");
	checkpoint = checkpoint_add(checkpoints, name);
	if (session->engine->ops->copy(session->engine, &checkpoint->number, err) != 0) {
		checkpoint_drop(checkpoints, checkpoint);
		return -1;
	}
	checkpoint->client = client_keep(client);
	checkpoint->id = json_keep(id);
	if (files)
		checkpoint->takes_files = snapshots_take(session->snapshots, checkpoint_files_taken,
							 checkpoints, NULL) == 0;
	return 0;
}

int checkpoints_drop(struct checkpoints *checkpoints, const char *name, struct err *err)
{
	struct checkpoint *checkpoint = checkpoint_by_name(checkpoints, name);

	if (!checkpoint)
		return err_set(err, ERR_NOT_FOUND, "there is no checkpoint \"%s\"", name);
	checkpoint_drop_telling(checkpoints, checkpoint, "asked");
	return 0;
}

struct json *checkpoints_json(const struct checkpoints *checkpoints)
{
	const struct checkpoint *last = checkpoint_newest(checkpoints, true);
	struct json *body = json_new_object();
	struct json *list = json_new_array();

	for (const struct checkpoint *c = checkpoints->list; c; c = c->next)
		if (c->held)
			json_push(list, checkpoint_describe(checkpoints, c));
	json_set(body, "checkpoints", list);
	checkpoint_set_cell(body, "recovers_to",
			    last ? checkpoint_last_cell(checkpoints, last) : NULL);
	json_set(body, "protected", json_new_bool(checkpoints_exact(checkpoints)));
	return body;
}
