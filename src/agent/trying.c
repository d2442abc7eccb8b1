/*
 * Running what is in an answer. See loop_impl.h.
 *
 * An answer gives several candidates (fence.h). The next one is taken when one does not compile, is
 * short of a name that another block may define, or does nothing: that costs no tokens.
 */
#include <string.h>

#include "agent/forgotten.h"
#include "agent/loop_impl.h"
#include "agent/suspect.h"
#include "base/mem.h"

enum { OUTPUT_TOLD_BYTES = 256 << 10, OUTPUT_LINE_BYTES = 64 << 10 };

static enum attempt_status status_of(const struct outcome *outcome)
{
	static const enum attempt_status of[] = {
		[OUTCOME_NONE] = ATTEMPT_INTERRUPTED, [OUTCOME_OK] = ATTEMPT_OK,
		[OUTCOME_ERROR] = ATTEMPT_ERROR,      [OUTCOME_DIED] = ATTEMPT_DIED,
		[OUTCOME_TIMEOUT] = ATTEMPT_TIMEOUT,  [OUTCOME_INTERRUPTED] = ATTEMPT_INTERRUPTED,
	};

	if (outcome->status == OUTCOME_OK && outcome_is_empty(outcome))
		return ATTEMPT_EMPTY;
	return of[outcome->status];
}

/* --- one candidate ---------------------------------------------------------------------------- */

static void tell_code(struct agent *agent, const struct attempt *attempt)
{
	struct json *line = json_new_object();

	json_set_int(line, "attempt", attempt->number);
	json_set_string(line, "code", attempt->code);
	json_set_string(line, "fence", fence_kind_name(attempt->fence));
	record_line(&agent->record, "code", line, true);
}

/* The attempt that wrote the same program before; NULL. */
static const struct attempt *find_repeated(const struct agent *agent, size_t index,
					   const char *code)
{
	for (size_t i = 0; i < agent->count; i++) {
		const struct attempt *other = &agent->attempts[i];

		if (i != index && other->code && other->status != ATTEMPT_RUNNING &&
		    other->status != ATTEMPT_REPEATED && other->status != ATTEMPT_INTERRUPTED &&
		    fence_same_code(other->code, code))
			return other;
	}
	return NULL;
}

static bool is_named(const struct outcome *outcome, const char *const *names)
{
	for (; outcome->ename && *names; names++)
		if (strcmp(outcome->ename, *names) == 0)
			return true;
	return false;
}

/* Whether another block of the answer may do better. */
static bool wants_next(const struct attempt *attempt)
{
	static const char *const names[] = {"SyntaxError", "IndentationError", "TabError",
					    "NameError", NULL};

	return attempt->status == ATTEMPT_EMPTY ||
	       (attempt->status == ATTEMPT_ERROR && is_named(&attempt->outcome, names));
}

/* Runs the attempt's code. */
static int run_code(struct agent *agent, size_t index, struct err *err)
{
	struct attempt *attempt = &agent->attempts[index];
	int outcome;

	outcome_release(&attempt->outcome);
	tell_code(agent, attempt);
	agent->running = index;
	agent->output_left = OUTPUT_TOLD_BYTES;
	outcome = runner_run(&agent->runner, attempt->code, &attempt->outcome, err);
	agent->running = SIZE_MAX;
	attempt->run_seconds += (double)attempt->outcome.duration_us / 1e6;
	attempt->status = status_of(&attempt->outcome);
	if (attempt->outcome.not_undone)
		attempt_suspect(attempt,
				"it has changed files that could not be brought back (too large or "
				"too many): %.200s",
				attempt->outcome.not_undone);
	return outcome;
}

/* Runs it, and again with the imports in front that it turns out to have forgotten. */
static int run_candidate(struct agent *agent, size_t index, struct fence_candidate *candidate,
			 struct err *err)
{
	struct attempt *attempt = &agent->attempts[index];
	char statement[FORGOTTEN_BYTES];

	free(attempt->code);
	attempt->code = mem_take(candidate->code);
	candidate->code = mem_string("");
	attempt->fence = candidate->kind;
	if (run_code(agent, index, err) != 0)
		return -1;
	for (unsigned i = 0; i < FORGOTTEN_MAX && !hub_ended(&agent->hub); i++) {
		const struct outcome *outcome = &attempt->outcome;
		char *whole;

		if (attempt->status != ATTEMPT_ERROR ||
		    forgotten_import(attempt->code, outcome->ename, outcome->evalue,
				     statement) != 0)
			break;
		whole = mem_format("%s\n%s", statement, attempt->code);
		free(attempt->code);
		attempt->code = whole;
		attempt_suspect(attempt, "it lacked `%s`, which has been put in front", statement);
		if (run_code(agent, index, err) != 0)
			return -1;
	}
	return 0;
}

