/* The pure parts of spare.c: the table, the waits, the name. What the processes do is tested by
 * test/flow/test_spare.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pool/spare.h"

static void test_a_life(void **state)
{
	(void)state;
	assert_int_equal(spare_next(SPARE_OFF, SPARE_WANTED), SPARE_DUE);
	assert_int_equal(spare_next(SPARE_DUE, SPARE_TIME), SPARE_STARTING);
	assert_int_equal(spare_next(SPARE_STARTING, SPARE_SAID), SPARE_READY);
	assert_int_equal(spare_next(SPARE_READY, SPARE_GIVEN), SPARE_DUE);
	assert_int_equal(spare_next(SPARE_READY, SPARE_DIED), SPARE_DUE);
	assert_int_equal(spare_next(SPARE_STARTING, SPARE_FAILED), SPARE_RESTING);
	assert_int_equal(spare_next(SPARE_RESTING, SPARE_TIME), SPARE_DUE);
}

static void test_every_life_ends(void **state)
{
	(void)state;
	for (int from = SPARE_OFF; from < SPARE_ENDING; from++)
		assert_int_equal(spare_next((enum spare_state)from, SPARE_END), SPARE_ENDING);
	assert_int_equal(spare_next(SPARE_ENDING, SPARE_ENDED), SPARE_CLOSED);
	for (int event = 0; event < SPARE_EVENT_COUNT; event++)
		assert_int_equal(spare_next(SPARE_CLOSED, (enum spare_event)event),
				 SPARE_STATE_COUNT);
}

static void test_no_such_move(void **state)
{
	(void)state;
	assert_int_equal(spare_next(SPARE_OFF, SPARE_TIME), SPARE_STATE_COUNT);
	assert_int_equal(spare_next(SPARE_STARTING, SPARE_GIVEN), SPARE_STATE_COUNT);
	assert_int_equal(spare_next(SPARE_RESTING, SPARE_SAID), SPARE_STATE_COUNT);
	assert_int_equal(spare_next(SPARE_ENDING, SPARE_DIED), SPARE_STATE_COUNT);
}

static void test_waits(void **state)
{
	const int64_t now = 100 * INT64_C(1000000);

	(void)state;
	/* quiet: what is left of it after the last order; none of it when a client waits */
	assert_int_equal(spare_wait_ms(now, now, 0, 0, false), SPARE_QUIET_MS);
	assert_int_equal(spare_wait_ms(now, now - 20000, 0, 0, false), SPARE_QUIET_MS - 20);
	assert_int_equal(spare_wait_ms(now, now - 1000000, 0, 0, false), 0);
	assert_int_equal(spare_wait_ms(now, now, now, 0, true), 0);
	/* the gap only after a death, and for clients too */
	assert_int_equal(spare_wait_ms(now, 0, now, 0, false), 0);
	assert_int_equal(spare_wait_ms(now, 0, now - 300000, 1, false), SPARE_START_GAP_MS - 300);
	assert_int_equal(spare_wait_ms(now, now, now - 300000, 2, true), SPARE_START_GAP_MS - 300);
	assert_int_equal(spare_wait_ms(now, now, now - 2000000, 1, false), SPARE_QUIET_MS);
	/* a clock that has gone back is no reason to wait for longer */
	assert_int_equal(spare_wait_ms(now, now + 5000000, 0, 0, false), SPARE_QUIET_MS);
}

static void test_name(void **state)
{
	char one[SPARE_NAME_SIZE], other[SPARE_NAME_SIZE];

	(void)state;
	spare_socket_name(one, "/usr/bin/python3", "/home/a/.local/state/fumehood");
	assert_int_equal(strlen(one), strlen("spare-0123456789abcdef.sock"));
	assert_int_equal(strncmp(one, "spare-", 6), 0);
	spare_socket_name(other, "/usr/bin/python3", "/home/b/.local/state/fumehood");
	assert_string_not_equal(one, other);
	spare_socket_name(other, "/usr/bin/python", "/home/a/.local/state/fumehood");
	assert_string_not_equal(one, other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_life),       cmocka_unit_test(test_every_life_ends),
		cmocka_unit_test(test_no_such_move), cmocka_unit_test(test_waits),
		cmocka_unit_test(test_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
