/*
 * Ranges (RFC 9110 §14) and types of files by their signatures. Pure.
 */
#ifndef FH_SERVE_RANGE_H
#define FH_SERVE_RANGE_H

#include <stdint.h>

#include "serve/head.h"

enum range_kind {
	RANGE_NONE,    /* none that we serve: the whole file */
	RANGE_SOME,    /* from *start to before *end */
	RANGE_OUTSIDE, /* 416 */
};

/* Reads the field Range for a file of `total` bytes. One range is served; several, and what is
 * malformed, are as good as none. *start and *end are set for RANGE_SOME only. */
enum range_kind range_read(const struct slice *field, uint64_t total, uint64_t *start,
			   uint64_t *end);

/* The type of a file that begins so: an image or document by its signature, text/plain if it is
 * text, else application/octet-stream. Never one that a browser would run. */
const char *file_type(const char *bytes, size_t len);

#endif
