/*
 * Prompts: all texts that a model is given, in one place, and replaceable.
 *
 * A set has up to PROMPT_VARIANTS_MAX variants of the system prompt with worked examples: the
 * samples of one ask take them in turn, because programs that come of different prompts and agree
 * are more often right than those of one (doc/decisions/080-*). The rest is shared: the task's
 * frame, what is said of a failed program, and of an answer without one.
 *
 * In the frames {instruction}, {workspace}, {variables}, {earlier}, {input}, {checks}, {failure},
 * {advice} and {code} stand for what their names say. What is put in is never looked at again, so
 * braces in it mean nothing; other braces are text. An instruction can't break out of its message:
 * messages are JSON, and what a model takes for a special token is the server's business.
 *
 * A file (`--template`) is a JSON object of `variants` [{`system`, `examples`? [{`user`,
 * `assistant`}]}], `task`, `repair` and `no_code`; what is not in it stays as it is here.
 */
#ifndef FH_AGENT_PROMPT_H
#define FH_AGENT_PROMPT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	PROMPT_VARIANTS_MAX = 8,
	PROMPT_EXAMPLES_MAX = 8,      /* of a variant */
	PROMPT_BYTES_MAX = 256 << 10, /* of a file */
};

struct prompt_example {
	char *user, *assistant;
};

struct prompt_variant {
	char *system;
	struct prompt_example examples[PROMPT_EXAMPLES_MAX];
	size_t example_count;
};

struct prompts {
	struct prompt_variant variants[PROMPT_VARIANTS_MAX];
	size_t count; /* > 0 */
	char *task, *repair, *no_code;
};

/* What stands for the names; NULL: nothing. */
struct prompt_values {
	const char *instruction, *workspace, *variables, *earlier, *input, *checks;
	const char *failure, *advice, *code;
};

/* The set that is built in. The caller releases it. */
void prompts_init(struct prompts *prompts);
void prompts_release(struct prompts *prompts);

/* Takes a file's text over the set; pure. ERR_INVALID names `file` and what is wrong; then the set
 * is unchanged. */
int prompts_read(struct prompts *prompts, const char *bytes, size_t len, const char *file,
		 struct err *err);

/* One system prompt instead of all, without examples: `--system`. */
void prompts_set_system(struct prompts *prompts, const char *text);

/* Appends a frame with its values put in. */
void prompt_fill(struct buf *out, const char *frame, const struct prompt_values *values);

#endif
