/*
 * inotify, and when to look; see watch.h.
 *
 * Events are kept as (folder, name) until the next look has used them: the folders say where to
 * read again, the names say that a file was written although its size and times are the same (two
 * writes within a tick of the kernel's clock, up to 10 ms before Linux 6.13). When there are too
 * many, everything counts as changed.
 *
 * The thread shares nothing but the inotify descriptor with the loop, and hands its manifest over
 * by an atomic flag that the loop looks at when a cell starts or ends; nobody has to be woken.
 */
#include "keeper/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>

#include "base/mem.h"

enum {
	TOUCHES_MAX = 8192,
	TOUCH_NAMES_MAX = 1 << 20,
	EVENT_BYTES = 64 << 10,
	DRAIN_ROUNDS_MAX = 64, /* a background writer may go on for ever */
	CHEAP_LOOK_US = 1000,
	THOROUGH_FACTOR = 50,
	PROC_PATH_MAX = 40,
};

/* IN_MODIFY: written; IN_CLOSE_WRITE: perhaps written through a map; IN_ATTRIB: times, also after
 * utime(2). */
#define WATCH_MASK \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | \
	 IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)
#define WRITTEN_MASK (IN_MODIFY | IN_CREATE | IN_MOVED_TO)

/* Something happened in a folder, perhaps to this name. */
struct touch {
	int folder;
	bool written; /* the name's content may be another */
	uint16_t name_len;
	uint32_t name; /* in names */
};

struct watch {
	struct watch_params params;
	int inotify; /* -1: there is none */
	struct manifest *now;
	int64_t full_us; /* how long a look at everything takes */
	uint64_t looks;
	struct touch *touches;
	size_t touch_count;
	struct buf names;
	bool touched_all; /* more than could be kept */
	bool sorted;
	int64_t cell_ns;     /* CLOCK_REALTIME_COARSE at the start of the cell */
	bool cell_had_first; /* the first manifest was there at the start of the cell */
	struct changes between;
	/* the thread that makes the first manifest: */
	bool threaded;
	pthread_t thread;
	atomic_bool thread_done, thread_cancel;
	struct manifest *thread_made; /* after thread_done */
	int64_t thread_us;
};

/* One look; on the loop or on the thread. */
struct look {
	struct watch *watch;
	unsigned watched; /* folders */
};

static int64_t clock_us(void *data)
{
	struct look *look = data;
	struct watch *watch = look->watch;

	/* Only the thread is ever cancelled, and then only it looks. */
	if (atomic_load_explicit(&watch->thread_cancel, memory_order_relaxed))
		return INT64_MAX;
	return watch->params.clock_us(watch->params.data);
}

static int64_t coarse_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- what inotify says
 * -------------------------------------------------------------------------- */

/* By the descriptor, not by a path that a guest may change meanwhile. The kernel knows a folder
 * that is watched already, and gives the same number. */
static int enter(void *data, int fd)
{
	struct look *look = data;
	char path[PROC_PATH_MAX];

	if (look->watch->inotify < 0 || look->watched >= look->watch->params.folders_max)
		return -1;
	look->watched++;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return inotify_add_watch(look->watch->inotify, path, WATCH_MASK);
}

static void touch_add(struct watch *watch, const struct inotify_event *event)
{
	size_t len = event->len ? strlen(event->name) : 0;
	struct touch *last = watch->touch_count ? &watch->touches[watch->touch_count - 1] : NULL;
	bool written = (event->mask & WRITTEN_MASK) != 0;

	if (last && last->folder == event->wd && last->name_len == len &&
	    memcmp(buf_bytes(&watch->names) + last->name, event->name, len) == 0) {
		last->written = last->written || written;
		return;
	}
	if ((event->mask & IN_Q_OVERFLOW) || watch->touch_count == TOUCHES_MAX ||
	    watch->names.len + len > TOUCH_NAMES_MAX) {
		watch->touched_all = true;
		return;
	}
	if (!watch->touches)
		watch->touches = mem_resize(NULL, TOUCHES_MAX, sizeof(*watch->touches));
	watch->touches[watch->touch_count++] = (struct touch){.folder = event->wd,
							      .written = written,
							      .name_len = (uint16_t)len,
							      .name = (uint32_t)watch->names.len};
	buf_append(&watch->names, event->name, len);
	watch->sorted = false;
}

