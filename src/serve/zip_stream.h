/*
 * A folder of a workspace as a ZIP archive, made while it is sent (PKWARE APPNOTE 6.3.10).
 *
 * Entries are stored, not deflated, and each file's size and CRC follow it in a data descriptor,
 * so that nothing has to be read twice or kept. Limits: 20,000 entries and less than 4 GiB, beyond
 * which the answer is cut (a client sees that its archive is not whole).
 */
#ifndef FH_SERVE_ZIP_STREAM_H
#define FH_SERVE_ZIP_STREAM_H

#include "serve/exchange.h"

/* Answers with the archive of the folder at `path` ("": the workspace). */
void zip_stream_start(struct exchange *exchange, const char *path, size_t len);

/* Of rest_files.c: how a path is named to the keeper, and the parts of its answer to read_file.
 * `members` is the caller's. */
void file_set_path(struct json *fields, const char *bytes, size_t len);
int file_take_part(const struct scan *scan, struct buf *bytes, struct json **members);

#endif
