/*
 * Answers of the model. See loop_impl.h.
 *
 * Samples are asked for together, so that a server with slots makes them together. They differ in
 * the variant of the prompts and in temperature: the first two are the model's likeliest answers
 * to two prompts, later ones are drawn.
 *
 * A backend that fails for a reason that may pass (busy, gone, too slow) is asked again, a few
 * times and ever later; one that finds the prompt too long, with a shorter one. What came before a
 * cut is an answer if a whole program is in it.
 */
#include <stdint.h>
#include <string.h>

#include "agent/loop_impl.h"
#include "base/clock.h"
#include "base/mem.h"

enum {
	TELL_US = 50000,       /* tokens are told in lines at least so far apart */
	TELL_BYTES = 16 << 10, /* ... unless there are so many */
	BUSY_TRIES = 4,
	BUSY_WAIT_US = 1000000,
	BUSY_WAIT_US_MAX = 60 * 1000000, /* who is asked to wait longer is told so */
	GONE_TRIES = 2,
	GONE_WAIT_US = 250000,
	SHORTER_TRIES = 3,
	REPAIR_SEED = 1000, /* so that a repair draws other numbers than any sample */
};

/* Ends an answer at its closing fence: what comes behind it is paid for and not used. An opening
 * fence with a language is no such line; fence_is_open() knows the rest. */
static const char *const STOP[] = {"\n```\n", NULL};

/* --- tokens ----------------------------------------------------------------------------------- */

static void tell_tokens(struct answering *answering)
{
	struct agent *agent = answering->agent;

	for (unsigned i = 0; i < 2; i++) {
		struct buf *text = &answering->tokens[i];
		struct json *line;

		if (!text->len)
			continue;
		line = json_new_object();
		json_set_int(line, "attempt", agent->attempts[answering->attempt].number);
		json_set(line, "text", json_new_string(buf_bytes(text), text->len));
		if (i == 1)
			json_set(line, "reasoning", json_new_bool(true));
		buf_clear(text);
		record_line(&agent->record, "token", line, true);
	}
	answering->told_us = clock_monotonic_us();
}

static void take_text(void *context, const char *text, size_t len, bool reasoning)
{
	struct answering *answering = context;

	buf_append(&answering->tokens[reasoning], text, len);
	if (answering->tokens[reasoning].len >= TELL_BYTES)
		tell_tokens(answering);
}

