/*
 * The line about how a cell ended, when it is not the usual way.
 */
#ifndef FH_DIGEST_OUTCOME_H
#define FH_DIGEST_OUTCOME_H

#include "base/buf.h"
#include "base/json.h"
#include "journal/timeline.h"

/*
 * Appends a line in brackets, without LF, or nothing: for `finished` being NULL, and for status
 * `ok` and `error` while the variables are kept. `cell` and `finished` are bodies of these events,
 * from which `timeout`, `status`, `reason`, `state`, `recovers_to`, `rolled_back`, `lost` and
 * `duration_us` are used (doc/protocol.md).
 */
void outcome_line(struct buf *out, const struct json *cell, const struct json *finished);

/* Appends what the variables are now, and what did not come back: "variables are as they were just
 * before this cell; not restored: thread work"; nothing when `finished` does not say. */
void outcome_state(struct buf *out, const struct json *finished);

/* Appends a line in brackets, without LF, when the cell was undone by something that came after its
 * end; nothing when it was not, or `cell` is NULL. What `atomic` and `try` undo is in its outcome.
 */
void outcome_fate(struct buf *out, const struct timeline_cell *cell);

/* Appends a line in brackets, without LF, for the body of a `truncated` event. */
void outcome_truncated(struct buf *out, const struct json *body);

#endif
