/*
 * The loop: an instruction, programs, their outcomes, an answer (doc/ask.md, DESIGN §9).
 *
 *	look at the session -> [plan -> ask the model -> run -> compare] ... -> run the chosen one
 *in the session -> verdict
 *
 * Decisions are pure and elsewhere: what comes next (plan.h), which program wins (vote.h), what a
 * model is told (chat.h, hint.h), what is doubtful (suspect.h). Here is the order of things.
 */
#ifndef FH_AGENT_LOOP_H
#define FH_AGENT_LOOP_H

#include <fumehood.h>

#include "agent/check.h"
#include "agent/plan.h"
#include "agent/program.h"
#include "agent/prompt.h"
#include "base/err.h"
#include "base/json.h"
#include "model/backend.h"

enum {
	AGENT_INSTRUCTION_BYTES_MAX = 256 << 10,
	AGENT_INPUT_BYTES_MAX = 256 << 10,
	AGENT_ANSWER_TOKENS = 1024, /* of one answer, unless the budget has fewer */
	AGENT_RUN_S = 10,           /* of one program, as the original's */
};

struct agent_params {
	struct backend *backend;        /* borrowed, as all here */
	struct fh_session *session;     /* with events followed */
	bool fresh;                     /* it was made for this */
	const struct box_source *boxes; /* NULL: programs are tried in the session, as they must
					 * be where only that has the variables */
	int cancel_fd;                  /* readable: stop. -1: none */
	const char *instruction;
	const char *input; /* NULL: none */
	const struct checks *checks;
	const struct prompts *prompts;
	enum effort effort;
	struct plan_limits limits;
	double seconds;      /* wall time of all, as it was given; 0: no limit */
	int64_t deadline_us; /* its end, monotonic; 0: no limit */
	double run_seconds;  /* of one program */
	double temperature;  /* of the first sample */
	int64_t seed;        /* of the first sample, the next ones count on; < 0: none */
	bool shows_attempts; /* in the notebook */
	/* What happens, as it happens; see record.h. */
	void (*line)(void *context, const struct json *line);
	void *context;
};

enum agent_end {
	AGENT_SUCCESS,
	AGENT_FAILED, /* no program is an answer */
	AGENT_CANCELLED,
	AGENT_FAULT, /* of Fumehood, the session or the backend: *err */
};

/* Asks. *result is the line of type `result`, owned by the caller, also without success; NULL after
 * a fault. */
enum agent_end agent_ask(const struct agent_params *params, struct json **result, struct err *err);

#endif
