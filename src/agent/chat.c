/*
 * Making messages that fit. See chat.h.
 *
 * They are made once for each thing that is left out, until they fit: a few times at most, of a few
 * kilobytes.
 */
#include "agent/chat.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

enum { WINDOW_TOKENS_LEFT = 32, CODE_BYTES_LEFT = 600 };

/* How much of what can be left out is in. */
struct extent {
	size_t earlier; /* asks, the newest */
	bool examples, workspace, variables, code;
};

static void add(struct chat *chat, enum message_role role, const char *text, size_t len)
{
	chat->messages[chat->count++] = (struct message){.role = role, .text = text, .len = len};
	chat->bytes += len + CHAT_MESSAGE_BYTES;
}

/* Takes the buffer. */
static void add_made(struct chat *chat, enum message_role role, struct buf *text)
{
	size_t len;
	char *made = buf_take(text, &len);

	chat->texts[chat->text_count++] = made;
	add(chat, role, made ? made : "", len);
}

void chat_release(struct chat *chat)
{
	for (size_t i = 0; i < chat->text_count; i++)
		free(chat->texts[i]);
	*chat = (struct chat){.count = 0};
}

static void write_earlier(struct buf *out, const struct look *look, size_t count)
{
	if (count == 0)
		return;
	buf_append_string(out, "Asked before, and done in the same interpreter:\n");
	for (size_t i = look->earlier_count - count; i < look->earlier_count; i++) {
		const struct look_earlier *earlier = &look->earlier[i];

		buf_printf(out, "- %s\n", earlier->instruction);
		if (earlier->code)
			buf_printf(out, "```python\n%s```\n", earlier->code);
		if (earlier->output)
			buf_printf(out, "It printed: %s\n", earlier->output);
	}
	buf_append_char(out, '\n');
}

static void add_task(struct chat *chat, const struct chat_params *params,
		     const struct extent *extent)
{
	cleanup_buf struct buf earlier = BUF_INIT, input = BUF_INIT, text = BUF_INIT;
	struct prompt_values values = {
		.instruction = params->instruction,
		.workspace = extent->workspace ? buf_bytes(&params->look->workspace) : NULL,
		.variables = extent->variables ? buf_bytes(&params->look->variables) : NULL,
		.checks = params->checks,
	};

	write_earlier(&earlier, params->look, extent->earlier);
	if (params->input)
		buf_append_string(&input, "The program reads its input with input() or from "
					  "sys.stdin.\n\n");
	if (params->missing)
		buf_printf(&input, "Not installed here, so do not import: %s.\n\n",
			   params->missing);
	values.earlier = buf_bytes(&earlier);
	values.input = buf_bytes(&input);
	prompt_fill(&text, params->prompts->task, &values);
	add_made(chat, ROLE_USER, &text);
}

/* The program to mend, and what was wrong with it. */
static void add_repair(struct chat *chat, const struct chat_params *params,
		       const struct extent *extent)
{
	const struct attempt *failed = params->failed;
	bool code = failed->status != ATTEMPT_NO_CODE && failed->code;
	cleanup_buf struct buf answer = BUF_INIT, failure = BUF_INIT, advice = BUF_INIT,
			       text = BUF_INIT;
	struct prompt_values values = {.code = failed->code};

	if (code && (extent->code || strlen(failed->code) <= CODE_BYTES_LEFT))
		buf_printf(&answer, "```python\n%s```", failed->code);
	else if (code)
		buf_printf(&answer, "```python\n%.*s\n...\n```", CODE_BYTES_LEFT, failed->code);
	else if (failed->response)
		buf_printf(&answer, "%.*s", CODE_BYTES_LEFT, failed->response);
	add_made(chat, ROLE_ASSISTANT, &answer);
	hint_failure(&failure, failed);
	hint_advice(&advice, failed, params->place);
	values.failure = buf_bytes(&failure);
	values.advice = buf_bytes(&advice);
	prompt_fill(&text, code ? params->prompts->repair : params->prompts->no_code, &values);
	add_made(chat, ROLE_USER, &text);
}

static void make(struct chat *chat, const struct chat_params *params, const struct extent *extent)
{
	const struct prompt_variant *variant =
		&params->prompts->variants[params->variant % params->prompts->count];

	chat_release(chat);
	add(chat, ROLE_SYSTEM, variant->system, strlen(variant->system));
	for (size_t i = 0; extent->examples && i < variant->example_count; i++) {
		const struct prompt_example *example = &variant->examples[i];

		add(chat, ROLE_USER, example->user, strlen(example->user));
		add(chat, ROLE_ASSISTANT, example->assistant, strlen(example->assistant));
	}
	add_task(chat, params, extent);
	if (params->failed)
		add_repair(chat, params, extent);
}

/* Leaves out one thing more; false: there is nothing left to leave out. */
static bool leave_out(struct extent *extent)
{
	bool *const next[] = {&extent->examples, &extent->workspace, &extent->variables,
			      &extent->code};

	if (extent->earlier > 0) {
		extent->earlier--;
		return true;
	}
	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		if (!*next[i])
			continue;
		*next[i] = false;
		return true;
	}
	return false;
}

int chat_make(struct chat *chat, const struct chat_params *params, struct err *err)
{
	struct extent extent = {
		.earlier = params->look->earlier_count,
		.examples = true,
		.workspace = true,
		.variables = true,
		.code = true,
	};

	*chat = (struct chat){.count = 0};
	do {
		make(chat, params, &extent);
		if (chat->bytes <= params->bytes_max)
			return 0;
	} while (leave_out(&extent));
	return err_set(err, ERR_LIMIT,
		       "the instruction is too long for the model: with its system prompt it has "
		       "about %zu tokens, and %zu fit; shorten it, or take a model with a larger "
		       "context",
		       chat->bytes / CHAT_BYTES_A_TOKEN, params->bytes_max / CHAT_BYTES_A_TOKEN);
}

size_t chat_bytes_max(uint64_t context, uint64_t answer)
{
	uint64_t tokens = answer + WINDOW_TOKENS_LEFT;

	if (context == 0 || context > SIZE_MAX / CHAT_BYTES_A_TOKEN)
		return SIZE_MAX;
	/* An answer that leaves no room for a question is cut by the server. */
	tokens = context > 2 * tokens ? context - tokens : context / 2;
	return (size_t)tokens * CHAT_BYTES_A_TOKEN;
}
