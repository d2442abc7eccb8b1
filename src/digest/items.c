/*
 * Two lists with a gap between them. As long as nothing is dropped they are one sequence, and the
 * border is moved so that `first` is the shortest prefix of at least chars_max; once something was
 * dropped, `first` only shrinks and `last` is the shortest suffix of at least chars_max.
 *
 * Displays with an id hang in a chained hash table as well (FNV-1a). It protects from no one: a
 * cell that makes its ids collide slows its own text down, within the bound of the items that are
 * held.
 */
#include "digest/items.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { BUCKETS_MIN = 64, BUCKETS_MAX = 1 << 16 };

static uint64_t weight_of(const struct item *item)
{
	return item->piece.chars + 1;
}

static struct item_list *list_of(struct items *items, const struct item *item)
{
	return item->in_last ? &items->last : &items->first;
}

static void list_append(struct item_list *list, struct item *item)
{
	item->previous = list->back;
	item->next = NULL;
	if (list->back)
		list->back->next = item;
	else
		list->front = item;
	list->back = item;
	list->weight += weight_of(item);
}

static void list_prepend(struct item_list *list, struct item *item)
{
	item->previous = NULL;
	item->next = list->front;
	if (list->front)
		list->front->previous = item;
	else
		list->back = item;
	list->front = item;
	list->weight += weight_of(item);
}

static void list_remove(struct item_list *list, struct item *item)
{
	*(item->previous ? &item->previous->next : &list->front) = item->next;
	*(item->next ? &item->next->previous : &list->back) = item->previous;
	list->weight -= weight_of(item);
}

static struct item **bucket_of(const struct items *items, const char *id)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (const char *c = id; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
	return &items->buckets[(hash ^ hash >> 32) & (items->bucket_count - 1)];
}

static void remember(struct items *items, struct item *item, const char *id)
{
	struct item **bucket;

	if (strlen(id) > ITEM_ID_BYTES_MAX)
		return;
	if (!items->buckets) {
		items->bucket_count = BUCKETS_MIN;
		while (items->bucket_count < BUCKETS_MAX &&
		       items->bucket_count < items->chars_max / 4)
			items->bucket_count *= 2;
		items->buckets = mem_zalloc(items->bucket_count * sizeof(struct item *));
	}
	item->id = mem_string(id);
	bucket = bucket_of(items, id);
	item->same_bucket = *bucket;
	*bucket = item;
}

static void forget(struct items *items, const struct item *item)
{
	struct item **link;

	if (!item->id)
		return;
	link = bucket_of(items, item->id);
	while (*link != item)
		link = &(*link)->same_bucket;
	*link = item->same_bucket;
}

static void item_free(struct items *items, struct item *item)
{
	list_remove(list_of(items, item), item);
	forget(items, item);
	for (size_t i = 0; i < 2; i++)
		if (items->begun[i] == item)
			items->begun[i] = NULL;
	piece_release(&item->piece);
	free(item->id);
	free(item);
}

static void item_drop(struct items *items, struct item *item)
{
	items->dropped++;
	items->dropped_chars += item->piece.chars + item->piece.left_out;
	item_free(items, item);
}

static void move(struct items *items, struct item *item, bool to_last)
{
	list_remove(list_of(items, item), item);
	item->in_last = to_last;
	if (to_last)
		list_prepend(&items->last, item);
	else
		list_append(&items->first, item);
}

/* Restores the invariant after an item came, went or changed. */
static void settle(struct items *items)
{
	struct item_list *first = &items->first;
	struct item_list *last = &items->last;

	while (first->back && first->weight - weight_of(first->back) >= items->chars_max) {
		if (items->dropped > 0)
			item_drop(items, first->back);
		else
			move(items, first->back, true);
	}
	while (items->dropped == 0 && last->front && first->weight < items->chars_max)
		move(items, last->front, false);
	while (last->front && last->weight - weight_of(last->front) >= items->chars_max)
		item_drop(items, last->front);
}

void items_init(struct items *items, uint64_t chars_max)
{
	*items = (struct items){.chars_max = chars_max};
}

void items_clear(struct items *items)
{
	while (items->first.front)
		item_free(items, items->first.front);
	while (items->last.front)
		item_free(items, items->last.front);
	items->dropped = 0;
	items->dropped_chars = 0;
}

void items_release(struct items *items)
{
	items_clear(items);
	free(items->buckets);
	items->buckets = NULL;
}

void items_add(struct items *items, const struct item *item, const char *id)
{
	struct item *added = mem_zalloc(sizeof(*added));

	added->kind = item->kind;
	added->quiet = item->quiet;
	added->piece = item->piece;
	added->line_at = item->line_at;
	added->in_last = true;
	if (id)
		remember(items, added, id);
	if (added->kind != ITEM_OTHER)
		items->begun[added->kind] = added->line_at < added->piece.len ? added : NULL;
	list_append(&items->last, added);
	settle(items);
}

/* The first item from `item` on, in its bucket, that has this id. */
static struct item *with_id(struct item *item, const char *id)
{
	while (item && strcmp(item->id, id) != 0)
		item = item->same_bucket;
	return item;
}

bool items_knows(const struct items *items, const char *id)
{
	return items->buckets && with_id(*bucket_of(items, id), id);
}

static void replace(struct items *items, struct item *item, struct piece piece)
{
	struct item_list *list = list_of(items, item);

	list->weight -= weight_of(item);
	piece_release(&item->piece);
	item->piece = piece;
	list->weight += weight_of(item);
}

void items_update(struct items *items, const char *id, const struct piece *piece)
{
	struct item *item = items->buckets ? *bucket_of(items, id) : NULL;
	unsigned changed = 0;

	while ((item = with_id(item, id)) && changed++ < ITEM_UPDATES_MAX) {
		replace(items, item, piece_copy(piece));
		item = item->same_bucket;
	}
	settle(items);
}

bool items_end_line(struct items *items, enum item_kind kind)
{
	bool begun;

	assert(kind != ITEM_OTHER);
	begun = items->begun[kind] != NULL;
	items->begun[kind] = NULL;
	return begun;
}

bool items_drop_line(struct items *items, enum item_kind kind)
{
	struct item *item;
	struct piece *piece;
	uint64_t before;

	assert(kind != ITEM_OTHER);
	item = items->begun[kind];
	if (!item)
		return false;
	items->begun[kind] = NULL;
	piece = &item->piece;
	before = piece->chars;
	piece->len = item->line_at;
	piece->chars = text_count(piece->text, piece->len);
	piece->gap_at = piece->gap_at < piece->len ? piece->gap_at : piece->len;
	list_of(items, item)->weight -= before - piece->chars;
	if (piece->len == 0 && piece->left_out == 0)
		item_free(items, item);
	settle(items);
	return true;
}
