/*
 * Reading a journal that may be growing, be damaged, and be larger than memory.
 *
 * The buffer holds bytes of the file from `base` on; `next` is where in it the next line begins. A
 * line is taken only once its LF is there, and bytes behind the last LF are read anew each time:
 * the writer may have cut off a failed write meanwhile and put other bytes in its place.
 *
 * Damage. A line that is no event, or whose seq does not go up, is passed over and reported, unless
 * it is the very last of the file: then it is a torn line, which whoever reopens the journal will
 * cut off. A seq that jumps is believed (someone may have filtered the file) unless the line behind
 * it goes on from before the jump: then a digit of the seq is what is damaged.
 *
 * Finding a seq is a bisection over the bytes between the cursor and the end: from any offset, the
 * next LF begins a line, and its first bytes say its seq. A probe counts only when two lines on end
 * have consecutive numbers, so no single damaged line can lead it astray. 4 GiB take some 14 probes
 * of 16 KiB, which is why no index is kept. Whoever has written the line knows where it is and says
 * so (cursor_go), which is looked at, not believed.
 *
 * Memory: what the first read finds, at most START_BYTES; while reads come back full, four times as
 * much each time up to READ_BYTES; more only for a line that is longer, at most
 * EVENT_LINE_BYTES_MAX. So reading the last events of a long journal costs what these are long.
 */
#include "journal/cursor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "journal/line.h"

enum { START_BYTES = 16 << 10, READ_BYTES = 256 << 10, PROBE_BYTES = 16 << 10 };

struct cursor {
	int fd;
	char *bytes;
	size_t cap;
	size_t len;
	size_t read_bytes;     /* how much is read at once: START_BYTES to READ_BYTES */
	uint64_t base;         /* file offset of bytes[0] */
	size_t next;           /* start of the next line in `bytes` */
	uint64_t seq;          /* of the last event delivered or passed over */
	uint64_t since;        /* events up to this one are not delivered */
	uint64_t damaged;      /* lines passed since event `seq` that are no events */
	uint64_t lines;        /* passed since `anchor` */
	uint64_t anchor;       /* a line start from which lines are counted */
	uint64_t anchor_lines; /* lines before it */
	bool anchor_counted;   /* anchor_lines is known */
};

/* A line that was looked at and not yet passed. */
struct sight {
	const char *line; /* NULL when it is longer than a line may be */
	size_t len;       /* with its LF */
	uint64_t end;     /* offset behind its LF */
	uint64_t seq;
};

uint64_t cursor_offset(const struct cursor *cursor)
{
	return cursor->base + cursor->next;
}

/* Goes to `offset`; nothing is in the buffer then. */
static void move_to(struct cursor *cursor, uint64_t offset)
{
	cursor->base = offset;
	cursor->next = 0;
	cursor->len = 0;
}

static void forget_buffer(struct cursor *cursor)
{
	move_to(cursor, cursor_offset(cursor));
}

/* pread(2) resumed after EINTR; short only at the end of the file. */
static ssize_t read_at(int fd, void *bytes, size_t size, uint64_t offset, struct err *err)
{
	ssize_t count;

	do {
		count = pread(fd, bytes, size, (off_t)offset);
	} while (count < 0 && errno == EINTR);
	if (count < 0)
		err_sys(err, "cannot read the journal");
	return count;
}

/* Fills the buffer from the next line on, with room for twice what it had of it. */
static int fill(struct cursor *cursor, size_t *wanted, struct err *err)
{
	size_t have = cursor->len - cursor->next;
	size_t want = 2 * have > cursor->read_bytes ? 2 * have : cursor->read_bytes;
	ssize_t count;

	want = want < EVENT_LINE_BYTES_MAX ? want : EVENT_LINE_BYTES_MAX;
	forget_buffer(cursor);
	if (cursor->cap != want) {
		cursor->bytes = mem_resize(cursor->bytes, want, 1);
		cursor->cap = want;
	}
	count = read_at(cursor->fd, cursor->bytes, want, cursor->base, err);
	if (count < 0)
		return -1;
	cursor->len = (size_t)count;
	if (cursor->len == want && cursor->read_bytes < READ_BYTES)
		cursor->read_bytes *= 4;
	*wanted = want;
	return 0;
}

