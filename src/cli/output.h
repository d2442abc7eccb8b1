/*
 * A notebook file that the user asked for: -o FILE.ipynb, or - for stdout.
 */
#ifndef FH_CLI_OUTPUT_H
#define FH_CLI_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct save;

struct output {
	const char *path; /* as the user wrote it; NULL: none was asked for */
	bool to_stdout;
	int dirfd;         /* owned */
	struct save *save; /* owned */
};

#define OUTPUT_INIT \
	{ \
		.path = NULL, .to_stdout = false, .dirfd = -1, .save = NULL \
	}

/* Looks at the place before anything is run, so that a wrong path costs no work. `path` may be NULL
 * and is borrowed. */
int output_open(struct output *output, const char *path, struct err *err);
void output_release(struct output *output);
#define cleanup_output __attribute__((cleanup(output_release)))

/* Writes the file durably. If someone else has written it meanwhile, theirs stays and ours goes
 * beside it, which is said. */
int output_write(struct output *output, const struct buf *bytes, struct err *err);

#endif
