/*
 * The text for a model: a fold over one cell's events (DESIGN §4.5).
 *
 * The text is made of parts in the order in which the cell made them:
 *
 * - What it wrote to stdout and stderr, as a terminal would show it: ANSI sequences removed, CR, BS
 *   and erase-line resolved (stream.h). Where both streams occur, a part of stderr is marked:
 *   `[stderr] one line`, or `[stderr]`, the lines and `[end of stderr]`; warnings and progress
 *   bars, which say themselves what they are, are not. A line of a progress bar that the same
 *   stream overwrites after other output is not shown twice. A prompt of input() and its answer are
 *   shown as on a terminal; the answer to a password never.
 * - Results and displays: text/markdown, or text/plain, or the next best form (HTML stripped to
 *   text, LaTeX as it is); an image is one line, `[image/png 640x480, 23.4 kB: images/c1-1.png]`
 *   (rich.h). update_display changes the displays of that id made by the same cell and shows
 *   nothing otherwise; clear drops what came before, with wait at the next output.
 * - An error: the failing line with two lines round it, the exception with its notes and causes,
 *   only frames of the session's cells (traceback.h). What was printed before the error is kept.
 * - `[stdout: 1,234 bytes left out: over the limit output_bytes]` for what the session itself
 *   dropped.
 * - Last, what became of the cell and of the variables, when that is not the usual thing:
 *
 *	[timed out: the cell was stopped at its time limit of 1 s; variables are kept]
 *	[interrupted: the cell was stopped; variables are kept]
 *	[died: the interpreter ended (signal 11); variables are lost: the session starts empty]
 *	[died: the interpreter ended (signal 11); variables are as they were just before this cell;
 *	not restored: thread worker; 2 connections]			(on one line)
 *	[rolled back: variables are as they were just before this cell]
 *	[cancelled: the cell did not run]
 *	[rolled back later: what this cell did is not in the variables any more]
 *
 * A cell of which nothing is to be seen gives "(no output)" in place of the parts.
 *
 * Each part and the total are cut in the middle: head and tail stay, between them a line says how
 * many characters were left out and where the whole is: `[... 123,456 characters left out; the
 * whole is in: WHOLE ...]`, in a shorter form where the limit is small (cut.h). Cuts fall at line
 * ends where one is near. Limits count characters (code points), the lines about cuts included, and
 * never split a grapheme. Memory is bounded by the limits, and time is linear, whatever the cell
 * printed: of very many outputs the middle ones are dropped and counted.
 */
#ifndef FH_DIGEST_DIGEST_H
#define FH_DIGEST_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "journal/event.h"
#include "journal/timeline.h"

enum { DIGEST_ITEM_CHARS = 2000, DIGEST_TOTAL_CHARS = 8000 }; /* the defaults */
enum { DIGEST_CHARS_MAX = 1 << 26 };                          /* larger limits count as this one */

struct digest;

struct digest_params {
	size_t item_chars_max;  /* 0: 2,000 */
	size_t total_chars_max; /* 0: 8,000; the text is never longer than this */
	const char *whole;      /* where the whole is, for the line about a cut, such as
				   "fumehood log ID --cell c1"; NULL: not said. Copied. */
	bool marks;             /* the form of marks.h, which has limits of its own: there
				   total_chars_max 0 is its default, and items are cut at 1,000 */
};

/* `params` may be NULL (all defaults). The caller owns the digest. */
struct digest *digest_new(const struct digest_params *params);
void digest_free(struct digest *digest); /* NULL is fine */

/* Takes an event of the cell, in order, values inline. The `cell` event brings the code, whose JSON
 * is kept, not copied. The source lines of a traceback's frames in earlier cells are in the
 * traceback itself. Links to blobs that were too large to be inline are mentioned with their
 * size. */
void digest_apply(struct digest *digest, const struct event *event);

/* What has become of the cell since (NULL: nothing that is known): whether a later rollback or
 * death has undone it. Borrowed until it is set anew. The marked form says nothing of it. */
void digest_set_fate(struct digest *digest, const struct timeline_cell *fate);

/* Appends the text; may be called at any time, also before `finished`, and again. No LF at the
 * end. */
void digest_text(const struct digest *digest, struct buf *out);

#endif
