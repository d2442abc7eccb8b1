/*
 * What TAB makes of an answer to `complete`: what can be added at once, and the list of what is
 * possible.
 */
#ifndef FH_CLI_REPL_MATCHES_H
#define FH_CLI_REPL_MATCHES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"

enum { REPL_MATCHES_MAX = 2000 };

struct repl_matches {
	const char **texts; /* borrowed from the answer; the array is owned */
	size_t count;
	size_t start; /* code points from the beginning of the code that they replace */
	size_t end;
};

#define REPL_MATCHES_INIT \
	{ \
		.texts = NULL, .count = 0, .start = 0, .end = 0 \
	}

/* Reads an answer, which must outlive *matches. What cannot be typed (control characters) is left
 * out. */
void repl_matches_read(struct repl_matches *matches, const struct json *answer);
void repl_matches_release(struct repl_matches *matches);

/* Bytes that all texts begin with, whole code points; 0 when there are none. */
size_t repl_matches_common(const struct repl_matches *matches);

/* Appends the texts in columns, sorted downwards, for a terminal of this width; at most `rows_max`
 * rows, and then how many more there are. Escaped. */
void repl_matches_list(const struct repl_matches *matches, size_t width, size_t rows_max,
		       struct buf *out);

#endif
