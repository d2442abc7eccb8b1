/*
 * The body of a request that is passed on. Only its end is looked for: the bytes go on unchanged.
 * A chunk's size and its line ends are read strictly (RFC 9112 section 7.1), because a server that
 * reads them otherwise would find a second request where we see data.
 */
#include "sandbox/proxy_http.h"

enum {
	SIZE_DIGITS_MAX = 15,
	LINES_MAX = 8192, /* bytes of extensions and trailers in one body */
};

/* -1: no hexadecimal digit. */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static enum proxy_body_stage expect(char c, char wanted, enum proxy_body_stage next)
{
	return c == wanted ? next : PROXY_BODY_BAD;
}

static enum proxy_body_stage step_size(struct proxy_body *body, char c)
{
	int value = digit(c);

	if (value >= 0) {
		if (++body->digits > SIZE_DIGITS_MAX)
			return PROXY_BODY_BAD;
		body->left = body->left * 16 + (uint64_t)value;
		return PROXY_BODY_SIZE;
	}
	if (body->digits == 0)
		return PROXY_BODY_BAD;
	if (c == ';')
		return PROXY_BODY_EXTENSION;
	return expect(c, '\r', PROXY_BODY_SIZE_LF);
}

/* A byte of an extension or a trailer: everything but control characters, up to CR. */
static enum proxy_body_stage step_line(struct proxy_body *body, char c, enum proxy_body_stage end)
{
	if (c == '\r')
		return end;
	if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f || ++body->line > LINES_MAX)
		return PROXY_BODY_BAD;
	return body->stage == PROXY_BODY_TRAILER ? PROXY_BODY_TRAILER_LINE : body->stage;
}

static enum proxy_body_stage after_size(const struct proxy_body *body, char c)
{
	return expect(c, '\n', body->left ? PROXY_BODY_DATA : PROXY_BODY_TRAILER);
}

static enum proxy_body_stage step(struct proxy_body *body, char c)
{
	switch (body->stage) {
	case PROXY_BODY_SIZE:
		return step_size(body, c);
	case PROXY_BODY_EXTENSION:
		return step_line(body, c, PROXY_BODY_SIZE_LF);
	case PROXY_BODY_SIZE_LF:
		return after_size(body, c);
	case PROXY_BODY_DATA_CR:
		return expect(c, '\r', PROXY_BODY_DATA_LF);
	case PROXY_BODY_DATA_LF:
		body->digits = 0;
		return expect(c, '\n', PROXY_BODY_SIZE);
	case PROXY_BODY_TRAILER:
		return step_line(body, c, PROXY_BODY_LAST_LF);
	case PROXY_BODY_TRAILER_LINE:
		return step_line(body, c, PROXY_BODY_TRAILER_LF);
	case PROXY_BODY_TRAILER_LF:
		return expect(c, '\n', PROXY_BODY_TRAILER);
	case PROXY_BODY_LAST_LF:
		return expect(c, '\n', PROXY_BODY_DONE);
	case PROXY_BODY_LENGTH:
	case PROXY_BODY_DATA:
	case PROXY_BODY_DONE:
	case PROXY_BODY_BAD:
		break;
	}
	return body->stage;
}

static void end_run(struct proxy_body *body)
{
	if (body->left > 0)
		return;
	if (body->stage == PROXY_BODY_LENGTH)
		body->stage = PROXY_BODY_DONE;
	else
		body->stage = PROXY_BODY_DATA_CR;
}

size_t proxy_body_take(struct proxy_body *body, const char *bytes, size_t len)
{
	size_t taken = 0;

	while (taken < len && body->stage != PROXY_BODY_DONE && body->stage != PROXY_BODY_BAD) {
		enum proxy_body_stage next;

		if (body->stage == PROXY_BODY_LENGTH || body->stage == PROXY_BODY_DATA) {
			size_t run = len - taken;

			if (run > body->left)
				run = (size_t)body->left;
			taken += run;
			body->left -= run;
			end_run(body);
			continue;
		}
		next = step(body, bytes[taken]);
		body->stage = next;
		if (next != PROXY_BODY_BAD)
			taken++;
	}
	return taken;
}
