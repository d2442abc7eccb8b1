/*
 * Attempts: one program of the model each, from the question to its outcome.
 */
#ifndef FH_AGENT_ATTEMPT_H
#define FH_AGENT_ATTEMPT_H

#include "agent/fence.h"
#include "agent/instead.h"
#include "agent/outcome.h"
#include "base/err.h"

enum {
	ATTEMPTS_MAX = 32,
	ATTEMPT_LINE_BYTES = 64 << 10, /* of each output in a line; the rest is counted */
};

enum attempt_status {
	ATTEMPT_RUNNING, /* asked for, written or run just now */
	ATTEMPT_OK,
	ATTEMPT_ERROR,
	ATTEMPT_DIED,
	ATTEMPT_TIMEOUT,
	ATTEMPT_INTERRUPTED,
	ATTEMPT_EMPTY,    /* ended well, but printed and wrote nothing */
	ATTEMPT_NO_CODE,  /* the answer has no program in it */
	ATTEMPT_REPEATED, /* the same code as attempt `of`; not run */
	ATTEMPT_MODEL,    /* no answer; `message` says why */
};

struct attempt {
	unsigned number;  /* from 1 */
	unsigned repairs; /* the attempt that it mends; 0: a sample */
	unsigned repeats; /* of ATTEMPT_REPEATED: the attempt whose code it is */
	unsigned variant; /* of the prompts, from 0 */
	unsigned known;   /* attempts of which the model knew when it was a sample: those before */
	double temperature;
	int64_t seed; /* < 0: none */
	enum attempt_status status;
	char *response; /* the model's text */
	char *code;     /* the program that was run; NULL: none */
	enum fence_kind fence;
	bool cut; /* the answer was cut at its limit of tokens */
	struct outcome outcome;
	struct instead instead;  /* where a module was missing */
	struct json *checks;     /* [{"kind","ok","message"?}]; NULL: none were made */
	bool checked;            /* there were checks, and all hold */
	struct json *suspicions; /* array of texts; NULL: none */
	bool doubtful;           /* the program says itself that it failed */
	char *message;           /* of ATTEMPT_MODEL, and of one that ended before a second try */
	struct err fault;        /* of ATTEMPT_MODEL */
	unsigned group;          /* of equal outcomes; 0: none */
	uint64_t tokens, prompt_tokens, cached_tokens;
	double model_seconds, first_token_seconds, run_seconds;
};

void attempt_release(struct attempt *attempt);

/* Notes what is to be shown with the result. */
void attempt_suspect(struct attempt *attempt, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Whether it stands for an answer: it ended well and said or wrote something. */
bool attempt_counts(const struct attempt *attempt);

/* Whether the model has given it an answer, whatever became of that. */
bool attempt_was_answered(const struct attempt *attempt);

/* Such as "no_code". */
const char *attempt_status_name(enum attempt_status status);

/* The line of state `started`, and that of state `finished`, without `ask` and `type`; with `whole`
 * also `code` and `response`. Owned by the caller. See doc/ask.md. */
struct json *attempt_started(const struct attempt *attempt);
struct json *attempt_finished(const struct attempt *attempt, bool whole);

#endif
