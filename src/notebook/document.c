/*
 * Reading a notebook file; see document.h.
 *
 * The outline of the text is found first (scan.h), then each cell is parsed alone and what a run
 * needs of it is kept; so memory is needed for the text and for what is kept. Ids are made in a
 * last pass, when all ids of the file are known, out of the source and the position of the cell:
 * the same file gives the same ids each time it is read, so a file without ids that is run twice
 * does not differ in them.
 */
#include "notebook/document.h"

#include <assert.h>
#include <inttypes.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "notebook/document_read.h"
#include "notebook/scan.h"

enum { ID_MADE_LENGTH = 8 };

void document_repair(struct document_repairs *repairs, const char *format, ...)
{
	cleanup_buf struct buf text = BUF_INIT;
	va_list args;

	if (repairs->count++ >= DOCUMENT_REPAIRS_SHOWN)
		return;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	repairs->first[repairs->count - 1] = buf_take(&text, NULL);
}

/* --- ids -------------------------------------------------------------------------------------- */

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

/* Repeated ids: the first cell keeps it, as in nbformat. */
static void make_ids(struct document *document)
{
	void *ids = NULL;

	for (size_t i = 0; i < document->cell_count; i++) {
		struct document_cell *cell = &document->cells[i];

		if (cell->id[0] != '\0' && !id_enter(&ids, cell)) {
			document_repair(&document->repairs,
					"cell %zu: another cell has the id %s too: made a new one",
					i + 1, cell->id);
			cell->id[0] = '\0';
		}
	}
	for (size_t i = 0; i < document->cell_count; i++)
		if (document->cells[i].id[0] == '\0')
			id_make(&ids, &document->cells[i], i + 1);
	for (size_t i = 0; i < document->cell_count; i++)
		tdelete(&document->cells[i], &ids, cell_compare);
	assert(ids == NULL);
}

/* --- the outline ------------------------------------------------------------------------------ */

struct reading {
	struct scan scan;
	struct document *document;
	struct scan_part cells, worksheets, metadata; /* len 0: absent */
	struct json *major, *minor;                   /* owned */
	size_t room;                                  /* cells allocated */
};

static void reading_release(struct reading *reading)
{
	json_free(reading->major);
	json_free(reading->minor);
}

/* Takes one member of the notebook's object. */
static int take_top(struct reading *reading, const char *key, const struct scan_part *part,
		    struct err *err)
{
	struct document_repairs *repairs = &reading->document->repairs;
	cleanup_json struct json *unused = NULL;
	struct json **number = strcmp(key, "nbformat") == 0         ? &reading->major
			       : strcmp(key, "nbformat_minor") == 0 ? &reading->minor
								    : NULL;

	if (number != NULL) {
		json_free(*number);
		*number = NULL;
		return scan_parse(&reading->scan, part, number, err);
	}
	if (strcmp(key, "cells") == 0) {
		reading->cells = *part;
	} else if (strcmp(key, "worksheets") == 0) {
		reading->worksheets = *part;
	} else if (strcmp(key, "metadata") == 0) {
		reading->metadata = *part;
	} else {
		if (scan_parse(&reading->scan, part, &unused, err) < 0)
			return -1;
		if (strncmp(key, "orig_nbformat", strlen("orig_nbformat")) != 0)
			document_repair(repairs, "the notebook: there is no key \"%.60s\": dropped",
					key);
	}
	return 0;
}

static int read_outline(struct reading *reading, struct err *err)
{
	struct scan_part part;
	int more = 1;

	if (scan_open(&reading->scan, '{', err) < 0)
		return -1;
	for (bool first = true; more == 1; first = false) {
		cleanup_json struct json *key = NULL;

		more = scan_member(&reading->scan, first, &key, &part, err);
		if (more == 1 && take_top(reading, json_string(key, NULL), &part, err) < 0)
			return -1;
	}
	return more < 0 ? -1 : scan_end(&reading->scan, err);
}

static int check_version(struct reading *reading, struct err *err)
{
	struct document *document = reading->document;

	if (json_type_of(reading->major) != JSON_INT)
		return err_set(err, ERR_INVALID, "it has no \"nbformat\" number");
	document->major = json_int(reading->major, 0);
	document->minor = json_int(reading->minor, 0);
	if (document->major < 3)
		return err_set(
			err, ERR_INVALID,
			"its format is version %" PRId64 ", older than 3; convert it with: "
			"jupyter nbconvert --to notebook --nbformat 4 --output NEW.ipynb OLD.ipynb",
			document->major);
	if (document->major > 4)
		return err_set(err, ERR_INVALID, "its format is version %" PRId64 ", newer than 4",
			       document->major);
	if (document->major == 4 &&
	    (json_type_of(reading->minor) != JSON_INT || document->minor < 0)) {
		document_repair(&document->repairs,
				"the notebook: nbformat_minor is missing: taken as 4.5");
		document->minor = 5;
	}
	return 0;
}

