/*
 * The list of checkpoints and the timeline: looking, adding, dropping, telling.
 */
#include "keeper/checkpoints_internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/snapshot.h"
#include "keeper/session.h"

static void release(struct checkpoint *checkpoint)
{
	if (checkpoint->client)
		client_drop(checkpoint->client);
	json_free(checkpoint->id);
	json_free(checkpoint->info);
	snapshot_free(checkpoint->files);
	free(checkpoint->name);
	free(checkpoint->cells);
	free(checkpoint);
}

/* Takes it off the list; the copy ends. */
void checkpoint_drop(struct checkpoints *checkpoints, struct checkpoint *checkpoint)
{
	struct checkpoint **at = &checkpoints->list;
	struct engine *engine = checkpoints->session->engine;

	while (*at != checkpoint)
		at = &(*at)->next;
	*at = checkpoint->next;
	if (engine && checkpoint->number)
		engine->ops->drop(engine, checkpoint->number);
	release(checkpoint);
}

struct checkpoint *checkpoint_by_number(const struct checkpoints *checkpoints, uint32_t number)
{
	struct checkpoint *checkpoint = checkpoints->list;

	while (checkpoint && checkpoint->number != number)
		checkpoint = checkpoint->next;
	return checkpoint;
}

struct checkpoint *checkpoint_by_name(const struct checkpoints *checkpoints, const char *name)
{
	struct checkpoint *checkpoint = checkpoints->list;

	while (checkpoint && (!checkpoint->name || strcmp(checkpoint->name, name) != 0))
		checkpoint = checkpoint->next;
	return checkpoint;
}

size_t checkpoint_named_count(const struct checkpoints *checkpoints)
{
	size_t count = 0;

	for (const struct checkpoint *c = checkpoints->list; c; c = c->next)
		count += c->name != NULL;
	return count;
}

/* How many cells the checkpoint and the present have in common, from the first. */
size_t checkpoint_common(const struct checkpoints *checkpoints, const struct checkpoint *checkpoint)
{
	size_t depth = 0;

	if (!checkpoint->cells)
		return checkpoint->depth;
	while (depth < checkpoint->depth && depth < checkpoints->depth &&
	       checkpoint->cells[depth] == checkpoints->cells[depth])
		depth++;
	return depth;
}

/* Whether the present state has grown out of it. */
bool checkpoint_is_past(const struct checkpoints *checkpoints, const struct checkpoint *checkpoint)
{
	return checkpoint_common(checkpoints, checkpoint) == checkpoint->depth;
}

/* The deepest one that the present has grown out of; `held`: only one that sleeps. */
struct checkpoint *checkpoint_newest(const struct checkpoints *checkpoints, bool held)
{
	struct checkpoint *best = NULL;

	for (struct checkpoint *c = checkpoints->list; c; c = c->next)
		if ((c->held || !held) && checkpoint_is_past(checkpoints, c) &&
		    (!best || c->depth > best->depth))
			best = c;
	return best;
}

struct checkpoint *checkpoint_at_depth(const struct checkpoints *checkpoints, size_t depth,
				       bool held)
{
	struct checkpoint *c = checkpoints->list;

	while (c &&
	       ((held && !c->held) || c->depth != depth || !checkpoint_is_past(checkpoints, c)))
		c = c->next;
	return c;
}

struct cell *checkpoint_cell_at(const struct checkpoints *checkpoints, const uint32_t *cells,
				size_t index)
{
	return cells_at(checkpoints->session->cells, cells[index]);
}

/* The last cell that is in it; NULL: none. */
const struct cell *checkpoint_last_cell(const struct checkpoints *checkpoints,
					const struct checkpoint *checkpoint)
{
	const uint32_t *cells = checkpoint->cells ? checkpoint->cells : checkpoints->cells;

	return checkpoint->depth ? checkpoint_cell_at(checkpoints, cells, checkpoint->depth - 1)
				 : NULL;
}

void checkpoint_set_cell(struct json *body, const char *key, const struct cell *cell)
{
	json_set(body, key, cell ? json_new_string(cell->id, strlen(cell->id)) : NULL);
}

