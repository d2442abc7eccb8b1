/*
 * JSON as Python's json.dumps() writes it by default: blanks behind ',' and ':', and everything
 * beyond ASCII as \uXXXX (surrogate pairs above U+FFFF). For answers that are to be the original's
 * to the byte. Pure.
 */
#ifndef FH_SERVE_DUMPS_H
#define FH_SERVE_DUMPS_H

#include "base/buf.h"
#include "base/json.h"

void dumps_write(struct buf *out, const struct json *value);

/* The text as a string with its quotes. Bad UTF-8 becomes U+FFFD. */
void dumps_write_string(struct buf *out, const char *text, size_t len);

#endif
