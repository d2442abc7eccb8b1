/*
 * Cursors: following, finding, damage.
 *
 * With FH_TEST_HUGE=1 a journal of 200 MB is read too, with the growth of memory measured (not for
 * AddressSanitizer, which keeps freed memory).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/resource.h>

#include "journal/kit.h"

static struct cursor *open_cursor(const struct kit *kit, uint64_t since)
{
	struct cursor *cursor = cursor_open(kit->dirfd, since, NULL);

	assert_non_null(cursor);
	return cursor;
}

/* The next step, which is to be `step`; for an event its seq is to be `seq`. */
static void expect(struct cursor *cursor, enum cursor_step step, uint64_t seq)
{
	cleanup_event struct event event = EVENT_INIT;

	assert_int_equal(cursor_next(cursor, &event, NULL), step);
	if (step != CURSOR_EVENT)
		return;
	assert_int_equal(event.seq, seq);
	assert_int_equal(cursor_seq(cursor), seq);
}

static void expect_line(struct cursor *cursor, enum cursor_step step, uint64_t seq)
{
	const char *line = NULL;
	size_t len = 0;
	uint64_t got = 0;

	assert_int_equal(cursor_next_line(cursor, &line, &len, &got, NULL), step);
	if (step != CURSOR_EVENT)
		return;
	assert_int_equal(got, seq);
	assert_int_equal(line[0], '{');
	assert_int_equal(line[len - 1], '\n');
}

static void add_bytes(const struct kit *kit, const void *bytes, size_t len)
{
	int fd = openat(kit->dirfd, "journal.ndjson", O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, bytes, len, NULL), 0);
	close(fd);
}

static void add_line(const struct kit *kit, uint64_t seq)
{
	char *line = mem_format(
		"{\"seq\":%llu,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":\"note\"}\n",
		(unsigned long long)seq);

	add_bytes(kit, line, strlen(line));
	free(line);
}

