/* Blobs, and the links between them and the lines. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>

#include "base/hash.h"
#include "journal/kit.h"

static size_t count_blobs(const struct kit *kit)
{
	int fd = openat(kit->dirfd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t count = 0;
	DIR *blobs;

	assert_true(fd >= 0);
	blobs = fdopendir(fd);
	assert_non_null(blobs);
	while (readdir(blobs))
		count++;
	closedir(blobs);
	return count - 2; /* . and .. */
}

static struct json *long_string(char fill, size_t len)
{
	char *text = mem_zalloc(len);
	struct json *value;

	memset(text, fill, len);
	value = json_new_string(text, len);
	free(text);
	return value;
}

static void test_put_and_read(void **state)
{
	const struct kit *kit = *state;
	char hex[65], again[65];
	cleanup_buf struct buf out = BUF_INIT;
	uint64_t total = 0;

	assert_int_equal(blob_put(kit->dirfd, "hello\0world", 11, hex, NULL), 0);
	assert_int_equal(blob_put(kit->dirfd, "hello\0world", 11, again, NULL), 0);
	assert_string_equal(hex, again);
	assert_int_equal(count_blobs(kit), 1);
	for (uint64_t offset = 0; offset < 14; offset++) {
		for (uint64_t length = 0; length < 14; length++) {
			uint64_t from = offset < 11 ? offset : 11;
			uint64_t expected = length < 11 - from ? length : 11 - from;

			buf_clear(&out);
			assert_int_equal(
				blob_read(kit->dirfd, hex, offset, length, &out, &total, NULL), 0);
			assert_int_equal(total, 11);
			assert_int_equal(out.len, expected);
			assert_memory_equal(buf_bytes(&out), &"hello\0world"[from], expected);
		}
	}
	buf_clear(&out);
	assert_int_equal(blob_read(kit->dirfd, hex, UINT64_MAX, UINT64_MAX, &out, NULL, NULL), 0);
	assert_int_equal(blob_read(kit->dirfd, hex, 0, UINT64_MAX, &out, NULL, NULL), 0);
	assert_int_equal(out.len, 11);
	assert_int_equal(blob_put(kit->dirfd, "", 0, hex, NULL), 0);
	assert_int_equal(blob_read(kit->dirfd, hex, 0, 9, &out, &total, NULL), 0);
	assert_int_equal(total, 0);
}

static void check_refused(const struct kit *kit, const char *hex, enum err_code code)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(blob_read(kit->dirfd, hex, 0, 100, &out, NULL, &err), -1);
	assert_int_equal(err.code, code);
	assert_int_equal(out.len, 0);
}

static void test_refused(void **state)
{
	const struct kit *kit = *state;
	char hex[65], path[80];

	kit_write(kit, "secret", "x", 1);
	assert_int_equal(blob_put(kit->dirfd, "a", 1, hex, NULL), 0);
	check_refused(kit, "", ERR_INVALID);
	check_refused(kit, "../journal.ndjson", ERR_INVALID);
	hex[0] = 'A';
	check_refused(kit, hex, ERR_INVALID);
	memset(hex, '0', 64);
	check_refused(kit, hex, ERR_NOT_FOUND);

	/* Something else in a blob's place leads nowhere and blocks nobody. */
	snprintf(path, sizeof(path), "blobs/%s", hex);
	assert_int_equal(symlinkat("../secret", kit->dirfd, path), 0);
	check_refused(kit, hex, ERR_NOT_FOUND);
	hex[0] = '1';
	snprintf(path, sizeof(path), "blobs/%s", hex);
	assert_int_equal(mkfifoat(kit->dirfd, path, 0600), 0);
	check_refused(kit, hex, ERR_NOT_FOUND);
	hex[0] = '2';
	snprintf(path, sizeof(path), "blobs/%s", hex);
	assert_int_equal(mkdirat(kit->dirfd, path, 0700), 0);
	check_refused(kit, hex, ERR_NOT_FOUND);
}

static void test_damaged_file_is_replaced(void **state)
{
	const struct kit *kit = *state;
	cleanup_buf struct buf out = BUF_INIT;
	char hex[65], path[80];

	assert_int_equal(blob_put(kit->dirfd, "abc", 3, hex, NULL), 0);
	snprintf(path, sizeof(path), "blobs/%s", hex);
	kit_write(kit, path, "", 0);
	assert_int_equal(blob_put(kit->dirfd, "abc", 3, hex, NULL), 0);
	assert_int_equal(blob_read(kit->dirfd, hex, 0, 9, &out, NULL, NULL), 0);
	assert_string_equal(buf_bytes(&out), "abc");
}

