/*
 * Appending to the journal: one buffer, one write, or nothing.
 *
 * `size` is where the next line goes; every write is a pwrite(2) there, so the place is known
 * whatever happened before. A write that fails or stops short is cut off by ftruncate(2); if even
 * that fails, no line is appended until it works.
 *
 * Space. fallocate(2) keeps `allocated` ahead of `size`, by a mebibyte at a time and never by less
 * than JOURNAL_RESERVE_BYTES for the events that say how things ended. So a full disk shows when
 * space is asked for, before a byte is written, and the last words still fit:
 *
 *        0 ........ size ............ allocated
 *        | lines    | ahead | reserve |
 *
 * Where fallocate is not supported nothing can be reserved, and a full disk shows in the write.
 * Once space has been refused, ordinary events stay refused until journal_retry_space(): else a
 * short event could get in where a longer one before it did not, and the record would have a hole
 * without a word. For the same reason the limit of the record, once met, is met until someone
 * raises it.
 *
 * The file's name reaches the disk with the first journal_sync(), not when the file is made:
 * starting a session waits for no disk.
 */
#include "journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "journal/recover.h"
#include "journal/store.h"

static const uint64_t AHEAD_BYTES = 1 << 20;

struct journal {
	int fd;
	int dirfd; /* borrowed */
	uint64_t size;
	uint64_t allocated;
	uint64_t bytes_max;
	struct blob_room blobs;
	uint64_t seq;
	uint64_t places[JOURNAL_PLACES]; /* by seq: journal_place() */
	int64_t t_us;
	uint64_t repaired;
	struct buf line;  /* the last line appended */
	struct buf draft; /* the line that is being made */
	bool ahead;       /* fallocate works on this file system */
	bool full;        /* space was refused: ordinary events are too */
	bool spent;       /* the record's limit has refused an event: ordinary ones are refused */
	bool sealed;      /* another may write to the file */
	bool ragged;      /* behind `size` is a piece of a failed write */
	int above;        /* the folder that dirfd lies in; -1: not opened yet */
	atomic_bool name_unsynced;
};

static bool is_reserved(enum event_type type)
{
	return type == EVENT_FINISHED || type == EVENT_WARNING || type == EVENT_STOPPED ||
	       type == EVENT_TRUNCATED || type == EVENT_DIED || type == EVENT_STATE;
}

/* Asks for disk space for `bytes` behind the last line. */
static int allocate(struct journal *journal, uint64_t bytes, struct err *err)
{
	int result;

	if (!journal->ahead)
		return 0;
	do {
		result = fallocate(journal->fd, FALLOC_FL_KEEP_SIZE, (off_t)journal->size,
				   (off_t)bytes);
	} while (result != 0 && errno == EINTR);
	if (result == 0) {
		journal->allocated = journal->size + bytes;
		return 0;
	}
	if (errno == EOPNOTSUPP || errno == ENOSYS) {
		journal->ahead = false;
		return 0;
	}
	return err_sys(err, "no disk space for the journal");
}

/* A mebibyte ahead if there is as much, else what is needed now. */
static int allocate_ahead(struct journal *journal, uint64_t need, struct err *err)
{
	if (allocate(journal, need + AHEAD_BYTES, NULL) == 0)
		return 0;
	return allocate(journal, need, err);
}

static int refuse_spent(struct err *err)
{
	return err_set(err, ERR_LIMIT,
		       "the record is full: journal and blobs have reached the limit `record`");
}

static int make_room(struct journal *journal, size_t len, bool reserved, struct err *err)
{
	uint64_t need = len + (reserved ? 0 : (uint64_t)JOURNAL_RESERVE_BYTES);
	uint64_t used = journal_bytes(journal);

	if (used > journal->bytes_max || need > journal->bytes_max - used) {
		journal->spent = journal->spent || !reserved;
		return refuse_spent(err);
	}
	if (!journal->ahead || journal->allocated - journal->size >= need)
		return 0;
	if (allocate_ahead(journal, need, err) == 0 || reserved)
		return 0; /* the last words are tried in any case */
	journal->full = true;
	return -1;
}

/* Takes away what a failed write left behind the last line, and the space ahead with it. */
static int cut_off(struct journal *journal, struct err *err)
{
	journal->ragged = true;
	if (ftruncate(journal->fd, (off_t)journal->size) != 0)
		return err_sys(err, "cannot cut a failed write off the journal");
	journal->ragged = false;
	journal->allocated = journal->size;
	allocate(journal, JOURNAL_RESERVE_BYTES, NULL);
	return 0;
}

