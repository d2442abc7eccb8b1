/*
 * The HTTP side of the proxy: the first request of a connection, read and rewritten.
 *
 * CONNECT HOST:PORT makes a tunnel (RFC 9110 section 9.3.6). A request for http://HOST/... (RFC
 * 9112 section 3.2.2) is passed on in origin form, with a Host that is written anew, without
 * hop-by-hop headers and with "Connection: close": one request a connection, so that there is no
 * second one that nobody has checked, and the client is told so in the response. What two servers
 * could read differently is refused: bare CR or LF, NUL, folded headers, two lengths, a length and
 * a transfer coding.
 *
 * The functions are pure: bytes in, an answer out.
 */
#ifndef FH_SANDBOX_PROXY_HTTP_H
#define FH_SANDBOX_PROXY_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/hosts.h"

enum {
	PROXY_HTTP_HEAD_MAX = 64 * 1024,
	PROXY_HTTP_HEADERS_MAX = 100,
	PROXY_HTTP_METHOD_MAX = 32,
	/* of all values of Connection together, which each header is compared with */
	PROXY_HTTP_CONNECTION_MAX = 1024,
};

enum proxy_outcome {
	PROXY_MORE, /* more bytes are needed */
	PROXY_DONE,
	PROXY_REFUSED, /* never: a reason is given */
};

/* Looks for the end of the head; each byte is looked at once. Zero it to begin. */
struct proxy_http_scan {
	size_t seen;
};

/* `bytes` is all that has come so far. PROXY_DONE: the head, with its empty line, is *head_len
 * bytes. PROXY_REFUSED: *refusal. */
enum proxy_outcome proxy_http_scan(struct proxy_http_scan *scan, const char *bytes, size_t len,
				   size_t *head_len, enum refusal *refusal);

/* How long a request's body is, and how far it has come. */
enum proxy_body_stage {
	PROXY_BODY_LENGTH, /* `left` bytes to come */
	PROXY_BODY_SIZE,   /* chunked (RFC 9112 section 7.1): in the line of a chunk's size */
	PROXY_BODY_EXTENSION,
	PROXY_BODY_SIZE_LF,
	PROXY_BODY_DATA,
	PROXY_BODY_DATA_CR,
	PROXY_BODY_DATA_LF,
	PROXY_BODY_TRAILER, /* at the beginning of a line */
	PROXY_BODY_TRAILER_LINE,
	PROXY_BODY_TRAILER_LF,
	PROXY_BODY_LAST_LF,
	PROXY_BODY_DONE,
	PROXY_BODY_BAD,
};

struct proxy_body {
	enum proxy_body_stage stage;
	uint64_t left;
	unsigned digits; /* of the size being read */
	unsigned line;   /* bytes of extensions and trailers, which are bounded together */
};

/* Takes the bytes that belong to the body and returns how many they are; then `stage` is DONE or
 * BAD if it is less than `len`. */
size_t proxy_body_take(struct proxy_body *body, const char *bytes, size_t len);

struct proxy_http_request {
	bool tunnel;
	struct hosts_target target;
	struct buf asked;       /* the host as it was written, for people; any bytes */
	struct buf head;        /* for a request that is passed on: its new head */
	struct proxy_body body; /* for such a request */
};

#define PROXY_HTTP_REQUEST_INIT \
	{ \
		.tunnel = false, .asked = BUF_INIT, .head = BUF_INIT \
	}

/* Reads a whole head as proxy_http_scan() found it. Fills the request as far as it can be read
 * (`asked` also when it is refused); release it in any case. */
enum refusal proxy_http_read(const char *head, size_t len, struct proxy_http_request *request);

void proxy_http_release(struct proxy_http_request *request);

/* Rewrites the head of a response with "Connection: close", and passes interim responses before
 * it on. `bytes` is all that has come and was not used; *used bytes of it are in `out` now.
 * PROXY_DONE: the head is through and the rest is body. PROXY_REFUSED: this is no head of HTTP/1,
 * or one of more than PROXY_HTTP_HEAD_MAX; to be passed on as it is. */
enum proxy_outcome proxy_response_rewrite(const char *bytes, size_t len, size_t *used,
					  struct buf *out);

/* Appends the answer that tells the guest's program of a refusal; `shown` is the host as text that
 * is safe to print. */
void proxy_http_refuse(enum refusal refusal, const char *shown, struct buf *out);

#endif
