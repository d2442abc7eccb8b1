/*
 * Any bytes as a journal file: cursors go through it to its end, numbers go up, what `since` and
 * cursor_skip_to() deliver is what a walk from the start delivers; and journal_open() either
 * refuses the file untouched or makes it one that can be gone on with.
 *
 * The directory is made once and lies in memory where there is /dev/shm.
 */
#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "journal/cursor.h"
#include "journal/journal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64] = "/dev/shm/fumehood-fuzz-XXXXXX";

static void remove_folder(void)
{
	file_remove_tree(AT_FDCWD, folder, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	if (!mkdtemp(folder)) {
		snprintf(folder, sizeof(folder), "/tmp/fumehood-fuzz-XXXXXX");
		if (!mkdtemp(folder))
			abort();
	}
	return atexit(remove_folder);
}

/* Walks behind `since`; gives the first seq delivered, how many events there were, and how many
 * damaged lines. */
static uint64_t walk(int dirfd, uint64_t since, bool parse, uint64_t *first, uint64_t *damaged)
{
	struct cursor *cursor = cursor_open(dirfd, since, NULL);
	uint64_t count = 0;
	uint64_t last = since;

	assert(cursor);
	*first = 0;
	*damaged = 0;
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		const char *line = NULL;
		size_t len = 0;
		uint64_t seq = 0;
		enum cursor_step step = parse ? cursor_next(cursor, &event, NULL)
					      : cursor_next_line(cursor, &line, &len, &seq, NULL);

		assert(step != CURSOR_ERROR);
		if (step == CURSOR_END)
			break;
		assert(cursor_line_number(cursor) > 0);
		if (step == CURSOR_DAMAGED) {
			++*damaged;
			continue;
		}
		seq = parse ? event.seq : seq;
		assert(seq > last && seq == cursor_seq(cursor));
		assert(parse || (line[len - 1] == '\n' && len <= EVENT_LINE_BYTES_MAX));
		last = seq;
		*first = *first ? *first : seq;
		count++;
	}
	cursor_free(cursor);
	return count;
}

static void check_skip(int dirfd, uint64_t seq)
{
	struct cursor *cursor = cursor_open(dirfd, 0, NULL);
	uint64_t from, to;

	assert(cursor);
	assert(cursor_skip_to(cursor, seq, &from, &to, NULL) == 0);
	assert((from == 0 && to == 0) || (from == 1 && to <= seq && to == cursor_seq(cursor)));
	cursor_free(cursor);
}

static void check_open(int dirfd)
{
	struct err err = ERR_INIT;
	struct journal_report report;
	struct journal *journal = journal_open(dirfd, JOURNAL_BYTES_MAX, &report, &err);
	struct event event = EVENT_INIT;
	uint64_t first, damaged;

	if (!journal) {
		assert(err.code == ERR_CORRUPT);
		return;
	}
	event.type = EVENT_SESSION;
	if (report.seq == INT64_MAX) {
		assert(journal_append(journal, &event, &err) != 0 && err.code == ERR_LIMIT);
	} else {
		assert(journal_append(journal, &event, NULL) == 0);
		assert(walk(dirfd, report.seq, true, &first, &damaged) == 1 &&
		       first == report.seq + 1);
	}
	event_release(&event);
	journal_free(journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(dirfd, "journal.ndjson", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t count, first, second, damaged, ignored;

	assert(dirfd >= 0 && fd >= 0);
	assert(file_write_all(fd, data, size, NULL) == 0);
	close(fd);
	walk(dirfd, 0, false, &second, &ignored);
	count = walk(dirfd, 0, true, &first, &damaged);
	if (count > 0 && damaged == 0) {
		assert(walk(dirfd, first - 1, true, &second, &ignored) == count && second == first);
		assert(walk(dirfd, first, true, &second, &ignored) == count - 1);
	}
	check_skip(dirfd, first);
	check_skip(dirfd, UINT64_MAX);
	check_open(dirfd);
	close(dirfd);
	return 0;
}
