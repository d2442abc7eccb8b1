/*
 * Fuzzes the reader of notebook files: any bytes give a document or an error, and a document has
 * good ids, each once, and sources that are valid UTF-8.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "notebook/document.h"

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
	document_release(&document);
	return 0;
}
