/*
 * The mime type of a file in the workspace, by its name and, where that says nothing, by its first
 * bytes.
 *
 * A small table of our own: what people write from a notebook and what a client wants to show.
 * Anything else is application/octet-stream, which every client saves and none opens.
 */
#ifndef FH_KEEPER_MIME_H
#define FH_KEEPER_MIME_H

#include <stddef.h>

enum { MIME_HEAD_BYTES = 16 }; /* mime_of_head() looks at no more */

/* By the ending of the name (any bytes, any case, no folder before it), or NULL. Constant. */
const char *mime_of_name(const char *name, size_t len);

/* By the first bytes of the file; "application/octet-stream" when they say nothing. Constant. */
const char *mime_of_head(const void *head, size_t len);

#endif
