/*
 * Errors: formatting into a fixed buffer, and the table of what a code means elsewhere.
 *
 * Nothing is allocated, so an error can be reported when memory is short and needs no freeing. The
 * text may carry foreign bytes (a file name): they are made valid UTF-8 in place, because the text
 * goes on into JSON, HTTP and terminals.
 *
 * JSON-RPC 2.0 reserves -32099..-32000 for servers; the Model Context Protocol has taken numbers
 * from the upper end of it, so ours begin at -32050 and go down.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

struct err_row {
	const char *name;
	int exit_status;
	int http_status;
	int jsonrpc;
	bool retry;
};

static const struct err_row ROWS[ERR_CODE_COUNT] = {
	[ERR_OK] = {"ok", 0, 500, -32603, false},
	[ERR_USAGE] = {"usage", 2, 400, -32600, false},
	[ERR_INVALID] = {"invalid", 125, 400, -32602, false},
	[ERR_DUPLICATE] = {"duplicate", 125, 409, -32050, false},
	[ERR_NOT_FOUND] = {"not_found", 125, 404, -32051, false},
	[ERR_BUSY] = {"busy", 125, 503, -32052, true},
	[ERR_DENIED] = {"denied", 125, 403, -32053, false},
	[ERR_UNSUPPORTED] = {"unsupported", 125, 501, -32054, false},
	[ERR_LIMIT] = {"limit", 125, 413, -32055, false},
	[ERR_NO_SPACE] = {"no_space", 125, 507, -32056, true},
	[ERR_TIMEOUT] = {"timeout", 125, 504, -32057, true},
	[ERR_CORRUPT] = {"corrupt", 125, 500, -32058, false},
	[ERR_GONE] = {"gone", 125, 410, -32059, false},
	[ERR_SANDBOX] = {"sandbox", 125, 503, -32060, false},
	[ERR_ENGINE] = {"engine", 125, 500, -32061, false},
	[ERR_IO] = {"io", 125, 500, -32062, true},
	[ERR_INTERNAL] = {"internal", 125, 500, -32603, false},
};

/* The row of a code; a number that is no code (a cast gone wrong) reads as internal. */
static const struct err_row *row_of(enum err_code code)
{
	return &ROWS[(unsigned)code < ERR_CODE_COUNT ? code : ERR_INTERNAL];
}

/* Makes the text valid UTF-8 without moving a byte: what is cut or bad at the end goes, bad bytes
 * before it become '?'. */
static void text_clean(char *text)
{
	size_t len = strlen(text);
	size_t cut = len;
	size_t i = 0;

	/* A cut sequence is a lead byte and its continuation bytes, at most three bytes. */
	while (cut > 0 && len - cut < 3 && ((unsigned char)text[cut - 1] & 0xc0) == 0x80)
		cut--;
	if (cut > 0 && (unsigned char)text[cut - 1] >= 0xc0 &&
	    !text_is_utf8(text + cut - 1, len - cut + 1))
		text[cut - 1] = '\0';
	len = strlen(text);
	while (i < len) {
		uint32_t point;
		size_t step = text_next(text + i, len - i, &point);

		if (step == 1 && point == 0xfffd)
			text[i] = '?';
		i += step;
	}
}

static void fill(struct err *err, enum err_code code, int sys, const char *text)
{
	size_t len = strnlen(text, sizeof(err->text) - 1);

	err->code = code;
	err->sys = sys;
	memcpy(err->text, text, len);
	err->text[len] = '\0';
	text_clean(err->text);
}

int err_set(struct err *err, enum err_code code, const char *format, ...)
{
	char text[sizeof(err->text)]; /* not err->text itself: that may be among the arguments */
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	fill(err, code, 0, text);
	return -1;
}

static enum err_code code_of_errno(int sys)
{
	switch (sys) {
	case ENOSPC:
	case EDQUOT:
		return ERR_NO_SPACE;
	case ENOENT:
		return ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
		return ERR_DENIED;
	default:
		return ERR_IO;
	}
}

int err_sys(struct err *err, const char *format, ...)
{
	int sys = errno;
	const char *reason = strerrordesc_np(sys); /* not strerror: no hidden state, no locale */
	char text[sizeof(err->text)];
	char whole[2 * sizeof(err->text)];
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	if (reason)
		snprintf(whole, sizeof(whole), "%s: %s", text, reason);
	else
		snprintf(whole, sizeof(whole), "%s: errno %d", text, sys);
	fill(err, code_of_errno(sys), sys, whole);
	return -1;
}

int err_wrap(struct err *err, const char *format, ...)
{
	char text[sizeof(err->text)];
	char whole[2 * sizeof(err->text)];
	va_list args;

	if (!err)
		return -1;
	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	snprintf(whole, sizeof(whole), "%s: %s", text, err->text);
	fill(err, err->code, err->sys, whole);
	return -1;
}

const char *err_name(enum err_code code)
{
	return row_of(code)->name;
}

enum err_code err_from_name(const char *name)
{
	for (int code = ERR_OK; code < ERR_CODE_COUNT; code++) {
		if (name && strcmp(ROWS[code].name, name) == 0)
			return (enum err_code)code;
	}
	return ERR_INTERNAL;
}

int err_exit_status(enum err_code code)
{
	return row_of(code)->exit_status;
}

int err_http_status(enum err_code code)
{
	return row_of(code)->http_status;
}

int err_jsonrpc(enum err_code code)
{
	return row_of(code)->jsonrpc;
}

bool err_retry(enum err_code code)
{
	return row_of(code)->retry;
}
