/*
 * The end of an ask. See loop_impl.h.
 *
 * The chosen program is run once more, in the session and for good: its files land in the
 * workspace, its variables stay, its cell is in the notebook. What it does there is the answer. If
 * it does something else than before, that is said; if it fails, or a check does not hold any more,
 * there is no success.
 */
#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "agent/loop_impl.h"
#include "base/clock.h"
#include "base/mem.h"

enum { MESSAGE_CHARS = 300 };

struct verdict {
	struct vote vote;
	size_t chosen; /* of the attempts; SIZE_MAX: there are none */
	bool success;
	struct outcome outcome;  /* of its run in the session */
	bool kept;               /* it was run there */
	char *message;           /* why there is no success */
	struct json *suspicions; /* of the chosen one, and those that came up here; owned */
};

static void verdict_release(struct verdict *verdict)
{
	outcome_release(&verdict->outcome);
	free(verdict->message);
}

void verdict_attempt(struct agent *agent, size_t index)
{
	record_line(&agent->record, "attempt", attempt_finished(&agent->attempts[index], false),
		    true);
}

/* --- why not ---------------------------------------------------------------------------------- */

static char *failure_of(const struct attempt *attempt)
{
	const struct outcome *outcome = &attempt->outcome;

	switch (attempt->status) {
	case ATTEMPT_ERROR:
		if (!outcome->ename) /* its exception was too large to be told */
			return mem_string("the program failed with an exception that is not known");
		return mem_format("the program failed: %s%s%.*s",
				  outcome->ename,
				  outcome->evalue && *outcome->evalue ? ": " : "", MESSAGE_CHARS,
				  outcome->evalue ? outcome->evalue : "");
	case ATTEMPT_DIED:
		return mem_format("the program died: %s",
				  outcome->reason ? outcome->reason : "of an unknown cause");
	case ATTEMPT_TIMEOUT:
		return mem_string("the program ran out of time (--timeout)");
	case ATTEMPT_EMPTY:
		return mem_string("the program printed nothing and wrote nothing");
	case ATTEMPT_NO_CODE:
		return mem_string("there was no Python program in the model's answer");
	case ATTEMPT_REPEATED:
		return mem_format("the model wrote the program of attempt %u once more",
				  attempt->repeats);
	case ATTEMPT_MODEL:
		return mem_format("the model gave no answer: %s", attempt->message);
	case ATTEMPT_OK:
		for (size_t i = 0; i < json_length(attempt->checks); i++) {
			const struct json *check = json_at(attempt->checks, i);
			const char *message = json_get_string(check, "message");

			if (!json_get_bool(check, "ok", true))
				return mem_format("a check does not hold: %s",
						  message ? message : "");
		}
		break;
	case ATTEMPT_INTERRUPTED:
		if (attempt->message)
			return mem_format("the model gave no answer: %s", attempt->message);
		break;
	case ATTEMPT_RUNNING:
		break;
	}
	return mem_string("it was interrupted");
}

/* What can be done about a backend that has failed; "": its words say it. */
static const char *remedy_of(enum err_code code)
{
	switch ((int)code) {
	case ERR_DENIED:
		return "; look at its key (--key-env)";
	case ERR_NOT_FOUND:
		return "; name another model (--model)";
	case ERR_GONE:
	case ERR_TIMEOUT:
	case ERR_BUSY:
	case ERR_IO:
	case ERR_ENGINE:
		return "; see that its server answers, and ask again";
	default:
		return "";
	}
}

static char *why_not(const struct agent *agent, const struct verdict *verdict, const char *why)
{
	const struct attempt *unanswered = agent_backend_failed(agent);
	cleanup_free char *failure = NULL;

	if (agent->hub.cancelled)
		return mem_string("interrupted");
	if (verdict->chosen == SIZE_MAX)
		return mem_string(agent->hub.late ? "the time was over before the model answered "
						    "(--time)"
						  : "the model was not asked");
	failure = failure_of(&agent->attempts[verdict->chosen]);
	if (agent->hub.late)
		return mem_format("the time was over (--time); %s", failure);
	if (why && strcmp(why, "tokens") == 0)
		return mem_format("the tokens were used up (--tokens); %s", failure);
	/* Fewer programs were tried than could have been. */
	if (unanswered && unanswered != &agent->attempts[verdict->chosen])
		return mem_format("the model gave no further answer: %s%s; before that %s",
				  unanswered->message, remedy_of(unanswered->fault.code), failure);
	return mem_take(failure);
}

/* --- the chosen one --------------------------------------------------------------------------- */

static void doubt(struct verdict *verdict, const char *text)
{
	if (!verdict->suspicions)
		verdict->suspicions = json_new_array();
	json_push(verdict->suspicions, json_new_string(text, strlen(text)));
}