/* The end of a line that fills the whole buffer without an LF: CURSOR_DAMAGED when there is one. */
static enum cursor_step find_far_end(struct cursor *cursor, struct sight *sight, struct err *err)
{
	uint64_t at = cursor_offset(cursor) + (cursor->len - cursor->next);

	forget_buffer(cursor); /* its memory serves for reading on */
	for (;;) {
		ssize_t count = read_at(cursor->fd, cursor->bytes, READ_BYTES, at, err);
		const char *lf = count > 0 ? memchr(cursor->bytes, '\n', (size_t)count) : NULL;

		if (count < 0)
			return CURSOR_ERROR;
		if (count == 0)
			return CURSOR_END;
		if (lf) {
			sight->line = NULL;
			sight->end = at + (uint64_t)(lf - cursor->bytes) + 1;
			return CURSOR_DAMAGED;
		}
		at += (uint64_t)count;
	}
}

/* The next whole line of the file as it is: CURSOR_EVENT, or CURSOR_DAMAGED when it is too long. */
static enum cursor_step find_line(struct cursor *cursor, struct sight *sight, struct err *err)
{
	size_t wanted = 0;

	for (;;) {
		size_t have = cursor->len - cursor->next;
		const char *start = have > 0 ? cursor->bytes + cursor->next : NULL;
		const char *lf = have > 0 ? memchr(start, '\n', have) : NULL;

		if (lf) {
			sight->line = start;
			sight->len = (size_t)(lf - start) + 1;
			sight->end = cursor_offset(cursor) + sight->len;
			return CURSOR_EVENT;
		}
		if (have == EVENT_LINE_BYTES_MAX)
			return find_far_end(cursor, sight, err);
		if (wanted > cursor->len) {
			forget_buffer(cursor);
			return CURSOR_END;
		}
		if (fill(cursor, &wanted, err) != 0)
			return CURSOR_ERROR;
	}
}

/* The seq of the line at `offset` by its first bytes; 0 when they do not say one. */
static uint64_t seq_at(const struct cursor *cursor, uint64_t offset)
{
	char start[LINE_SEQ_BYTES_MAX];
	ssize_t count;

	if (offset >= cursor->base && offset - cursor->base + sizeof(start) <= cursor->len)
		return line_seq(cursor->bytes + (offset - cursor->base), sizeof(start));
	count = read_at(cursor->fd, start, sizeof(start), offset, NULL);
	return count > 0 ? line_seq(start, (size_t)count) : 0;
}

static bool is_in_order(const struct cursor *cursor, const struct sight *sight)
{
	uint64_t behind;

	if (sight->seq <= cursor->seq)
		return false;
	if (sight->seq == cursor->seq + 1)
		return true;
	behind = seq_at(cursor, sight->end);
	return behind == 0 || behind > sight->seq;
}

/* Whether the line is an event in its place. With `event`, it is parsed when it is to be delivered
 * (seq above `since`). */
static bool is_event(const struct cursor *cursor, struct sight *sight, struct event *event)
{
	cleanup_event struct event parsed = EVENT_INIT;

	sight->seq = line_seq_whole(sight->line, sight->len - 1);
	if (sight->seq == 0) {
		/* Another order of members or blanks between them: written by other tools. */
		if (event_parse(sight->line, sight->len - 1, &parsed, NULL) != 0)
			return false;
		sight->seq = parsed.seq;
	}
	if (!is_in_order(cursor, sight))
		return false;
	return !event || sight->seq <= cursor->since ||
	       event_parse(sight->line, sight->len - 1, event, NULL) == 0;
}

/* 1 when there are bytes at `offset`, 0 when the file ends before, -1 on failure. */
static int has_bytes_at(const struct cursor *cursor, uint64_t offset, struct err *err)
{
	char byte;

	if (offset >= cursor->base && offset < cursor->base + cursor->len)
		return 1;
	return (int)read_at(cursor->fd, &byte, 1, offset, err);
}

/* What comes next, without passing it. */
static enum cursor_step look(struct cursor *cursor, struct sight *sight, struct event *event,
			     struct err *err)
{
	enum cursor_step step = find_line(cursor, sight, err);
	int more;