/* --- cells ------------------------------------------------------------------------------------ */

static int take_cell(struct reading *reading, const struct scan_part *part, struct err *err)
{
	struct document *document = reading->document;
	cleanup_json struct json *json = NULL;

	if (scan_parse(&reading->scan, part, &json, err) < 0)
		return -1;
	if (document->major == 3) {
		struct json *upgraded = document_upgrade_cell(json);

		json_free(json);
		json = upgraded;
	}
	if (document->cell_count == reading->room) {
		reading->room = reading->room == 0 ? 16 : 2 * reading->room;
		document->cells =
			mem_resize(document->cells, reading->room, sizeof(*document->cells));
	}
	document->cells[document->cell_count] = (struct document_cell){.execution_count = -1};
	document->cell_count++; /* a cell that fails half-way is released with the rest */
	return document_read_cell(json, document->cell_count,
				  document->major == 4 && document->minor >= 5, &document->repairs,
				  &document->cells[document->cell_count - 1], err);
}

/* The elements of a list of cells. */
static int read_cells(struct reading *reading, const struct scan_part *cells, struct err *err)
{
	struct scan_part part;
	int more = 1;

	if (cells->len == 0 || reading->scan.text[cells->at] != '[')
		return err_set(err, ERR_INVALID, "it has no list of cells");
	reading->scan.at = cells->at;
	if (scan_open(&reading->scan, '[', err) < 0)
		return -1;
	for (bool first = true; more == 1; first = false) {
		more = scan_element(&reading->scan, first, &part, err);
		if (more == 1 && take_cell(reading, &part, err) < 0)
			return -1;
	}
	return more;
}

/* The cells of one worksheet of version 3. */
static int read_worksheet(struct reading *reading, const struct scan_part *sheet, struct err *err)
{
	struct scan_part cells = {.len = 0}, part;
	int more = 1;

	reading->scan.at = sheet->at;
	if (scan_open(&reading->scan, '{', err) < 0)
		return -1;
	for (bool first = true; more == 1; first = false) {
		cleanup_json struct json *key = NULL;

		more = scan_member(&reading->scan, first, &key, &part, err);
		if (more == 1 && strcmp(json_string(key, NULL), "cells") == 0)
			cells = part;
	}
	return more < 0 ? -1 : read_cells(reading, &cells, err);
}

/* Version 3: the worksheets are put one behind the other. */
static int read_worksheets(struct reading *reading, struct err *err)
{
	struct scan_part part;
	int more = 1;

	if (reading->worksheets.len == 0 || reading->scan.text[reading->worksheets.at] != '[')
		return err_set(err, ERR_INVALID, "it has no list of worksheets");
	reading->scan.at = reading->worksheets.at;
	if (scan_open(&reading->scan, '[', err) < 0)
		return -1;
	for (bool first = true; more == 1; first = false) {
		size_t after;

		more = scan_element(&reading->scan, first, &part, err);
		after = reading->scan.at;
		if (more == 1 && read_worksheet(reading, &part, err) < 0)
			return -1;
		reading->scan.at = after;
	}
	return more;
}

/* What meta_notebook() will put right. */
static void check_metadata(const struct json *metadata, struct document_repairs *repairs)
{
	const struct json *kernel = json_get(metadata, "kernelspec");
	const struct json *language = json_get(metadata, "language_info");
	const struct json *title = json_get(metadata, "title");
	const struct json *authors = json_get(metadata, "authors");

	if (document_has(metadata, "kernelspec") &&
	    (json_get_string(kernel, "name") == NULL ||
	     json_get_string(kernel, "display_name") == NULL))
		document_repair(repairs, "the notebook: kernelspec has no name and display_name: "
					 "made Python 3");
	if (document_has(metadata, "language_info") && json_get_string(language, "name") == NULL)
		document_repair(repairs, "the notebook: language_info has no name: made Python");
	if (document_has(metadata, "title") && json_type_of(title) != JSON_STRING)
		document_repair(repairs, "the notebook: title is no text: dropped");
	if (document_has(metadata, "authors") && json_type_of(authors) != JSON_ARRAY)
		document_repair(repairs, "the notebook: authors is no list: dropped");
}

static int read_metadata(struct reading *reading, struct err *err)
{
	static const char *const dropped[] = {"orig_nbformat", "orig_nbformat_minor", "signature"};
	struct document *document = reading->document;
	struct json *metadata = NULL;

	if (reading->metadata.len > 0 &&
	    scan_parse(&reading->scan, &reading->metadata, &metadata, err) < 0)
		return -1;
	if (json_type_of(metadata) != JSON_OBJECT) {
		document_repair(&document->repairs, "the notebook: metadata is no object: made {}");
		json_free(metadata);
		metadata = json_new_object();
	}
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		json_remove(metadata, dropped[i]);
	if (document->major == 3)
		json_remove(metadata, "name");
	check_metadata(metadata, &document->repairs);
	document->metadata = metadata;
	return 0;
}

