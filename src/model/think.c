/*
 * Thoughts inside of the answer.
 *
 * One state and the few bytes that may still become a tag. A tag anywhere but at the beginning is
 * part of the answer: a program may print one. The tags are ASCII, so cutting at them never splits
 * a code point.
 */
#include "model/think.h"

#include <string.h>

#include "base/mem.h"

static const char OPENING[] = "<think>";
static const char CLOSING[] = "</think>";

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether the bytes are the beginning of the tag (or all of it). */
static bool begins_tag(const char *bytes, size_t len, const char *tag)
{
	return len <= strlen(tag) && memcmp(bytes, tag, len) == 0;
}

/* Takes one byte more into what is held at the beginning; says what it means. */
static void take_at_begin(struct think *think, char c, struct buf *answer)
{
	size_t spaces = 0;

	think->held[think->held_len++] = c;
	while (spaces < think->held_len && is_space(think->held[spaces]))
		spaces++;
	if (begins_tag(think->held + spaces, think->held_len - spaces, OPENING)) {
		if (think->held_len - spaces == strlen(OPENING)) {
			think->state = THINK_INSIDE;
			think->thought = true;
			think->held_len = 0;
			return;
		}
		if (think->held_len < THINK_HELD_MAX)
			return;
	}
	buf_append(answer, think->held, think->held_len);
	think->held_len = 0;
	think->state = THINK_ANSWER;
}

static void take_inside(struct think *think, char c, struct buf *reasoning)
{
	think->held[think->held_len++] = c;
	if (begins_tag(think->held, think->held_len, CLOSING)) {
		if (think->held_len == strlen(CLOSING)) {
			think->state = THINK_AFTER;
			think->held_len = 0;
		}
		return;
	}
	/* '<' stands only at a tag's beginning, so no other part of what is held can begin one but
	 * this byte. */
	if (c == '<') {
		buf_append(reasoning, think->held, think->held_len - 1);
		think->held[0] = c;
		think->held_len = 1;
		return;
	}
	buf_append(reasoning, think->held, think->held_len);
	think->held_len = 0;
}

void think_feed(struct think *think, const char *text, size_t len, struct buf *reasoning,
		struct buf *answer)
{
	size_t at = 0;

	while (at < len && think->state != THINK_ANSWER) {
		if (think->state == THINK_BEGIN) {
			take_at_begin(think, text[at++], answer);
		} else if (think->state == THINK_INSIDE) {
			take_inside(think, text[at++], reasoning);
		} else if (is_space(text[at])) {
			at++;
		} else {
			think->state = THINK_ANSWER;
		}
	}
	buf_append(answer, text + at, len - at);
}

void think_end(struct think *think, struct buf *reasoning, struct buf *answer)
{
	buf_append(think->state == THINK_INSIDE ? reasoning : answer, think->held, think->held_len);
	think->held_len = 0;
}

size_t think_unopened(const char *text, size_t len, size_t *thoughts)
{
	const char *tag = memmem(text, len, CLOSING, strlen(CLOSING));
	size_t at;

	*thoughts = 0;
	if (!tag || memmem(text, (size_t)(tag - text), "```", 3))
		return 0;
	*thoughts = (size_t)(tag - text);
	at = *thoughts + strlen(CLOSING);
	while (at < len && is_space(text[at]))
		at++;
	return at;
}