/* Whether anything happened since the last look. */
static bool drain(struct watch *watch)
{
	_Alignas(struct inotify_event) char bytes[EVENT_BYTES];

	for (int round = 0; watch->inotify >= 0; round++) {
		ssize_t len = read(watch->inotify, bytes, sizeof(bytes));

		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			break;
		if (round == DRAIN_ROUNDS_MAX) {
			watch->touched_all = true;
			break;
		}
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event = (const void *)(bytes + at);

			touch_add(watch, event);
			at += (ssize_t)sizeof(*event) + event->len;
		}
	}
	return watch->touch_count > 0 || watch->touched_all;
}

static int compare_touches(const void *a, const void *b, void *data)
{
	const struct touch *left = a, *right = b;
	const char *names = buf_bytes(data);

	if (left->folder != right->folder)
		return left->folder < right->folder ? -1 : 1;
	return manifest_compare(names + left->name, left->name_len, names + right->name,
				right->name_len);
}

static void touches_sort(struct watch *watch)
{
	if (!watch->sorted && watch->touch_count > 1)
		qsort_r(watch->touches, watch->touch_count, sizeof(*watch->touches),
			compare_touches, &watch->names);
	watch->sorted = true;
}

/* The first touch that is not before (folder, name). */
static size_t touches_from(const struct watch *watch, int folder, const char *name, size_t len)
{
	size_t low = 0, high = watch->touch_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct touch *touch = &watch->touches[middle];
		int order = touch->folder != folder
				    ? (touch->folder < folder ? -1 : 1)
				    : manifest_compare(buf_bytes(&watch->names) + touch->name,
						       touch->name_len, name, len);

		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_unchanged(void *data, int folder)
{
	struct look *look = data;
	const struct watch *watch = look->watch;
	size_t at = touches_from(watch, folder, "", 0);

	if (watch->touched_all || (at < watch->touch_count && watch->touches[at].folder == folder))
		return false;
	look->watched++; /* it stays watched */
	return true;
}

static bool is_touched(void *data, int folder, const char *name, size_t len)
{
	const struct watch *watch = data;

	for (size_t at = touches_from(watch, folder, name, len); at < watch->touch_count; at++) {
		const struct touch *touch = &watch->touches[at];

		if (touch->folder != folder || touch->name_len != len ||
		    memcmp(buf_bytes(&watch->names) + touch->name, name, len) != 0)
			return false;
		if (touch->written)
			return true;
	}
	return false;
}

static void touches_clear(struct watch *watch)
{
	watch->touch_count = 0;
	watch->touched_all = false;
	buf_clear(&watch->names);
}

/* --- looking
 * ------------------------------------------------------------------------------------ */

static struct manifest *look_for(struct watch *watch, const struct manifest *before, bool thorough,
				 int64_t time_us)
{
	struct look look = {.watch = watch, .watched = 0};
	struct manifest_params params = {
		.root = watch->params.root,
		.entries_max = watch->params.entries_max,
		.depth_max = MANIFEST_DEPTH_MAX,
		.deadline_us = watch->params.clock_us(watch->params.data) + time_us,
		.clock_us = clock_us,
		.enter = enter,
		.is_unchanged = thorough ? NULL : is_unchanged,
		.before = before,
		.data = &look,
	};

	return manifest_scan(&params);
}

/* Looks again, appends what differs, and goes on from what was found. Without `old_known` the times
 * decide. */
static void look_again(struct watch *watch, bool thorough, bool old_known, struct changes *changes)
{
	int64_t start_us = watch->params.clock_us(watch->params.data);
	struct manifest *found;
	struct diff_params params = {
		.since_ns = watch->cell_ns, .is_touched = is_touched, .data = watch};

	touches_sort(watch);
	found = look_for(watch, watch->now, thorough, WATCH_LOOK_US);
	params.old = old_known ? watch->now : NULL;
	params.new = found;
	manifest_diff(&params, changes);
	manifest_free(watch->now);
	watch->now = found;
	touches_clear(watch);
	watch->looks++;
	if (thorough)
		watch->full_us = watch->params.clock_us(watch->params.data) - start_us;
}

/* While the thread is at work: a look of our own, by the times alone. What inotify said stays for
 * the first manifest. */
static void look_by_times(struct watch *watch, struct changes *changes)
{
	struct manifest *found = look_for(watch, NULL, true, WATCH_LOOK_US);
	const struct diff_params params = {.old = NULL, .new = found, .since_ns = watch->cell_ns};

	manifest_diff(&params, changes);
	manifest_free(found);
	watch->looks++;
}

/* --- the first manifest
 * ------------------------------------------------------------------------- */

static void *thread_main(void *data)
{
	struct watch *watch = data;
	int64_t start_us = watch->params.clock_us(watch->params.data);

	watch->thread_made = look_for(watch, NULL, true, WATCH_THREAD_US);
	watch->thread_us = watch->params.clock_us(watch->params.data) - start_us;
	atomic_store_explicit(&watch->thread_done, true, memory_order_release);
	return NULL;
}

static void thread_start(struct watch *watch)
{
	watch->threaded = pthread_create(&watch->thread, NULL, thread_main, watch) == 0;
}

static void thread_join(struct watch *watch)
{
	if (!watch->threaded)
		return;
	pthread_join(watch->thread, NULL);
	watch->threaded = false;
}

/* Whether the first manifest is there, taking it from the thread when that has just ended. */
static bool has_first(struct watch *watch)
{
	if (watch->now)
		return true;
	if (!watch->threaded || !atomic_load_explicit(&watch->thread_done, memory_order_acquire))
		return false;
	thread_join(watch);
	watch->now = watch->thread_made;
	watch->thread_made = NULL;
	watch->full_us = watch->thread_us;
	return true;
}

struct watch *watch_open(const struct watch_params *params)
{
	struct watch *watch = mem_zalloc(sizeof(*watch));
	int64_t start_us = params->clock_us(params->data);

	watch->params = *params;
	watch->inotify = params->folders_max ? inotify_init1(IN_NONBLOCK | IN_CLOEXEC) : -1;
	watch->cell_ns = coarse_ns();
	watch->now = look_for(watch, NULL, true, params->first_us);
	watch->full_us = params->clock_us(params->data) - start_us;
	if (watch->now->stop != STOP_TIME)
		return watch;
	thread_start(watch);
	if (watch->threaded) { /* else what was seen in that time has to do */
		manifest_free(watch->now);
		watch->now = NULL;
	}
	return watch;
}

void watch_close(struct watch *watch)
{
	if (!watch)
		return;
	atomic_store(&watch->thread_cancel, true);
	thread_join(watch);
	manifest_free(watch->thread_made);
	manifest_free(watch->now);
	changes_release(&watch->between);
	free(watch->touches);
	buf_release(&watch->names);
	if (watch->inotify >= 0)
		close(watch->inotify);
	close(watch->params.root);
	free(watch);
}

/* --- cells
 * -------------------------------------------------------------------------------------- */

/* Whether looking at everything costs little beside the cell. */
static bool is_cheap(const struct watch *watch, int64_t ran_us)
{
	return watch->full_us <= (ran_us > CHEAP_LOOK_US ? ran_us : CHEAP_LOOK_US);
}

static bool is_blind(const struct watch *watch)
{
	return watch->now->unwatched > 0;
}

static void look_between(struct watch *watch)
{
	size_t had = watch->between.count;
	bool happened = drain(watch);

	if (!happened && !(is_blind(watch) && is_cheap(watch, 0)))
		return;
	look_again(watch, is_blind(watch), true, &watch->between);
	for (size_t i = had; i < watch->between.count; i++)
		watch->between.list[i].background = true;
}

void watch_cell_starts(struct watch *watch)
{
	watch->cell_had_first = has_first(watch);
	if (watch->cell_had_first)
		look_between(watch);
	watch->cell_ns = coarse_ns();
}

static void stop_at(struct changes *changes, enum manifest_stop stop)
{
	if (stop > changes->stop)
		changes->stop = stop;
}

/* The cell began before the first manifest was there. */
static void ended_early(struct watch *watch, int64_t ran_us, bool happened, struct changes *changes)
{
	stop_at(changes, STOP_BASELINE);
	if (has_first(watch))
		look_again(watch, false, false, changes);
	else if (happened || ran_us > WATCH_LOOK_US)
		look_by_times(watch, changes);
}

void watch_cell_ended(struct watch *watch, int64_t ran_us, struct changes *changes)
{
	bool happened = drain(watch), thorough;

	changes_append(changes, &watch->between);
	if (!watch->cell_had_first) {
		ended_early(watch, ran_us, happened, changes);
		return;
	}
	thorough = is_blind(watch) ? is_cheap(watch, ran_us)
				   : ran_us > THOROUGH_FACTOR * watch->full_us;
	if (happened || thorough)
		look_again(watch, thorough, true, changes);
	else
		stop_at(changes, is_blind(watch) ? STOP_UNWATCHED : watch->now->stop);
}

const struct changes *watch_between(struct watch *watch)
{
	if (has_first(watch))
		look_between(watch);
	return &watch->between;
}

int watch_root(const struct watch *watch)
{
	return watch->params.root;
}

bool watch_is_ready(struct watch *watch)
{
	return has_first(watch);
}

uint64_t watch_looks(const struct watch *watch)
{
	return watch->looks;
}
