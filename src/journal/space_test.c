/*
 * Space: the record's limit, full disks, writes that stop short.
 *
 * The full disk is made twice: by RLIMIT_FSIZE, which lets a write stop short anywhere, and by a
 * tmpfs of three megabytes where mounting is permitted.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "journal/kit.h"

static void append_last_words(struct journal *journal)
{
	static const enum event_type TYPES[] = {EVENT_TRUNCATED, EVENT_FINISHED, EVENT_WARNING,
						EVENT_STATE, EVENT_DIED, EVENT_STOPPED};

	for (size_t i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); i++)
		assert_int_equal(
			kit_append(journal, kit_event(TYPES[i], "c1", "{\"reason\":\"x\"}"), NULL),
			0);
}

static void test_record_limit(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = journal_open(kit->dirfd, 200000, NULL, NULL);
	struct err err = ERR_INIT;
	char text[1000];

	memset(text, 'x', sizeof(text));
	kit_append_session(journal);
	while (kit_append(journal, kit_stream("c1", text, sizeof(text)), &err) == 0)
		continue;
	assert_int_equal(err.code, ERR_LIMIT);
	assert_true(journal_bytes(journal) + JOURNAL_RESERVE_BYTES <= 200000);
	assert_true(journal_bytes(journal) + JOURNAL_RESERVE_BYTES > 200000 - 1200);
	append_last_words(journal);
	/* The reserve ends, too. */
	while (kit_append(journal, kit_event(EVENT_WARNING, NULL, NULL), &err) == 0)
		assert_int_equal(journal_retry_space(journal, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_true(journal_bytes(journal) <= 200000);
	journal_free(journal);

	/* A session that is over its limit can be opened, and even say so. */
	journal = journal_open(kit->dirfd, 1000, NULL, NULL);
	assert_non_null(journal);
	assert_int_equal(kit_append(journal, kit_event(EVENT_NOTE, NULL, NULL), &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(journal_retry_space(journal, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	journal_free(journal);
}

/* Space ahead is given back when the session is closed. */
static void test_space_ahead(void **state)
{
	const struct kit *kit = *state;
	struct journal *journal = kit_open(kit, NULL);
	struct stat during, after;

	kit_append_session(journal);
	assert_int_equal(fstatat(kit->dirfd, "journal.ndjson", &during, 0), 0);
	assert_int_equal(during.st_size, journal_bytes(journal));
	journal_free(journal);
	assert_int_equal(fstatat(kit->dirfd, "journal.ndjson", &after, 0), 0);
	assert_int_equal(after.st_size, during.st_size);
	if (during.st_blocks * 512 < 1 << 20) {
		print_message("skipped: no fallocate on the file system of /tmp\n");
		skip();
	}
	assert_true(after.st_blocks * 512 <= 64 << 10);
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A write that stops short after any number of bytes leaves no trace. */
static void test_short_writes(void **state)
{
	const struct kit *kit = *state;
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
	struct journal *journal = kit_open(kit, NULL);
	cleanup_buf struct buf file = BUF_INIT;
	uint64_t events = 1;

	kit_append_session(journal);
	for (uint64_t extra = 0; extra < 200; extra++) {
		uint64_t bytes = journal_bytes(journal);
		struct event event = kit_stream("c1", "some text of a few bytes\n", 25);
		struct err err = ERR_INIT;

		limit_file_size(bytes + extra);
		if (journal_append(journal, &event, &err) == 0) {
			events++;
		} else {
			limit_file_size(RLIM_INFINITY);
			assert_int_equal(err.code, ERR_NO_SPACE);
			/* As after a full disk: refused until asked for again. */
			assert_int_equal(journal_append(journal, &event, NULL), -1);
			assert_int_equal(journal_retry_space(journal, NULL), 0);
			assert_int_equal(event.seq, 0);
			assert_int_equal(journal_bytes(journal), bytes);
			kit_read(kit, "journal.ndjson", &file);
			assert_int_equal(file.len, bytes);
			assert_int_equal(journal_append(journal, &event, NULL), 0);
			events++;
		}
		limit_file_size(RLIM_INFINITY);
		assert_int_equal(event.seq, events);
		event_release(&event);
	}
	journal_free(journal);
	signal(SIGXFSZ, before);
	assert_int_equal(kit_count(kit), events);
}

/* Fills the disk, which is `kit`, with other people's bytes. */
static void fill_disk(const struct kit *kit)
{
	static const char BYTES[4096] = {1};
	int fd = openat(kit->dirfd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	while (write(fd, BYTES, sizeof(BYTES)) > 0)
		continue;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

static void run_on_full_disk(const struct kit *kit)
{
	struct journal_report report;
	struct journal *journal = kit_open(kit, NULL);
	struct err err = ERR_INIT;
	uint64_t events = 1;
	char text[3000];

	memset(text, 'x', sizeof(text));
	kit_append_session(journal);
	fill_disk(kit);
	while (kit_append(journal, kit_stream("c1", text, sizeof(text)), &err) == 0)
		events++;
	assert_int_equal(err.code, ERR_NO_SPACE);
	/* What was allocated ahead is used, and short events do not slip in behind the one refused.
	 */
	assert_true(journal_bytes(journal) > (1 << 20) - 8192);
	assert_int_equal(kit_append(journal, kit_stream("c1", "x", 1), &err), -1);
	assert_int_equal(err.code, ERR_NO_SPACE);
	assert_int_equal(journal_retry_space(journal, &err), -1);
	assert_int_equal(err.code, ERR_NO_SPACE);
	append_last_words(journal);
	events += 6;
	journal_free(journal);
	fill_disk(kit);

	/* Reopened on a disk that is still full. */
	journal = kit_open(kit, &report);
	assert_int_equal(report.seq, events);
	assert_int_equal(kit_append(journal, kit_stream("c1", text, sizeof(text)), &err), -1);
	assert_int_equal(err.code, ERR_NO_SPACE);
	while (kit_append(journal, kit_event(EVENT_WARNING, NULL, NULL), &err) == 0)
		events++;
	assert_int_equal(err.code, ERR_NO_SPACE);
	assert_int_equal(kit_count(kit), events);

	assert_int_equal(unlinkat(kit->dirfd, "filler", 0), 0);
	assert_int_equal(kit_append(journal, kit_stream("c1", "x", 1), &err), -1);
	assert_int_equal(journal_retry_space(journal, &err), 0);
	assert_int_equal(kit_append(journal, kit_stream("c1", "x", 1), &err), 0);
	journal_free(journal);
	assert_int_equal(kit_count(kit), events + 1);
}

static void test_full_disk(void **state)
{
	struct kit kit = *(const struct kit *)*state;

	/* A mount namespace of its own: whatever happens, nothing stays mounted. */
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", kit.path, "tmpfs", 0, "size=3m") != 0) {
		print_message("skipped: mounting a tmpfs is not permitted\n");
		skip();
	}
	kit.dirfd = open(kit.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	run_on_full_disk(&kit);
	close(kit.dirfd);
	assert_int_equal(umount(kit.path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(test_record_limit),
		KIT_TEST(test_space_ahead),
		KIT_TEST(test_short_writes),
		KIT_TEST(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
