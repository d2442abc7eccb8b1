/*
 * Metadata that comes from outside, made to fit the schema of nbformat 4.5.
 *
 * Free keys stay as they are. Keys for which the schema has a rule stay when they keep it and are
 * removed otherwise: one bad tag in a notebook being run must not make the whole record invalid.
 */
#ifndef FH_NOTEBOOK_META_H
#define FH_NOTEBOOK_META_H

#include <stdbool.h>

#include "base/json.h"

/* New metadata for a cell: what `given` (may be NULL or no object) may bring. `trusted` is never
 * kept; for a code cell neither is what tells of another run (meta_remove_run). The caller owns the
 * result. */
struct json *meta_cell(const struct json *given, bool is_code);

/* Removes what tells of another run of a code cell: `execution`, and the marks of undone.h. */
void meta_remove_run(struct json *metadata);

/* Appends a tag, if it is not among those there are; `tags` is made when there are none. */
void meta_add_tag(struct json *metadata, const char *tag);

/*
 * The notebook's metadata from the `session` event's body. body.notebook.metadata, of a notebook
 * that is being run, brings the free keys and the kernelspec (else that of the event, else
 * Python's). language_info tells what ran the cells, so there the event comes first, then that
 * notebook, then Python. `fumehood` is always {session, version} of this session, if the body has
 * an id: a notebook that was not run has none. The caller owns the result.
 */
struct json *meta_notebook(const struct json *session);

#endif
