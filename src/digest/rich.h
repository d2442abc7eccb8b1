/*
 * Which form of a rich output a model reads, and that form as text.
 *
 * An image is a line, `[image/png 640x480, 23.4 kB: images/c1-1.png]`, followed by the text only if
 * that says more than what object it is. Without an image the first of these that is there:
 *
 *	text/markdown                      its author wrote it to be read
 *	text/plain                         unless it only names an object, as <Figure size ...> and
 *	                                   <... object at 0x...> do
 *	text/latex, text/html (stripped), application/json
 *	text/plain after all, then any other text, then a line `[application/pdf, 23.4 kB]`
 */
#ifndef FH_DIGEST_RICH_H
#define FH_DIGEST_RICH_H

#include "digest/stream.h"
#include "journal/event.h"

/* Writes the text of a result, display or update_display. `image_number` is the image's number in
 * its cell (event_image() in journal/event.h). */
void rich_text(const struct event *event, uint64_t image_number, struct screen *out);

#endif
