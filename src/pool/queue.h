/*
 * Orders of keepers that wait for the zygote, first come first served, with the descriptors that
 * belong to them.
 *
 * The queue owns those descriptors until the order is taken. Its length is bounded: each order
 * holds up to ZYGOTE_FDS descriptors.
 */
#ifndef FH_POOL_QUEUE_H
#define FH_POOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "guest/protocol.h"

enum { QUEUE_ORDERS_MAX = 256 };

struct order {
	void *asker; /* who gets the answer */
	struct zygote_enter enter;
	int fds[ZYGOTE_FDS];
	size_t fd_count;
};

struct queue {
	struct order *orders; /* a ring of QUEUE_ORDERS_MAX */
	size_t first, count;
};

void queue_init(struct queue *queue);

/* Closes all descriptors. */
void queue_release(struct queue *queue);

/* Takes the order and its descriptors; false when it is full: then nothing is taken. */
bool queue_push(struct queue *queue, const struct order *order);

/* Moves the oldest order, with its descriptors, to the caller; false when there is none. */
bool queue_take(struct queue *queue, struct order *order);

/* Drops all orders of `asker`, closing their descriptors. */
void queue_forget(struct queue *queue, const void *asker);

/* Closes the descriptors of an order that is in no queue; nothing the second time. */
void order_close(struct order *order);

#endif
