/*
 * The body of a request for a chat completion. Pure.
 *
 * Members that some servers refuse can be left out when it is written, so one request serves all
 * tries.
 */
#ifndef FH_MODEL_REQUEST_H
#define FH_MODEL_REQUEST_H

#include "base/buf.h"
#include "base/json.h"
#include "model/backend.h"

/* All members but the further ones of the backend. The caller owns it. */
struct json *request_new(const char *model, const struct generation_request *request);

/* FIELD_* (fault.h) of what it has and could be without; FIELD_EXTRA always. */
unsigned request_fields(const struct json *request);

/* Appends the JSON text without `dropped` (FIELD_*), with the members of `extra` (NULL: none). */
void request_write(struct buf *out, const struct json *request, const struct json *extra,
		   unsigned dropped);

/* FIELD_EXTRA when a refusal names a member of `extra`, else 0. */
unsigned request_named(const struct json *extra, const char *refusal);

#endif
