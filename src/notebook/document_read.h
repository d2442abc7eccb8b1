/*
 * Inside of the notebook reader: cells and outputs as they are read and repaired.
 */
#ifndef FH_NOTEBOOK_DOCUMENT_READ_H
#define FH_NOTEBOOK_DOCUMENT_READ_H

#include <stdbool.h>

#include "notebook/document.h"

/* Writes a repair down. */
void document_repair(struct document_repairs *repairs, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads a cell of version 4. `number` (from 1) is for messages; `strict_ids`: the format wants an
 * id (4.5), so that a missing one is a repair. A good id is put into cell->id, else that is empty.
 */
int document_read_cell(const struct json *json, size_t number, bool strict_ids,
		       struct document_repairs *repairs, struct document_cell *cell,
		       struct err *err);

/* The outputs of a code cell, made valid: a new array, or NULL when none is left. `what` names the
 * cell in repairs. */
struct json *document_read_outputs(const struct json *given, const char *what,
				   struct document_repairs *repairs);

/* A cell of version 3 as one of version 4; what is not of the right form is left for
 * document_read_cell() to repair. The caller owns the result. */
struct json *document_upgrade_cell(const struct json *cell);

/* Whether the object has this member, be it null. */
bool document_has(const struct json *object, const char *key);

/* Text of a string or of a list of strings, joined: a new JSON string; NULL when it is neither. */
struct json *document_join(const struct json *value);

#endif
