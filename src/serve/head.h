/*
 * The head of an HTTP/1.1 request, checked strictly before any library sees it, and its target.
 *
 * Every HTTP parser forgives something: a lone LF, a folded line, two blanks. What two readers see
 * differently is how a request is smuggled past one of them, so the whole head is collected and
 * only this passes (RFC 9112, without its leniencies):
 *
 *	token SP target SP "HTTP/1.1" CRLF *( token ":" *( HTAB / SP / VCHAR / obs-text ) CRLF )
 *CRLF
 *
 * The target has origin form ("/v1/..."). Its segments are decoded one by one; a segment that
 * would decode to one with '/' or NUL, to "." or "..", is refused, so no path changes its shape by
 * being decoded.
 *
 * Pure: bytes in, slices of the same bytes out. No clock, no descriptor.
 */
#ifndef FH_SERVE_HEAD_H
#define FH_SERVE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HEAD_BYTES_MAX = 64 << 10,
	HEAD_LINE_BYTES_MAX = 8 << 10, /* of the request line */
	HEAD_FIELDS_MAX = 100,
	TARGET_SEGMENTS_MAX = 64,
	TARGET_PARAMS_MAX = 32,
};

struct slice {
	const char *at; /* not ended by NUL */
	size_t len;
};

struct head_field {
	struct slice name, value; /* the value without blanks around it */
};

struct head {
	struct slice method, target;
	struct head_field fields[HEAD_FIELDS_MAX];
	size_t field_count;
};

/*
 * Reads a whole head, up to and with its empty line. 0, or the HTTP status of the refusal: 400,
 * 414 (request line too long), 431 (fields), 505 (another version), and a sentence in *why.
 */
int head_parse(const char *bytes, size_t len, struct head *head, const char **why);

/* The only field of this name (any case), NULL when there is none. With several *repeated becomes
 * true (it may be NULL) and the first is returned. */
const struct slice *head_find(const struct head *head, const char *name, bool *repeated);

/* Whether a comma-separated list holds this word, in any case. */
bool head_lists(const struct slice *value, const char *word);

bool slice_is(const struct slice *slice, const char *text);      /* the same bytes */
bool slice_is_word(const struct slice *slice, const char *text); /* in any case, ASCII */

/* What is after the method: segments and parameters, decoded, each ended by NUL. */
struct target {
	char *text; /* owned: what the members point into */
	const char *segments[TARGET_SEGMENTS_MAX];
	size_t segment_lens[TARGET_SEGMENTS_MAX];
	size_t segment_count; /* "/": 0; a '/' at the end adds no segment, but see `folder` */
	bool folder;          /* it ends with '/' */
	struct {
		const char *name, *value;
		size_t value_len;
	} params[TARGET_PARAMS_MAX];
	size_t param_count;
};

#define TARGET_INIT \
	{ \
		.text = NULL, .segment_count = 0, .param_count = 0 \
	}

/* 0, or -1 with a sentence in *why. The caller releases *target, also after failure. */
int target_parse(const struct slice *text, struct target *target, const char **why);
void target_release(struct target *target);

/* The value of a parameter, NULL when it is not given. */
const char *target_param(const struct target *target, const char *name);

#endif
