/*
 * Problem documents (RFC 9457): what went wrong, for programs and for people.
 *
 *	{"type":"urn:fumehood:busy","title":"Service Unavailable","status":503,
 *	 "detail":"the queue is full","code":"busy"}
 *
 * `code` is a code of the session protocol (doc/protocol.md) or one that only HTTP has, such as
 * `unauthorized`. One table (base/err.c) maps codes to statuses.
 */
#ifndef FH_SERVE_PROBLEM_H
#define FH_SERVE_PROBLEM_H

#include "base/buf.h"
#include "base/err.h"
#include "serve/http.h"

#define PROBLEM_TYPE "application/problem+json"

/* Appends the document. Pure. */
void problem_write(struct buf *out, int status, const char *code, const char *detail);

/* The code for a status that has none of the session protocol. */
const char *problem_code(int status);

/* Answers with a problem and ends the request. */
void problem_reply(struct http_request *request, int status, const char *code, const char *format,
		   ...) __attribute__((format(printf, 4, 5)));

/* The same for an error. */
void problem_err(struct http_request *request, const struct err *err);

#endif