/* Appends the event, reads it back, and checks that inlining gives what was appended. */
static void check_round_trip(const struct kit *kit, struct event event)
{
	struct journal *journal = journal_open(kit->dirfd, JOURNAL_BYTES_MAX, NULL, NULL);
	cleanup_event struct event again = EVENT_INIT;
	cleanup_json struct json *before = json_copy(event.body);
	struct cursor *cursor;
	bool inlined;

	assert_non_null(journal);
	if (journal_seq(journal) == 0)
		kit_append_session(journal);
	assert_int_equal(journal_append(journal, &event, NULL), 0);
	assert_true(json_equal(before, event.body));
	cursor = cursor_open(kit->dirfd, event.seq - 1, NULL);
	assert_non_null(cursor);
	assert_int_equal(cursor_next(cursor, &again, NULL), CURSOR_EVENT);
	assert_int_equal(event_inline(kit->dirfd, &again, UINT64_MAX, &inlined, NULL), 0);
	kit_assert_same(&event, &again);
	cursor_free(cursor);
	journal_free(journal);
	event_release(&event);
}

static void test_links(void **state)
{
	const struct kit *kit = *state;
	struct event event =
		kit_event(EVENT_DISPLAY, "c1", "{\"data\":{\"text/plain\":\"<Figure>\"}}");
	struct json *data = json_get(event.body, "data");
	cleanup_buf struct buf file = BUF_INIT;

	json_set(data, "image/png", long_string('A', EVENT_INLINE_BYTES_MAX + 1));
	json_set(data, "text/html", long_string('<', EVENT_INLINE_BYTES_MAX));
	json_set(data, "application/json", long_string('j', 100000));
	check_round_trip(kit, event);
	assert_int_equal(count_blobs(kit), 2);
	kit_read(kit, "journal.ndjson", &file);
	assert_true(file.len < EVENT_INLINE_BYTES_MAX + 2000);
	assert_non_null(strstr(buf_bytes(&file), "\"bytes\":65537,\"mime\":\"image/png\"}"));
	assert_non_null(strstr(buf_bytes(&file), "\"bytes\":100000,\"mime\":\"text/plain\"}"));

	event = kit_event(EVENT_CELL, "c2", "{\"origin\":\"api\"}");
	json_set(event.body, "code", long_string('#', 70000));
	check_round_trip(kit, event);
	assert_int_equal(count_blobs(kit), 3);
}

static void test_long_json(void **state)
{
	const struct kit *kit = *state;
	struct event event = kit_event(EVENT_FINISHED, "c1", "{\"status\":\"ok\",\"files\":[]}");
	struct json *data = json_new_object();
	struct json *plot = json_new_array();

	for (int i = 0; i < 5000; i++) {
		struct json *file = json_new_object();

		json_set_string(file, "path", "a/long/path");
		json_set_int(file, "$blob", i);
		json_push(json_get(event.body, "files"), file);
		json_push(plot, json_parse("[1.50,{\"$$blob\":null}]", 22, &JSON_LIMITS, NULL));
	}
	check_round_trip(kit, event);
	assert_int_equal(count_blobs(kit), 1);

	event = kit_event(EVENT_DISPLAY, "c1", NULL);
	event.body = json_new_object();
	json_set(event.body, "data", data);
	json_set(data, "application/vnd.plotly.v1+json", plot);
	check_round_trip(kit, event);
	assert_int_equal(count_blobs(kit), 2);
}

/* One event makes few blobs, whatever the guest puts into a bundle. */
static void test_many_members(void **state)
{
	const struct kit *kit = *state;
	struct event event = kit_event(EVENT_DISPLAY, "c1", NULL);
	struct json *data = json_new_object();
	cleanup_buf struct buf file = BUF_INIT;

	for (int i = 0; i < 100; i++) {
		char *key = mem_format("text/%d", i);

		json_set(data, key, long_string((char)('0' + i), 66000));
		free(key);
	}
	event.body = json_new_object();
	json_set(event.body, "data", data);
	check_round_trip(kit, event);
	assert_int_equal(count_blobs(kit), 1);
	kit_read(kit, "journal.ndjson", &file);
	assert_true(file.len < 2000);

	/* Long keys make a bundle long, too; and a mime type is no place for them. */
	event = kit_event(EVENT_DISPLAY, "c1", NULL);
	data = json_new_object();
	event.body = json_new_object();
	json_set(event.body, "data", data);
	for (int i = 0; i < 20; i++) {
		char *key = mem_format("%d/%0*d", i, 200000, 0);

		json_set(data, key, long_string('x', 66000));
		free(key);
	}
	check_round_trip(kit, event);
	kit_read(kit, "journal.ndjson", &file);
	assert_true(file.len < 4000);
}

