/*
 * The text for a model in the form of the interpreter that Fumehood follows (`--marks`): for
 *prompts and models that are used to it.
 *
 * Each output is an item, in the order of the events, joined by LF:
 *
 *	[stdout]                      text as it was written, one item an event; [stderr] likewise
 *	[execute_result_text]         text/plain of a result
 *	[display_text]                text/plain of a display
 *	[display_png 图片已生成，内容为 base64，未展示]
 *	                              an image: also _jpeg, and execute_result_png, _jpeg; behind
 *its text [error]                       the traceback without colours
 *
 * An item of more than 1,000 code points, its mark included, becomes its first 500, "\n...
 *(内容已截断) ...\n" and its last 500; an error's traceback is cut so before its mark is put in
 *front. Other forms (HTML alone), updates and clears are passed over. Three things were lost in the
 *original and are not lost here: stderr, the line about a cell that did not end by itself
 *(outcome.h), and the one about output over a limit. There, a text had no limit; here it is a mebi
 *of code points unless another is given, cut as ends.h does it.
 */
#ifndef FH_DIGEST_MARKS_H
#define FH_DIGEST_MARKS_H

#include <stddef.h>

#include "base/buf.h"
#include "journal/event.h"

enum { MARKS_TOTAL_CHARS = 1 << 20, MARKS_ITEM_CHARS = 1000 };

struct marks;

/* `total_chars_max` 0: MARKS_TOTAL_CHARS. `whole` (may be NULL) as in digest.h. The caller owns it.
 */
struct marks *marks_new(size_t total_chars_max, const char *whole);
void marks_free(struct marks *marks); /* NULL is fine */

/* As digest_apply() and digest_text(). A cell without output has an empty text. */
void marks_apply(struct marks *marks, const struct event *event);
void marks_text(const struct marks *marks, struct buf *out);

#endif
