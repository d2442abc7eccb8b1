/*
 * Thoughts inside of the answer: <think>...</think> at its very beginning, as models write them
 * whose server does not know of it. Pure; text comes in pieces of any size, tags may be split.
 */
#ifndef FH_MODEL_THINK_H
#define FH_MODEL_THINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { THINK_HELD_MAX = 64 }; /* so much white space may stand before the tag */

enum think_state {
	THINK_BEGIN,  /* held: white space and part of the opening tag */
	THINK_INSIDE, /* held: part of the closing tag */
	THINK_AFTER,  /* white space between thoughts and answer is dropped */
	THINK_ANSWER,
};

struct think {
	enum think_state state;
	bool thought; /* there was an opening tag */
	char held[THINK_HELD_MAX];
	size_t held_len;
};

#define THINK_INIT {.state = THINK_BEGIN, .thought = false, .held = "", .held_len = 0}

/* Sorts the text: appends to `reasoning` and `answer`; the former comes before the latter. */
void think_feed(struct think *think, const char *text, size_t len, struct buf *reasoning,
		struct buf *answer);
/* Appends what is still held. */
void think_end(struct think *think, struct buf *reasoning, struct buf *answer);

/* Where an answer really begins whose opening tag was part of the prompt: behind a first "</think>"
 * and the white space after it, if no code fence stands before; else 0. *thoughts is the length of
 * what stands before the tag. */
size_t think_unopened(const char *text, size_t len, size_t *thoughts);

#endif