static int write_line(struct journal *journal, const char *bytes, size_t len, struct err *err)
{
	size_t done = 0;

	while (done < len) {
		ssize_t count = pwrite(journal->fd, bytes + done, len - done,
				       (off_t)(journal->size + done));

		if (count > 0) {
			done += (size_t)count;
		} else if (count == 0 || errno != EINTR) {
			errno = count == 0 ? ENOSPC : errno;
			break;
		}
	}
	if (done == len)
		return 0;
	journal->full = journal->full || errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
	/* A limit set from outside (RLIMIT_FSIZE) can be lifted again, as a full disk can be freed.
	 */
	if (errno == EFBIG)
		err_set(err, ERR_NO_SPACE,
			"the journal has reached the largest file size allowed (RLIMIT_FSIZE)");
	else
		err_sys(err, "cannot write to the journal");
	cut_off(journal, NULL);
	return -1;
}

/* Makes the line in `draft`, and the blobs that it names. */
static int draft_line(struct journal *journal, const struct event *event, struct err *err)
{
	bool reserved = is_reserved(event->type);
	uint64_t kept = journal->size + (reserved ? 0 : JOURNAL_RESERVE_BYTES);
	struct err why = ERR_INIT;

	journal->blobs.bytes_max = journal->bytes_max > kept ? journal->bytes_max - kept : 0;
	buf_clear(&journal->draft);
	if (event_store(&journal->draft, event, &journal->blobs, &journal->repaired, &why) != 0) {
		journal->spent = journal->spent || (why.code == ERR_LIMIT && !reserved);
		if (err)
			*err = why;
		return -1;
	}
	if (journal->draft.len > EVENT_LINE_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "an event of %zu bytes is too long for a line",
			       journal->draft.len);
	return 0;
}

static int refuse_sealed(struct err *err)
{
	return err_set(err, ERR_GONE, "the session has ended: its journal is closed");
}

static int append(struct journal *journal, const struct event *event, struct err *err)
{
	bool reserved = is_reserved(event->type);

	if (event->seq > INT64_MAX)
		return err_set(err, ERR_LIMIT, "the journal has no number left for another event");
	if (journal->sealed)
		return refuse_sealed(err);
	if (journal->spent && !reserved)
		return refuse_spent(err);
	if (journal->full && !reserved)
		return err_set(err, ERR_NO_SPACE, "no disk space for the journal");
	if (journal->ragged && cut_off(journal, err) != 0)
		return -1;
	if (draft_line(journal, event, err) != 0 ||
	    make_room(journal, journal->draft.len, reserved, err) != 0)
		return -1;
	return write_line(journal, buf_bytes(&journal->draft), journal->draft.len, err);
}

int journal_append(struct journal *journal, struct event *event, struct err *err)
{
	uint64_t seq_before = event->seq;
	int64_t t_before = event->t_us;
	int64_t now = clock_wall_us();
	struct buf last;

	assert(journal->seq > 0 || event->type == EVENT_SESSION);
	if (journal->size == 0) {
		event->body = event->body ? event->body : json_new_object();
		json_set_int(event->body, "format", EVENT_FORMAT);
	}
	event->seq = journal->seq + 1;
	event->t_us = now > journal->t_us ? now : journal->t_us;
	if (append(journal, event, err) != 0) {
		event->seq = seq_before;
		event->t_us = t_before;
		return -1;
	}
	last = journal->line;
	journal->line = journal->draft;
	journal->draft = last;
	journal->size += journal->line.len;
	journal->seq = event->seq;
	journal->places[journal->seq % JOURNAL_PLACES] = journal->size;
	journal->t_us = event->t_us;
	return 0;
}

const char *journal_last_line(const struct journal *journal, size_t *len)
{
	*len = journal->line.len;
	return buf_bytes(&journal->line);
}

/* session.json, which nobody has had time to sync, the names in the session's directory, and its
 * own name in the folder above. */
