/*
 * What a notebook says of an ask: the source and metadata of its cells.
 *
 * The question is the user's own text and stands as it is. All else comes from a model or from what
 * its programs did: it is put so that Markdown shows it and takes nothing in it as markup. An
 * attempt is a <details> element, closed: JupyterLab, nbconvert and GitHub all show that as one
 * line to click on, without a setting. Hidden code cells would be shown by some of them, and run by
 * whoever runs the notebook.
 */
#ifndef FH_NOTEBOOK_ASKING_H
#define FH_NOTEBOOK_ASKING_H

#include "base/buf.h"
#include "base/json.h"

enum { ASKING_OUTPUT_CHARS_MAX = 2000 }; /* of a text of an attempt; the journal has the whole */

/* Appends the source of the question's cell. `ask` and `verdict` are the bodies of the events;
 * `verdict` is NULL while there is none. `cell` has answered; NULL: none. */
void asking_question(struct buf *out, const struct json *ask, const struct json *verdict,
		     const char *cell);

/* The metadata of that cell: tag `ask`, {"fumehood":{"ask":{"id","model","success",...}}}. The
 * caller owns it. */
struct json *asking_metadata(const struct json *ask, const struct json *verdict, const char *cell);

/* Appends one attempt. `code` is the text of its program, `finished` the body of its `attempt`
 * event; either may be NULL. */
void asking_attempt(struct buf *out, const struct json *code, const struct json *finished);

/* Tag `attempt`, {"fumehood":{"ask":{"id"}}}. The caller owns it. */
struct json *asking_attempts_metadata(const char *id);

#endif
