/*
 * What the tests of this folder share: a directory of their own, files as strings, events in one
 * call.
 *
 * Included by *_test.c only, after cmocka.
 */
#ifndef FH_JOURNAL_KIT_H
#define FH_JOURNAL_KIT_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/cursor.h"
#include "journal/journal.h"

struct kit {
	char path[64];
	int dirfd;
};

static inline void kit_make(struct kit *kit)
{
	snprintf(kit->path, sizeof(kit->path), "/tmp/fumehood-test-XXXXXX");
	assert_non_null(mkdtemp(kit->path));
	kit->dirfd = open(kit->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(kit->dirfd >= 0);
}

static inline void kit_remove(struct kit *kit)
{
	close(kit->dirfd);
	assert_int_equal(file_remove_tree(AT_FDCWD, kit->path, NULL), 0);
}

static inline int kit_setup(void **state)
{
	struct kit *kit = mem_zalloc(sizeof(*kit));

	kit_make(kit);
	*state = kit;
	return 0;
}

static inline int kit_teardown(void **state)
{
	kit_remove(*state);
	free(*state);
	return 0;
}

/* A test with a directory of its own in *state. */
#define KIT_TEST(test) cmocka_unit_test_setup_teardown(test, kit_setup, kit_teardown)

static inline void kit_write(const struct kit *kit, const char *name, const void *bytes, size_t len)
{
	int fd = openat(kit->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, bytes, len, NULL), 0);
	close(fd);
}

static inline void kit_read(const struct kit *kit, const char *name, struct buf *out)
{
	buf_clear(out);
	assert_int_equal(file_read(kit->dirfd, name, (size_t)1 << 30, out, NULL), 0);
}

/* An event of `type` with the JSON text `body` (NULL: none). */
static inline struct event kit_event(enum event_type type, const char *cell, const char *body)
{
	struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string(cell);
	if (body) {
		event.body = json_parse(body, strlen(body), &JSON_LIMITS, NULL);
		assert_non_null(event.body);
	}
	return event;
}

static inline struct event kit_stream(const char *cell, const void *text, size_t len)
{
	struct event event = kit_event(EVENT_STREAM, cell, NULL);

	event.text = mem_copy(text, len);
	event.text_len = len;
	return event;
}

/* Appends and releases. */
static inline int kit_append(struct journal *journal, struct event event, struct err *err)
{
	int result = journal_append(journal, &event, err);

	event_release(&event);
	return result;
}

static inline void kit_append_session(struct journal *journal)
{
	assert_int_equal(
		kit_append(journal, kit_event(EVENT_SESSION, NULL, "{\"id\":\"s\"}"), NULL), 0);
}

static inline struct journal *kit_open(const struct kit *kit, struct journal_report *report)
{
	struct journal *journal = journal_open(kit->dirfd, JOURNAL_BYTES_MAX, report, NULL);

	assert_non_null(journal);
	return journal;
}

/* Events that a cursor finds in the file, which is to hold seq 1, 2, 3 ... and nothing damaged. */
static inline uint64_t kit_count(const struct kit *kit)
{
	struct cursor *cursor = cursor_open(kit->dirfd, 0, NULL);
	uint64_t count = 0;

	assert_non_null(cursor);
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		enum cursor_step step = cursor_next(cursor, &event, NULL);

		if (step == CURSOR_END)
			break;
		assert_int_equal(step, CURSOR_EVENT);
		assert_int_equal(event.seq, ++count);
	}
	cursor_free(cursor);
	return count;
}

/* A journal of `count` events: session, then streams "line N". */
static inline void kit_fill(const struct kit *kit, uint64_t count, size_t padding)
{
	struct journal *journal = journal_open(kit->dirfd, JOURNAL_BYTES_MAX, NULL, NULL);

	assert_non_null(journal);
	kit_append_session(journal);
	for (uint64_t seq = 2; seq <= count; seq++) {
		char *text =
			mem_format("line %llu %*s\n", (unsigned long long)seq, (int)padding, "");

		assert_int_equal(kit_append(journal, kit_stream("c1", text, strlen(text)), NULL),
				 0);
		free(text);
	}
	assert_int_equal(journal_seq(journal), count);
	journal_free(journal);
}

/* A small generator of its own (xorshift64*), so that a failing seed can be run again. */
static inline uint64_t kit_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

static inline void kit_random_text(uint64_t *state, struct buf *out, size_t points)
{
	static const char *const PIECES[] = {
		"a",
		"Z",
		" ",
		"\n",
		"\"",
		"\\",
		"\x1b[0m",
		"\t",
		"\x7f",
		"é",
		"€",
		"😀",
		"\xef\xbf\xbd",
		"/",
		"$",
		"{",
		"\x01",
		"\xe2\x80\xa8",
		"\r\n",
		"</script>",
	};

	while (points-- > 0) {
		uint64_t pick = kit_random(state) % (sizeof(PIECES) / sizeof(PIECES[0]) + 1);

		if (pick == sizeof(PIECES) / sizeof(PIECES[0]))
			buf_append_char(out, '\0');
		else
			buf_append_string(out, PIECES[pick]);
	}
}

/* A random value of JSON, with keys that look like links. */
static inline struct json *kit_random_json(uint64_t *state, unsigned depth)
{
	static const char *const KEYS[] = {
		"$blob",     "$$blob", "$$$blob", "blob",   "bytes", "mime", "text/plain",
		"image/png", "seq",    "é",       "$blob ", "",      "a\"b", "$",
	};
	cleanup_buf struct buf text = BUF_INIT;
	uint64_t pick = kit_random(state) % (depth > 0 ? 9 : 7);
	struct json *value;

	switch (pick) {
	case 0:
		return NULL;
	case 1:
		return json_new_bool(kit_random(state) & 1);
	case 2:
		return json_new_int((int64_t)kit_random(state));
	case 3:
		return json_new_double((double)(int64_t)kit_random(state) / 1e9);
	case 4:
		return json_parse("123456789012345678901234567890", 30, &JSON_LIMITS, NULL);
	case 5:
	case 6:
		kit_random_text(state, &text, kit_random(state) % 20);
		return json_new_string(buf_bytes(&text), text.len);
	case 7:
		value = json_new_array();
		for (uint64_t i = kit_random(state) % 5; i > 0; i--)
			json_push(value, kit_random_json(state, depth - 1));
		return value;
	default:
		value = json_new_object();
		for (uint64_t i = kit_random(state) % 6; i > 0; i--)
			json_set(value, KEYS[kit_random(state) % (sizeof(KEYS) / sizeof(KEYS[0]))],
				 kit_random_json(state, depth - 1));
		return value;
	}
}

static inline void kit_assert_same(const struct event *a, const struct event *b)
{
	assert_int_equal(a->seq, b->seq);
	assert_int_equal(a->t_us, b->t_us);
	assert_int_equal(a->type, b->type);
	assert_int_equal(!a->cell, !b->cell);
	if (a->cell)
		assert_string_equal(a->cell, b->cell);
	assert_int_equal(a->is_stderr, b->is_stderr);
	assert_int_equal(a->background, b->background);
	assert_int_equal(a->text_len, b->text_len);
	if (a->text_len > 0)
		assert_memory_equal(a->text, b->text, a->text_len);
	if (a->body && json_length(a->body) > 0)
		assert_true(json_equal(a->body, b->body));
	else
		assert_int_equal(json_length(b->body), 0);
}

#endif
