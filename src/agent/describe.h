/*
 * The workspace in words for a model: names, sizes, and how files begin. Pure.
 *
 *	Files in the current folder:
 *	- sales.csv (1.2 KB):
 *	    date,region,amount
 *	    2026-01-03,north,120.50
 *	- photo.png (84 KB)
 *
 * A budget in bytes bounds it. What does not fit is left out from the end: first the lines of the
 * last files, then their names, which are counted.
 */
#ifndef FH_AGENT_DESCRIBE_H
#define FH_AGENT_DESCRIBE_H

#include "base/buf.h"
#include "base/json.h"

enum {
	DESCRIBE_FILES_MAX = 40,
	DESCRIBE_HEADS_MAX = 8,     /* files whose beginning is shown */
	DESCRIBE_HEAD_BYTES = 1024, /* that are looked at */
	DESCRIBE_LINES_MAX = 3,
	DESCRIBE_LINE_CHARS = 120,
};

struct describe_file {
	const char *name;
	uint64_t bytes;
	bool folder;
	const char *head; /* its first bytes; NULL: not looked at */
	size_t head_len;
};

/* Appends the description; nothing when there are no files. `more`: others that are not given. */
void describe_files(struct buf *out, const struct describe_file *files, size_t count, size_t more,
		    size_t bytes_max);

/* Appends their names, "a.csv, b.txt". */
void describe_names(struct buf *out, const struct describe_file *files, size_t count);

/* Appends the variables of an answer to op `variables`; nothing when there are none. */
void describe_variables(struct buf *out, const struct json *answer, size_t bytes_max);

#endif