static int sync_directory(const struct journal *journal)
{
	cleanup_fd int config =
		openat(journal->dirfd, "session.json", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_fd int opened = -1;

	if ((config >= 0 && fsync(config) != 0) || fsync(journal->dirfd) != 0)
		return -1;
	if (journal->above >= 0)
		return fsync(journal->above);
	opened = openat(journal->dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return opened < 0 ? -1 : fsync(opened);
}

int journal_sync(struct journal *journal, struct err *err)
{
	if (atomic_exchange(&journal->name_unsynced, false) && sync_directory(journal) != 0) {
		atomic_store(&journal->name_unsynced, true);
		return err_sys(err, "cannot sync the session's directory");
	}
	if (fdatasync(journal->fd) != 0)
		return err_sys(err, "cannot sync the journal");
	return 0;
}

uint64_t journal_seq(const struct journal *journal)
{
	return journal->seq;
}

uint64_t journal_place(const struct journal *journal, uint64_t seq)
{
	bool recent = seq <= journal->seq && journal->seq - seq < JOURNAL_PLACES;

	return recent ? journal->places[seq % JOURNAL_PLACES] : 0;
}

uint64_t journal_bytes(const struct journal *journal)
{
	return journal->size + journal->blobs.bytes;
}

void journal_set_limit(struct journal *journal, uint64_t bytes_max)
{
	uint64_t used = journal_bytes(journal);

	journal->bytes_max = bytes_max;
	if (bytes_max > used && bytes_max - used > JOURNAL_RESERVE_BYTES)
		journal->spent = false;
}

bool journal_is_spent(const struct journal *journal)
{
	return journal->spent;
}

uint64_t journal_repaired(const struct journal *journal)
{
	return journal->repaired;
}

int journal_retry_space(struct journal *journal, struct err *err)
{
	uint64_t used = journal_bytes(journal);

	if (journal->sealed)
		return refuse_sealed(err);
	if (journal->spent || used > journal->bytes_max ||
	    journal->bytes_max - used <= JOURNAL_RESERVE_BYTES)
		return refuse_spent(err);
	if (journal->ragged && cut_off(journal, err) != 0)
		return -1;
	if (allocate(journal, AHEAD_BYTES + JOURNAL_RESERVE_BYTES, err) != 0)
		return -1;
	journal->full = false;
	return 0;
}

static int open_file(struct journal *journal, struct err *err)
{
	struct stat st;

	journal->fd = openat(journal->dirfd, "journal.ndjson",
			     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (journal->fd < 0 || fstat(journal->fd, &st) != 0)
		return err_sys(err, "cannot open the journal");
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "journal.ndjson is no regular file");
	journal->size = (uint64_t)st.st_size;
	return 0;
}

/* Finds out what is in the file, cuts a torn end off, and allocates ahead. */
static int prepare(struct journal *journal, struct journal_report *report, struct err *err)
{
	if (recover_scan(journal->dirfd, journal->size, report, err) != 0 ||
	    blob_survey(&journal->blobs, err) != 0)
		return -1;
	if (report->torn_bytes > 0) {
		journal->size -= report->torn_bytes;
		if (ftruncate(journal->fd, (off_t)journal->size) != 0)
			return err_sys(err, "cannot cut the torn end off the journal");
	}
	report->fresh = journal->size == 0;
	atomic_store(&journal->name_unsynced, true);
	journal->seq = report->seq;
	journal->t_us = report->t_us;
	journal->allocated = journal->size;
	/* A session opens on a full disk too: it has to say what became of it. */
	if (allocate_ahead(journal, JOURNAL_RESERVE_BYTES, NULL) != 0)
		journal->full = true;
	return 0;
}

struct journal *journal_open(int dirfd, uint64_t bytes_max, struct journal_report *report,
			     struct err *err)
{
	struct journal *journal = mem_zalloc(sizeof(*journal));
	struct journal_report found = {.seq = 0};

	journal->dirfd = dirfd;
	journal->above = -1;
	journal->bytes_max = bytes_max;
	journal->blobs.dirfd = dirfd;
	journal->ahead = true;
	if (open_file(journal, err) != 0 || prepare(journal, &found, err) != 0) {
		if (journal->fd >= 0)
			close(journal->fd);
		free(journal);
		return NULL;
	}
	if (report)
		*report = found;
	return journal;
}

void journal_take_above(struct journal *journal, int fd)
{
	if (journal->above >= 0)
		close(journal->above);
	journal->above = fd;
}

void journal_seal(struct journal *journal)
{
	if (journal->sealed)
		return;
	/* Also a piece of a failed write. Failing costs a mebibyte. */
	if (ftruncate(journal->fd, (off_t)journal->size) != 0)
		journal->ragged = true;
	journal->sealed = true;
}

void journal_free(struct journal *journal)
{
	if (!journal)
		return;
	journal_seal(journal);
	close(journal->fd);
	journal_take_above(journal, -1);
	buf_release(&journal->line);
	buf_release(&journal->draft);
	free(journal);
}
