/*
 * What snapshots of a workspace cost, in microseconds.
 *
 *     bench-snapshot N FOLDER      -> lines "name<TAB>microseconds", N of each, in turn
 *
 * In FOLDER, `small` gets 1,000 files of 10 kB in ten folders, `large` one of 50 MB; both stay. The
 * store lies in FOLDER, on the same disk, as a session's does. Before a snapshot of what has not
 * changed, a tick of the kernel's clock goes by, as it does between two cells that a person or a
 * model writes: what is younger is read once more (snapshot.h).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "files/snapshot.h"

enum { FOLDERS = 10, FILES = 100, SMALL = 10000, LARGE = 50 << 20, EDITED = 100, TICK_MS = 30 };

static void fail(const char *what)
{
	fprintf(stderr, "bench-snapshot: %s\n", what);
	exit(1);
}

static void write_file(int folder, const char *path, size_t len, unsigned seed)
{
	cleanup_free char *bytes = mem_zalloc(len);
	cleanup_fd int fd = openat(folder, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)((i + seed) * 2654435761u >> 24);
	if (fd < 0 || file_write_all(fd, bytes, len, NULL) != 0)
		fail("cannot write a file");
}

static void small_path(char path[static 64], int number)
{
	snprintf(path, 64, "d%d/f%d", number / FILES % FOLDERS, number % FILES);
}

static int make_small(int top)
{
	int folder;
	char path[64];

	mkdirat(top, "small", 0755);
	folder = openat(top, "small", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < FOLDERS * FILES; i++) {
		snprintf(path, sizeof(path), "d%d", i / FILES);
		mkdirat(folder, path, 0755);
		small_path(path, i);
		write_file(folder, path, SMALL, (unsigned)i);
	}
	return folder;
}

static int make_large(int top)
{
	int folder;

	mkdirat(top, "large", 0755);
	folder = openat(top, "large", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	write_file(folder, "f", LARGE, 1);
	return folder;
}

static void edit_small(int folder, int count, unsigned seed)
{
	char path[64];

	for (int i = 0; i < count; i++) {
		small_path(path, i * 7);
		write_file(folder, path, SMALL, seed + (unsigned)i);
	}
}

static void let_a_tick_pass(void)
{
	const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};

	nanosleep(&tick, NULL);
}

static struct snapshot *take(const char *name, const struct snapshot_work *work,
			     struct store *store, const struct snapshot *before)
{
	struct snapshot_limits limits = SNAPSHOT_LIMITS;
	struct snapshot_figures figures;
	struct snapshot *snapshot;
	int64_t began_us = clock_monotonic_us();

	limits.file_bytes_max = LARGE;
	snapshot = snapshot_take(work, store, &limits, before);
	if (name)
		printf("%s\t%" PRId64 "\n", name, clock_monotonic_us() - began_us);
	snapshot_figures(snapshot, &figures);
	if (figures.stop != STOP_NOTHING || figures.unprotected > 0)
		fail("something was not kept");
	return snapshot;
}

static void differ(const struct snapshot *snapshot, const struct snapshot_work *work,
		   uint64_t expected)
{
	struct changes changes = CHANGES_INIT;
	int64_t began_us = clock_monotonic_us();

	snapshot_diff(snapshot, work, &changes);
	printf("differences, 100 changed\t%" PRId64 "\n", clock_monotonic_us() - began_us);
	if (changes.count + changes.more != expected)
		fail("other differences than were made");
	changes_release(&changes);
}

static void restore(const char *name, const struct snapshot *snapshot,
		    const struct snapshot_work *work, size_t expected)
{
	cleanup_restored struct snapshot_restored restored = SNAPSHOT_RESTORED_INIT;
	int64_t began_us = clock_monotonic_us();

	snapshot_restore(snapshot, work, NULL, &restored);
	printf("%s\t%" PRId64 "\n", name, clock_monotonic_us() - began_us);
	if (restored.restored.count + restored.restored.more != expected ||
	    restored.failed.count > 0)
		fail("others were restored than were changed");
}

static void round_small(const struct snapshot_work *work, int folder, struct store *store,
			unsigned seed)
{
	struct snapshot *first, *second, *third;
	int open[EDITED];

	let_a_tick_pass();
	first = take("first", work, store, NULL);
	second = take("unchanged", work, store, first);
	edit_small(folder, 1, seed);
	third = take("one changed", work, store, second);
	edit_small(folder, EDITED, seed + 1000);
	differ(third, work, EDITED);
	restore("restored, 100 changed", third, work, EDITED);
	snapshot_free(third);
	let_a_tick_pass();
	third = take(NULL, work, store, second);
	for (int i = 0; i < EDITED; i++) {
		char path[64];

		small_path(path, i * 7);
		open[i] = openat(folder, path, O_RDONLY | O_CLOEXEC);
	}
	edit_small(folder, EDITED, seed + 2000);
	restore("restored, 100 changed and open", third, work, EDITED);
	for (int i = 0; i < EDITED; i++)
		close(open[i]);
	snapshot_free(first);
	snapshot_free(second);
	snapshot_free(third);
}

int main(int argc, char **argv)
{
	long count = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	cleanup_fd int top = argc == 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cleanup_tree struct tree small = TREE_INIT, large = TREE_INIT;
	const struct snapshot_work small_work = {.tree = &small,
						 .time_us_max = SNAPSHOT_RESTORE_US_MAX};
	const struct snapshot_work large_work = {.tree = &large,
						 .time_us_max = SNAPSHOT_RESTORE_US_MAX};
	struct store *store;

	if (count <= 0 || top < 0) {
		fprintf(stderr, "usage: bench-snapshot N FOLDER\n");
		return 2;
	}
	store = store_new(top, SNAPSHOT_STORE_BYTES_MAX, NULL);
	if (!store || tree_adopt(&small, make_small(top), NULL) != 0 ||
	    tree_adopt(&large, make_large(top), NULL) != 0)
		fail("cannot make the folders");
	for (long i = 0; i < count; i++) {
		round_small(&small_work, small.root, store, (unsigned)(i + 1) * 10000);
		snapshot_free(take("large", &large_work, store, NULL));
	}
	store_free(store);
	return 0;
}