static void set_message(struct verdict *verdict, char *message)
{
	free(verdict->message);
	verdict->message = message;
	verdict->success = false;
}

/* Runs it in the session. */
static int keep(struct agent *agent, struct verdict *verdict, struct err *err)
{
	struct attempt *attempt = &agent->attempts[verdict->chosen];
	cleanup_free char *metadata =
		mem_format("{\"fumehood\":{\"ask\":{\"id\":\"%s\",\"attempt\":%u}}}",
			   agent->record.ask, attempt->number);

	/* The time was for finding it. */
	agent->hub.deadline_us = 0;
	agent->hub.late = false;
	if (runner_keep(&agent->runner, attempt->code, metadata, &verdict->outcome, err) != 0)
		return -1;
	verdict->kept = true;
	if (agent->hub.cancelled) {
		set_message(verdict, mem_string("interrupted"));
		return 0;
	}
	if (verdict->outcome.status != OUTCOME_OK) {
		set_message(verdict,
			    mem_format("the chosen program ran well by itself, but not in the "
				       "session: %s%s%.*s",
				       verdict->outcome.ename
					       ? verdict->outcome.ename
					       : outcome_status_name(verdict->outcome.status),
				       verdict->outcome.evalue ? ": " : "", MESSAGE_CHARS,
				       verdict->outcome.evalue ? verdict->outcome.evalue : ""));
		return 0;
	}
	if (!outcome_same(&verdict->outcome, &attempt->outcome))
		doubt(verdict, "it gave something else when it was run in the session: it depends "
			       "on time, chance or what was there before");
	if (agent->params->checks->count == 0)
		return 0;
	if (try_checks(agent, attempt, &verdict->outcome, true, err) != 0)
		return -1;
	if (!attempt->checked)
		set_message(verdict, failure_of(attempt));
	return 0;
}

static int choose(struct agent *agent, struct verdict *verdict, const char *why, struct err *err)
{
	bool with_checks = agent->params->checks->count > 0;

	vote_count(agent->attempts, agent->count, with_checks, &verdict->vote);
	verdict->success = verdict->vote.confidence != CONFIDENCE_NONE && !agent->hub.cancelled;
	verdict->chosen = verdict->vote.winner != SIZE_MAX && (verdict->success || with_checks)
				  ? verdict->vote.winner
				  : vote_best_failure(agent->attempts, agent->count);
	if (verdict->chosen != SIZE_MAX && agent->attempts[verdict->chosen].suspicions)
		verdict->suspicions = json_copy(agent->attempts[verdict->chosen].suspicions);
	if (!verdict->success) {
		verdict->message = why_not(agent, verdict, why);
		return 0;
	}
	if (verdict->vote.alike > verdict->vote.same) {
		cleanup_free char *text =
			mem_format("%u more gave the same but for how numbers are written",
				   verdict->vote.alike - verdict->vote.same);

		doubt(verdict, text);
	}
	return keep(agent, verdict, err);
}

/* --- lines ------------------------------------------------------------------------------------ */

struct sums {
	uint64_t tokens, prompt_tokens, cached_tokens;
};

static struct sums sum(const struct agent *agent)
{
	struct sums sums = {.tokens = 0};

	for (size_t i = 0; i < agent->count; i++) {
		sums.tokens += agent->attempts[i].tokens;
		sums.prompt_tokens += agent->attempts[i].prompt_tokens;
		sums.cached_tokens += agent->attempts[i].cached_tokens;
	}
	return sums;
}

static const char *confidence_of(const struct verdict *verdict)
{
	return confidence_name(verdict->success ? verdict->vote.confidence : CONFIDENCE_NONE);
}

static struct json *agreement_json(const struct vote *vote)
{
	struct json *agreement = json_new_object();

	json_set_int(agreement, "k", vote->same);
	json_set_int(agreement, "n", vote->of);
	json_set_int(agreement, "alike", vote->alike);
	return agreement;
}

static struct json *fault_json(const struct err *err)
{
	struct json *fault = json_new_object();

	json_set_string(fault, "code", err_name(err->code));
	json_set_string(fault, "message", err->text);
	return fault;
}