	if (step == CURSOR_EVENT && !is_event(cursor, sight, event))
		step = CURSOR_DAMAGED;
	if (step != CURSOR_DAMAGED)
		return step;
	more = has_bytes_at(cursor, sight->end, err);
	if (more > 0)
		return CURSOR_DAMAGED;
	forget_buffer(cursor); /* torn: it can be other bytes next time */
	return more < 0 ? CURSOR_ERROR : CURSOR_END;
}

/* Lines that begin before `end`. */
static int count_lines(const struct cursor *cursor, uint64_t end, uint64_t *lines, struct err *err)
{
	char chunk[PROBE_BYTES];

	*lines = 0;
	for (uint64_t at = 0; at < end;) {
		size_t size = end - at < sizeof(chunk) ? (size_t)(end - at) : sizeof(chunk);
		ssize_t count = read_at(cursor->fd, chunk, size, at, err);

		if (count < 0)
			return -1;
		if (count == 0)
			break;
		for (ssize_t i = 0; i < count; i++)
			*lines += chunk[i] == '\n';
		at += (uint64_t)count;
	}
	return 0;
}

static void pass(struct cursor *cursor, enum cursor_step step, const struct sight *sight)
{
	if (sight->end <= cursor->base + cursor->len)
		cursor->next = (size_t)(sight->end - cursor->base);
	else
		move_to(cursor, sight->end);
	cursor->lines++;
	cursor->damaged++;
	if (step == CURSOR_EVENT) {
		cursor->seq = sight->seq;
		cursor->damaged = 0;
	}
}

/* Whether the step just passed lies behind `since`. A damaged line is taken for one event. */
static bool is_wanted(const struct cursor *cursor)
{
	return cursor->seq + cursor->damaged > cursor->since;
}

/* One step: passes an event that is to be delivered, or a damaged line. */
static enum cursor_step step_on(struct cursor *cursor, struct sight *sight, struct event *event,
				struct err *err)
{
	enum cursor_step step;

	do {
		step = look(cursor, sight, event, err);
		if (step == CURSOR_END || step == CURSOR_ERROR)
			return step;
		pass(cursor, step, sight);
	} while (!is_wanted(cursor));
	if (step == CURSOR_DAMAGED && !cursor->anchor_counted &&
	    count_lines(cursor, cursor->anchor, &cursor->anchor_lines, NULL) == 0)
		cursor->anchor_counted = true; /* once, for all damaged lines from here on */
	return step;
}

enum cursor_step cursor_next(struct cursor *cursor, struct event *event, struct err *err)
{
	struct sight sight;

	assert(!event->cell && !event->text && !event->body);
	return step_on(cursor, &sight, event, err);
}

enum cursor_step cursor_next_line(struct cursor *cursor, const char **line, size_t *len,
				  uint64_t *seq, struct err *err)
{
	struct sight sight;
	enum cursor_step step = step_on(cursor, &sight, NULL, err);

	if (step == CURSOR_EVENT) {
		*line = sight.line;
		*len = sight.len;
		*seq = sight.seq;
	}
	return step;
}

/*
 * The first pair of lines with consecutive numbers of which the first begins behind `from`, both
 * before `end`: 1, with the first one's start and seq; 0 when there is none.
 */
static int probe(const struct cursor *cursor, uint64_t from, uint64_t end, uint64_t *start,
		 uint64_t *seq, struct err *err)
{
	char chunk[PROBE_BYTES];

	*seq = 0;
	while (from < end) {
		ssize_t count = read_at(cursor->fd, chunk, sizeof(chunk), from, err);
		const char *lf = count > 0 ? memchr(chunk, '\n', (size_t)count) : NULL;
		uint64_t here;

		if (count <= 0)
			return (int)count;
		if (!lf) {
			from += (uint64_t)count;
			continue;
		}
		from += (uint64_t)(lf - chunk) + 1;
		if (from >= end)
			break;
		here = seq_at(cursor, from);
		if (*seq > 0 && here == *seq + 1)
			return 1;
		*start = from;
		*seq = here;
	}
	return 0;
}

