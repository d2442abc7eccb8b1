/*
 * Reading a notebook file: what `fumehood run FILE.ipynb` runs.
 *
 * Takes nbformat 4.x, and version 3 as nbformat converts it, and makes a valid 4.5 of it: what is
 * missing is added, what has the wrong type is converted or left out, and each such repair is
 * written down. Ids are made where there are none or where they repeat (as nbformat does, with 8
 * hex digits). What nbformat itself drops without a word when it reads (orig_nbformat, signature,
 * trusted) and what an older minor version lacks by right (ids) is no repair. Version 2 and older
 * are refused with the command that converts them, and so is code that would have to be guessed.
 */
#ifndef FH_NOTEBOOK_DOCUMENT_H
#define FH_NOTEBOOK_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum document_cell_type { DOCUMENT_CODE, DOCUMENT_MARKDOWN, DOCUMENT_RAW };

struct document_cell {
	enum document_cell_type type;
	char id[65];
	char *source; /* joined; valid UTF-8 */
	size_t source_len;
	struct json *metadata;    /* object */
	struct json *attachments; /* object, may be NULL */
	/* DOCUMENT_CODE: array of outputs that keep the schema, texts joined; NULL for none. */
	struct json *outputs;
	int64_t execution_count; /* -1: none */
};

enum { DOCUMENT_REPAIRS_SHOWN = 5 };

/* What had to be changed; the first few in words. */
struct document_repairs {
	size_t count;
	char *first[DOCUMENT_REPAIRS_SHOWN]; /* owned; UTF-8, may quote the file */
};

struct document {
	struct document_cell *cells;
	size_t cell_count;
	struct json *metadata; /* object */
	struct document_repairs repairs;
	int64_t major, minor; /* as the file says; 4.5 for one that was made */
};

#define DOCUMENT_INIT \
	{ \
		.cells = NULL, .cell_count = 0, .metadata = NULL, .major = 4, .minor = 5 \
	}

enum { DOCUMENT_BYTES_MAX = 512 << 20 };

/* Reads the bytes of a file. The caller releases the document. ERR_INVALID says what is wrong and
 * where (line and column for JSON, cell number for cells). Takes, beside `bytes`, about as much
 * memory as they are long. */
int document_read(const char *bytes, size_t len, struct document *document, struct err *err);
void document_release(struct document *document);

/* Puts a new cell at `index` (0 .. cell_count), with the given source and no outputs. The id is
 * made, so that the same edit gives the same id. `metadata` is taken. Returns the cell, valid until
 * the next change. */
struct document_cell *document_insert(struct document *document, size_t index,
				      enum document_cell_type type, const char *source, size_t len,
				      struct json *metadata);
void document_remove(struct document *document, size_t index);

/* Whether the cell has this tag. */
bool document_has_tag(const struct document_cell *cell, const char *tag);

/* The language that the notebook says its cells are in, as written there ("python", "R"): that of
 * its kernel, else of language_info. NULL: it does not say. Borrowed. */
const char *document_language(const struct document *document);

/* The first cell with this tag, or cell_count. */
size_t document_find_tag(const struct document *document, const char *tag);

#endif
