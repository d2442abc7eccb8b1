/*
 * The text for a model of one cell, read back from the journal: one function for every way of
 * asking, and no memory for cells that nobody asks about.
 */
#include <string.h>

#include "base/mem.h"
#include "digest/digest.h"
#include "journal/cursor.h"
#include "keeper/session.h"

enum { TEXT_INLINE_BYTES_MAX = 16 << 20 };

static void apply(struct session *session, struct digest *digest, struct event *event,
		  const char *cell)
{
	if (!event->cell || strcmp(event->cell, cell) != 0)
		return;
	if (event_inline(session->dirfd, event, TEXT_INLINE_BYTES_MAX, NULL, NULL) == 0)
		digest_apply(digest, event);
}

/* All events from the cell's first to the end of the journal; late output is part of the cell. */
static int fold(struct session *session, struct digest *digest, const struct cell *cell,
		struct err *err)
{
	struct cursor *cursor = cursor_open(session->dirfd, cell->offset ? 0 : cell->seq - 1, err);
	enum cursor_step step = CURSOR_EVENT;

	if (!cursor)
		return -1;
	if (cell->offset && cursor_go(cursor, cell->seq - 1, cell->offset, err) != 0)
		step = CURSOR_ERROR;
	while (step == CURSOR_EVENT || step == CURSOR_DAMAGED) {
		cleanup_event struct event event = EVENT_INIT;

		step = cursor_next(cursor, &event, err);
		if (step == CURSOR_EVENT)
			apply(session, digest, &event, cell->id);
	}
	cursor_free(cursor);
	return step == CURSOR_ERROR ? -1 : 0;
}

int session_text(struct session *session, const struct cell *cell, const struct digest_params *form,
		 const struct event *finished, struct buf *out, struct err *err)
{
	cleanup_free char *whole =
		mem_format("fumehood log %s --cell %s", session->config.id, cell->id);
	struct digest_params params = *form;
	struct digest *digest;
	int status;

	params.whole = whole;
	record_flush(session->record);
	digest = digest_new(&params);
	status = fold(session, digest, cell, err);
	if (status == 0 && finished)
		digest_apply(digest, finished);
	digest_set_fate(digest, notebook_fate(record_notebook(session->record), cell->id));
	if (status == 0)
		digest_text(digest, out);
	digest_free(digest);
	return status;
}