static void set_common(struct json *line, const struct agent *agent, const struct verdict *verdict)
{
	const struct attempt *unanswered = agent_backend_failed(agent);
	struct sums sums = sum(agent);

	json_set(line, "success", json_new_bool(verdict->success));
	json_set_string(line, "confidence", confidence_of(verdict));
	json_set(line, "agreement", verdict->vote.of ? agreement_json(&verdict->vote) : NULL);
	if (verdict->message)
		json_set_string(line, "message", verdict->message);
	if (unanswered)
		json_set(line, "fault", fault_json(&unanswered->fault));
	if (verdict->kept)
		json_set_string(line, "cell", verdict->outcome.cell);
	json_set_int(line, "tokens", (int64_t)sums.tokens);
	json_set_int(line, "prompt_tokens", (int64_t)sums.prompt_tokens);
	json_set_int(line, "cached_tokens", (int64_t)sums.cached_tokens);
	json_set(line, "seconds",
		 json_new_double((double)(clock_monotonic_us() - agent->start_us) / 1e6));
	json_set(line, "model_seconds", json_new_double(agent->model_seconds));
}

static void tell_verdict(struct agent *agent, const struct verdict *verdict)
{
	struct json *line = json_new_object();

	if (verdict->chosen != SIZE_MAX)
		json_set_int(line, "attempt", agent->attempts[verdict->chosen].number);
	json_set_int(line, "programs", (int64_t)agent->count);
	set_common(line, agent, verdict);
	record_line(&agent->record, "verdict", line, true);
}

/* Without white space round it, as the original has it. */
static struct json *stripped(const char *text, size_t len)
{
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	for (; len > 0 && isspace((unsigned char)*text); len--)
		text++;
	return json_new_string(text, len);
}

static void set_answer(struct json *line, const struct agent *agent, const struct verdict *verdict)
{
	static const struct outcome nothing = OUTCOME_INIT;
	const struct attempt *attempt =
		verdict->chosen == SIZE_MAX ? NULL : &agent->attempts[verdict->chosen];
	const struct outcome *outcome = verdict->kept ? &verdict->outcome
					: attempt     ? &attempt->outcome
						      : &nothing;
	size_t len;
	const char *text = outcome_text(outcome, &len);
	cleanup_buf struct buf errors = BUF_INIT;

	json_set(line, "stdout", stripped(text, len));
	buf_append(&errors, buf_bytes(&outcome->err), outcome->err.len);
	if (outcome->traceback)
		buf_append_string(&errors, outcome->traceback);
	json_set(line, "stderr", stripped(buf_bytes(&errors), errors.len));
	json_set_string(line, "code", attempt && attempt->code ? attempt->code : "");
	json_set_int(line, "attempts", (int64_t)agent->count);
	json_set_string(line, "response", attempt && attempt->response ? attempt->response : "");
	json_set(line, "files", outcome->files ? json_copy(outcome->files) : json_new_array());
	if (attempt && attempt->checks)
		json_set(line, "checks", json_copy(attempt->checks));
	json_set(line, "attempt", attempt ? json_new_int(attempt->number) : NULL);
	json_set(line, "suspicions",
		 verdict->suspicions ? json_copy(verdict->suspicions) : json_new_array());
}

static struct json *result_line(const struct agent *agent, const struct verdict *verdict)
{
	struct json *line = json_new_object(), *programs = json_new_array();

	json_set_string(line, "type", "result");
	json_set(line, "success", json_new_bool(verdict->success));
	set_answer(line, agent, verdict);
	set_common(line, agent, verdict);
	for (size_t i = 0; i < agent->count; i++)
		json_push(programs, attempt_finished(&agent->attempts[i], true));
	json_set(line, "programs", programs);
	json_set_string(line, "session", fh_id(agent->params->session));
	json_set_string(line, "ask", agent->record.ask);
	json_set_string(line, "model", backend_model(agent->params->backend));
	return line;
}

enum agent_end verdict_give(struct agent *agent, const char *why, struct json **result,
			    struct err *err)
{
	__attribute__((cleanup(verdict_release))) struct verdict verdict = {
		.chosen = SIZE_MAX,
		.outcome = OUTCOME_INIT,
	};
	cleanup_json struct json *line = NULL;
	int outcome = choose(agent, &verdict, why, err);

	if (outcome == 0 && agent->hub.cancelled && verdict.success)
		set_message(&verdict, mem_string("interrupted"));
	if (outcome == 0)
		tell_verdict(agent, &verdict);
	line = outcome == 0 ? result_line(agent, &verdict) : NULL;
	json_free(verdict.suspicions);
	if (outcome != 0)
		return AGENT_FAULT;
	*result = mem_take(line);
	if (agent->hub.cancelled)
		return AGENT_CANCELLED;
	return verdict.success ? AGENT_SUCCESS : AGENT_FAILED;
}

void verdict_fault(struct agent *agent, const struct err *err)
{
	struct json *line = json_new_object();

	json_set(line, "success", json_new_bool(false));
	json_set_string(line, "confidence", confidence_name(CONFIDENCE_NONE));
	json_set_string(line, "message", err->text);
	json_set_int(line, "programs", (int64_t)agent->count);
	record_line(&agent->record, "verdict", line, true);
}
