/* The journal: what is appended is read; torn ends, formats, a writer that is killed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "journal/kit.h"

static void test_fresh(void **state)
{
	const struct kit *kit = *state;
	struct journal_report report;
	struct journal *journal = kit_open(kit, &report);
	struct event event = kit_event(EVENT_SESSION, NULL, NULL);
	cleanup_buf struct buf file = BUF_INIT;
	const char *line;
	size_t len;
	int64_t now = clock_wall_us();

	assert_true(report.fresh);
	assert_int_equal(report.seq + report.damaged + report.torn_bytes, 0);
	assert_int_equal(journal_bytes(journal), 0);
	journal_last_line(journal, &len);
	assert_int_equal(len, 0);
	assert_int_equal(journal_append(journal, &event, NULL), 0);
	assert_int_equal(event.seq, 1);
	assert_true(event.t_us >= now && event.t_us <= clock_wall_us());
	assert_int_equal(json_get_int(event.body, "format", 0), EVENT_FORMAT);
	event_release(&event);
	assert_int_equal(kit_append(journal, kit_stream("c1", "a", 1), NULL), 0);
	assert_int_equal(journal_seq(journal), 2);

	kit_read(kit, "journal.ndjson", &file);
	assert_int_equal(journal_bytes(journal), file.len);
	line = journal_last_line(journal, &len);
	assert_memory_equal(line, buf_bytes(&file) + file.len - len, len);
	assert_int_equal(journal_place(journal, 1), file.len - len);
	assert_int_equal(journal_place(journal, 2), file.len);
	assert_int_equal(journal_place(journal, 3), 0);
	assert_non_null(strstr(line, "\"text\":\"a\"}\n"));
	assert_int_equal(journal_sync(journal, NULL), 0);
	assert_int_equal(journal_sync(journal, NULL), 0);
	journal_free(journal);

	journal = kit_open(kit, &report);
	assert_false(report.fresh);
	assert_int_equal(report.seq, 2);
	assert_int_equal(journal_place(journal, 2), 0); /* it was another's */
	assert_true(report.t_us >= now);
	assert_int_equal(report.torn_bytes, 0);
	assert_int_equal(kit_append(journal, kit_event(EVENT_STOPPED, NULL, NULL), NULL), 0);
	journal_free(journal);
	journal_free(NULL);
	assert_int_equal(kit_count(kit), 3);
}

