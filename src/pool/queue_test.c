/* The ring of orders: order of service, bound, and that no descriptor is left open. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "base/mem.h"
#include "pool/queue.h"

static struct order make_order(void *asker, uint32_t cell)
{
	struct order order = {.asker = asker, .fd_count = 1};

	order.enter.header.cell = cell;
	order.fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(order.fds[0] >= 0);
	return order;
}

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void expect_next(struct queue *queue, uint32_t cell, int fd)
{
	struct order order;

	assert_true(queue_take(queue, &order));
	assert_int_equal(order.enter.header.cell, cell);
	assert_int_equal(order.fds[0], fd);
	assert_true(is_open(fd)); /* ours now */
	order_close(&order);
	assert_false(is_open(fd));
	order_close(&order);
}

static void test_first_come_first_served(void **state)
{
	struct queue queue;
	struct order none;
	int a;

	(void)state;
	queue_init(&queue);
	assert_false(queue_take(&queue, &none));
	/* Twice round the ring. */
	for (uint32_t i = 0; i < 2 * QUEUE_ORDERS_MAX; i++) {
		struct order one = make_order(&a, i), two = make_order(&a, i + 1000);

		assert_true(queue_push(&queue, &one));
		assert_true(queue_push(&queue, &two));
		expect_next(&queue, i, one.fds[0]);
		expect_next(&queue, i + 1000, two.fds[0]);
		assert_false(queue_take(&queue, &none));
	}
	queue_release(&queue);
}

static void test_bound(void **state)
{
	struct queue queue;
	struct order more;
	int a, last = -1;

	(void)state;
	queue_init(&queue);
	for (uint32_t i = 0; i < QUEUE_ORDERS_MAX; i++) {
		struct order order = make_order(&a, i);

		last = order.fds[0];
		assert_true(queue_push(&queue, &order));
	}
	more = make_order(&a, 1);
	assert_false(queue_push(&queue, &more));
	assert_true(is_open(more.fds[0])); /* still the caller's */
	order_close(&more);
	assert_false(is_open(more.fds[0]));
	assert_true(is_open(last));
	queue_release(&queue);
	assert_false(is_open(last));
}

static void test_forget(void **state)
{
	struct queue queue;
	struct order none;
	int a, b, fds[6];

	(void)state;
	queue_init(&queue);
	/* So that what is kept is moved over the end of the ring. */
	for (uint32_t i = 0; i < QUEUE_ORDERS_MAX - 3; i++) {
		struct order order = make_order(&a, i);

		queue_push(&queue, &order);
		expect_next(&queue, i, order.fds[0]);
	}
	for (uint32_t i = 0; i < 6; i++) {
		struct order order = make_order(i % 2 ? (void *)&b : (void *)&a, i);

		fds[i] = order.fds[0];
		queue_push(&queue, &order);
	}
	queue_forget(&queue, &a);
	assert_int_equal(queue.count, 3);
	for (uint32_t i = 1; i < 6; i += 2) {
		assert_false(is_open(fds[i - 1]));
		expect_next(&queue, i, fds[i]);
	}
	assert_false(queue_take(&queue, &none));
	queue_forget(&queue, &b);
	queue_release(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_come_first_served),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
