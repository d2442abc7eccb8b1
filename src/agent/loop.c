/*
 * The order of things. See loop.h.
 */
#include "agent/loop.h"

#include <stdint.h>
#include <string.h>

#include "agent/loop_impl.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

enum { LINE_BYTES = 64 << 10 };

/* What a program prints, told as it comes. */
static void tell_output(void *context, bool is_stderr, const char *text, size_t len)
{
	struct agent *agent = context;

	if (agent->running == SIZE_MAX)
		return;
	if (len > agent->output_left)
		len = text_prefix(text, (size_t)agent->output_left, SIZE_MAX);
	agent->output_left -= len;
	while (len > 0) {
		struct json *line = json_new_object();
		size_t part = len <= LINE_BYTES ? len : text_prefix(text, LINE_BYTES, SIZE_MAX);

		if (part == 0)
			part = len;
		json_set_int(line, "attempt", agent->attempts[agent->running].number);
		json_set_string(line, "stream", is_stderr ? "stderr" : "stdout");
		json_set(line, "text", json_new_string(text, part));
		record_line(&agent->record, "output", line, false);
		text += part;
		len -= part;
	}
}

static struct json *limits_json(const struct agent_params *params)
{
	struct json *limits = json_new_object();

	json_set_int(limits, "programs", params->limits.programs);
	json_set(limits, "tokens",
		 params->limits.tokens ? json_new_int((int64_t)params->limits.tokens) : NULL);
	json_set(limits, "seconds", params->seconds > 0 ? json_new_double(params->seconds) : NULL);
	json_set(limits, "run_seconds", json_new_double(params->run_seconds));
	return limits;
}

static struct json *ask_json(const struct agent_params *params)
{
	struct json *ask = json_new_object();

	json_set_string(ask, "instruction", params->instruction);
	json_set_string(ask, "model", backend_model(params->backend));
	json_set_string(ask, "backend", backend_kind(params->backend));
	json_set_string(ask, "effort", effort_name(params->effort));
	json_set(ask, "limits", limits_json(params));
	json_set(ask, "checks", checks_json(params->checks));
	if (params->input)
		json_set_string(ask, "input", params->input);
	json_set_string(ask, "session", fh_id(params->session));
	json_set_string(ask, "notebook_attempts", params->shows_attempts ? "show" : "hide");
	return ask;
}

/* Each answer of the round as it comes: its program is run, and the rest is ended when nothing can
 * change any more. */
static int take_answers(struct agent *agent, struct err *err)
{
	const struct agent_params *params = agent->params;
	bool with_checks = params->checks->count > 0;
	struct err why = ERR_INIT;

	for (;;) {
		size_t index = answering_next(agent, &why);
		struct vote vote;

		if (index == SIZE_MAX)
			break;
		if (agent->attempts[index].status != ATTEMPT_MODEL &&
		    try_attempt(agent, index, err) != 0) {
			agent->attempts[index].status = ATTEMPT_INTERRUPTED;
			verdict_attempt(agent, index);
			return -1;
		}
		/* Its group, of what there is now; the verdict counts once more. */
		vote_count(agent->attempts, agent->count, with_checks, &vote);
		verdict_attempt(agent, index);
		if (agent->record.gone) {
			*err = agent->record.fault;
			return -1;
		}
		if (agent->fatal ||
		    plan_is_decided(agent->attempts, agent->count, with_checks, &params->limits))
			break;
	}
	if (why.code != ERR_OK) {
		*err = why;
		return -1;
	}
	return 0;
}

const struct attempt *agent_backend_failed(const struct agent *agent)
{
	for (size_t i = agent->count; i-- > 0;)
		if (agent->attempts[i].status == ATTEMPT_MODEL)
			return &agent->attempts[i];
	return NULL;
}

static void stop_answers(struct agent *agent)
{
	size_t first = agent->answering_count ? agent->answering[0].attempt : agent->count;
	bool running[ATTEMPTS_MAX] = {false};

	for (size_t i = 0; i < agent->answering_count; i++)
		running[agent->answering[i].attempt] = !agent->answering[i].taken;
	answering_stop(agent);
	for (size_t i = first; i < agent->count; i++)
		if (running[i])
			verdict_attempt(agent, i);
}

static int rounds(struct agent *agent, const char **why, struct err *err)
{
	const struct agent_params *params = agent->params;

	while (!hub_ended(&agent->hub)) {
		struct plan plan = plan_next(agent->attempts, agent->count,
					     params->checks->count > 0, &params->limits);
		int outcome;

		*why = plan.why;
		if (plan.step == PLAN_DONE || agent->fatal)
			break;
		if (plan.step == PLAN_REPAIR)
			answering_begin(agent, 1, plan.of);
		else
			answering_begin(agent, plan.count, SIZE_MAX);
		runner_prepare(&agent->runner);
		outcome = take_answers(agent, err);
		stop_answers(agent);
		if (outcome != 0)
			return -1;
	}
	return 0;
}

/* Whether the backend has failed and has given no answer at all: then that is what is told. What
 * came of an answer before it failed is a result (verdict.c). */
static bool is_backend_fault(const struct agent *agent, struct err *err)
{
	const struct attempt *failed = agent_backend_failed(agent);

	if (hub_ended(&agent->hub) || !failed)
		return false;
	for (size_t i = 0; i < agent->count; i++)
		if (attempt_was_answered(&agent->attempts[i]))
			return false;
	*err = failed->fault;
	return true;
}

static enum agent_end ask(struct agent *agent, struct json **result, struct err *err)
{
	const struct agent_params *params = agent->params;
	const char *why = NULL;

	if (look_at(&agent->look, params->session, params->fresh, err) != 0 ||
	    record_begin(&agent->record, ask_json(params), err) != 0)
		return AGENT_FAULT;
	agent->context = backend_context(params->backend);
	if (rounds(agent, &why, err) == 0 && !is_backend_fault(agent, err)) {
		enum agent_end end = verdict_give(agent, why, result, err);

		if (end != AGENT_FAULT)
			return end;
	}
	verdict_fault(agent, err);
	return AGENT_FAULT;
}

enum agent_end agent_ask(const struct agent_params *params, struct json **result, struct err *err)
{
	struct agent *agent = mem_zalloc(sizeof(*agent));
	enum agent_end end;

	agent->params = params;
	agent->running = SIZE_MAX;
	agent->start_us = clock_monotonic_us();
	agent->look = (struct look)LOOK_INIT;
	agent->record = (struct record){
		.session = params->session, .line = params->line, .context = params->context};
	agent->hub = (struct hub){.backend = params->backend,
				  .cancel_fd = params->cancel_fd,
				  .deadline_us = params->deadline_us,
				  .tick = answering_tick,
				  .context = agent};
	agent->runner = (struct runner){
		.hub = &agent->hub,
		.session = params->session,
		.boxes = params->boxes,
		.files_back = true,
		.timeout_s = params->run_seconds,
		.input = params->input,
		.output = tell_output,
		.context = agent,
	};
	end = ask(agent, result, err);
	answering_stop(agent);
	runner_release(&agent->runner);
	look_release(&agent->look);
	for (size_t i = 0; i < agent->count; i++)
		attempt_release(&agent->attempts[i]);
	free(agent);
	return end;
}