static int read_all(struct reading *reading, struct err *err)
{
	struct document_repairs *repairs = &reading->document->repairs;
	size_t nans, surrogates;

	if (read_outline(reading, err) < 0 || check_version(reading, err) < 0)
		return -1;
	nans = reading->scan.nans; /* the cells are gone over again below */
	surrogates = reading->scan.surrogates;
	if (read_metadata(reading, err) < 0)
		return -1;
	if ((reading->document->major == 3 ? read_worksheets(reading, err)
					   : read_cells(reading, &reading->cells, err)) < 0)
		return -1;
	if (reading->document->major == 4 && reading->worksheets.len > 0)
		document_repair(repairs, "the notebook: there is no key \"worksheets\": dropped");
	make_ids(reading->document);
	if (nans > 0)
		document_repair(repairs, "%zu NaN or infinite numbers became strings", nans);
	if (surrogates > 0)
		document_repair(repairs, "%zu lone surrogates became U+FFFD", surrogates);
	return 0;
}

int document_read(const char *bytes, size_t len, struct document *document, struct err *err)
{
	static const char bom[] = "\xef\xbb\xbf"; /* some editors add one */
	struct document made = DOCUMENT_INIT;
	__attribute__((cleanup(reading_release))) struct reading reading = {
		.scan = {.text = bytes, .len = len},
		.document = &made,
	};

	if (len > DOCUMENT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "a notebook of more than 512 MiB is not read");
	if (len >= sizeof(bom) - 1 && memcmp(bytes, bom, sizeof(bom) - 1) == 0) {
		document_repair(&made.repairs, "a byte order mark was at the start: dropped");
		reading.scan.text += sizeof(bom) - 1;
		reading.scan.len -= sizeof(bom) - 1;
	}
	if (read_all(&reading, err) < 0) {
		document_release(&made);
		return err_wrap(err, "not a notebook");
	}
	*document = made;
	return 0;
}

/* --- a document in memory --------------------------------------------------------------------- */

static void cell_release(struct document_cell *cell)
{
	free(cell->source);
	json_free(cell->metadata);
	json_free(cell->attachments);
	json_free(cell->outputs);
}

void document_release(struct document *document)
{
	for (size_t i = 0; i < document->cell_count; i++)
		cell_release(&document->cells[i]);
	for (size_t i = 0; i < DOCUMENT_REPAIRS_SHOWN; i++)
		free(document->repairs.first[i]);
	free(document->cells);
	json_free(document->metadata);
	*document = (struct document)DOCUMENT_INIT;
}

static bool id_is_taken(const struct document *document, const struct document_cell *cell)
{
	for (size_t i = 0; i < document->cell_count; i++)
		if (&document->cells[i] != cell && strcmp(document->cells[i].id, cell->id) == 0)
			return true;
	return false;
}

struct document_cell *document_insert(struct document *document, size_t index,
				      enum document_cell_type type, const char *source, size_t len,
				      struct json *metadata)
{
	struct document_cell *cell;
	size_t number = index;

	assert(index <= document->cell_count);
	document->cells =
		mem_resize(document->cells, document->cell_count + 1, sizeof(*document->cells));
	cell = &document->cells[index];
	memmove(cell + 1, cell, (document->cell_count - index) * sizeof(*cell));
	document->cell_count++;
	*cell = (struct document_cell){.type = type,
				       .source = mem_copy(source, len),
				       .source_len = len,
				       .metadata = metadata,
				       .execution_count = -1};
	do {
		void *ids = NULL;

		id_make(&ids, cell, number++);
		tdelete(cell, &ids, cell_compare);
	} while (id_is_taken(document, cell));
	return cell;
}

void document_remove(struct document *document, size_t index)
{
	struct document_cell *cell = &document->cells[index];

	assert(index < document->cell_count);
	cell_release(cell);
	document->cell_count--;
	memmove(cell, cell + 1, (document->cell_count - index) * sizeof(*cell));
}

bool document_has_tag(const struct document_cell *cell, const char *tag)
{
	const struct json *tags = json_get(cell->metadata, "tags");

	for (size_t i = 0; json_type_of(tags) == JSON_ARRAY && i < json_length(tags); i++) {
		const char *text = json_string(json_at(tags, i), NULL);

		if (text != NULL && strcmp(text, tag) == 0)
			return true;
	}
	return false;
}

size_t document_find_tag(const struct document *document, const char *tag)
{
	size_t i = 0;

	while (i < document->cell_count && !document_has_tag(&document->cells[i], tag))
		i++;
	return i;
}

const char *document_language(const struct document *document)
{
	const struct json *metadata = document->metadata;
	const char *language = json_get_string(json_get(metadata, "kernelspec"), "language");

	return language ? language : json_get_string(json_get(metadata, "language_info"), "name");
}
