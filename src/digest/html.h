/*
 * HTML as plain text, for displays that have no better form.
 *
 * Tags go; scripts, styles, templates, titles and comments go with what is in them; block elements
 * and <br> begin a new line, cells of a table are parted by " | ", list items begin with "- ";
 * white space is one blank but in <pre>; the character references that occur in practice are
 * resolved. This is no HTML parser: the result is read, never rendered.
 */
#ifndef FH_DIGEST_HTML_H
#define FH_DIGEST_HTML_H

#include <stddef.h>

#include "digest/stream.h"

/* Writes the text of `html` (valid UTF-8, any HTML) to `out`; linear in `len`. */
void html_text(const char *html, size_t len, struct screen *out);

#endif
