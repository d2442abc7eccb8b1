/*
 * Finding the program in a model's answer.
 *
 * Small models write ```python, ```py, ```Python, ```python3, ~~~, or a bare fence; forget the
 * closing one; put prose, sample output and shell commands round it; indent fences in a list; write
 * the language on a line of its own; or write code without any fence. So an answer gives a list of
 * candidates, the likeliest first, and whoever runs them takes the next one when a candidate does
 * not compile, or does nothing.
 *
 * The order, and why:
 * 1. the longest block marked as Python, the later of two equal ones: an answer with several has
 *    fragments and examples of use besides the program;
 * 2. all blocks marked as Python, joined: the function in one block, its use in the next;
 * 3. the other blocks marked as Python, the last first;
 * 4. bare blocks that look like Python, by the same rules. Other languages never count;
 * 5. without any block, the answer itself if it looks like Python from its first line.
 * What stands between <think>, <thinking>, <thought>, <reasoning> and their ends is no answer.
 *
 * A closing fence is a line of nothing but at least as many of the same characters. Inside a Python
 * block a fence within a string that is quoted three times closes nothing, if that string and the
 * fence are both closed later on.
 *
 * Pure and bounded: any bytes, linear time for each candidate.
 */
#ifndef FH_AGENT_FENCE_H
#define FH_AGENT_FENCE_H

#include <stdbool.h>
#include <stddef.h>

enum { FENCE_BLOCKS_MAX = 32, FENCE_CANDIDATES_MAX = 4, FENCE_BYTES_MAX = 1 << 20 };

enum fence_kind {
	FENCE_PYTHON,   /* a block marked as Python */
	FENCE_BARE,     /* a block without a language */
	FENCE_UNCLOSED, /* a block that the answer's end closes */
	FENCE_PROSE,    /* no block: the answer itself */
};

struct fence_candidate {
	enum fence_kind kind;
	char *code; /* owned, NUL-terminated, no NUL inside; ends with LF */
};

struct fence {
	struct fence_candidate candidates[FENCE_CANDIDATES_MAX];
	size_t count; /* 0: there is no program */
};

#define FENCE_INIT \
	{ \
		.count = 0 \
	}

/* Reads an answer of which at most FENCE_BYTES_MAX bytes are looked at. The caller releases
 * *fence. */
void fence_read(struct fence *fence, const char *answer, size_t len);
void fence_release(struct fence *fence);
#define cleanup_fence __attribute__((cleanup(fence_release)))

/* Whether the answer ends inside a block: its closing fence is missing. */
bool fence_is_open(const char *answer, size_t len);

/* Whether two programs are the same but for blanks at the ends of lines, empty lines and lines that
 * are nothing but a comment. */
bool fence_same_code(const char *a, const char *b);

/* "python", "bare", "unclosed", "prose". */
const char *fence_kind_name(enum fence_kind kind);

#endif