/* After a module was not there: looks what can be imported instead, so that a repair is told. */
static int look_for_modules(struct agent *agent, struct attempt *attempt, struct err *err)
{
	cleanup_outcome struct outcome outcome = OUTCOME_INIT;
	cleanup_buf struct buf code = BUF_INIT;
	char module[INSTEAD_NAME_MAX];

	if (attempt->status != ATTEMPT_ERROR || hub_ended(&agent->hub) ||
	    instead_missing(attempt->outcome.ename, attempt->outcome.evalue, module) != 0)
		return 0;
	instead_probe(&code, module);
	if (runner_look(&agent->runner, buf_bytes(&code), &outcome, err) != 0)
		return -1;
	(void)instead_read(&attempt->instead, buf_bytes(&outcome.out));
	return 0;
}

/* --- checks ----------------------------------------------------------------------------------- */

static void add_check(struct attempt *attempt, const struct check *check, bool ok,
		      const struct buf *message)
{
	struct json *one = json_new_object();

	json_set_string(one, "kind", check_kind_name(check->kind));
	json_set(one, "ok", json_new_bool(ok));
	if (!ok)
		json_set(one, "message", json_new_string(buf_bytes(message), message->len));
	json_push(attempt->checks, one);
	attempt->checked = attempt->checked && ok;
}

/* `assert` that is an expression alone may be given without the word. */
static char *assertion(const char *text)
{
	bool alone = !strchr(text, '\n') && strncmp(text, "assert", 6) != 0 &&
		     strncmp(text, "import ", 7) != 0 && strncmp(text, "from ", 5) != 0 &&
		     !strchr(text, ';');

	return alone ? mem_format("assert (%s)", text) : mem_string(text);
}

static int run_assert(struct agent *agent, const struct attempt *attempt, const struct check *check,
		      bool kept, bool *ok, struct buf *message, struct err *err)
{
	cleanup_outcome struct outcome outcome = OUTCOME_INIT;
	cleanup_free char *code = assertion(check->text);
	int ran = kept ? runner_check_kept(&agent->runner, code, &outcome, err)
		       : runner_check(&agent->runner, attempt->code, code, &outcome, err);

	if (ran != 0)
		return -1;
	*ok = outcome.status == OUTCOME_OK;
	buf_printf(message, "%s", check->text);
	if (outcome.ename)
		buf_printf(message, " (%s%s%.200s)", outcome.ename,
			   outcome.evalue && *outcome.evalue ? ": " : "",
			   outcome.evalue ? outcome.evalue : "");
	else if (!*ok)
		buf_printf(message, " (%s)", outcome_status_name(outcome.status));
	return 0;
}

int try_checks(struct agent *agent, struct attempt *attempt, const struct outcome *outcome,
	       bool kept, struct err *err)
{
	const struct checks *checks = agent->params->checks;
	size_t len;
	const char *text = outcome_text(outcome, &len);

	if (checks->count == 0)
		return 0;
	json_free(attempt->checks);
	attempt->checks = json_new_array();
	attempt->checked = true;
	for (size_t i = 0; i < checks->count; i++) {
		const struct check *check = &checks->items[i];
		cleanup_buf struct buf message = BUF_INIT;
		bool ok = false;

		if (check->kind == CHECK_EXPECT)
			ok = check_output(check, text, len, &message);
		else if (run_assert(agent, attempt, check, kept, &ok, &message, err) != 0)
			return -1;
		add_check(attempt, check, ok, &message);
		if (hub_ended(&agent->hub)) {
			attempt->checked = false;
			break;
		}
	}
	return 0;
}

/* --- an answer -------------------------------------------------------------------------------- */

int try_attempt(struct agent *agent, size_t index, struct err *err)
{
	struct attempt *attempt = &agent->attempts[index];
	cleanup_fence struct fence fence = FENCE_INIT;
	const char *response = attempt->response ? attempt->response : "";
	const struct attempt *repeated;

	fence_read(&fence, response, strlen(response));
	attempt->status = ATTEMPT_NO_CODE;
	repeated = fence.count ? find_repeated(agent, index, fence.candidates[0].code) : NULL;
	if (repeated) {
		attempt->code = mem_string(fence.candidates[0].code);
		attempt->fence = fence.candidates[0].kind;
		attempt->repeats = repeated->number;
		attempt->status = ATTEMPT_REPEATED;
		tell_code(agent, attempt);
		return 0;
	}
	for (size_t i = 0; i < fence.count && !hub_ended(&agent->hub); i++) {
		if (i > 0 && !wants_next(attempt))
			break;
		if (run_candidate(agent, index, &fence.candidates[i], err) != 0)
			return -1;
	}
	if (hub_ended(&agent->hub) && attempt->status == ATTEMPT_NO_CODE)
		attempt->status = ATTEMPT_INTERRUPTED;
	if (attempt->status != ATTEMPT_OK)
		return look_for_modules(agent, attempt, err);
	suspect(attempt);
	return try_checks(agent, attempt, &attempt->outcome, false, err);
}
