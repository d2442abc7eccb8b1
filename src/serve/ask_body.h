/*
 * The body of POST /v1/ask: the options of `fumehood ask` by their names, checked, and made into
 * words as on its command line (asker.h has them on none).
 *
 * What reaches into the host is for peers of our own uid: a workspace of theirs, a model's file,
 * and a server that is not among those that the daemon was started with, for whoever can name a URL
 * can make this machine send requests to any other. A text of a body never becomes the name of a
 * file.
 *
 * Pure.
 */
#ifndef FH_SERVE_ASK_BODY_H
#define FH_SERVE_ASK_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

enum {
	ASK_INSTRUCTION_BYTES_MAX = 256 << 10, /* as the program has it */
	ASK_TEXT_BYTES_MAX = 256 << 10,        /* of one option; of a check the program has less */
	ASK_CHECKS_MAX = 16,                   /* of "expect", and of "assert" */
	ASK_WORDS_MAX = 64,
	ASK_TEXTS_BYTES_MAX = 3 << 20,         /* of all words */
	ASK_PROGRAMS_MAX = 16,                 /* as the program has it */
};

struct ask_rules {
	bool trusted;            /* a peer of our own uid */
	const char *const *urls; /* what others may name as "url" */
	size_t url_count;
};

struct ask_body {
	char *words[ASK_WORDS_MAX]; /* owned; the last is NULL */
	size_t word_count;
	const char *instruction, *system, *session; /* borrowed of the JSON; NULL: not given */
	size_t instruction_len, system_len;
	bool detach;
};

#define ASK_BODY_INIT \
	{ \
		.words = {NULL}, .word_count = 0, .instruction = NULL \
	}

/* Reads it. ERR_INVALID, ERR_DENIED, ERR_LIMIT. The caller releases *ask, also after failure, and
 * keeps `body` as long. */
int ask_body_read(const struct json *body, const struct ask_rules *rules, struct ask_body *ask,
		  struct err *err);

/* One more word, "--NAME=TEXT"; "--NAME" without a text. */
void ask_body_add(struct ask_body *ask, const char *name, const char *text);

void ask_body_release(struct ask_body *ask);
#define cleanup_ask_body __attribute__((cleanup(ask_body_release)))

#endif
