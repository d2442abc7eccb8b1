/*
 * Fuzzes what reads a model's answer and a program's output: candidates are whole lines without
 * NUL, a text is the same as and alike itself, and nothing depends on what stands behind the end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/attempt.h"
#include "agent/check.h"
#include "agent/fence.h"
#include "agent/instead.h"
#include "agent/prompt.h"
#include "agent/suspect.h"
#include "base/mem.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_answer(const char *text, size_t len)
{
	cleanup_fence struct fence fence = FENCE_INIT;

	fence_read(&fence, text, len);
	(void)fence_is_open(text, len);
	for (size_t i = 0; i < fence.count; i++) {
		const char *code = fence.candidates[i].code;

		if (!*code || code[strlen(code) - 1] != '\n' || !fence_same_code(code, code))
			abort();
		(void)suspect_typed_in(code);
	}
}

static void fuzz_output(const char *text, size_t len)
{
	struct attempt attempt = {.status = ATTEMPT_OK, .outcome = OUTCOME_INIT};
	size_t half = len / 2;

	if (!outcome_text_same(text, len, text, len) || !outcome_text_alike(text, len, text, len))
		abort();
	if (outcome_text_same(text, half, text + half, len - half) &&
	    !outcome_text_alike(text, half, text + half, len - half))
		abort();
	if (!text_is_utf8(text, len))
		return;
	attempt.outcome.status = OUTCOME_OK;
	outcome_add(&attempt.outcome, false, text, len);
	outcome_add(&attempt.outcome, true, text, len);
	attempt.outcome.traceback = mem_copy(text, len);
	suspect(&attempt);
	outcome_locate(&attempt.outcome, attempt.outcome.traceback);
	json_free(attempt_finished(&attempt, true));
	attempt_release(&attempt);
}

static void fuzz_check(const char *text, size_t len)
{
	cleanup_free char *copy = mem_copy(text, len < 200 ? len : 200);
	struct checks checks = CHECKS_INIT;
	cleanup_buf struct buf message = BUF_INIT;

	if (checks_add(&checks, CHECK_EXPECT, copy, NULL) == 0)
		(void)check_output(&checks.items[0], text, len < 2000 ? len : 2000, &message);
	checks_release(&checks);
}

/* An exception's text, and what was printed where it was looked for modules. */
static void fuzz_instead(const char *text)
{
	struct instead instead = {.found = NULL};
	cleanup_free char *evalue = mem_format("No module named '%s", text);
	cleanup_free char *printed = mem_format("\nfumehood-modules: %s", text);
	cleanup_buf struct buf advice = BUF_INIT, code = BUF_INIT;
	char name[INSTEAD_NAME_MAX];

	(void)instead_missing("ImportError", text, name);
	if (instead_missing("ModuleNotFoundError", evalue, name) != 0)
		return;
	/* It goes into code that is run. */
	if (strpbrk(name, "'\"\\\n ()") || strlen(name) == 0)
		abort();
	instead_probe(&code, name);
	if (instead_read(&instead, printed) != 0)
		abort();
	instead_advice(&advice, &instead, name, text);
	(void)instead_read(&instead, text);
	instead_release(&instead);
}

static void fuzz_template(const char *text, size_t len)
{
	struct prompts prompts;
	struct prompt_values values = {.instruction = "{code}", .code = "x"};
	cleanup_buf struct buf out = BUF_INIT;

	prompts_init(&prompts);
	(void)prompts_read(&prompts, text, len, "fuzz", NULL);
	if (prompts.count == 0)
		abort();
	prompt_fill(&out, prompts.task, &values);
	prompts_release(&prompts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of its own, so that the sanitizer sees a read behind the end. */
	char *text = mem_zalloc(size + 1);

	if (size)
		memcpy(text, data, size);
	fuzz_answer(text, size);
	fuzz_output(text, size);
	fuzz_check(text, size);
	fuzz_template(text, size);
	fuzz_instead(text);
	free(text);
	return 0;
}
