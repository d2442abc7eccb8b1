/*
 * Reading a notebook file; see document.h.
 *
 * The whole text is parsed once and the cells take references to their parts of the tree. Ids are
 * made in a second pass, when all ids of the file are known, out of the source and the position
 * of the cell: the same file gives the same ids each time it is read, so a file without ids that
 * is run twice does not differ in them.
 */
#include "notebook/document.h"

#include <assert.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

enum { ID_MADE_LENGTH = 8 };
enum { DOCUMENT_DEPTH_MAX = 200 };

/* Ids in use: a tree of the cells that have one (tsearch). */
static int cell_compare(const void *a, const void *b)
{
	return strcmp(((const struct document_cell *)a)->id, ((const struct document_cell *)b)->id);
}

/* Takes the id when no other cell has it. */
static bool id_enter(void **ids, struct document_cell *cell)
{
	struct document_cell **held = tsearch(cell, ids, cell_compare);

	if (held == NULL)
		abort(); /* out of memory, as in base/mem */
	return *held == cell;
}

static void id_make(void **ids, struct document_cell *cell, size_t number)
{
	cleanup_buf struct buf seed = BUF_INIT;
	char hex[HASH_HEX_SIZE];

	buf_append(&seed, cell->source, cell->source_len);
	buf_printf(&seed, "\n%zu", number);
	do {
		hash_sha256(buf_bytes(&seed), seed.len, hex);
		memcpy(cell->id, hex, ID_MADE_LENGTH);
		cell->id[ID_MADE_LENGTH] = '\0';
		buf_append_char(&seed, '+'); /* for another try, should the id be taken */
	} while (!id_enter(ids, cell));
}

static int cell_read_type(const struct json *json, size_t number, enum document_cell_type *type,
			  struct err *err)
{
	static const char *const names[] = {"code", "markdown", "raw"};
	const char *name = json_get_string(json, "cell_type");

	if (name == NULL)
		return err_set(err, ERR_INVALID, "cell %zu has no cell_type", number);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			*type = (enum document_cell_type)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID,
		       "cell %zu: cell_type \"%.40s\" is not code, markdown or raw", number, name);
}

/* A string, or a list of strings that are joined. */
static int cell_read_source(const struct json *json, size_t number, struct document_cell *cell,
			    struct err *err)
{
	cleanup_buf struct buf joined = BUF_INIT;
	const struct json *source = json_get(json, "source");
	size_t len = 0;
	const char *text = json_string(source, &len);

	if (text != NULL)
		buf_append(&joined, text, len);
	else if (json_type_of(source) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, "cell %zu: source is no string or list of strings",
			       number);
	for (size_t i = 0; text == NULL && i < json_length(source); i++) {
		const char *line = json_string(json_at(source, i), &len);

		if (line == NULL)
			return err_set(err, ERR_INVALID,
				       "cell %zu: element %zu of source is no string", number,
				       i + 1);
		buf_append(&joined, line, len);
	}
	cell->source_len = joined.len;
	cell->source = joined.len > 0 ? buf_take(&joined, NULL) : mem_copy(NULL, 0);
	return 0;
}

static struct json *keep_object(const struct json *json, const char *key)
{
	struct json *value = json_get(json, key);

	return json_type_of(value) == JSON_OBJECT ? json_keep(value) : NULL;
}

static int cell_read(const struct json *json, size_t number, struct document_cell *cell,
		     struct err *err)
{
	const char *id;

	if (json_type_of(json) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "cell %zu is no object", number);
	if (cell_read_type(json, number, &cell->type, err) < 0)
		return -1;
	if (cell_read_source(json, number, cell, err) < 0)
		return -1;
	id = json_get_string(json, "id");
	if (id != NULL && text_is_id(id, strlen(id)))
		memcpy(cell->id, id, strlen(id) + 1);
	cell->metadata = keep_object(json, "metadata");
	if (cell->type != DOCUMENT_CODE)
		cell->attachments = keep_object(json, "attachments");
	return 0;
}

