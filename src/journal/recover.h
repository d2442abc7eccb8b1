/*
 * Recovery: what is in a journal that someone else wrote, perhaps not to its end.
 *
 * Private to src/journal.
 */
#ifndef FH_JOURNAL_RECOVER_H
#define FH_JOURNAL_RECOVER_H

#include <stdint.h>

#include "base/err.h"
#include "journal/journal.h"

/* Reads dirfd/journal.ndjson of `size` bytes through and fills *report (all but `fresh`). Changes
 * nothing. ERR_CORRUPT when the file is no journal, or one of a later format. */
int recover_scan(int dirfd, uint64_t size, struct journal_report *report, struct err *err);

#endif
