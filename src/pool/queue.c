/* Ring of waiting orders; queue.h says what for. */
#include "pool/queue.h"

#include "base/mem.h"

void order_close(struct order *order)
{
	for (size_t i = 0; i < order->fd_count; i++)
		close(order->fds[i]);
	order->fd_count = 0;
}

void queue_init(struct queue *queue)
{
	queue->orders = mem_zalloc(QUEUE_ORDERS_MAX * sizeof(*queue->orders));
	queue->first = 0;
	queue->count = 0;
}

static struct order *order_at(struct queue *queue, size_t index)
{
	return &queue->orders[(queue->first + index) % QUEUE_ORDERS_MAX];
}

void queue_release(struct queue *queue)
{
	for (size_t i = 0; i < queue->count; i++)
		order_close(order_at(queue, i));
	queue->count = 0;
	free(queue->orders);
	queue->orders = NULL;
}

bool queue_push(struct queue *queue, const struct order *order)
{
	if (queue->count == QUEUE_ORDERS_MAX)
		return false;
	*order_at(queue, queue->count++) = *order;
	return true;
}

bool queue_take(struct queue *queue, struct order *order)
{
	if (queue->count == 0)
		return false;
	*order = *order_at(queue, 0);
	queue->first = (queue->first + 1) % QUEUE_ORDERS_MAX;
	queue->count--;
	return true;
}

void queue_forget(struct queue *queue, const void *asker)
{
	size_t kept = 0;

	for (size_t i = 0; i < queue->count; i++) {
		struct order *order = order_at(queue, i);

		if (order->asker == asker)
			order_close(order);
		else if (kept++ != i)
			*order_at(queue, kept - 1) = *order;
	}
	queue->count = kept;
}