/* Repeated ids: the first cell keeps it, as in nbformat. */
static void make_ids(struct document *document)
{
	void *ids = NULL;

	for (size_t i = 0; i < document->cell_count; i++) {
		struct document_cell *cell = &document->cells[i];

		if (cell->id[0] != '\0' && !id_enter(&ids, cell))
			cell->id[0] = '\0';
	}
	for (size_t i = 0; i < document->cell_count; i++)
		if (document->cells[i].id[0] == '\0')
			id_make(&ids, &document->cells[i], i + 1);
	for (size_t i = 0; i < document->cell_count; i++)
		tdelete(&document->cells[i], &ids, cell_compare);
	assert(ids == NULL);
}

static int check_version(const struct json *notebook, struct err *err)
{
	const struct json *major = json_get(notebook, "nbformat");

	if (json_type_of(notebook) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "not a notebook: the file holds no JSON object");
	if (json_type_of(major) != JSON_INT)
		return err_set(err, ERR_INVALID, "not a notebook: it has no \"nbformat\" number");
	if (json_int(major, 0) < 4)
		return err_set(
			err, ERR_INVALID,
			"this notebook has format %" PRId64 ", older than 4; convert it with: "
			"jupyter nbconvert --to notebook --nbformat 4 --output NEW.ipynb OLD.ipynb",
			json_int(major, 0));
	if (json_int(major, 0) > 4)
		return err_set(err, ERR_INVALID,
			       "this notebook has format %" PRId64 ", newer than 4",
			       json_int(major, 0));
	return 0;
}

static int read_cells(const struct json *cells, struct document *document, struct err *err)
{
	size_t count = json_length(cells);

	if (json_type_of(cells) != JSON_ARRAY)
		return err_set(err, ERR_INVALID, "not a notebook: it has no list of cells");
	document->cells = mem_zalloc((count + 1) * sizeof(*document->cells));
	for (size_t i = 0; i < count; i++) {
		document->cell_count =
			i + 1; /* a cell that fails half-way is released with the rest */
		if (cell_read(json_at(cells, i), i + 1, &document->cells[i], err) < 0)
			return -1;
	}
	return 0;
}

int document_read(const char *bytes, size_t len, struct document *document, struct err *err)
{
	static const struct json_limits limits = {.bytes_max = DOCUMENT_BYTES_MAX,
						  .depth_max = DOCUMENT_DEPTH_MAX,
						  .keys_unique = false,
						  .nan_as_text = true};
	cleanup_json struct json *notebook = NULL;
	struct document made = {.cells = NULL, .cell_count = 0, .metadata = NULL};
	struct err cause = ERR_INIT;

	if (len >= 3 &&
	    memcmp(bytes, "\xef\xbb\xbf", 3) == 0) { /* some editors add a byte order mark */
		bytes += 3;
		len -= 3;
	}
	notebook = json_parse(bytes, len, &limits, &cause);
	if (notebook == NULL &&
	    cause.code != ERR_OK) { /* the text "null" is no failure, but NULL too */
		if (err != NULL)
			*err = cause;
		return err_wrap(err, "not a notebook");
	}
	if (check_version(notebook, err) < 0)
		return -1;
	if (read_cells(json_get(notebook, "cells"), &made, err) < 0) {
		document_release(&made);
		return -1;
	}
	made.metadata = keep_object(notebook, "metadata");
	if (made.metadata == NULL)
		made.metadata = json_new_object();
	make_ids(&made);
	*document = made;
	return 0;
}

void document_release(struct document *document)
{
	for (size_t i = 0; i < document->cell_count; i++) {
		free(document->cells[i].source);
		json_free(document->cells[i].metadata);
		json_free(document->cells[i].attachments);
	}
	free(document->cells);
	json_free(document->metadata);
	*document = (struct document){.cells = NULL, .cell_count = 0, .metadata = NULL};
}
