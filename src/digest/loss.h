/*
 * What did not come back with a checkpoint, in words (`lost`, doc/protocol.md "Checkpoints").
 */
#ifndef FH_DIGEST_LOSS_H
#define FH_DIGEST_LOSS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"

enum { LOSS_NAMES_MAX = 3, LOSS_NAME_CHARS_MAX = 48 };

/*
 * Appends "thread worker; processes sleep 60, sleep 61 and 4 more; 3 connections", on one line and
 * with everything escaped, for `lost` of an event. Of each kind the first LOSS_NAMES_MAX are named.
 * Returns whether there was anything to say; hostile or unknown members are passed over.
 */
bool loss_words(struct buf *out, const struct json *lost);

/* Appends "c4, c5, c6 and 3 more": ids of cells, or other names, from an array of strings. */
void loss_names(struct buf *out, const struct json *names);

#endif
