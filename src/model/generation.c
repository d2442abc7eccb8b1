/*
 * An answer as it grows: bytes in, whole code points out, thoughts apart, within the limit.
 *
 * Content and reasoning have a decoder each, so a character that a server has split over two
 * pieces is whole again, and what is no UTF-8 becomes U+FFFD. Content goes through think.c.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/backend_impl.h"

enum {
	TOKEN_BYTES = 4, /* of prose and code, about */
	/* A server that counts less than a token for so many bytes has not read all of them: text
	 * has 3 to 5, wide tables of blanks up to 6. Short prompts prove nothing. */
	TOKEN_BYTES_CUT = 7,
	CUT_BYTES_MIN = 2048,
};

/* What it has cost by now: also one that is ended in the middle was paid for. */
static void sum_up(struct generation *generation)
{
	struct generation_usage *usage = &generation->usage;
	size_t bytes = generation->text.len + generation->reasoning.len;

	usage->seconds = (double)(clock_monotonic_us() - generation->start_us) / 1e6;
	if (usage->counted) {
		usage->prompt_cut = generation->prompt_bytes >= CUT_BYTES_MIN &&
				    usage->prompt_tokens > 0 &&
				    usage->prompt_tokens <
					    generation->prompt_bytes / TOKEN_BYTES_CUT;
		return;
	}
	usage->prompt_tokens = (generation->prompt_bytes + TOKEN_BYTES - 1) / TOKEN_BYTES;
	usage->tokens = (bytes + TOKEN_BYTES - 1) / TOKEN_BYTES;
}

static void emit(struct generation *generation, const struct buf *text, bool reasoning)
{
	if (text->len == 0)
		return;
	if (generation->usage.first_seconds < 0)
		generation->usage.first_seconds =
			(double)(clock_monotonic_us() - generation->start_us) / 1e6;
	buf_append(reasoning ? &generation->reasoning : &generation->text, buf_bytes(text),
		   text->len);
	sum_up(generation);
	if (generation->events.text)
		generation->events.text(generation->events.context, buf_bytes(text), text->len,
					reasoning);
}

/* Some templates open the thoughts in the prompt, so that the answer has the closing tag alone. It
 * is known too late for the events, not for the whole text. */
static void move_unopened(struct generation *generation)
{
	size_t thoughts, begin;

	if (generation->think.thought || generation->reasoning.len > 0)
		return;
	begin = think_unopened(buf_bytes(&generation->text), generation->text.len, &thoughts);
	if (begin == 0)
		return;
	buf_append(&generation->reasoning, buf_bytes(&generation->text), thoughts);
	buf_consume(&generation->text, begin);
}

static void finish(struct generation *generation, enum generation_state state)
{
	cleanup_buf struct buf scratch = BUF_INIT;
	cleanup_buf struct buf reasoning = BUF_INIT;
	cleanup_buf struct buf text = BUF_INIT;

	text_decode_end(&generation->reasoning_decoder, &reasoning);
	emit(generation, &reasoning, true);
	buf_clear(&reasoning);
	text_decode_end(&generation->text_decoder, &scratch);
	think_feed(&generation->think, buf_bytes(&scratch), scratch.len, &reasoning, &text);
	think_end(&generation->think, &reasoning, &text);
	emit(generation, &reasoning, true);
	emit(generation, &text, false);
	move_unopened(generation);
	sum_up(generation);
	generation->state = state;
}

static void feed_text(struct generation *generation, const void *bytes, size_t len)
{
	cleanup_buf struct buf scratch = BUF_INIT;
	cleanup_buf struct buf reasoning = BUF_INIT;
	cleanup_buf struct buf text = BUF_INIT;

	text_decode(&generation->text_decoder, &scratch, bytes, len);
	think_feed(&generation->think, buf_bytes(&scratch), scratch.len, &reasoning, &text);
	emit(generation, &reasoning, true);
	emit(generation, &text, false);
}

int generation_feed(struct generation *generation, const void *bytes, size_t len, bool reasoning)
{
	size_t have = generation->text.len + generation->reasoning.len;
	cleanup_buf struct buf scratch = BUF_INIT;
	struct err err = ERR_INIT;

	if (generation_done(generation) || len == 0)
		return 0;
	if (len > GENERATION_BYTES_MAX || have + len > GENERATION_BYTES_MAX) {
		err_set(&err, ERR_LIMIT, "the answer has more than %d KiB and was ended",
			GENERATION_BYTES_MAX >> 10);
		generation_fail(generation, &err);
		return -1;
	}
	if (!reasoning) {
		feed_text(generation, bytes, len);
		return 0;
	}
	text_decode(&generation->reasoning_decoder, &scratch, bytes, len);
	emit(generation, &scratch, true);
	return 0;
}

void generation_end(struct generation *generation, enum generation_state state)
{
	assert(state == GENERATION_STOPPED || state == GENERATION_LENGTH);
	if (!generation_done(generation))
		finish(generation, state);
}

void generation_fail(struct generation *generation, const struct err *err)
{
	if (generation_done(generation))
		return;
	generation->err = *err;
	finish(generation, GENERATION_FAILED);
}

enum generation_state generation_state(const struct generation *generation)
{
	return generation->state;
}

bool generation_done(const struct generation *generation)
{
	return generation->state != GENERATION_RUNNING;
}

static const char *bytes_of(const struct buf *buf, size_t *len)
{
	if (len)
		*len = buf->len;
	return buf_bytes(buf);
}

const char *generation_text(const struct generation *generation, size_t *len)
{
	return bytes_of(&generation->text, len);
}

const char *generation_reasoning(const struct generation *generation, size_t *len)
{
	return bytes_of(&generation->reasoning, len);
}

const struct generation_usage *generation_usage(const struct generation *generation)
{
	return &generation->usage;
}

const struct err *generation_error(const struct generation *generation)
{
	return &generation->err;
}

int64_t generation_retry_ms(const struct generation *generation)
{
	return generation->retry_ms;
}