static void test_escapes(void **state)
{
	static const char *const BODIES[] = {
		"{\"data\":{\"$blob\":\"x\"}}",
		"{\"data\":{\"application/"
		"json\":{\"$blob\":\"0000000000000000000000000000000000000000000000"
		"000000000000000000\",\"bytes\":1,\"mime\":\"text/plain\"}}}",
		"{\"data\":{\"application/"
		"json\":[[{\"$blob\":{\"$$blob\":{\"$$$blob\":[{\"$blob\":1}]}}}]]}}",
		"{\"metadata\":{\"$blob\":\"a\",\"$$blob\":\"b\",\"blob\":\"c\",\"$blobs\":\"d\","
		"\"x$blob\":1}}",
		"{\"data\":{\"$blob\\u0000\":1,\"$blob\":2,\"$blob\\u0000x\":{\"$blob\":3},"
		"\"\\u0000\":4}}",
		"{\"$blob\":\"0000000000000000000000000000000000000000000000000000000000000000\"}",
	};
	const struct kit *kit = *state;
	cleanup_buf struct buf file = BUF_INIT;

	for (size_t i = 0; i < sizeof(BODIES) / sizeof(BODIES[0]); i++)
		check_round_trip(kit, kit_event(EVENT_DISPLAY, "c1", BODIES[i]));
	kit_read(kit, "journal.ndjson", &file);
	assert_null(strstr(buf_bytes(&file), "\"$blob\":"));
	assert_non_null(
		strstr(buf_bytes(&file), "\"$$blob\":\"a\",\"$$$blob\":\"b\",\"blob\":\"c\""));
	assert_int_equal(count_blobs(kit), 0);
}

/* Links and escapes in one bundle, also under a key with NUL in it. */
static void test_mixed(void **state)
{
	static const char HEAD[] = "{\"data\":{\"$blob\":{\"$blob\":1},\"a\\u0000/b\":\"";
	static const char TAIL[] = "\",\"image/png\":[1.10]},\"metadata\":{\"$$blob\":null}}";
	cleanup_buf struct buf body = BUF_INIT;

	buf_append_string(&body, HEAD);
	for (int i = 0; i < 70000; i++)
		buf_append_char(&body, 'n');
	buf_append_string(&body, TAIL);
	check_round_trip(*state, kit_event(EVENT_DISPLAY, "c1", buf_bytes(&body)));
	assert_int_equal(count_blobs(*state), 1);
}

static void test_random(void **state)
{
	const struct kit *kit = *state;
	uint64_t seed = 4711;

	for (int i = 0; i < 300; i++) {
		struct event event = kit_event(EVENT_RESULT, "c1", NULL);
		struct json *data = json_new_object();

		event.body = json_new_object();
		json_set(event.body, "data", data);
		json_set(event.body, "metadata", kit_random_json(&seed, 8));
		json_set(data, "application/json", kit_random_json(&seed, 8));
		json_set(data, "$blob", kit_random_json(&seed, 2));
		if (kit_random(&seed) % 8 == 0)
			json_set(data, "text/html", long_string('h', kit_random(&seed) % 200000));
		if (kit_random(&seed) % 8 == 0) {
			struct json *list = json_new_array();

			for (int k = 0; k < 3000; k++)
				json_push(list, kit_random_json(&seed, 3));
			json_set(data, "application/geo+json", list);
		}
		check_round_trip(kit, event);
	}
}

/* Stores two values of 100,000 bytes and gives the event as it is read. */
static struct event stored_pair(const struct kit *kit)
{
	struct journal *journal = journal_open(kit->dirfd, JOURNAL_BYTES_MAX, NULL, NULL);
	struct event event = kit_event(EVENT_DISPLAY, "c1", "{\"data\":{}}");
	struct event again = EVENT_INIT;
	struct cursor *cursor;

	kit_append_session(journal);
	json_set(json_get(event.body, "data"), "text/html", long_string('a', 100000));
	json_set(json_get(event.body, "data"), "image/png", long_string('b', 100000));
	assert_int_equal(kit_append(journal, event, NULL), 0);
	journal_free(journal);
	cursor = cursor_open(kit->dirfd, 1, NULL);
	assert_int_equal(cursor_next(cursor, &again, NULL), CURSOR_EVENT);
	cursor_free(cursor);
	return again;
}