/* The next line is that of event `seq`, which begins at `offset`. */
static void stand_before(struct cursor *cursor, uint64_t offset, uint64_t seq)
{
	move_to(cursor, offset);
	cursor->seq = seq - 1;
	cursor->damaged = 0;
	cursor->anchor = offset;
	cursor->anchor_counted = offset == 0;
	cursor->anchor_lines = 0;
	cursor->lines = 0;
}

/* Goes near to the first event behind `seq`: never beyond it, and by at most READ_BYTES and
 * a damaged stretch short of it. */
static int approach(struct cursor *cursor, uint64_t seq, struct err *err)
{
	uint64_t low = cursor_offset(cursor);
	uint64_t low_seq = 0; /* of the line at `low`, once it has moved */
	struct stat st;
	uint64_t high;

	if (fstat(cursor->fd, &st) != 0)
		return err_sys(err, "cannot read the journal");
	high = (uint64_t)st.st_size;
	while (high > low && high - low > READ_BYTES) {
		uint64_t middle = low + (high - low) / 2;
		uint64_t start = 0;
		uint64_t found = 0;
		int result = probe(cursor, middle, high, &start, &found, err);

		if (result < 0)
			return -1;
		if (result == 0 || found > seq) {
			high = middle;
		} else {
			low = start;
			low_seq = found;
		}
	}
	if (low_seq > 0)
		stand_before(cursor, low, low_seq);
	return 0;
}

int cursor_skip_to(struct cursor *cursor, uint64_t seq, uint64_t *from, uint64_t *to,
		   struct err *err)
{
	uint64_t before = cursor_seq(cursor);
	struct sight sight;
	enum cursor_step step;

	if (seq > before && approach(cursor, seq, err) != 0)
		return -1;
	while (cursor->seq < seq) {
		step = look(cursor, &sight, NULL, err);
		if (step == CURSOR_ERROR)
			return -1;
		if (step == CURSOR_END || (step == CURSOR_EVENT && sight.seq > seq))
			break;
		pass(cursor, step, &sight);
	}
	*from = cursor->seq > before ? before + 1 : 0;
	*to = cursor->seq > before ? cursor->seq : 0;
	return 0;
}

int cursor_go(struct cursor *cursor, uint64_t seq, uint64_t offset, struct err *err)
{
	struct stat st;
	size_t wanted;

	stand_before(cursor, offset, seq + 1);
	cursor->since = seq;
	if (fill(cursor, &wanted, err) != 0)
		return -1;
	if (seq_at(cursor, offset) == seq + 1)
		return 0;
	if (cursor->len == 0 && fstat(cursor->fd, &st) == 0 && (uint64_t)st.st_size == offset)
		return 0; /* it is still to be written */
	stand_before(cursor, 0, 1);
	return seq == 0 ? 0 : approach(cursor, seq, err);
}

struct cursor *cursor_open(int dirfd, uint64_t since, struct err *err)
{
	int fd = openat(dirfd, "journal.ndjson", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct cursor *cursor;
	struct stat st;

	if (fd < 0) {
		err_sys(err, "cannot open the journal");
		return NULL;
	}
	cursor = mem_zalloc(sizeof(*cursor));
	cursor->fd = fd;
	cursor->since = since;
	cursor->anchor_counted = true;
	cursor->read_bytes = START_BYTES;
	if (fstat(fd, &st) != 0) {
		err_sys(err, "cannot open the journal");
	} else if (!S_ISREG(st.st_mode)) {
		err_set(err, ERR_INVALID, "journal.ndjson is no regular file");
	} else if (since == 0 || approach(cursor, since, err) == 0) {
		return cursor;
	}
	cursor_free(cursor);
	return NULL;
}

void cursor_free(struct cursor *cursor)
{
	if (!cursor)
		return;
	close(cursor->fd);
	free(cursor->bytes);
	free(cursor);
}

uint64_t cursor_seq(const struct cursor *cursor)
{
	return cursor->seq > cursor->since ? cursor->seq : cursor->since;
}

uint64_t cursor_line_number(const struct cursor *cursor)
{
	uint64_t before = cursor->anchor_lines;

	if (!cursor->anchor_counted && count_lines(cursor, cursor->anchor, &before, NULL) != 0)
		return 0;
	return before + cursor->lines;
}