/* Whoever has let go of the session leaves the file as it is, whatever the next one has written. */
static void test_sealed(void **state)
{
	const struct kit *kit = *state;
	struct journal *old = kit_open(kit, NULL), *next;
	cleanup_buf struct buf file = BUF_INIT;
	struct err err = ERR_INIT;
	const char *line;
	size_t len;

	assert_int_equal(kit_append(old, kit_event(EVENT_SESSION, NULL, NULL), NULL), 0);
	assert_int_equal(kit_append(old, kit_event(EVENT_STOPPED, NULL, NULL), NULL), 0);
	journal_seal(old);
	next = kit_open(kit, NULL);
	assert_int_equal(kit_append(next, kit_stream("c1", "later", 5), NULL), 0);

	assert_int_equal(kit_append(old, kit_stream("c1", "late", 4), &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_int_equal(journal_retry_space(old, NULL), -1);
	journal_seal(old);
	line = journal_last_line(old, &len);
	assert_non_null(memmem(line, len, "stopped", 7));
	journal_free(old);

	assert_int_equal(kit_append(next, kit_stream("c1", "on", 2), NULL), 0);
	kit_read(kit, "journal.ndjson", &file);
	assert_int_equal(journal_bytes(next), file.len);
	journal_free(next);
	assert_int_equal(kit_count(kit), 4);
}

/* Bad text is repaired in the line, and counted. */
static void test_repaired(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = kit_open(kit, NULL);

	kit_append_session(journal);
	assert_int_equal(journal_repaired(journal), 0);
	assert_int_equal(kit_append(journal, kit_stream("c1", "a\xff\xed\xa0\x80z", 6), NULL), 0);
	assert_int_equal(journal_repaired(journal), 2);
	journal_free(journal);
	assert_int_equal(kit_count(kit), 2);
}

/* The clock may be set back; `t` stays. */
static void test_time(void **state)
{
	static const char LINE[] = "{\"seq\":1,\"t\":\"2199-01-01T00:00:00.000000Z\",\"type\":"
				   "\"session\",\"format\":1}\n";
	const struct kit *kit = *state;
	struct journal_report report;
	struct journal *journal;
	struct event event = kit_event(EVENT_NOTE, NULL, NULL);

	kit_write(kit, "journal.ndjson", LINE, sizeof(LINE) - 1);
	journal = kit_open(kit, &report);
	assert_int_equal(report.t_us, clock_parse("2199-01-01T00:00:00.000000Z"));
	for (uint64_t seq = 2; seq < 5; seq++) {
		assert_int_equal(journal_append(journal, &event, NULL), 0);
		assert_int_equal(event.seq, seq);
		assert_int_equal(event.t_us, report.t_us);
	}
	event_release(&event);
	journal_free(journal);
}

/* The file cut anywhere: whole lines stay, the rest goes, and the journal goes on. */
static void test_cut_everywhere(void **state)
{
	const struct kit *kit = *state;
	cleanup_buf struct buf file = BUF_INIT;

	kit_fill(kit, 6, 0);
	kit_read(kit, "journal.ndjson", &file);
	for (size_t len = 0; len <= file.len; len++) {
		uint64_t whole = 0;
		size_t end = 0;
		struct journal_report report;
		struct journal *journal;
		struct event event = kit_event(EVENT_SESSION, NULL, NULL);

		for (size_t i = 0; i < len; i++) {
			if (buf_bytes(&file)[i] == '\n') {
				whole++;
				end = i + 1;
			}
		}
		kit_write(kit, "journal.ndjson", buf_bytes(&file), len);
		assert_int_equal(kit_count(kit), whole);
		journal = kit_open(kit, &report);
		assert_int_equal(report.seq, whole);
		assert_int_equal(report.torn_bytes, len - end);
		assert_int_equal(report.damaged, 0);
		assert_int_equal(report.fresh, whole == 0);
		assert_int_equal(journal_append(journal, &event, NULL), 0);
		assert_int_equal(event.seq, whole + 1);
		event_release(&event);
		journal_free(journal);
		assert_int_equal(kit_count(kit), whole + 1);
	}
}

/* A torn last line may have its LF, and look like an event at first sight. */
static void test_torn_lines(void **state)
{
	static const char *const TORN[] = {
		"\n",
		"x\n",
		"{\"seq\":4\n",
		"{\"seq\":4,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":\"note\"\n",
		"{\"seq\":4,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":\"note\",\"x\":tru}\n",
		"{\"seq\":4,\"t\":\"2026-99-29T17:16:54.123456Z\",\"type\":\"note\"}\n",
		"{\"seq\":3,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":\"note\"}\n",
	};
	const struct kit *kit = *state;

	for (size_t i = 0; i < sizeof(TORN) / sizeof(TORN[0]); i++) {
		cleanup_buf struct buf file = BUF_INIT;
		struct journal_report report;
		struct journal *journal;

		assert_true(unlinkat(kit->dirfd, "journal.ndjson", 0) == 0 || i == 0);
		kit_fill(kit, 3, 0);
		kit_read(kit, "journal.ndjson", &file);
		buf_append_string(&file, TORN[i]);
		kit_write(kit, "journal.ndjson", buf_bytes(&file), file.len);
		journal = kit_open(kit, &report);
		assert_int_equal(report.seq, 3);
		assert_true(report.t_us > 0);
		assert_int_equal(report.torn_bytes, strlen(TORN[i]));
		assert_int_equal(report.damaged, 0);
		assert_int_equal(kit_append(journal, kit_event(EVENT_NOTE, NULL, NULL), NULL), 0);
		journal_free(journal);
		assert_int_equal(kit_count(kit), 4);
	}
}

static void test_damaged_middle(void **state)
{
	const struct kit *kit = *state;
	cleanup_buf struct buf file = BUF_INIT;
	struct journal_report report;
	struct journal *journal;

	kit_fill(kit, 9, 0);
	kit_read(kit, "journal.ndjson", &file);
	*strstr(file.data, "{\"seq\":4,") = ' ';
	*strstr(file.data, "{\"seq\":7,") = '\0';
	kit_write(kit, "journal.ndjson", buf_bytes(&file), file.len);
	journal = kit_open(kit, &report);
	assert_int_equal(report.seq, 9);
	assert_int_equal(report.damaged, 2);
	assert_int_equal(report.torn_bytes, 0);
	assert_int_equal(kit_append(journal, kit_event(EVENT_NOTE, NULL, NULL), NULL), 0);
	assert_int_equal(journal_seq(journal), 10);
	assert_int_equal(journal_bytes(journal) > file.len, true);
	journal_free(journal);
}

/* A damaged first line costs the session its first line, not its journal. */
static void test_damaged_first(void **state)
{
	const struct kit *kit = *state;
	cleanup_buf struct buf file = BUF_INIT;
	struct journal_report report;

	kit_fill(kit, 4, 0);
	kit_read(kit, "journal.ndjson", &file);
	for (size_t at = 0; file.data[at] != '\n'; at += 5) {
		char kept = file.data[at];

		file.data[at] = '\x01';
		kit_write(kit, "journal.ndjson", buf_bytes(&file), file.len);
		file.data[at] = kept;
		journal_free(kit_open(kit, &report));
		assert_int_equal(report.seq, 4);
		assert_int_equal(report.damaged, 1);
	}
}

static void check_no_journal(const struct kit *kit, const char *bytes)
{
	cleanup_buf struct buf file = BUF_INIT;
	struct journal_report report = {.seq = 77};
	struct err err = ERR_INIT;

	kit_write(kit, "journal.ndjson", bytes, strlen(bytes));
	assert_null(journal_open(kit->dirfd, JOURNAL_BYTES_MAX, &report, &err));
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(report.seq, 77);
	kit_read(kit, "journal.ndjson", &file);
	assert_string_equal(buf_bytes(&file), bytes);
}

static void test_no_journal(void **state)
{
	const struct kit *kit = *state;
	struct err err = ERR_INIT;

#define HEAD "{\"seq\":1,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":"
	check_no_journal(kit, HEAD "\"session\",\"format\":2}\n" HEAD "\"torn");
	check_no_journal(kit, HEAD "\"session\",\"format\":0}\n");
	check_no_journal(kit, HEAD "\"session\",\"format\":\"1\"}\n");
	check_no_journal(kit, HEAD "\"session\"}\n");
	check_no_journal(kit, HEAD "\"note\",\"format\":1}\n");
	check_no_journal(kit, "a letter\nof two lines\nand more\n");
#undef HEAD
	assert_int_equal(unlinkat(kit->dirfd, "journal.ndjson", 0), 0);
	assert_int_equal(symlinkat("elsewhere", kit->dirfd, "journal.ndjson"), 0);
	assert_null(journal_open(kit->dirfd, JOURNAL_BYTES_MAX, NULL, &err));
	assert_int_equal(faccessat(kit->dirfd, "elsewhere", F_OK, 0), -1);
}

static struct event random_event(uint64_t *seed)
{
	struct event event = EVENT_INIT;
	cleanup_buf struct buf text = BUF_INIT;

	event.type = (enum event_type)(kit_random(seed) % EVENT_TYPE_COUNT);
	event.cell = kit_random(seed) & 1 ? mem_string("c-17") : NULL;
	if (event.type == EVENT_STREAM) {
		kit_random_text(seed, &text, kit_random(seed) % 3000);
		event.text = buf_take(&text, &event.text_len);
		event.is_stderr = kit_random(seed) & 1;
		event.background = kit_random(seed) & 1;
		return event;
	}
	event.body = json_new_object();
	if (event.type == EVENT_OTHER)
		json_set_string(event.body, "type", "tomorrow");
	json_set(event.body, "data", kit_random_json(seed, 6));
	json_set(event.body, "files", kit_random_json(seed, 3));
	return event;
}

/* Random events come back equal, whatever `since`; live and after reopening. */
static void test_random(void **state)
{
	enum { COUNT = 400 };
	const struct kit *kit = *state;
	struct event *events = mem_zalloc(COUNT * sizeof(*events));
	struct journal *journal = kit_open(kit, NULL);
	uint64_t seed = 99;

	for (int i = 0; i < COUNT; i++) {
		events[i] = random_event(&seed);
		if (i == 0) {
			event_release(&events[0]);
			events[0] = kit_event(EVENT_SESSION, NULL, "{\"data\":{\"$blob\":1}}");
		}
		assert_int_equal(journal_append(journal, &events[i], NULL), 0);
		if (i % 50 == 0) {
			journal_free(journal);
			journal = kit_open(kit, NULL);
		}
	}
	journal_free(journal);
	for (uint64_t since = 0; since <= COUNT; since += since < 20 ? 1 : 19) {
		struct cursor *cursor = cursor_open(kit->dirfd, since, NULL);

		for (uint64_t i = since; i < COUNT; i++) {
			cleanup_event struct event event = EVENT_INIT;

			assert_int_equal(cursor_next(cursor, &event, NULL), CURSOR_EVENT);
			assert_int_equal(event_inline(kit->dirfd, &event, UINT64_MAX, NULL, NULL),
					 0);
			kit_assert_same(&events[i], &event);
		}
		cursor_free(cursor);
	}
	for (int i = 0; i < COUNT; i++)
		event_release(&events[i]);
	free(events);
}

/* The longest stream event, in the worst text for JSON. */
static void test_long_stream(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = kit_open(kit, NULL);
	char *text = mem_zalloc(EVENT_STREAM_BYTES_MAX);

	kit_append_session(journal);
	assert_int_equal(kit_append(journal, kit_stream("c1", text, EVENT_STREAM_BYTES_MAX), NULL),
			 0);
	memset(text, '\n', EVENT_STREAM_BYTES_MAX);
	assert_int_equal(kit_append(journal, kit_stream("c1", text, EVENT_STREAM_BYTES_MAX), NULL),
			 0);
	free(text);
	journal_free(journal);
	assert_int_equal(kit_count(kit), 3);
}

/* An event that would be a line too long is refused and leaves no trace. */
static void test_too_long(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = kit_open(kit, NULL);
	struct event event = kit_event(EVENT_NOTE, NULL, "{}");
	struct err err = ERR_INIT;
	uint64_t bytes;

	kit_append_session(journal);
	bytes = journal_bytes(journal);
	for (int i = 0; i < 70; i++) {
		char *value = mem_zalloc(EVENT_INLINE_BYTES_MAX);
		char *key = mem_format("field%d", i);

		memset(value, 'x', EVENT_INLINE_BYTES_MAX - 1);
		json_set_string(event.body, key, value);
		free(value);
		free(key);
	}
	assert_int_equal(journal_append(journal, &event, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(event.seq, 0);
	assert_int_equal(event.t_us, 0);
	event_release(&event);
	assert_int_equal(journal_bytes(journal), bytes);
	assert_int_equal(kit_append(journal, kit_event(EVENT_NOTE, NULL, NULL), NULL), 0);
	journal_free(journal);
	assert_int_equal(kit_count(kit), 2);
}

/* Tells each seq that it was given, until it is killed. */
static void append_and_tell(const struct kit *kit, int pipe_end)
{
	struct journal *journal = kit_open(kit, NULL);
	uint64_t told = 1;
	char text[5000];

	memset(text, 'x', sizeof(text));
	if (journal_seq(journal) == 0)
		kit_append_session(journal);
	do {
		if (kit_append(journal, kit_stream("c1", text, sizeof(text)), NULL) != 0)
			_exit(1);
		told = journal_seq(journal);
	} while (write(pipe_end, &told, sizeof(told)) == sizeof(told));
	_exit(1);
}

/* Killed at any moment, a writer loses nothing that it told; and the next one goes on. */
static void test_killed_writer(void **state)
{
	const struct kit *kit = *state;

	for (uint64_t round = 0; round < 20; round++) {
		struct journal_report report;
		uint64_t told = 0;
		int ends[2];
		int status;
		pid_t writer;

		assert_int_equal(pipe(ends), 0);
		writer = fork();
		assert_true(writer >= 0);
		if (writer == 0)
			append_and_tell(kit, ends[1]);
		close(ends[1]);
		for (uint64_t i = 0; i < 1 + round * 7; i++)
			assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
		assert_int_equal(kill(writer, SIGKILL), 0);
		while (read(ends[0], &told, sizeof(told)) == sizeof(told))
			continue;
		assert_int_equal(waitpid(writer, &status, 0), writer);
		assert_true(WIFSIGNALED(status));
		close(ends[0]);
		journal_free(kit_open(kit, &report));
		assert_int_equal(report.damaged, 0);
		assert_true(report.seq >= told);
		assert_int_equal(kit_count(kit), report.seq);
	}
}

static void *sync_often(void *data)
{
	for (int i = 0; i < 20; i++) {
		if (journal_sync(data, NULL) != 0)
			return data;
	}
	return NULL;
}

static void test_sync_from_thread(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = kit_open(kit, NULL);
	pthread_t thread;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, sync_often, journal), 0);
	kit_append_session(journal);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(kit_append(journal, kit_stream("c1", "abc", 3), NULL), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	journal_free(journal);
	assert_int_equal(kit_count(kit), 2001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(test_fresh),
		KIT_TEST(test_sealed),
		KIT_TEST(test_repaired),
		KIT_TEST(test_time),
		KIT_TEST(test_cut_everywhere),
		KIT_TEST(test_torn_lines),
		KIT_TEST(test_damaged_middle),
		KIT_TEST(test_damaged_first),
		KIT_TEST(test_no_journal),
		KIT_TEST(test_random),
		KIT_TEST(test_long_stream),
		KIT_TEST(test_too_long),
		KIT_TEST(test_killed_writer),
		KIT_TEST(test_sync_from_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