int answering_tick(void *context)
{
	struct agent *agent = context;
	int64_t now_us = clock_monotonic_us(), next_us = INT64_MAX;

	for (size_t i = 0; i < agent->answering_count; i++) {
		struct answering *answering = &agent->answering[i];
		int64_t due_us = answering->told_us + TELL_US;

		if (answering->again_us && answering->again_us < next_us)
			next_us = answering->again_us;
		if (!answering->tokens[0].len && !answering->tokens[1].len)
			continue;
		if (due_us <= now_us)
			tell_tokens(answering);
		else if (due_us < next_us)
			next_us = due_us;
	}
	if (next_us == INT64_MAX)
		return -1;
	return next_us <= now_us ? 0 : (int)((next_us - now_us) / 1000) + 1;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Seconds in which the model was at work, however many answers there were. */
static void count_model_time(struct agent *agent)
{
	bool busy = false;
	int64_t now_us = clock_monotonic_us();

	for (size_t i = 0; i < agent->answering_count; i++)
		busy = busy || (agent->answering[i].generation &&
				!generation_done(agent->answering[i].generation));
	if (agent->model_since_us && !busy)
		agent->model_seconds += (double)(now_us - agent->model_since_us) / 1e6;
	if (!busy)
		agent->model_since_us = 0;
	else if (!agent->model_since_us)
		agent->model_since_us = now_us;
}

/* Of the tokens that are left, what each of `count` answers may have that are asked for now. */
static uint64_t share_of_tokens(const struct agent *agent, unsigned count)
{
	uint64_t used = 0, limit = agent->params->limits.tokens, share;

	for (size_t i = 0; i < agent->count; i++)
		used += agent->attempts[i].tokens;
	if (!limit)
		return AGENT_ANSWER_TOKENS;
	share = limit > used ? (limit - used) / count : 0;
	return share < AGENT_ANSWER_TOKENS ? share : AGENT_ANSWER_TOKENS;
}

/* What is left of it when it was asked before. */
static uint32_t tokens_max(const struct answering *answering)
{
	uint64_t used = answering->agent->attempts[answering->attempt].tokens;

	if (!answering->agent->params->limits.tokens)
		return AGENT_ANSWER_TOKENS;
	return answering->tokens_max > used ? (uint32_t)(answering->tokens_max - used) : 1;
}

static void write_checks(struct buf *out, const struct checks *checks)
{
	for (size_t i = 0; i < checks->count; i++)
		if (checks->items[i].kind == CHECK_ASSERT)
			buf_printf(out, "\n\nAfter it this must hold: %s", checks->items[i].text);
}

/* Modules that were missing for the programs that had ended when this sample was asked for. A
 * repair is told the same, so that its messages begin as its sample's. */
static void write_missing(struct buf *out, const struct agent *agent, const struct attempt *attempt)
{
	char names[ATTEMPTS_MAX][INSTEAD_NAME_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < attempt->known; i++) {
		const struct attempt *other = &agent->attempts[i];
		char *name = names[count];
		unsigned same = 0;

		if (other->status != ATTEMPT_ERROR ||
		    instead_missing(other->outcome.ename, other->outcome.evalue, name) != 0 ||
		    instead_is_there(&other->instead, name, buf_bytes(&agent->look.modules)))
			continue;
		while (strcmp(names[same], name) != 0)
			same++;
		if (same == count)
			buf_printf(out, "%s%s", count++ ? ", " : "", name);
	}
}

static int make_chat(struct answering *answering, struct chat *chat, struct err *err)
{
	struct agent *agent = answering->agent;
	const struct attempt *attempt = &agent->attempts[answering->attempt];
	cleanup_buf struct buf checks = BUF_INIT, missing = BUF_INIT;
	const struct hint_place place = {
		.modules = buf_bytes(&agent->look.modules),
		.files = buf_bytes(&agent->look.files),
		.timeout_s = agent->params->run_seconds,
		.input = agent->params->input != NULL,
	};
	struct chat_params params = {
		.prompts = agent->params->prompts,
		.variant = attempt->variant,
		.look = &agent->look,
		.place = &place,
		.instruction = agent->params->instruction,
		.input = agent->params->input,
		.bytes_max = answering->bytes_max,
	};

	if (answering->failed != SIZE_MAX)
		params.failed = &agent->attempts[answering->failed];
	write_checks(&checks, agent->params->checks);
	params.checks = buf_bytes(&checks);
	write_missing(&missing, agent, attempt);
	if (missing.len)
		params.missing = buf_bytes(&missing);
	return chat_make(chat, &params, err);
}

/* Asks, or notes why not. */
static void ask(struct answering *answering)
{
	struct agent *agent = answering->agent;
	struct attempt *attempt = &agent->attempts[answering->attempt];
	cleanup_chat struct chat chat = {.count = 0};
	struct err why = ERR_INIT;
	const struct generation_events events = {.text = take_text, .context = answering};
	struct generation_request request = {
		.temperature = attempt->temperature,
		.top_p = attempt->temperature > 0 ? 0.95 : 0,
		.seed = attempt->seed,
		.tokens_max = tokens_max(answering),
		.stop = STOP,
	};

	answering->again_us = 0;
	answering->tries++;
	if (make_chat(answering, &chat, &why) == 0) {
		request.messages = chat.messages;
		request.count = chat.count;
		answering->generation = backend_ask(agent->params->backend, &request, &events,
						    &attempt->fault);
	} else {
		/* It cannot be made shorter. A server that found it too long says more. */
		answering->shortest = true;
		if (attempt->fault.code == ERR_OK)
			attempt->fault = why;
	}
	count_model_time(agent);
}

/* --- what is asked for ------------------------------------------------------------------------ */

/* The first sample of each variant at the user's temperature, the next two of each warmer, then
 * warmer still. */
static double temperature_of(const struct agent_params *params, unsigned sample)
{
	size_t variants = params->prompts->count;
	double temperature = params->temperature;

	if (sample >= variants)
		temperature += sample < 2 * variants + 1 ? 0.7 : 1.0;
	return temperature < 1.5 || temperature == params->temperature ? temperature : 1.5;
}

static void begin_one(struct agent *agent, size_t failed, uint64_t tokens_max)
{
	const struct agent_params *params = agent->params;
	struct attempt *attempt = &agent->attempts[agent->count];
	struct answering *answering = &agent->answering[agent->answering_count++];
	unsigned sample = agent->samples;

	*attempt = (struct attempt){
		.number = (unsigned)agent->count + 1,
		.first_token_seconds = -1,
		.seed = params->seed,
		.outcome = OUTCOME_INIT,
	};
	if (failed != SIZE_MAX) {
		attempt->repairs = agent->attempts[failed].number;
		attempt->variant = agent->attempts[failed].variant;
		attempt->known = agent->attempts[failed].known;
		attempt->temperature = params->temperature;
		attempt->seed += params->seed < 0 ? 0 : REPAIR_SEED;
	} else {
		agent->samples++;
		attempt->variant = sample % (unsigned)params->prompts->count;
		attempt->known = (unsigned)(agent->count + 1 - agent->answering_count);
		attempt->temperature = temperature_of(params, sample);
		attempt->seed += params->seed < 0 ? 0 : sample;
	}
	*answering = (struct answering){
		.agent = agent,
		.attempt = agent->count++,
		.tokens = {BUF_INIT, BUF_INIT},
		.failed = failed,
		.bytes_max = chat_bytes_max(agent->context, AGENT_ANSWER_TOKENS),
		.tokens_max = tokens_max,
	};
	record_line(&agent->record, "attempt", attempt_started(attempt), true);
	ask(answering);
}

void answering_begin(struct agent *agent, unsigned count, size_t failed)
{
	uint64_t tokens_max = share_of_tokens(agent, count);

	for (unsigned i = 0; i < count && agent->count < ATTEMPTS_MAX; i++)
		begin_one(agent, failed, tokens_max);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Counts what it cost, also if it was asked more than once. */
static void take_usage(struct attempt *attempt, const struct generation *generation)
{
	const struct generation_usage *usage = generation_usage(generation);

	attempt->tokens += usage->tokens;
	attempt->prompt_tokens += usage->prompt_tokens;
	attempt->cached_tokens += usage->cached_tokens;
	attempt->model_seconds += usage->seconds;
	if (attempt->first_token_seconds < 0)
		attempt->first_token_seconds = usage->first_seconds;
	if (usage->prompt_cut)
		attempt_suspect(attempt, "the server has dropped a part of the prompt: its context "
					 "is too small");
}

static void drop(struct answering *answering)
{
	generation_free(answering->generation);
	answering->generation = NULL;
	count_model_time(answering->agent);
}

/* Whether to ask again after this failure, and when. `retry_ms`: when the server wants it. */
static bool is_to_be_repeated(struct answering *answering, const struct err *fault,
			      int64_t retry_ms)
{
	int64_t now_us = clock_monotonic_us(), wait_us;

	switch ((int)fault->code) {
	case ERR_BUSY:
		if (retry_ms > BUSY_WAIT_US_MAX / 1000)
			return false;
		wait_us = (int64_t)BUSY_WAIT_US << (answering->tries - 1);
		if (retry_ms * 1000 > wait_us)
			wait_us = retry_ms * 1000;
		answering->again_us = now_us + wait_us;
		return answering->tries < BUSY_TRIES;
	case ERR_GONE:
	case ERR_TIMEOUT:
	case ERR_IO:
		answering->again_us = now_us + GONE_WAIT_US;
		return answering->tries < GONE_TRIES;
	case ERR_LIMIT:
		/* The window is not what we thought. */
		if (answering->bytes_max > GENERATION_BYTES_MAX)
			answering->bytes_max = GENERATION_BYTES_MAX;
		answering->bytes_max /= 4;
		answering->again_us = now_us;
		return answering->tries < SHORTER_TRIES && !answering->shortest;
	default:
		return false;
	}
}

static void give_up(struct answering *answering, const struct err *fault)
{
	struct agent *agent = answering->agent;
	struct attempt *attempt = &agent->attempts[answering->attempt];

	attempt->status = ATTEMPT_MODEL;
	attempt->fault = *fault;
	attempt->message = mem_string(fault->text);
	answering->taken = true;
	answering->again_us = 0;
	/* A key that is wrong stays wrong. */
	agent->fatal = agent->fatal || (fault->code != ERR_BUSY && fault->code != ERR_GONE &&
					fault->code != ERR_TIMEOUT && fault->code != ERR_LIMIT);
}

/* The answer, with the closing fence that was a stop text. */
static void take_response(struct attempt *attempt, const struct generation *generation)
{
	size_t len;
	const char *text = generation_text(generation, &len);
	bool stopped = generation_state(generation) == GENERATION_STOPPED;

	attempt->cut = generation_state(generation) == GENERATION_LENGTH;
	free(attempt->response);
	attempt->response = stopped && fence_is_open(text, len) ? mem_format("%s\n```\n", text)
								: mem_copy(text, len);
}

/* Takes an answer that is done, or the reason why there is none; false: it is asked once more. */
static bool take_answer(struct answering *answering)
{
	struct attempt *attempt = &answering->agent->attempts[answering->attempt];
	struct generation *generation = answering->generation;
	struct err fault = attempt->fault;
	int64_t retry_ms = -1;

	tell_tokens(answering);
	if (generation) {
		size_t len;
		const char *text = generation_text(generation, &len);

		take_usage(attempt, generation);
		if (generation_state(generation) != GENERATION_FAILED) {
			take_response(attempt, generation);
			answering->taken = true;
			drop(answering);
			return true;
		}
		attempt->fault = fault = *generation_error(generation);
		retry_ms = generation_retry_ms(generation);
		if (strstr(text, "```") && !fence_is_open(text, len)) {
			attempt_suspect(attempt, "the answer was cut behind its program: %s",
					fault.text);
			take_response(attempt, generation);
			answering->taken = true;
			drop(answering);
			return true;
		}
		drop(answering);
	}
	if (!hub_ended(&answering->agent->hub) && is_to_be_repeated(answering, &fault, retry_ms))
		return false;
	give_up(answering, &fault);
	return true;
}

size_t answering_next(struct agent *agent, struct err *err)
{
	for (;;) {
		bool waits = false;
		int64_t now_us = clock_monotonic_us();

		count_model_time(agent);
		for (size_t i = 0; i < agent->answering_count; i++) {
			struct answering *answering = &agent->answering[i];

			if (answering->taken)
				continue;
			if (answering->again_us && answering->again_us <= now_us)
				ask(answering);
			if (!answering->again_us &&
			    (!answering->generation || generation_done(answering->generation)) &&
			    take_answer(answering))
				return answering->attempt;
			waits = true;
		}
		if (!waits || hub_ended(&agent->hub))
			return SIZE_MAX;
		if (hub_wait(&agent->hub, -1, -1, err) != 0)
			return SIZE_MAX;
	}
}

void answering_stop(struct agent *agent)
{
	for (size_t i = 0; i < agent->answering_count; i++) {
		struct answering *answering = &agent->answering[i];
		struct attempt *attempt = &agent->attempts[answering->attempt];

		if (!answering->taken) {
			tell_tokens(answering);
			if (answering->generation) {
				take_usage(attempt, answering->generation);
				take_response(attempt, answering->generation);
			} else if (attempt->fault.code != ERR_OK) {
				/* It was to be asked once more. */
				free(attempt->message);
				attempt->message = mem_string(attempt->fault.text);
			}
			attempt->status = ATTEMPT_INTERRUPTED;
			answering->taken = true;
			drop(answering);
		}
		buf_release(&answering->tokens[0]);
		buf_release(&answering->tokens[1]);
	}
	agent->answering_count = 0;
}
