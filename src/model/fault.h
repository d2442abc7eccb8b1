/*
 * What a server's refusal means: its words to one of our errors, and to the members of the request
 * that it does not want. Pure.
 */
#ifndef FH_MODEL_FAULT_H
#define FH_MODEL_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/delta.h"

enum { FAULT_BODY_BYTES_MAX = 64 << 10 }; /* more of a refusal is not looked at */

/* Members of a request that it can do without, or say otherwise. */
enum fault_field {
	FIELD_STREAM_OPTIONS = 1 << 0,
	FIELD_SEED = 1 << 1,
	FIELD_TOP_P = 1 << 2,
	FIELD_TEMPERATURE = 1 << 3,
	FIELD_STOP = 1 << 4,
	FIELD_MAX_TOKENS = 1 << 5, /* it is called max_completion_tokens then */
	FIELD_EXTRA = 1 << 6,
	/* What is left out when a server only says that something is wrong. */
	FIELDS_OPTIONAL = FIELD_STREAM_OPTIONS | FIELD_SEED | FIELD_TOP_P | FIELD_EXTRA,
};

/* Who said it, for the message. */
struct fault_source {
	const char *shown; /* the address */
	const char *model;
	const char *key; /* NULL, or what must not be seen */
};

/* An error object, in a stream (status 0, unless the object has one) or as a refusal. */
void fault_from_error(const struct delta *error, int status, const struct fault_source *source,
		      struct err *err);

/* A refusal: any bytes. *fields becomes what it names (0: nothing), *vague whether it may help to
 * leave out FIELDS_OPTIONAL though it names none. */
void fault_from_body(const char *body, size_t len, int status, const struct fault_source *source,
		     unsigned *fields, bool *vague, struct err *err);

/* Whether the name stands in the text for itself; `quoted`: and in quotes, for what is an ordinary
 * word as well. */
bool fault_names(const char *text, const char *name, bool quoted);

/* Appends foreign bytes fit for a message: one line, no control characters, no key, a page's title
 * instead of a page. */
void fault_quote(struct buf *out, const char *bytes, size_t len, const char *key);

#endif