static void test_open_fails(void **state)
{
	const struct kit *kit = *state;
	struct err err = ERR_INIT;

	assert_null(cursor_open(kit->dirfd, 0, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(mkfifoat(kit->dirfd, "journal.ndjson", 0600), 0);
	assert_null(cursor_open(kit->dirfd, 0, &err));
	assert_int_equal(err.code, ERR_INVALID);
	cursor_free(NULL);
}

static void test_follow(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = journal_open(kit->dirfd, JOURNAL_BYTES_MAX, NULL, NULL);
	struct cursor *cursor = open_cursor(kit, 0);

	expect(cursor, CURSOR_END, 0);
	assert_int_equal(cursor_seq(cursor), 0);
	kit_append_session(journal);
	expect(cursor, CURSOR_EVENT, 1);
	assert_int_equal(cursor_line_number(cursor), 1);
	expect(cursor, CURSOR_END, 0);
	expect(cursor, CURSOR_END, 0);
	for (uint64_t seq = 2; seq < 3000; seq++) {
		assert_int_equal(kit_append(journal, kit_stream("c1", "abc\n", 4), NULL), 0);
		if (seq % 7 != 0)
			continue;
		for (uint64_t at = cursor_seq(cursor) + 1; at <= seq; at++) {
			if (at % 2)
				expect(cursor, CURSOR_EVENT, at);
			else
				expect_line(cursor, CURSOR_EVENT, at);
			assert_int_equal(cursor_line_number(cursor), at);
		}
		expect(cursor, CURSOR_END, 0);
	}
	assert_int_equal(cursor_offset(cursor) < journal_bytes(journal), true);
	cursor_free(cursor);
	journal_free(journal);
}

/* A line that arrives byte by byte is not seen before its LF, and one that is withdrawn never. */
static void test_torn_line(void **state)
{
	static const char NEXT[] = "{\"seq\":3,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":"
				   "\"note\",\"x\":\"new\"}\n";
	const struct kit *kit = *state;
	cleanup_event struct event event = EVENT_INIT;
	cleanup_free char *path = mem_format("%s/journal.ndjson", kit->path);
	struct cursor *cursor;
	off_t before;
	struct stat st;

	kit_fill(kit, 2, 0);
	cursor = open_cursor(kit, 0);
	expect(cursor, CURSOR_EVENT, 1);
	expect(cursor, CURSOR_EVENT, 2);
	assert_int_equal(stat(path, &st), 0);
	before = st.st_size;
	for (size_t i = 0; i + 1 < sizeof(NEXT) - 1; i++) {
		char other = NEXT[i] == 'n' || NEXT[i] == 'w' ? 'o' : NEXT[i];

		add_bytes(kit, &other, 1);
		expect(cursor, CURSOR_END, 0);
		expect_line(cursor, CURSOR_END, 0);
	}
	assert_int_equal(truncate(path, before), 0);
	add_bytes(kit, NEXT, sizeof(NEXT) - 1);
	assert_int_equal(cursor_next(cursor, &event, NULL), CURSOR_EVENT);
	assert_string_equal(json_get_string(event.body, "x"), "new");
	expect(cursor, CURSOR_END, 0);
	cursor_free(cursor);
}

static void check_since(const struct kit *kit, uint64_t count, uint64_t since)
{
	struct cursor *cursor = open_cursor(kit, since);

	assert_int_equal(cursor_seq(cursor), since);
	for (uint64_t seq = since + 1; seq <= count && seq <= since + 3; seq++)
		expect_line(cursor, CURSOR_EVENT, seq);
	if (since + 3 >= count)
		expect(cursor, CURSOR_END, 0);
	cursor_free(cursor);
}

static void test_since(void **state)
{
	const struct kit *kit = *state;

	kit_fill(kit, 20, 0);
	for (uint64_t since = 0; since <= 22; since++)
		check_since(kit, 20, since);
	check_since(kit, 20, INT64_MAX);
}

/* One cursor jumps to and fro by what the writer knows; and told a wrong place, it finds the right
 * one. */
static void test_go(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;
	uint64_t places[401] = {0};

	kit_fill(kit, 400, 900);
	cursor = open_cursor(kit, 0);
	for (uint64_t seq = 1; seq <= 400; seq++) {
		expect_line(cursor, CURSOR_EVENT, seq);
		places[seq] = cursor_offset(cursor);
	}
	for (uint64_t i = 0; i < 400; i++) {
		uint64_t seq = i * 211 % 400, wrong = i % 3 ? i * 7919 : places[(seq + 1) % 400];

		assert_int_equal(cursor_go(cursor, seq, places[seq], NULL), 0);
		assert_int_equal(cursor_seq(cursor), seq);
		expect_line(cursor, CURSOR_EVENT, seq + 1);
		assert_int_equal(cursor_line_number(cursor), seq + 1);
		assert_int_equal(cursor_go(cursor, seq, wrong, NULL), 0);
		assert_int_equal(cursor_seq(cursor), seq);
		expect_line(cursor, CURSOR_EVENT, seq + 1);
	}
	cursor_free(cursor);
}

/* To where the next line will be: it is found when it has come. */
static void test_go_to_the_end(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;
	static const char NEXT[] = "{\"seq\":3,\"t\":\"2026-10-05T14:03:07.123456Z\","
				   "\"type\":\"note\",\"x\":\"new\"}\n";
	uint64_t end;

	kit_fill(kit, 2, 0);
	cursor = open_cursor(kit, 0);
	expect_line(cursor, CURSOR_EVENT, 1);
	expect_line(cursor, CURSOR_EVENT, 2);
	end = cursor_offset(cursor);
	assert_int_equal(cursor_go(cursor, 2, end, NULL), 0);
	expect(cursor, CURSOR_END, 0);
	add_bytes(kit, NEXT, sizeof(NEXT) - 1);
	expect_line(cursor, CURSOR_EVENT, 3);
	cursor_free(cursor);
}

/* Long enough for the bisection to have several rounds. */
static void test_since_long(void **state)
{
	const struct kit *kit = *state;

	kit_fill(kit, 4000, 900);
	for (uint64_t since = 0; since <= 4001; since++)
		check_since(kit, 4000, since);
	for (uint64_t since = 0; since < 4000; since += 97) {
		struct cursor *cursor = open_cursor(kit, since);

		expect_line(cursor, CURSOR_EVENT, since + 1);
		assert_int_equal(cursor_line_number(cursor), since + 1);
		cursor_free(cursor);
	}
}

/* Events beyond the end that were asked for are not replaced by others. */
static void test_since_ahead(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;

	kit_fill(kit, 3, 0);
	cursor = open_cursor(kit, 5);
	expect(cursor, CURSOR_END, 0);
	add_line(kit, 4);
	add_line(kit, 5);
	expect(cursor, CURSOR_END, 0);
	add_line(kit, 6);
	expect(cursor, CURSOR_EVENT, 6);
	cursor_free(cursor);
}

static void check_skip(struct cursor *cursor, uint64_t seq, uint64_t from, uint64_t to)
{
	uint64_t first = 99, last = 99;

	assert_int_equal(cursor_skip_to(cursor, seq, &first, &last, NULL), 0);
	assert_int_equal(first, from);
	assert_int_equal(last, to);
}

static void test_skip(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;

	kit_fill(kit, 3000, 900);
	cursor = open_cursor(kit, 0);
	check_skip(cursor, 0, 0, 0);
	expect(cursor, CURSOR_EVENT, 1);
	check_skip(cursor, 1, 0, 0);
	check_skip(cursor, 2, 2, 2);
	check_skip(cursor, 10, 3, 10);
	assert_int_equal(cursor_seq(cursor), 10);
	check_skip(cursor, 5, 0, 0);
	expect(cursor, CURSOR_EVENT, 11);
	check_skip(cursor, 2222, 12, 2222);
	expect_line(cursor, CURSOR_EVENT, 2223);
	assert_int_equal(cursor_line_number(cursor), 2223);
	check_skip(cursor, UINT64_MAX, 2224, 3000);
	expect(cursor, CURSOR_END, 0);
	check_skip(cursor, UINT64_MAX, 0, 0);
	add_line(kit, 3001);
	check_skip(cursor, 3001, 3001, 3001);
	add_line(kit, 3002);
	expect(cursor, CURSOR_EVENT, 3002);
	assert_int_equal(cursor_line_number(cursor), 3002);
	cursor_free(cursor);

	cursor = open_cursor(kit, 100);
	check_skip(cursor, 100, 0, 0);
	check_skip(cursor, 50, 0, 0);
	check_skip(cursor, 101, 101, 101);
	expect(cursor, CURSOR_EVENT, 102);
	cursor_free(cursor);
	cursor = open_cursor(kit, 100);
	check_skip(cursor, UINT64_MAX, 101, 3002);
	cursor_free(cursor);
}

/* Overwrites the start of the line that holds `what`. */
static void damage(const struct kit *kit, const char *what)
{
	cleanup_buf struct buf file = BUF_INIT;
	char *at;

	kit_read(kit, "journal.ndjson", &file);
	at = strstr(file.data, what);
	assert_non_null(at);
	*at = '#';
	kit_write(kit, "journal.ndjson", file.data, file.len);
}

static void test_damaged_lines(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;

	kit_fill(kit, 3000, 900);
	damage(kit, "{\"seq\":7,");
	damage(kit, "{\"seq\":1500,");
	damage(kit, "{\"seq\":1501,");
	for (int lines = 0; lines < 2; lines++) {
		void (*next)(struct cursor *, enum cursor_step, uint64_t) =
			lines ? expect_line : expect;

		cursor = open_cursor(kit, 0);
		for (uint64_t line = 1; line <= 3000; line++) {
			next(cursor,
			     line == 7 || line == 1500 || line == 1501 ? CURSOR_DAMAGED
								       : CURSOR_EVENT,
			     line);
			assert_int_equal(cursor_line_number(cursor), line);
		}
		next(cursor, CURSOR_END, 0);
		cursor_free(cursor);
	}
	for (uint64_t since = 1400; since < 1500; since += 33) {
		cursor = open_cursor(kit, since);
		for (uint64_t line = since + 1; line < 1500; line++)
			expect_line(cursor, CURSOR_EVENT, line);
		expect(cursor, CURSOR_DAMAGED, 0);
		assert_int_equal(cursor_line_number(cursor), 1500);
		expect(cursor, CURSOR_DAMAGED, 0);
		assert_int_equal(cursor_line_number(cursor), 1501);
		expect(cursor, CURSOR_EVENT, 1502);
		check_skip(cursor, 1503, 1503, 1503);
		cursor_free(cursor);
	}
	/* A damaged line before `since` is no concern of this reader. */
	cursor = open_cursor(kit, 6);
	expect(cursor, CURSOR_DAMAGED, 0);
	cursor_free(cursor);
	cursor = open_cursor(kit, 7);
	expect(cursor, CURSOR_EVENT, 8);
	cursor_free(cursor);
	cursor = open_cursor(kit, 1500);
	expect_line(cursor, CURSOR_DAMAGED, 0);
	assert_int_equal(cursor_line_number(cursor), 1501);
	expect(cursor, CURSOR_EVENT, 1502);
	cursor_free(cursor);
	/* What is passed over is passed over without a word. */
	cursor = open_cursor(kit, 5);
	check_skip(cursor, 1501, 6, 1499);
	expect(cursor, CURSOR_EVENT, 1502);
	assert_int_equal(cursor_line_number(cursor), 1502);
	cursor_free(cursor);
}

/* At the end of the file it is torn: withdrawn, and something else takes its place. */
static void test_damaged_last_line(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;

	kit_fill(kit, 3, 0);
	cursor = open_cursor(kit, 0);
	add_bytes(kit, "no event\n", 9);
	for (uint64_t seq = 1; seq <= 3; seq++)
		expect(cursor, CURSOR_EVENT, seq);
	expect(cursor, CURSOR_END, 0);
	expect_line(cursor, CURSOR_END, 0);
	journal_free(journal_open(kit->dirfd, JOURNAL_BYTES_MAX, NULL, NULL));
	expect(cursor, CURSOR_END, 0);
	add_line(kit, 4);
	expect(cursor, CURSOR_EVENT, 4);

	add_bytes(kit, "no event\n", 9);
	expect(cursor, CURSOR_END, 0);
	add_line(kit, 5);
	expect(cursor, CURSOR_DAMAGED, 0);
	assert_int_equal(cursor_line_number(cursor), 5);
	expect(cursor, CURSOR_EVENT, 5);
	cursor_free(cursor);
}

/* Longer than a line may be: passed over, whatever its length, with memory for one line at most. */
static void test_long_lines(void **state)
{
	static const size_t LENGTHS[] = {
		EVENT_LINE_BYTES_MAX - 1,         EVENT_LINE_BYTES_MAX,
		EVENT_LINE_BYTES_MAX + 1,         EVENT_LINE_BYTES_MAX + (256 << 10) - 1,
		3 * (size_t)EVENT_LINE_BYTES_MAX,
	};
	const struct kit *kit = *state;
	char *bytes = mem_zalloc(3 * (size_t)EVENT_LINE_BYTES_MAX);

	memset(bytes, 'x', 3 * (size_t)EVENT_LINE_BYTES_MAX);
	for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
		struct cursor *cursor;

		assert_true(unlinkat(kit->dirfd, "journal.ndjson", 0) == 0 || i == 0);
		kit_fill(kit, 2, 0);
		cursor = open_cursor(kit, 0);
		expect(cursor, CURSOR_EVENT, 1);
		expect(cursor, CURSOR_EVENT, 2);
		add_bytes(kit, bytes, LENGTHS[i]);
		expect(cursor, CURSOR_END, 0);
		expect_line(cursor, CURSOR_END, 0);
		add_bytes(kit, "\n", 1);
		expect(cursor, CURSOR_END, 0);
		add_line(kit, 3);
		expect(cursor, CURSOR_DAMAGED, 0);
		assert_int_equal(cursor_line_number(cursor), 3);
		expect(cursor, CURSOR_EVENT, 3);
		expect(cursor, CURSOR_END, 0);
		cursor_free(cursor);
		cursor = open_cursor(kit, 1);
		expect_line(cursor, CURSOR_EVENT, 2);
		expect_line(cursor, CURSOR_DAMAGED, 0);
		expect_line(cursor, CURSOR_EVENT, 3);
		cursor_free(cursor);
	}
	free(bytes);
}

/* A journal that a hole of zeros runs through, as a power cut leaves it. */
static void test_zeros(void **state)
{
	const struct kit *kit = *state;
	struct cursor *cursor;
	cleanup_buf struct buf file = BUF_INIT;
	uint64_t seq = 0;
	uint64_t damaged = 0;

	kit_fill(kit, 3000, 900);
	kit_read(kit, "journal.ndjson", &file);
	memset(file.data + 1000000, 0, 700000);
	kit_write(kit, "journal.ndjson", file.data, file.len);
	cursor = open_cursor(kit, 0);
	for (;;) {
		const char *line;
		size_t len;
		enum cursor_step step = cursor_next_line(cursor, &line, &len, &seq, NULL);

		if (step == CURSOR_END)
			break;
		damaged += step == CURSOR_DAMAGED;
	}
	assert_int_equal(seq, 3000);
	assert_int_equal(damaged, 1);
	cursor_free(cursor);
	for (uint64_t since = 2000; since < 3000; since += 7)
		check_since(kit, 3000, since);
}

/* One byte of the file changed: no line but the ones it touches may be lost. */
static void check_flip(const struct kit *kit, const struct buf *file, size_t at, char byte,
		       bool parse)
{
	uint64_t lines = 0, hit = 1, seen = 0;
	struct cursor *cursor;
	enum cursor_step step;

	for (size_t i = 0; i < file->len; i++)
		lines += file->data[i] == '\n';
	for (size_t i = 0; i < at; i++)
		hit += file->data[i] == '\n';
	cursor = open_cursor(kit, 0);
	do {
		cleanup_event struct event event = EVENT_INIT;
		const char *line;
		uint64_t seq = 0;
		size_t len;

		step = parse ? cursor_next(cursor, &event, NULL)
			     : cursor_next_line(cursor, &line, &len, &seq, NULL);
		seq = parse ? event.seq : seq;
		if (step == CURSOR_EVENT && seq != hit && seq <= lines)
			seen++;
	} while (step != CURSOR_END);
	cursor_free(cursor);
	/* An LF that is gone joins two lines. */
	assert_true(seen == lines - 1 ||
		    (file->data[at] == '\n' && byte != '\n' && seen >= lines - 2));
}

static void test_flips(void **state)
{
	static const char FLIPS[] = {0x01, 0x02, 0x04, 0x10, (char)0x80};
	const struct kit *kit = *state;
	cleanup_buf struct buf file = BUF_INIT;
	int fd;

	kit_fill(kit, 12, 0);
	kit_read(kit, "journal.ndjson", &file);
	fd = openat(kit->dirfd, "journal.ndjson", O_WRONLY | O_CLOEXEC);
	for (size_t at = 0; at < file.len; at++) {
		for (size_t i = 0; i <= sizeof(FLIPS); i++) {
			char byte = i == sizeof(FLIPS) ? '\n' : (char)(file.data[at] ^ FLIPS[i]);

			assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
			check_flip(kit, &file, at, byte, i % 2);
		}
		assert_int_equal(pwrite(fd, file.data + at, 1, (off_t)at), 1);
	}
	close(fd);
}

/* Written by other tools: other order, blanks, events left out. */
static void test_foreign_lines(void **state)
{
	const struct kit *kit = *state;
	static const char FILE_BYTES[] =
		"{\"type\":\"session\",\"format\":1,\"seq\": "
		"1,\"t\":\"2026-11-29T17:16:54.123456Z\"}\n"
		"{\"seq\": 5, \"t\": \"2026-11-29T17:16:54.123456Z\", \"type\": \"note\"}\n"
		"{\"seq\":9,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":\"note\"}\n"
		"{\"seq\":20,\"t\":\"2026-11-29T17:16:54.123456Z\",\"type\":\"note\"}\n";
	struct cursor *cursor;

	kit_write(kit, "journal.ndjson", FILE_BYTES, sizeof(FILE_BYTES) - 1);
	for (int lines = 0; lines < 2; lines++) {
		void (*next)(struct cursor *, enum cursor_step, uint64_t) =
			lines ? expect_line : expect;

		cursor = open_cursor(kit, 0);
		next(cursor, CURSOR_EVENT, 1);
		next(cursor, CURSOR_EVENT, 5);
		next(cursor, CURSOR_EVENT, 9);
		next(cursor, CURSOR_EVENT, 20);
		next(cursor, CURSOR_END, 0);
		cursor_free(cursor);
		cursor = open_cursor(kit, 6);
		next(cursor, CURSOR_EVENT, 9);
		cursor_free(cursor);
	}
}

static long peak_kb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void test_huge(void **state)
{
	const char *huge = getenv("FH_TEST_HUGE");
	const struct kit *kit = *state;
	struct cursor *cursor;
	uint64_t count = 0;
	long before;
	enum cursor_step step;

	if (!huge || strcmp(huge, "1") != 0) {
		print_message("skipped: FH_TEST_HUGE is not set\n");
		skip();
	}
	kit_fill(kit, 4000, 50000);
	before = peak_kb();
	cursor = open_cursor(kit, 0);
	do {
		cleanup_event struct event event = EVENT_INIT;

		step = cursor_next(cursor, &event, NULL);
		count += step == CURSOR_EVENT;
	} while (step != CURSOR_END);
	cursor_free(cursor);
	assert_int_equal(count, 4000);
	for (uint64_t since = 0; since < 4000; since += 111)
		check_since(kit, 4000, since);
	assert_true(peak_kb() - before < 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(test_open_fails),
		KIT_TEST(test_follow),
		KIT_TEST(test_torn_line),
		KIT_TEST(test_since),
		KIT_TEST(test_go),
		KIT_TEST(test_go_to_the_end),
		KIT_TEST(test_since_long),
		KIT_TEST(test_since_ahead),
		KIT_TEST(test_skip),
		KIT_TEST(test_damaged_lines),
		KIT_TEST(test_damaged_last_line),
		KIT_TEST(test_long_lines),
		KIT_TEST(test_zeros),
		KIT_TEST(test_flips),
		KIT_TEST(test_foreign_lines),
		KIT_TEST(test_huge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