static void test_inline_limit(void **state)
{
	const struct kit *kit = *state;
	cleanup_event struct event event = stored_pair(kit);
	const struct json *data;
	bool inlined = true;

	assert_int_equal(event_inline(kit->dirfd, &event, 99999, &inlined, NULL), 0);
	assert_false(inlined);
	assert_int_equal(event_inline(kit->dirfd, &event, 199999, &inlined, NULL), 0);
	assert_true(inlined);
	data = json_get(event.body, "data");
	assert_int_equal(json_type_of(json_get(data, "text/html")), JSON_STRING);
	assert_int_equal(json_type_of(json_get(data, "image/png")), JSON_OBJECT);
	assert_int_equal(event_inline(kit->dirfd, &event, 199999, NULL, NULL), 0);
	assert_int_equal(json_type_of(json_get(json_get(event.body, "data"), "image/png")),
			 JSON_STRING);
	assert_int_equal(event_inline(kit->dirfd, &event, 199999, &inlined, NULL), 0);
	assert_false(inlined);
}

static void test_lost_blobs(void **state)
{
	const struct kit *kit = *state;
	cleanup_event struct event event = stored_pair(kit);
	const struct json *data = json_get(event.body, "data");
	cleanup_free char *html = mem_string(json_get_string(json_get(data, "text/html"), "$blob"));
	cleanup_free char *png = mem_string(json_get_string(json_get(data, "image/png"), "$blob"));
	cleanup_free char *gone = mem_format("blobs/%s", html);
	cleanup_free char *cut = mem_format("blobs/%s", png);
	cleanup_free char *gone_text = mem_format("(missing blob %s)", html);
	cleanup_free char *cut_text = mem_format("(damaged blob %s)", png);
	bool inlined = false;

	assert_int_equal(unlinkat(kit->dirfd, gone, 0), 0);
	kit_write(kit, cut, "bbb", 3);
	assert_int_equal(event_inline(kit->dirfd, &event, UINT64_MAX, &inlined, NULL), 0);
	assert_true(inlined);
	data = json_get(event.body, "data");
	assert_string_equal(json_get_string(data, "text/html"), gone_text);
	assert_string_equal(json_get_string(data, "image/png"), cut_text);
}

static void test_no_json_in_blob(void **state)
{
	const struct kit *kit = *state;
	cleanup_event struct event event = EVENT_INIT;
	char hex[65];
	char *body;

	assert_int_equal(blob_put(kit->dirfd, "{\"a\":", 5, hex, NULL), 0);
	body = mem_format("{\"x\":{\"$blob\":\"%s\",\"bytes\":5,\"mime\":\"application/json\"}}",
			  hex);
	event = kit_event(EVENT_NOTE, NULL, body);
	free(body);
	assert_int_equal(event_inline(kit->dirfd, &event, 100, NULL, NULL), 0);
	assert_non_null(strstr(json_get_string(event.body, "x"), "(damaged blob "));
}

/* What is on disk counts towards the limit, and a survey finds it again. */
static void test_counted(void **state)
{
	const struct kit *kit = *state;
	struct event event = stored_pair(kit);
	struct journal *journal;
	struct err err = ERR_INIT;
	uint64_t bytes;

	event_release(&event);
	kit_write(kit, "blobs/left-over.tmp", "xyz", 3);
	journal = journal_open(kit->dirfd, 400000, NULL, NULL);
	assert_non_null(journal);
	assert_int_equal(count_blobs(kit), 2);
	bytes = journal_bytes(journal);
	assert_true(bytes > 200000 && bytes < 202000);

	/* The same value again costs its line only; a new one does not fit. */
	event = kit_event(EVENT_DISPLAY, "c1", "{\"data\":{}}");
	json_set(json_get(event.body, "data"), "text/html", long_string('a', 100000));
	assert_int_equal(kit_append(journal, event, NULL), 0);
	assert_true(journal_bytes(journal) < bytes + 500);
	event = kit_event(EVENT_DISPLAY, "c1", "{\"data\":{}}");
	json_set(json_get(event.body, "data"), "text/html", long_string('c', 150000));
	assert_int_equal(kit_append(journal, event, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(journal_seq(journal), 3);
	journal_free(journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(test_put_and_read),
		KIT_TEST(test_refused),
		KIT_TEST(test_damaged_file_is_replaced),
		KIT_TEST(test_links),
		KIT_TEST(test_long_json),
		KIT_TEST(test_many_members),
		KIT_TEST(test_escapes),
		KIT_TEST(test_mixed),
		KIT_TEST(test_random),
		KIT_TEST(test_inline_limit),
		KIT_TEST(test_lost_blobs),
		KIT_TEST(test_no_json_in_blob),
		KIT_TEST(test_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
