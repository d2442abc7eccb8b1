/* The record: what is merged, what is ordered, and what a full disk does to it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "journal/cursor.h"
#include "keeper/kit.h"
#include "keeper/record.h"

struct scene {
	struct kit kit;
	struct record *record;
	unsigned appended;
	unsigned replayed;
	unsigned images;
	unsigned syncs_begun, syncs_ended, syncs_failed;
	int full; /* -1: never, else the last word */
	bool closed;
};

static void on_appended(void *data)
{
	((struct scene *)data)->appended++;
}

static void on_full(void *data, bool full)
{
	((struct scene *)data)->full = full;
}

static void on_sync_began(void *data)
{
	((struct scene *)data)->syncs_begun++;
}

static void on_sync_ended(void *data, const struct err *err)
{
	struct scene *scene = data;

	scene->syncs_ended++;
	scene->syncs_failed += err != NULL;
}

static unsigned on_image(void *data, const char *cell)
{
	(void)cell;
	return ++((struct scene *)data)->images;
}

static void on_replayed(void *data, const struct event *event)
{
	(void)event;
	((struct scene *)data)->replayed++;
}

static const struct record_events EVENTS = {
	.appended = on_appended,
	.sync_began = on_sync_began,
	.sync_ended = on_sync_ended,
	.full = on_full,
	.image = on_image,
	.replayed = on_replayed,
};

static void record_begin(struct scene *scene)
{
	struct journal_report report;

	scene->record = record_open(&scene->kit.loop, scene->kit.fd, JOURNAL_BYTES_MAX, &EVENTS,
				    scene, &report, NULL);
	assert_non_null(scene->record);
}

static void on_closed(void *data, const struct err *err)
{
	assert_null(err);
	((struct scene *)data)->closed = true;
}

static bool is_closed(void *data)
{
	return ((struct scene *)data)->closed;
}

static void record_end(struct scene *scene)
{
	scene->closed = false;
	record_close(scene->record, on_closed, scene);
	kit_run_until(&scene->kit, is_closed, scene);
	record_free(scene->record);
	scene->record = NULL;
}

static void scene_open(struct scene *scene)
{
	struct json *body = json_new_object();

	*scene = (struct scene){.full = -1};
	kit_open(&scene->kit, "record_test");
	record_begin(scene);
	json_set_int(body, "format", EVENT_FORMAT);
	record_body(scene->record, EVENT_SESSION, NULL, body);
	body = json_new_object();
	json_set_string(body, "code", "pass");
	record_body(scene->record, EVENT_CELL, "c1", body);
}

static void scene_close(struct scene *scene)
{
	record_end(scene);
	kit_close(&scene->kit);
}

static void stream(struct scene *scene, bool is_stderr, const char *text)
{
	record_stream(scene->record, "c1", is_stderr, false, text, strlen(text));
}

/* Reads the whole journal: "type:text" of each event behind the first two. */
static char *told(const struct scene *scene)
{
	struct cursor *cursor = cursor_open(scene->kit.fd, 2, NULL);
	struct buf out = BUF_INIT;

	for (;;) {
		cleanup_event struct event event = EVENT_INIT;

		if (cursor_next(cursor, &event, NULL) != CURSOR_EVENT)
			break;
		buf_printf(&out, "%s%s:%s|", event_type_name(event.type),
			   event.is_stderr ? "2" : "", event.text ? event.text : "");
	}
	cursor_free(cursor);
	return buf_take(&out, NULL);
}

static void streams_are_merged(void **state)
{
	struct scene scene;
	cleanup_free char *text = NULL;

	(void)state;
	scene_open(&scene);
	stream(&scene, false, "a");
	stream(&scene, false, "b");
	stream(&scene, true, "c");
	stream(&scene, false, "d");
	record_body(scene.record, EVENT_CLEAR, "c1", NULL);
	stream(&scene, false, "e");
	record_flush(scene.record);
	stream(&scene, false, "f");
	record_flush(scene.record);
	text = told(&scene);
	assert_string_equal(text, "stream:ab|stream2:c|stream:d|clear:|stream:e|stream:f|");
	scene_close(&scene);
}

