/*
 * Fuzzes the reader of notebook files: any bytes give a document or an error; a document has good
 * ids, each once, and sources that are valid UTF-8; and what is written of it is read again without
 * a repair, to the same bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "notebook/document.h"
#include "notebook/notebook.h"

enum { CELLS_COMPARED_MAX = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cell(const struct document *document, size_t index)
{
	const struct document_cell *cell = &document->cells[index];

	assert(text_is_id(cell->id, strlen(cell->id)));
	assert(text_is_utf8(cell->source, cell->source_len));
	assert(cell->metadata == NULL || json_type_of(cell->metadata) == JSON_OBJECT);
	for (size_t i = 0; i < index && i < CELLS_COMPARED_MAX; i++)
		assert(strcmp(document->cells[i].id, cell->id) != 0);
}

/* The file that is written of a document which is not run. */
static void write_document(const struct document *document, struct buf *out)
{
	struct notebook *notebook = notebook_new();
	struct event event = EVENT_INIT;
	struct json *given = json_new_object();

	event.type = EVENT_SESSION;
	event.body = json_new_object();
	json_set(given, "metadata", json_copy(document->metadata));
	json_set(event.body, "notebook", given);
	notebook_apply(notebook, &event);
	event_release(&event);
	for (size_t i = 0; i < document->cell_count; i++)
		notebook_take(notebook, &document->cells[i], true);
	notebook_write(notebook, out);
	notebook_free(notebook);
}

static void check_again(const struct document *document)
{
	cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
	struct document again;
	struct err err = ERR_INIT;

	write_document(document, &first);
	if (document_read(buf_bytes(&first), first.len, &again, &err) < 0)
		abort();
	assert(again.repairs.count == 0);
	write_document(&again, &second);
	assert(first.len == second.len &&
	       memcmp(buf_bytes(&first), buf_bytes(&second), first.len) == 0);
	document_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct document document;
	struct err err = ERR_INIT;

	if (document_read((const char *)data, size, &document, &err) < 0) {
		assert(err.code != ERR_OK && err.text[0] != '\0');
		return 0;
	}
	assert(json_type_of(document.metadata) == JSON_OBJECT);
	for (size_t i = 0; i < document.cell_count; i++)
		check_cell(&document, i);
	check_again(&document);
	document_release(&document);
	return 0;
}
