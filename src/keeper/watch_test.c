/*
 * The watch: that a cell without changes costs no look, and that no change is missed or told twice.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files/model_kit.h"
#include "keeper/watch.h"

/* A clock that stands still unless it is told to go; the thread looks at it too. */
struct fake {
	atomic_llong now_us, step_us;
};

static int64_t clock_us(void *data)
{
	struct fake *fake = data;

	return atomic_fetch_add(&fake->now_us, atomic_load(&fake->step_us));
}

struct fixture {
	struct model tree;
	struct fake fake;
	struct watch *watch;
};

static void fixture_watch(struct fixture *fixture, unsigned folders_max, int64_t first_us)
{
	const struct watch_params params = {
		.root = fcntl(fixture->tree.fd, F_DUPFD_CLOEXEC, 0),
		.entries_max = MANIFEST_ENTRIES_MAX,
		.folders_max = folders_max,
		.first_us = first_us,
		.clock_us = clock_us,
		.data = &fixture->fake,
	};

	fixture->watch = watch_open(&params);
}

static struct fixture *fixture_new(uint64_t seed)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	model_open(&fixture->tree, "watch_test", seed);
	return fixture;
}

static void fixture_free(struct fixture *fixture)
{
	watch_close(fixture->watch);
	model_close(&fixture->tree);
	free(fixture);
}

/* Ends the cell; its changes as lines. */
static enum manifest_stop ended(struct fixture *fixture, int64_t ran_us, struct buf *text)
{
	struct changes changes = CHANGES_INIT;
	enum manifest_stop stop;

	buf_clear(text);
	watch_cell_ended(fixture->watch, ran_us, &changes);
	model_found(&changes, text);
	stop = changes.stop;
	changes_release(&changes);
	return stop;
}

static void assert_ended(struct fixture *fixture, int64_t ran_us, const char *lines,
			 enum manifest_stop stop)
{
	cleanup_buf struct buf text = BUF_INIT;

	assert_int_equal(ended(fixture, ran_us, &text), stop);
	assert_string_equal(buf_bytes(&text), lines);
}

static void test_nothing_happened(void **state)
{
	struct fixture *fixture = fixture_new(1);
	char byte;
	int fd;

	(void)state;
	model_write(&fixture->tree, "f", "x");
	fixture_watch(fixture, WATCH_FOLDERS_MAX, WATCH_FIRST_US);
	fixture->fake.step_us = 10; /* a look takes some time */
	for (int i = 0; i < 3; i++) {
		watch_cell_starts(fixture->watch);
		fd = openat(fixture->tree.fd, "f", O_RDONLY | O_CLOEXEC);
		assert_int_equal(read(fd, &byte, 1), 1); /* reading is no change */
		close(fd);
		assert_ended(fixture, 0, "", STOP_NOTHING);
	}
	assert_int_equal(watch_looks(fixture->watch), 0);
	fixture_free(fixture);
}

static void test_cell_after_cell(void **state)
{
	struct fixture *fixture = fixture_new(1);

	(void)state;
	fixture_watch(fixture, WATCH_FOLDERS_MAX, WATCH_FIRST_US);
	for (int i = 0; i < 50; i++) { /* faster than the clock of files ticks */
		watch_cell_starts(fixture->watch);
		model_write(&fixture->tree, "f", i % 2 ? "one" : "two");
		assert_ended(fixture, 0, i ? "changed f\n" : "created f\n", STOP_NOTHING);
	}
	watch_cell_starts(fixture->watch);
	model_mkdir(&fixture->tree, "a");
	model_mkdir(&fixture->tree, "a/b");
	model_write(&fixture->tree, "a/b/c", "x");
	assert_ended(fixture, 0, "created a/b/c\n", STOP_NOTHING);
	watch_cell_starts(fixture->watch);
	model_write(&fixture->tree, "a/b/c", "y");
	assert_ended(fixture, 0, "changed a/b/c\n", STOP_NOTHING);
	watch_cell_starts(fixture->watch);
	assert_int_equal(renameat(fixture->tree.fd, "a", fixture->tree.fd, "z"), 0);
	assert_ended(fixture, 0, "created z/b/c\ndeleted a/b/c\n", STOP_NOTHING);
	watch_cell_starts(fixture->watch);
	model_write(&fixture->tree, "z/b/c", "x"); /* its watch has moved with it */
	assert_ended(fixture, 0, "changed z/b/c\n", STOP_NOTHING);
	fixture_free(fixture);
}

