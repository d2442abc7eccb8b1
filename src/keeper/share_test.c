/*
 * Whether copies keep to their share, whoever makes them and whatever is in the file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "keeper/share.h"

enum { COST_US = 8000 };

static const int64_t START_US = INT64_C(1000000000);

/* As many at once as fit into half a second of a quarter of the processors; then one behind the
 * other, so far apart that they take a quarter. */
static void check_rate(long processors)
{
	int64_t apart = COST_US * SHARE_PART / processors;
	int64_t at_once = SHARE_BURST_US / apart + 1;
	int64_t spent = 0;

	for (int64_t i = 0; i < at_once; i++)
		assert_int_equal(share_move(&spent, START_US, COST_US, processors), START_US);
	for (int64_t i = at_once; i < 2 * at_once; i++)
		assert_int_equal(share_move(&spent, START_US, COST_US, processors),
				 START_US + i * apart - SHARE_BURST_US);
}

static void test_rate(void **state)
{
	(void)state;
	check_rate(1);
	check_rate(2);
	check_rate(64);
}

/* Who makes fewer than that never waits. */
static void test_quiet(void **state)
{
	int64_t spent = 0;

	(void)state;
	for (int64_t now = START_US; now < START_US + 3600 * INT64_C(1000000); now += 20000)
		assert_int_equal(share_move(&spent, now, COST_US, 2), now);
}

/* After a rest there is what can be made at once, and no more. */
static void test_rest(void **state)
{
	int64_t spent = 0, fresh = 0;
	int64_t later = START_US + 3600 * INT64_C(1000000);

	(void)state;
	for (int i = 0; i < 100; i++)
		(void)share_move(&spent, START_US, COST_US, 2);
	for (int i = 0; i < 100; i++)
		assert_int_equal(share_move(&spent, later, COST_US, 2),
				 share_move(&fresh, later, COST_US, 2));
}

/* What another has written, or a clock that began anew, keeps nobody from copies. */
static void test_nonsense(void **state)
{
	static const int64_t written[] = {INT64_MIN, -1, INT64_MAX, INT64_C(1) << 50};

	(void)state;
	for (size_t i = 0; i < sizeof(written) / sizeof(*written); i++) {
		int64_t spent = written[i];

		assert_int_equal(share_move(&spent, START_US, COST_US, 2), START_US);
		assert_int_equal(spent, START_US + COST_US * SHARE_PART / 2);
	}
}

static void test_ahead(void **state)
{
	int64_t spent = 0;

	(void)state;
	for (int i = 0; i < 100000; i++)
		assert_true(share_move(&spent, START_US, COST_US, 1) <=
			    START_US + SHARE_AHEAD_MAX_US);
	assert_int_equal(share_move(&spent, START_US, INT64_C(1) << 40, 1),
			 START_US + SHARE_AHEAD_MAX_US - SHARE_BURST_US);
	assert_int_equal(spent, START_US + SHARE_AHEAD_MAX_US);
	assert_true(share_move(&spent, START_US, 1, 0) > START_US); /* no processor is known */
}

static void test_cost(void **state)
{
	int64_t small = share_cost(100 << 20, 0), large = share_cost(INT64_C(2) << 30, 0);

	(void)state;
	assert_true(small > 0 && large > 2 * small);
	assert_int_equal(share_cost(100 << 20, 4000), 4000);          /* a quiet machine */
	assert_int_equal(share_cost(100 << 20, 10 * 1000000), small); /* it was waiting */
	assert_int_equal(share_cost(-1, 0), share_cost(0, 0));        /* not known */
}

static void book_all(struct share *share, int64_t now_us)
{
	while (share_book(share, now_us, COST_US) == now_us)
		;
}

/* What one has spent, another has not. */
static void test_shared(void **state)
{
	char runtime[] = "/tmp/fh-share-XXXXXX";
	struct share one, other;
	int64_t first;

	(void)state;
	assert_non_null(mkdtemp(runtime));
	share_open(&one, runtime);
	share_open(&other, runtime);
	assert_true(one.fd >= 0 && other.fd >= 0);
	book_all(&one, START_US);
	first = share_book(&other, START_US, COST_US);
	assert_true(first > START_US);
	assert_true(share_book(&one, START_US, COST_US) > first);
	assert_int_equal(pwrite(other.fd, "garbage?garbage?", 16, 0), 16);
	assert_int_equal(share_book(&one, START_US, COST_US), START_US);
	assert_int_equal(ftruncate(other.fd, 3), 0);
	book_all(&one, START_US);
	assert_true(share_book(&other, START_US, COST_US) > START_US);
	share_close(&one);
	share_close(&other);
	assert_int_equal(file_remove_tree(AT_FDCWD, runtime, NULL), 0);
}

/* Without the file, or when it cannot be written: alone, with a share. */
static void test_alone(void **state)
{
	struct share share;

	(void)state;
	share_open(&share, "/nowhere/at/all");
	assert_int_equal(share.fd, -1);
	book_all(&share, START_US);
	assert_true(share_book(&share, START_US, COST_US) > START_US);
	share.fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	assert_true(share.fd >= 0);
	book_all(&share, START_US + SHARE_AHEAD_MAX_US);
	assert_int_equal(share.fd, -1);
	share_close(&share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),   cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_rest),   cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_ahead),  cmocka_unit_test(test_cost),
		cmocka_unit_test(test_shared), cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
