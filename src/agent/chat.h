/*
 * The messages of one request, made to fit the model's window.
 *
 *	system, examples, task [, the program that failed, what was wrong with it]
 *
 * The order keeps the server's cache of prompts alive: what is the same for all asks comes first,
 *and a repair only adds to its sample. What does not fit is left out in this order: earlier asks
 *(the oldest first), the examples, the lines of the workspace, the variables, the code of the
 *program that failed. Never the task.
 */
#ifndef FH_AGENT_CHAT_H
#define FH_AGENT_CHAT_H

#include "agent/hint.h"
#include "agent/look.h"
#include "agent/prompt.h"
#include "model/backend.h"

enum {
	CHAT_MESSAGES_MAX = 2 * PROMPT_EXAMPLES_MAX + 8,
	CHAT_BYTES_A_TOKEN = 3,  /* a careful estimate: of code and English there are four */
	CHAT_MESSAGE_BYTES = 16, /* what the frame of a message costs */
};

struct chat_params {
	const struct prompts *prompts;
	unsigned variant;
	const struct look *look;
	const struct hint_place *place;
	const char *instruction;
	const char *input;            /* NULL: none */
	const char *checks;           /* a sentence about them, or NULL */
	const char *missing;          /* modules that others wanted in vain, "a, b"; NULL: none */
	const struct attempt *failed; /* the program to mend; NULL: a sample */
	size_t bytes_max;             /* of all messages together; SIZE_MAX: no bound */
};

struct chat {
	struct message messages[CHAT_MESSAGES_MAX];
	size_t count;
	size_t bytes;                   /* as they are counted against bytes_max */
	char *texts[CHAT_MESSAGES_MAX]; /* those that were made; owned */
	size_t text_count;
};

/* Makes them. 0, or -1 with ERR_LIMIT when the system prompt and the task alone are too long. The
 * caller releases *chat also after failure. Pure. */
int chat_make(struct chat *chat, const struct chat_params *params, struct err *err);
void chat_release(struct chat *chat);
#define cleanup_chat __attribute__((cleanup(chat_release)))

/* The bytes that messages may have where the window has `context` tokens (0: not known) of which
 * the answer is to have `answer`. */
size_t chat_bytes_max(uint64_t context, uint64_t answer);

#endif
