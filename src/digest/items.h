/*
 * The outputs of a cell in their order, bounded: the first ones and the last ones, and how much was
 * between.
 *
 * A text of at most `chars_max` code points is cut from its middle, so of all outputs only those
 * can be seen in it that lie within the first or the last `chars_max` code points. The list keeps
 * just these (an output counts its code points and one for the LF behind it). Adding, updating and
 * clearing are O(1), amortised over what was added, so a million outputs cost a million steps and
 * the memory of a few thousand.
 */
#ifndef FH_DIGEST_ITEMS_H
#define FH_DIGEST_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest/cut.h"

enum { ITEM_ID_BYTES_MAX = 256 }; /* a longer display_id is not remembered */
enum { ITEM_UPDATES_MAX = 64 }; /* displays under one id that an update changes, the newest ones */

enum item_kind { ITEM_STDOUT, ITEM_STDERR, ITEM_OTHER };

struct item {
	enum item_kind kind;
	bool quiet;         /* stderr that needs no mark: a warning, a progress bar */
	struct piece piece; /* owned */
	size_t line_at;     /* offset of the line that no LF has ended; piece.len: none */
	/* private: */
	bool in_last;
	struct item *previous;
	struct item *next;
	char *id;
	struct item *same_bucket;
};

struct item_list {
	struct item *front;
	struct item *back;
	uint64_t weight;
};

struct items {
	uint64_t chars_max;
	struct item_list first;
	struct item_list last;
	uint64_t dropped;       /* outputs between `first` and `last` that are gone */
	uint64_t dropped_chars; /* their code points */
	struct item **buckets;  /* by display_id; NULL until one is needed */
	size_t bucket_count;    /* a power of two */
	struct item *begun[2];  /* the last stdout, stderr item if its last line has no LF */
};

void items_init(struct items *items, uint64_t chars_max);
void items_release(struct items *items);
void items_clear(struct items *items);

/* Adds an output at the end; takes *item's piece, copies `id` (NULL: none). */
void items_add(struct items *items, const struct item *item, const char *id);

/* Whether a display of this id is held, that is, can be changed. */
bool items_knows(const struct items *items, const char *id);

/* Changes what the displays of this id show to a copy of `piece`. */
void items_update(struct items *items, const char *id, const struct piece *piece);

/* Whether the last item of this kind has an unfinished last line. It counts as finished from now
 * on. */
bool items_end_line(struct items *items, enum item_kind kind);

/* Takes the unfinished last line from the last item of this kind (ITEM_STDOUT or ITEM_STDERR), if
 * it has one and no gap is in it; an item that is empty then goes. Returns whether there was
 * one. */
bool items_drop_line(struct items *items, enum item_kind kind);

#endif
