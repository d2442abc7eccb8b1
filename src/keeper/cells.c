/*
 * Cells by number (an array of pointers) and by id (open addressing); see cells.h.
 */
#include "keeper/cells.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct cells {
	struct cell **by_number; /* number - before - 1 */
	uint32_t before;         /* numbers that belong to others */
	uint32_t count;
	uint32_t cap;
	uint32_t first_queued; /* index into by_number: none before it is queued */
	size_t queued;
	uint32_t *slots; /* index + 1, 0: empty; size is a power of two, at most half full */
	uint32_t slot_count;
};

#define NO CELL_STATE_COUNT /* no such move */

/* Rows: the state; columns: START, TIME_UP, DONE, DIED, CANCEL. */
static const enum cell_state CELL_MOVES[CELL_STATE_COUNT][CELL_EVENT_COUNT] = {
	[CELL_QUEUED] = {CELL_RUNNING, NO, NO, NO, CELL_FINISHED},
	[CELL_RUNNING] = {NO, CELL_INTERRUPTED, CELL_FINISHED, CELL_FINISHED, NO},
	[CELL_INTERRUPTED] = {NO, CELL_INTERRUPTED_AGAIN, CELL_FINISHED, CELL_FINISHED, NO},
	[CELL_INTERRUPTED_AGAIN] = {NO, CELL_KILLED, CELL_FINISHED, CELL_FINISHED, NO},
	[CELL_KILLED] = {NO, NO, CELL_FINISHED, CELL_FINISHED, NO},
	[CELL_FINISHED] = {NO, NO, NO, NO, NO},
};

struct cells *cells_new(void)
{
	struct cells *cells = mem_zalloc(sizeof(*cells));

	cells->slot_count = 64;
	cells->slots = mem_zalloc(cells->slot_count * sizeof(*cells->slots));
	return cells;
}

void cells_begin_at(struct cells *cells, uint32_t first)
{
	if (cells->count == 0)
		cells->before = first > 1 ? first - 1 : 0;
}

void cells_free(struct cells *cells)
{
	if (!cells)
		return;
	for (uint32_t i = 0; i < cells->count; i++) {
		free(cells->by_number[i]->code);
		free(cells->by_number[i]);
	}
	free(cells->by_number);
	free(cells->slots);
	free(cells);
}

/* FNV-1a. Ids are chosen by the session's own client, so a flood of collisions harms only itself.
 */
static uint32_t id_hash(const char *id)
{
	uint32_t hash = 2166136261U;

	for (; *id; id++)
		hash = (hash ^ (unsigned char)*id) * 16777619U;
	return hash;
}

/* The slot that holds the id, or the empty one where it would go. */
static uint32_t *slot_of(const struct cells *cells, const char *id)
{
	uint32_t at = id_hash(id) & (cells->slot_count - 1);

	while (cells->slots[at] && strcmp(cells->by_number[cells->slots[at] - 1]->id, id) != 0)
		at = (at + 1) & (cells->slot_count - 1);
	return &cells->slots[at];
}

static void slots_grow(struct cells *cells)
{
	free(cells->slots);
	cells->slot_count *= 2;
	cells->slots = mem_zalloc(cells->slot_count * sizeof(*cells->slots));
	for (uint32_t i = 0; i < cells->count; i++)
		*slot_of(cells, cells->by_number[i]->id) = i + 1;
}

struct cell *cells_add(struct cells *cells, const char *id)
{
	struct cell *cell = mem_zalloc(sizeof(*cell));

	assert(!cells_find(cells, id));
	if (cells->count == cells->cap) {
		cells->cap = cells->cap ? cells->cap * 2 : 16;
		cells->by_number = mem_resize(cells->by_number, cells->cap, sizeof(struct cell *));
	}
	if (2 * (cells->count + 1) > cells->slot_count)
		slots_grow(cells);
	snprintf(cell->id, sizeof(cell->id), "%s", id);
	cell->state = CELL_QUEUED;
	cell->max_chars = -1;
	cells->by_number[cells->count++] = cell;
	cell->number = cells->before + cells->count;
	*slot_of(cells, id) = cells->count;
	cells->queued++;
	return cell;
}

struct cell *cells_find(const struct cells *cells, const char *id)
{
	uint32_t slot = *slot_of(cells, id);

	return slot ? cells->by_number[slot - 1] : NULL;
}

struct cell *cells_at(const struct cells *cells, uint32_t number)
{
	return number > cells->before && number - cells->before <= cells->count
		       ? cells->by_number[number - cells->before - 1]
		       : NULL;
}

uint32_t cells_first(const struct cells *cells)
{
	return cells->before + 1;
}

uint32_t cells_count(const struct cells *cells)
{
	return cells->before + cells->count;
}

void cells_free_id(const struct cells *cells, char id[static 65])
{
	unsigned long number = (unsigned long)cells_count(cells) + 1;

	snprintf(id, 65, "c%lu", number);
	for (unsigned again = 1; cells_find(cells, id); again++)
		snprintf(id, 65, "c%lu-%u", number, again);
}

struct cell *cells_next(const struct cells *cells)
{
	for (uint32_t i = cells->first_queued; cells->queued && i < cells->count; i++)
		if (cells->by_number[i]->state == CELL_QUEUED)
			return cells->by_number[i];
	return NULL;
}

size_t cells_queued(const struct cells *cells)
{
	return cells->queued;
}

void cell_move(struct cells *cells, struct cell *cell, enum cell_event event)
{
	enum cell_state next = CELL_MOVES[cell->state][event];

	assert(next != NO);
	if (cell->state == CELL_QUEUED) {
		cells->queued--;
		while (cells->first_queued < cells->count &&
		       (cells->by_number[cells->first_queued] == cell ||
			cells->by_number[cells->first_queued]->state != CELL_QUEUED))
			cells->first_queued++;
	}
	cell->state = next;
	if (next == CELL_FINISHED) {
		free(mem_take(cell->code));
		cell->code_len = 0;
		cell->asking = false;
	}
}
