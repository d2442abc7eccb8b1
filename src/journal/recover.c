/*
 * Recovery is a cursor's walk to the end: what the cursor delivers counts, what it passes over is
 * damage, and what it leaves at the end is torn.
 *
 * The walk looks at the form of the lines only, which takes about a second for 2 GiB; parsing them
 * all would take many. The first and the last event are parsed: the one states the format, and the
 * next event builds on the seq and time of the other. Should one of them turn out to be no event,
 * the walk is done again with parsing.
 */
#include "journal/recover.h"

#include "base/mem.h"
#include "journal/cursor.h"

static void cursor_cleanup(struct cursor **cursor)
{
	cursor_free(*cursor);
}
#define cleanup_cursor __attribute__((cleanup(cursor_cleanup)))

/* The first line says that this is a journal, and of which format. */
static int check_first(const struct event *event, struct err *err)
{
	int64_t format = json_get_int(event->body, "format", 0);

	if (event->type != EVENT_SESSION)
		return err_set(err, ERR_CORRUPT,
			       "the first line of the journal is no session event");
	if (format < 1)
		return err_set(err, ERR_CORRUPT, "the first line of the journal states no format");
	if (format > EVENT_FORMAT)
		return err_set(err, ERR_CORRUPT,
			       "the journal has format %lld, written by a later "
			       "version of Fumehood; this one reads up to %d",
			       (long long)format, EVENT_FORMAT);
	return 0;
}

/* One step of the walk with parsing. */
static enum cursor_step parse_step(struct cursor *cursor, struct journal_report *report,
				   struct err *err)
{
	cleanup_event struct event event = EVENT_INIT;
	enum cursor_step step = cursor_next(cursor, &event, err);

	if (step != CURSOR_EVENT)
		return step;
	report->seq = event.seq;
	report->t_us = event.t_us;
	return cursor_line_number(cursor) == 1 && check_first(&event, err) != 0 ? CURSOR_ERROR
										: step;
}

/* One step of the walk that looks at the form only. */
static enum cursor_step form_step(struct cursor *cursor, struct journal_report *report,
				  struct err *err)
{
	const char *line;
	size_t len;

	return cursor_next_line(cursor, &line, &len, &report->seq, err);
}

static int walk(int dirfd, uint64_t size, bool parse, struct journal_report *report,
		struct err *err)
{
	cleanup_cursor struct cursor *cursor = cursor_open(dirfd, 0, err);
	enum cursor_step step;

	if (!cursor)
		return -1;
	*report = (struct journal_report){.seq = 0};
	do {
		step = parse ? parse_step(cursor, report, err) : form_step(cursor, report, err);
		if (step == CURSOR_ERROR)
			return -1;
		report->damaged += step == CURSOR_DAMAGED;
	} while (step != CURSOR_END);
	if (cursor_offset(cursor) > size)
		return err_set(err, ERR_BUSY, "someone else is writing to the journal");
	report->torn_bytes = size - cursor_offset(cursor);
	if (report->seq == 0 && report->damaged > 0)
		return err_set(err, ERR_CORRUPT, "journal.ndjson has lines, but no event");
	return 0;
}

/* Parses the first event, if it is in the first line, and the last. 1 when one of them is none. */
static int check_ends(int dirfd, struct journal_report *report, struct err *err)
{
	cleanup_cursor struct cursor *first = cursor_open(dirfd, 0, err);
	cleanup_cursor struct cursor *last = cursor_open(dirfd, report->seq - 1, err);
	cleanup_event struct event event = EVENT_INIT;
	enum cursor_step step;

	if (!first || !last)
		return -1;
	step = cursor_next(first, &event, err);
	if (step == CURSOR_ERROR)
		return -1;
	if (step != CURSOR_EVENT)
		return 1;
	if (check_first(&event, err) != 0)
		return -1;
	event_release(&event);
	do {
		step = cursor_next(last, &event, err);
	} while (step == CURSOR_DAMAGED);
	if (step == CURSOR_ERROR)
		return -1;
	if (step != CURSOR_EVENT || event.seq != report->seq)
		return 1;
	report->t_us = event.t_us;
	return 0;
}

int recover_scan(int dirfd, uint64_t size, struct journal_report *report, struct err *err)
{
	int result;

	if (walk(dirfd, size, false, report, err) != 0)
		return -1;
	if (report->seq == 0)
		return 0;
	result = check_ends(dirfd, report, err);
	if (result <= 0)
		return result;
	return walk(dirfd, size, true, report, err);
}