static void test_background(void **state)
{
	struct fixture *fixture = fixture_new(1);
	struct changes changes = CHANGES_INIT;

	(void)state;
	fixture_watch(fixture, WATCH_FOLDERS_MAX, WATCH_FIRST_US);
	model_write(&fixture->tree, "early", "x");
	assert_int_equal(watch_between(fixture->watch)->count, 1);
	model_write(&fixture->tree, "upload", "x");
	watch_cell_starts(fixture->watch);
	model_write(&fixture->tree, "mine", "x");
	watch_cell_ended(fixture->watch, 0, &changes);
	assert_int_equal(changes.count, 3);
	assert_string_equal(changes.list[0].path, "early");
	assert_true(changes.list[0].background);
	assert_string_equal(changes.list[1].path, "upload");
	assert_true(changes.list[1].background);
	assert_string_equal(changes.list[2].path, "mine");
	assert_false(changes.list[2].background);
	changes_release(&changes);
	watch_cell_starts(fixture->watch);
	assert_ended(fixture, 0, "", STOP_NOTHING);
	fixture_free(fixture);
}

/* A map is written without a word of inotify: it shows at the end of a long cell, or when it is
 * closed. */
static void test_memory_map(void **state)
{
	struct fixture *fixture = fixture_new(1);
	char *map;
	int fd;

	(void)state;
	model_write(&fixture->tree, "m", "some bytes");
	fixture_watch(fixture, WATCH_FOLDERS_MAX, WATCH_FIRST_US);
	fixture->fake.step_us = 1;
	fd = openat(fixture->tree.fd, "m", O_RDWR | O_CLOEXEC);
	map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	close(fd);
	watch_cell_starts(fixture->watch);
	map[0] = 'S';
	assert_ended(fixture, 1000 * 1000, "changed m\n", STOP_NOTHING);
	assert_int_equal(munmap(map, 10), 0);
	fixture_free(fixture);
}

/* More happens than can be kept: everything is looked at. */
static void test_overflow(void **state)
{
	struct fixture *fixture = fixture_new(1);
	char name[16];

	(void)state;
	model_mkdir(&fixture->tree, "d");
	model_write(&fixture->tree, "d/f", "x");
	fixture_watch(fixture, WATCH_FOLDERS_MAX, WATCH_FIRST_US);
	watch_cell_starts(fixture->watch);
	for (int i = 0; i < 20000; i++) { /* fs.inotify.max_queued_events is 16,384 */
		snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(mknodat(fixture->tree.fd, name, S_IFREG | 0600, 0), 0);
		assert_int_equal(unlinkat(fixture->tree.fd, name, 0), 0);
	}
	model_write(&fixture->tree, "d/f", "xy");
	assert_ended(fixture, 0, "changed d/f\n", STOP_NOTHING);
	watch_cell_starts(fixture->watch);
	assert_ended(fixture, 0, "", STOP_NOTHING);
	assert_int_equal(watch_looks(fixture->watch), 1);
	fixture_free(fixture);
}

/* --- without watches
 * ---------------------------------------------------------------------------- */

static void test_without_inotify(void **state)
{
	struct fixture *fixture = fixture_new(1);

	(void)state;
	fixture_watch(fixture, 0, WATCH_FIRST_US);
	watch_cell_starts(fixture->watch);
	model_write(&fixture->tree, "f", "x");
	assert_ended(fixture, 0, "created f\n", STOP_NOTHING);
	model_write(&fixture->tree, "g", "x");
	watch_cell_starts(fixture->watch);
	assert_ended(fixture, 0, "created g\n", STOP_NOTHING);
	watch_close(fixture->watch);
	fixture->fake.step_us = 1000; /* looking takes 2 ms or more now */
	fixture_watch(fixture, 0, INT64_MAX / 2);
	watch_cell_starts(fixture->watch);
	model_write(&fixture->tree, "h", "x");
	assert_ended(fixture, 100, "", STOP_UNWATCHED);
	watch_cell_starts(fixture->watch);
	assert_ended(fixture, 100000, "created h\n", STOP_NOTHING); /* later than never */
	fixture_free(fixture);
}

