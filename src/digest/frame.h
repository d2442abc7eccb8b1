/*
 * Frames of a traceback block, parsed from CPython's lines and kept in bounded number.
 *
 * Of a block the first FRAMES_FIRST and the last FRAMES_LAST entries stay, which is what CPython's
 * own "Previous line repeated" does for the simple recursion. A run of frames in other files than
 * the session's cells is one entry. All spans borrow from the text that was parsed.
 */
#ifndef FH_DIGEST_FRAME_H
#define FH_DIGEST_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAMES_FIRST = 4, FRAMES_LAST = 8, FRAME_LINES_MAX = 8 };

/* In place of a cell's number: the script that the running cell is. Larger than any number. */
#define FRAME_SCRIPT UINT64_MAX

struct span {
	const char *text;
	size_t len;
};

bool span_is(struct span span, const char *string);

/* Takes the first line off *text; the result is without its LF. */
struct span span_take_line(struct span *text);

struct frame {
	struct span margin;  /* of an exception group, before each of its lines */
	struct span head;    /* `  File "<cell 3>", line 2, in f` */
	struct span repeats; /* `  [Previous line repeated 993 more times]`, or empty */
	struct span lines[FRAME_LINES_MAX]; /* source and caret lines, with their indentation */
	unsigned line_count;
	uint64_t cell;  /* N of `<cell N>`, FRAME_SCRIPT, or 0: another file */
	uint64_t line;  /* from 1; 0: not known */
	uint64_t count; /* of library frames in this run; 0: a frame that is shown */
};

struct frame_list {
	struct frame first[FRAMES_FIRST];
	struct frame last[FRAMES_LAST]; /* a ring */
	size_t count;                   /* entries added, those dropped included */
	uint64_t dropped;               /* frames that went between `first` and `last` */
	struct span script;             /* path of the script that the cell's code is; or empty */
};

/* Whether `body` is a frame's head line (or the place of a SyntaxError, which is always shown); if
 * so it is added. */
bool frame_list_add(struct frame_list *list, struct span margin, struct span body);

/* Adds a line behind a frame's head to the frame added last. */
void frame_list_add_source(struct frame_list *list, struct span body);

/* Entries that are held, in order. */
size_t frame_list_count(const struct frame_list *list);
const struct frame *frame_list_at(const struct frame_list *list, size_t index);
void frame_list_clear(struct frame_list *list);

/* What tells of a library frame's head line: `decoder.py", line 353, in raw_decode`. */
struct span frame_place(const struct frame *frame);

/* N of the first `File "<cell N>"` in a line, FRAME_SCRIPT where that file is the script (may be
 * empty), 0 when there is none. */
uint64_t frame_cell(struct span line, struct span script);

#endif
