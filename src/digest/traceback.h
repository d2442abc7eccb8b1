/*
 * An error as a model needs it: where in its own code, what, and why.
 *
 * The input is the text that CPython's traceback.format_exception() prints (3.9 to 3.14), in the
 * `traceback` list of the `error` event. It stays that text, with these changes:
 *
 * - Frames of other files than the session's cells (`<cell N>`, or the path of the script that the
 *   cell is) give one line a run: `  [3 library
 *   frames left out; the last is "decoder.py", line 353, in raw_decode]`.
 * - The innermost frame in the cell that ran shows its line with two lines round it, numbered:
 *
 *	Traceback (most recent call last):
 *	  File "<cell 3>", line 5, in <module>
 *	      3 |     return a / b
 *	      4 |
 *	    > 5 | ratio(1, 0)
 *	        | ~~~~~^^^^^^
 *	  File "<cell 2>", line 2, in ratio
 *	    return a / b
 *	           ~~^~~
 *	ZeroDivisionError: division by zero
 *
 *   The same for the place of a SyntaxError. Only a line whose text is the one in the traceback is
 *   shown so: a cell that was rewritten before it ran (%magic) keeps what CPython printed.
 * - Of a long run of frames the first and the last stay, with a line that says how many are
 *   missing.
 *
 * Messages, notes, causes ("The above exception was the direct cause ..."), contexts and the
 * margins of exception groups pass unchanged, and so does the traceback of any other kernel. When
 * the exception's name does not occur in it, or there is none, `NAME: MESSAGE` is put behind.
 */
#ifndef FH_DIGEST_TRACEBACK_H
#define FH_DIGEST_TRACEBACK_H

#include <stddef.h>

#include "base/json.h"
#include "digest/stream.h"

/* Writes the error of an `error` event's body to `out`, linear in its size. `cell` is the body of
 * the `cell` event, of which `code` and `file` (the path of the script that it is) are looked at;
 * NULL if unknown. */
void traceback_text(const struct json *body, const struct json *cell, struct screen *out);

#endif
