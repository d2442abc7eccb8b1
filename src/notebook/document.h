/*
 * Reading a notebook file: what `fumehood run FILE.ipynb` runs.
 *
 * Takes nbformat 4.0 to 4.x. Ids are made where there are none or where they repeat (as nbformat
 * does, with 8 hex digits); everything else is kept as it is. Version 3 and older are refused
 * with the command that converts them.
 */
#ifndef FH_NOTEBOOK_DOCUMENT_H
#define FH_NOTEBOOK_DOCUMENT_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

enum document_cell_type { DOCUMENT_CODE, DOCUMENT_MARKDOWN, DOCUMENT_RAW };

struct document_cell {
	enum document_cell_type type;
	char id[65];
	char *source; /* joined; valid UTF-8 */
	size_t source_len;
	struct json *metadata;    /* object, may be NULL */
	struct json *attachments; /* object, may be NULL */
};

struct document {
	struct document_cell *cells;
	size_t cell_count;
	struct json *metadata; /* object */
};

enum { DOCUMENT_BYTES_MAX = 512 << 20 };

/* Reads the bytes of a file. The caller releases the document. ERR_INVALID says what is wrong and
 * where (byte position for JSON, cell number for cells). */
int document_read(const char *bytes, size_t len, struct document *document, struct err *err);
void document_release(struct document *document);

#endif
