/*
 * Which cell a text is wanted of, and what it says of the ask that the cell has answered.
 */
#ifndef FH_CLI_FOLD_ASK_H
#define FH_CLI_FOLD_ASK_H

#include "base/buf.h"
#include "base/err.h"

struct fold_wanted {
	char *cell;      /* its id; NULL: an ask that no cell has answered */
	struct buf line; /* "[asked (a1): ...; agreed 3 of 5]" without LF; empty: no ask */
};

#define FOLD_WANTED_INIT \
	{ \
		.cell = NULL, .line = BUF_INIT \
	}

void fold_wanted_release(struct fold_wanted *wanted);
#define cleanup_wanted __attribute__((cleanup(fold_wanted_release)))

/* Looks for the cell with this id, for the ask with it, or (NULL) for what came last. The line is
 * there when an ask has that cell as its answer, or has none. ERR_NOT_FOUND when there is nothing;
 * a cell that was named is not looked for if no ask has that name. */
int fold_find(int dirfd, const char *id, struct fold_wanted *wanted, struct err *err);

#endif