static void test_few_watches(void **state)
{
	struct fixture *fixture = fixture_new(1);

	(void)state;
	model_mkdir(&fixture->tree, "a");
	model_mkdir(&fixture->tree, "b");
	fixture_watch(fixture, 2, WATCH_FIRST_US); /* the root and a */
	for (int i = 0; i < 5; i++) {
		watch_cell_starts(fixture->watch);
		model_write(&fixture->tree, "a/f", i % 2 ? "x" : "xy");
		assert_ended(fixture, 0, i ? "changed a/f\n" : "created a/f\n", STOP_NOTHING);
		watch_cell_starts(fixture->watch);
		model_write(&fixture->tree, "b/f", i % 2 ? "x" : "xy");
		assert_ended(fixture, 0, i ? "changed b/f\n" : "created b/f\n", STOP_NOTHING);
	}
	fixture_free(fixture);
}

/* --- the thread
 * --------------------------------------------------------------------------------- */

static void wait_ready(struct watch *watch)
{
	for (int i = 0; i < 10 * 1000 * 1000 && !watch_is_ready(watch); i++)
		sched_yield(); /* for the thread, which tells nobody */
	assert_true(watch_is_ready(watch));
}

/* Files stamped in the tick of the clock in which the cell starts count as its own: let it pass. */
static void wait_tick(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_REALTIME, &start);
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec < start.tv_sec ||
	       (now.tv_sec == start.tv_sec && now.tv_nsec <= start.tv_nsec));
}

static void test_early_cell(void **state)
{
	struct fixture *fixture = fixture_new(1);

	(void)state;
	model_write(&fixture->tree, "old", "x");
	model_mkdir(&fixture->tree, "d");
	model_write(&fixture->tree, "d/old", "x");
	wait_tick();
	fixture_watch(fixture, WATCH_FOLDERS_MAX, 0);
	watch_cell_starts(
		fixture->watch); /* the thread may have ended or not: both must be right */
	model_write(&fixture->tree, "new", "x");
	model_write(&fixture->tree, "d/new", "x");
	{
		cleanup_buf struct buf text = BUF_INIT;

		ended(fixture, 1000 * 1000, &text);
		assert_non_null(strstr(buf_bytes(&text), "created new\n"));
		assert_non_null(strstr(buf_bytes(&text), "created d/new\n"));
		assert_null(strstr(buf_bytes(&text), "old"));
	}
	wait_ready(fixture->watch);
	watch_cell_starts(fixture->watch);
	model_write(&fixture->tree, "d/old", "xy");
	assert_int_equal(unlinkat(fixture->tree.fd, "old", 0), 0);
	{
		cleanup_buf struct buf text = BUF_INIT;

		assert_int_equal(ended(fixture, 0, &text), STOP_NOTHING);
		assert_non_null(strstr(buf_bytes(&text), "changed d/old\ndeleted old\n"));
	}
	fixture_free(fixture);
}

static void test_early_close(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		struct fixture *fixture = fixture_new(1);

		fixture_watch(fixture, WATCH_FOLDERS_MAX, 0);
		fixture_free(fixture);
	}
}

/* --- the model
 * ---------------------------------------------------------------------------------- */

static void random_cells(uint64_t seed, unsigned folders_max)
{
	struct fixture *fixture = fixture_new(seed);
	cleanup_buf struct buf expected = BUF_INIT, found = BUF_INIT;

	fixture->tree.same_size = folders_max > 0; /* so that only inotify can tell */
	fixture_watch(fixture, folders_max, WATCH_FIRST_US);
	for (int cell = 0; cell < 60; cell++) {
		struct model before = fixture->tree;

		watch_cell_starts(fixture->watch);
		for (int i = 0; i < cell % 9; i++)
			model_edit(&fixture->tree);
		buf_clear(&expected);
		model_expect(&before, &fixture->tree, &expected);
		assert_int_equal(ended(fixture, 0, &found), STOP_NOTHING);
		if (strcmp(buf_bytes(&expected), buf_bytes(&found)) != 0)
			fail_msg("seed %d cell %d: expected\n%sfound\n%s", (int)seed, cell,
				 buf_bytes(&expected), buf_bytes(&found));
	}
	fixture_free(fixture);
}

static void test_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 25; seed++) {
		random_cells(seed, WATCH_FOLDERS_MAX);
		random_cells(seed, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_happened), cmocka_unit_test(test_cell_after_cell),
		cmocka_unit_test(test_background),       cmocka_unit_test(test_memory_map),
		cmocka_unit_test(test_overflow),         cmocka_unit_test(test_without_inotify),
		cmocka_unit_test(test_few_watches),      cmocka_unit_test(test_early_cell),
		cmocka_unit_test(test_early_close),      cmocka_unit_test(test_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