/* Pieces of at most 64 KiB, cut between code points. */
static void long_text_is_cut(void **state)
{
	struct scene scene;
	cleanup_buf struct buf text = BUF_INIT;
	struct cursor *cursor;
	size_t total = 0;

	(void)state;
	scene_open(&scene);
	for (int i = 0; i < 100000; i++)
		buf_append_string(&text, "\xe6\x9d\xb1"); /* three bytes */
	record_stream(scene.record, "c1", false, false, buf_bytes(&text), text.len);
	record_flush(scene.record);
	cursor = cursor_open(scene.kit.fd, 2, NULL);
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;

		if (cursor_next(cursor, &event, NULL) != CURSOR_EVENT)
			break;
		assert_true(event.text_len <= EVENT_STREAM_BYTES_MAX);
		assert_int_equal(event.text_len % 3, 0);
		total += event.text_len;
	}
	cursor_free(cursor);
	assert_int_equal(total, text.len);
	scene_close(&scene);
}

static void replays_when_reopened(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	stream(&scene, false, "kept");
	record_end(&scene);
	record_begin(&scene);
	assert_int_equal(scene.replayed, 3);
	assert_int_equal(notebook_cell_count(record_notebook(scene.record)), 1);
	scene_close(&scene);
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static bool is_not_full(void *data)
{
	return ((struct scene *)data)->full == 0;
}

/* Writing fails (here by a file size limit, which fails as a full disk does): nothing is told,
 * nothing is lost, order is kept. */
static void full_disk_holds_events(void **state)
{
	struct scene scene;
	unsigned before;
	cleanup_free char *text = NULL;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	scene_open(&scene);
	before = scene.appended;
	limit_file_size(0);
	stream(&scene, false, "held");
	record_flush(scene.record);
	assert_int_equal(scene.full, 1);
	assert_true(record_is_full(scene.record));
	record_body(scene.record, EVENT_CLEAR, "c1", NULL);
	assert_int_equal(scene.appended, before);
	limit_file_size(RLIM_INFINITY);
	kit_run_until(&scene.kit, is_not_full, &scene);
	text = told(&scene);
	assert_string_equal(text, "stream:held|clear:|");
	scene_close(&scene);
}

static bool is_synced(void *data)
{
	const struct scene *scene = data;

	return scene->syncs_begun > 0 && scene->syncs_ended == scene->syncs_begun;
}

/* Makes a sync and waits for its end, and for that of those that were asked for meanwhile. */
static void sync_now(struct scene *scene)
{
	scene->syncs_begun = scene->syncs_ended = 0;
	record_sync_now(scene->record);
	kit_run_until(&scene->kit, is_synced, scene);
}

/* The descriptor under which this process has the journal open. */
static int journal_descriptor(void)
{
	for (int fd = 3; fd < 256; fd++) {
		char path[64], target[128];
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target));
		if (len > 15 && memcmp(target + len - 15, "/journal.ndjson", 15) == 0)
			return fd;
	}
	fail_msg("the journal is not open");
	return -1;
}

/* A sync covers what was there at its beginning; one that fails is told, each time. */
static void syncs_are_told(void **state)
{
	struct scene scene;
	int fd, kept, ends[2];

	(void)state;
	scene_open(&scene);
	sync_now(&scene);
	assert_int_equal(scene.syncs_ended, 1);
	record_sync_now(scene.record); /* under way ... */
	scene.syncs_begun = 1;
	scene.syncs_ended = 0;
	record_sync_now(scene.record); /* ... so these two share another */
	record_sync_now(scene.record);
	kit_run_until(&scene.kit, is_synced, &scene);
	assert_int_equal(scene.syncs_ended, 2);
	assert_int_equal(scene.syncs_failed, 0);
	/* What cannot be synced (EINVAL, fsync(2)) stands in for a disk that has failed. */
	fd = journal_descriptor();
	kept = dup(fd);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[0], fd), fd);
	sync_now(&scene);
	assert_int_equal(scene.syncs_failed, 1);
	assert_int_equal(dup2(kept, fd), fd);
	sync_now(&scene);
	assert_int_equal(scene.syncs_failed, 1);
	close(kept);
	close(ends[0]);
	close(ends[1]);
	scene_close(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_are_merged),    cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(replays_when_reopened), cmocka_unit_test(full_disk_holds_events),
		cmocka_unit_test(syncs_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
