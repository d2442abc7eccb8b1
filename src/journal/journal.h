/*
 * The journal: append-only NDJSON, on disk before anyone is told.
 *
 * journal_append() gives the event its seq and time, and returns after write(2): a killed process
 * loses nothing that was told. journal_sync() (fdatasync, blocking, for a worker thread) makes it
 * survive a power cut. Space is allocated a mebibyte ahead (fallocate KEEP_SIZE): once that fails,
 * or the record limit is near, ordinary events are refused with ERR_NO_SPACE or ERR_LIMIT while
 * `finished`, `warning`, `stopped`, `truncated`, `died` and `state` still fit into what is
 * reserved. A file size limit (RLIMIT_FSIZE) is a full disk like any other. A short
 * write is cut off again, so a failed append leaves the file as it was.
 *
 * Opening drops a torn last line (no LF, or not an event) and says how many bytes; a damaged line
 * in the middle stays, readers report it by number and go on. Values above EVENT_INLINE_BYTES_MAX
 * are put into blobs/<sha256> (temp, fsync, rename) before the line that names them.
 */
#ifndef FH_JOURNAL_JOURNAL_H
#define FH_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "journal/event.h"

struct journal;

struct journal_report {
	uint64_t seq;        /* last seq in the file; 0: empty */
	int64_t t_us;        /* its time */
	uint64_t torn_bytes; /* cut from the end */
	uint64_t damaged;    /* lines in the middle that are no events */
	bool fresh;          /* the file was made now, or was empty */
};

enum { JOURNAL_RESERVE_BYTES = 64 << 10, JOURNAL_PLACES = 64 };
/* Default limit of journal and blobs together ("record"). */
#define JOURNAL_BYTES_MAX ((uint64_t)4 << 30)

/* Opens or makes dirfd/journal.ndjson and dirfd/blobs for appending. `dirfd` (no O_PATH) stays the
 * caller's and must outlive the journal. ERR_CORRUPT when its format is newer than EVENT_FORMAT, or
 * the file is no journal. `report` may be NULL. */
struct journal *journal_open(int dirfd, uint64_t bytes_max, struct journal_report *report,
			     struct err *err);

/* The last line has been written: gives back the space ahead, and from then on appending fails with
 * ERR_GONE. To be called before the lock on the session is let go: afterwards the file is another
 * writer's, and nothing here may touch its size. Reading goes on. */
void journal_seal(struct journal *journal);

void journal_free(struct journal *journal); /* seals and closes; no sync */

/* Takes over `fd`, the folder that `dirfd` lies in, for the first sync of a process that may not
 * open it any more. Without it (-1) it is opened then. */
void journal_take_above(struct journal *journal, int fd);

/* Appends; sets event->seq and event->t_us (never decreasing). Long values are stored as blobs in
 * the line that is written, while event->body keeps them inline. A key "$blob" (or "$$blob" ...) in
 * `data`, wherever the guest could put it, is written with one more "$". The first event must be
 * EVENT_SESSION; its body gets `format`. Fails with ERR_NO_SPACE, ERR_LIMIT or ERR_IO, nothing
 * written. A blob needs space of its own: a `finished` with a value over EVENT_INLINE_BYTES_MAX can
 * fail where one without it fits. */
int journal_append(struct journal *journal, struct event *event, struct err *err);

/* The bytes of the last line appended (with LF), for readers that are up to date; valid until the
 * next append. */
const char *journal_last_line(const struct journal *journal, size_t *len);

/* fdatasync of the file (and, the first time, fsync of session.json, of `dirfd` and of the folder
 * that it lies in); may be called from another thread while the owner appends. */
int journal_sync(struct journal *journal, struct err *err);

uint64_t journal_seq(const struct journal *journal);   /* last seq */
uint64_t journal_bytes(const struct journal *journal); /* journal and blobs together */
/* Where in the file the line behind event `seq` begins, or will begin: for cursor_go(). Known of
 * the last JOURNAL_PLACES events; 0: not known (any more). */
uint64_t journal_place(const struct journal *journal, uint64_t seq);
/* Another limit of journal and blobs together, from now on. One that leaves room again makes a
 * spent journal take events again: whoever raises it has told what was refused meanwhile. */
void journal_set_limit(struct journal *journal, uint64_t bytes_max);
/* The record's limit has refused an event: from then on it refuses all but the reserved types,
 * until the limit is raised. */
bool journal_is_spent(const struct journal *journal);
uint64_t journal_repaired(const struct journal *journal); /* U+FFFD put in for bad text so far */

/* Is there disk space again? Tries to allocate ahead once more; 0 when ordinary events fit again.
 */
int journal_retry_space(struct journal *journal, struct err *err);

/* --- blobs ------------------------------------------------------------------------------------ */

/* Stores bytes under their SHA-256 (once). */
int blob_put(int dirfd, const void *bytes, size_t len, char hex[static 65], struct err *err);

/* Appends `length` bytes from `offset` (clamped to the blob's size) to `out`; *total is its size.
 * ERR_INVALID when `hex` is no hash, ERR_NOT_FOUND when there is no such blob. Opened beneath
 * blobs/. */
int blob_read(int dirfd, const char *hex, uint64_t offset, uint64_t length, struct buf *out,
	      uint64_t *total, struct err *err);

/* Replaces each {"$blob":hex,"bytes":n,"mime":m} in the event's body by its value, as long as the
 * sum stays within `bytes_max` (larger ones stay links), and each "$$blob" key by "$blob". *inlined
 * (may be NULL): something was changed. A missing blob becomes the text "(missing blob <hex>)", one
 * of the wrong length or form "(damaged blob <hex>)". `mime` of a link is "application/json"
 * exactly when the blob is the JSON text of the value; else it is the text of a string. */
int event_inline(int dirfd, struct event *event, uint64_t bytes_max, bool *inlined,
		 struct err *err);

#endif
