/*
 * Storing: an event as the line that goes into the file, long values as blobs beside it.
 *
 * Private to src/journal.
 */
#ifndef FH_JOURNAL_STORE_H
#define FH_JOURNAL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "journal/event.h"

/* Where blobs go, and how many bytes of them there may be. */
struct blob_room {
	int dirfd;          /* the session's directory; borrowed */
	uint64_t bytes;     /* of all blobs in it now */
	uint64_t bytes_max; /* `bytes` may not grow beyond; ERR_LIMIT */
};

/* Stores bytes under their SHA-256 unless they are there already; room->bytes grows by what is new.
 */
int blob_keep(struct blob_room *room, const void *bytes, size_t len, char hex[static 65],
	      struct err *err);

/* Sums up the blobs of the directory (made 0700 if absent) into room->bytes, and removes what
 * an interrupted write left there. */
int blob_survey(struct blob_room *room, struct err *err);

/* Whether a JSON key is `$blob`, `$$blob` ... (one dollar or more). A key may hold NUL. */
bool blob_is_key(const char *key, size_t len);

/* Appends the line of the event, with LF: keys `$blob` escaped, values over EVENT_INLINE_BYTES_MAX
 * put into blobs first. *repaired grows by the U+FFFD put in. On failure `out` holds a piece of a
 * line. */
int event_store(struct buf *out, const struct event *event, struct blob_room *room,
		uint64_t *repaired, struct err *err);

#endif