/* --- telling -----------------------------------------------------------------------------------
 */

void checkpoint_tell(struct checkpoints *checkpoints, const struct checkpoint *checkpoint,
		     const char *action, const char *reason)
{
	struct session *session = checkpoints->session;
	const struct cell *cell = checkpoint_last_cell(checkpoints, checkpoint);
	struct json *body;

	if (!session->opened || record_is_closing(session->record))
		return;
	body = json_new_object();
	json_set_string(body, "action", action);
	json_set_int(body, "number", checkpoint->number);
	json_set(body, "name",
		 checkpoint->name ? json_new_string(checkpoint->name, strlen(checkpoint->name))
				  : NULL);
	if (reason)
		json_set_string(body, "reason", reason);
	if (checkpoint->held)
		json_set_int(body, "copy_us", checkpoint->copy_us);
	if (checkpoint->files)
		json_set(body, "files", snapshot_to_json(checkpoint->files));
	record_body(session->record, EVENT_CHECKPOINT, cell ? cell->id : NULL, body);
}

void checkpoint_drop_telling(struct checkpoints *checkpoints, struct checkpoint *checkpoint,
			     const char *reason)
{
	if (checkpoint->held)
		checkpoint_tell(checkpoints, checkpoint, "dropped", reason);
	checkpoint_drop(checkpoints, checkpoint);
}

void checkpoint_refuse_waiter(const struct checkpoint *checkpoint, const struct err *err)
{
	if (checkpoint->client)
		client_refuse(checkpoint->client, checkpoint->id, err);
}

/* --- adding and describing ---------------------------------------------------------------------
 */

/* A new entry for the present state, without a copy. */
struct checkpoint *checkpoint_add(struct checkpoints *checkpoints, const char *name)
{
	struct checkpoint *checkpoint = mem_zalloc(sizeof(*checkpoint));

	*checkpoint = (struct checkpoint){
		.next = checkpoints->list,
		.name = name ? mem_string(name) : NULL,
		.depth = checkpoints->depth,
		.execution_count = checkpoints->execution_count,
		.t_us = clock_wall_us(),
		.seq = journal_seq(record_journal(checkpoints->session->record)),
		.private_bytes = -1};
	if (name && checkpoints->depth > 0)
		checkpoint->cells = (uint32_t *)(void *)mem_copy(
			checkpoints->cells, checkpoints->depth * sizeof(*checkpoints->cells));
	checkpoints->list = checkpoint;
	return checkpoint;
}

static const char *files_word(const struct checkpoint *checkpoint)
{
	struct snapshot_figures figures;

	if (!checkpoint->files)
		return "none";
	snapshot_figures(checkpoint->files, &figures);
	return figures.unprotected || figures.stop != STOP_NOTHING ? "part" : "held";
}

struct json *checkpoint_describe(const struct checkpoints *checkpoints,
				 const struct checkpoint *checkpoint)
{
	struct json *body = json_new_object();
	char time[CLOCK_TEXT_SIZE];

	clock_format(checkpoint->t_us, time);
	json_set_int(body, "number", checkpoint->number);
	json_set(body, "name",
		 checkpoint->name ? json_new_string(checkpoint->name, strlen(checkpoint->name))
				  : NULL);
	checkpoint_set_cell(body, "cell", checkpoint_last_cell(checkpoints, checkpoint));
	json_set_int(body, "execution_count", checkpoint->execution_count);
	json_set_string(body, "t", time);
	json_set(body, "age_s",
		 json_new_double((double)(clock_wall_us() - checkpoint->t_us) / 1e6));
	json_set_string(body, "state", "held");
	json_set_int(body, "copy_us", checkpoint->copy_us);
	json_set(body, "private_bytes",
		 checkpoint->private_bytes >= 0 ? json_new_int(checkpoint->private_bytes) : NULL);
	json_set_string(body, "files", files_word(checkpoint));
	json_set(body, "threads",
		 json_get(checkpoint->info, "threads")
			 ? json_keep(json_get(checkpoint->info, "threads"))
			 : json_new_array());
	return body;
}
