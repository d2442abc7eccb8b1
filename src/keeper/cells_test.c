/* Cells: numbers and ids, the queue's order, and the table of moves. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "keeper/cells.h"

static void numbers_and_ids(void **state)
{
	struct cells *cells = cells_new();
	char id[65];

	(void)state;
	for (unsigned i = 1; i <= 5000; i++) {
		snprintf(id, sizeof(id), "cell_%u", i);
		assert_null(cells_find(cells, id));
		assert_int_equal(cells_add(cells, id)->number, i);
	}
	for (unsigned i = 1; i <= 5000; i++) {
		snprintf(id, sizeof(id), "cell_%u", i);
		assert_ptr_equal(cells_find(cells, id), cells_at(cells, i));
		assert_string_equal(cells_at(cells, i)->id, id);
	}
	assert_null(cells_at(cells, 0));
	assert_null(cells_at(cells, 5001));
	assert_null(cells_find(cells, "cell_0"));
	assert_int_equal(cells_count(cells), 5000);
	cells_free(cells);
}

static void free_ids(void **state)
{
	struct cells *cells = cells_new();
	char id[65];

	(void)state;
	cells_free_id(cells, id);
	assert_string_equal(id, "c1");
	cells_add(cells, "c2"); /* a client took the id that the second cell would get */
	cells_free_id(cells, id);
	assert_string_equal(id, "c2-1");
	cells_add(cells, id);
	cells_free_id(cells, id);
	assert_string_equal(id, "c3");
	cells_free(cells);
}

static void queue_order(void **state)
{
	struct cells *cells = cells_new();
	struct cell *first = cells_add(cells, "a");
	struct cell *second = cells_add(cells, "b");
	struct cell *third = cells_add(cells, "c");

	(void)state;
	assert_ptr_equal(cells_next(cells), first);
	cell_move(cells, second, CELL_CANCEL); /* out of the middle */
	assert_int_equal(cells_queued(cells), 2);
	cell_move(cells, first, CELL_START);
	assert_ptr_equal(cells_next(cells), third);
	cell_move(cells, first, CELL_DONE);
	cell_move(cells, third, CELL_START);
	assert_null(cells_next(cells));
	assert_int_equal(cells_queued(cells), 0);
	first = cells_add(cells, "d");
	assert_ptr_equal(cells_next(cells), first);
	cells_free(cells);
}

static void ladder(void **state)
{
	struct cells *cells = cells_new();
	struct cell *cell = cells_add(cells, "a");

	(void)state;
	cell->code = mem_string("x = 1");
	cell_move(cells, cell, CELL_START);
	cell_move(cells, cell, CELL_TIME_UP);
	assert_int_equal(cell->state, CELL_INTERRUPTED);
	cell_move(cells, cell, CELL_TIME_UP);
	assert_int_equal(cell->state, CELL_INTERRUPTED_AGAIN);
	cell_move(cells, cell, CELL_TIME_UP);
	assert_int_equal(cell->state, CELL_KILLED);
	cell_move(cells, cell, CELL_DIED);
	assert_int_equal(cell->state, CELL_FINISHED);
	assert_null(cell->code);
	cells_free(cells);
}

/* A branch's cells: behind its parent's, whose numbers stand for nothing here. */
static void behind_others(void **state)
{
	struct cells *cells = cells_new();
	struct cell *first, *second;
	char id[65];

	(void)state;
	cells_begin_at(cells, 8);
	assert_int_equal(cells_first(cells), 8);
	assert_int_equal(cells_count(cells), 7);
	assert_null(cells_at(cells, 7));
	cells_free_id(cells, id);
	assert_string_equal(id, "c8");
	first = cells_add(cells, id);
	second = cells_add(cells, "other");
	assert_int_equal(first->number, 8);
	assert_ptr_equal(cells_at(cells, 8), first);
	assert_ptr_equal(cells_at(cells, 9), second);
	assert_null(cells_at(cells, 10));
	assert_null(cells_at(cells, 1));
	assert_ptr_equal(cells_find(cells, "c8"), first);
	assert_ptr_equal(cells_next(cells), first);
	cell_move(cells, first, CELL_START);
	assert_ptr_equal(cells_next(cells), second);
	cells_begin_at(cells, 3); /* too late */
	assert_int_equal(cells_first(cells), 8);
	for (int i = 0; i < 100; i++) {
		cells_free_id(cells, id);
		cells_add(cells, id);
	}
	assert_int_equal(cells_find(cells, "c60")->number, 60);
	cells_free(cells);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_and_ids),
		cmocka_unit_test(free_ids),
		cmocka_unit_test(queue_order),
		cmocka_unit_test(ladder),
		cmocka_unit_test(behind_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
