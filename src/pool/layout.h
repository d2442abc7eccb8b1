/*
 * Which paths make up a Python environment: what its nursery must show (sandbox/nursery.h).
 *
 * Asked of the interpreter itself, by python/fumehood_guest/layout.py, which runs nothing of the
 * environment. It takes about 30 ms, once for each zygote.
 */
#ifndef FH_POOL_LAYOUT_H
#define FH_POOL_LAYOUT_H

#include <stddef.h>

#include "base/err.h"

struct layout {
	char **paths; /* NULL-terminated; absolute */
	size_t count;
};

#define LAYOUT_INIT \
	{ \
		.paths = NULL, .count = 0 \
	}

/* Runs `python -I -S <folder of script>/layout.py`. It is given 10 s. ERR_NOT_FOUND when there is
 * no such script, ERR_ENGINE when its answer is of no use. */
int layout_find(struct layout *layout, const char *python, const char *script, struct err *err);

/* The paths in a JSON array; others than absolute strings are an error. */
int layout_parse(struct layout *layout, const char *text, size_t len, struct err *err);

void layout_release(struct layout *layout);
#define cleanup_layout __attribute__((cleanup(layout_release)))

#endif
