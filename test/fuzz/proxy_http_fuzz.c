/*
 * Fuzzes the HTTP side of the proxy. A head is read in one piece and in many with the same result;
 * what is passed on is again a strict head: one Host, at most one length, no hop-by-hop header, the
 * end where it should be. A body ends at the same byte however it is cut; a response loses nothing
 * but the headers that are dropped.
 *
 * The first byte is the length of the pieces.
 */
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "sandbox/proxy_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

/* How many lines of the head begin with this name, in any case. */
static size_t count_headers(const char *head, const char *name)
{
	size_t count = 0;

	for (const char *at = strstr(head, "\r\n"); at; at = strstr(at + 2, "\r\n"))
		count += strncasecmp(at + 2, name, strlen(name)) == 0;
	return count;
}

static void check_head(const struct proxy_http_request *request)
{
	const char *head = buf_bytes(&request->head);
	struct proxy_http_scan scan = {0};
	enum refusal refusal;
	size_t len = 0;

	check(proxy_http_scan(&scan, head, request->head.len, &len, &refusal) == PROXY_DONE);
	check(len == request->head.len);
	check(count_headers(head, "host:") == 1 && count_headers(head, "connection:") == 1);
	check(count_headers(head, "content-length:") + count_headers(head, "transfer-encoding:") <=
	      1);
	check(count_headers(head, "proxy-connection:") == 0 &&
	      count_headers(head, "proxy-authorization:") == 0 &&
	      count_headers(head, "upgrade:") == 0 && count_headers(head, "te:") == 0);
	check(strcmp(head + len - 23, "\r\nConnection: close\r\n\r\n") == 0);
}

static void fuzz_request(const char *bytes, size_t len, size_t piece)
{
	struct proxy_http_scan whole = {0};
	struct proxy_http_scan pieces = {0};
	struct proxy_http_request request = PROXY_HTTP_REQUEST_INIT;
	enum proxy_outcome outcome, again = PROXY_MORE;
	enum refusal refusal, refusal_again = REFUSAL_NONE;
	size_t head_len = 0, head_len_again = 0;

	outcome = proxy_http_scan(&whole, bytes, len, &head_len, &refusal);
	for (size_t have = 0; again == PROXY_MORE && have < len;) {
		have = have + piece < len ? have + piece : len;
		again = proxy_http_scan(&pieces, bytes, have, &head_len_again, &refusal_again);
	}
	check(outcome == again && head_len == head_len_again && refusal == refusal_again);
	if (outcome != PROXY_DONE)
		head_len = len;
	refusal = proxy_http_read(bytes, head_len, &request);
	if (outcome == PROXY_DONE && refusal == REFUSAL_NONE) {
		check(request.target.port != 0);
		if (request.tunnel)
			check(request.head.len == 0);
		else
			check_head(&request);
	}
	proxy_http_release(&request);
}

static void fuzz_body(const char *bytes, size_t len, size_t piece)
{
	struct proxy_body whole = {.stage = PROXY_BODY_SIZE};
	struct proxy_body pieces = whole;
	size_t taken = proxy_body_take(&whole, bytes, len);
	size_t at = 0;

	while (at < len) {
		size_t size = len - at < piece ? len - at : piece;
		size_t took = proxy_body_take(&pieces, bytes + at, size);

		at += took;
		if (took < size)
			break;
	}
	check(at == taken && pieces.stage == whole.stage && taken <= len);
	check(taken == len || whole.stage == PROXY_BODY_DONE || whole.stage == PROXY_BODY_BAD);
	if (whole.stage == PROXY_BODY_DONE)
		check(taken >= 5 && memcmp(bytes + taken - 2, "\r\n", 2) == 0);
}

static void fuzz_response(const char *bytes, size_t len)
{
	cleanup_buf struct buf out = BUF_INIT;
	size_t used = 0;
	enum proxy_outcome outcome = proxy_response_rewrite(bytes, len, &used, &out);

	check(used <= len);
	if (outcome == PROXY_DONE)
		check(used > 0 && out.len <= used + 19 &&
		      memmem(buf_bytes(&out), out.len, "Connection: close\r\n", 19));
	else
		check(out.len == used && memcmp(buf_bytes(&out), bytes, used) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = NULL;

	if (size < 2)
		return 0;
	text = mem_copy(data + 1, size - 1);
	fuzz_request(text, size - 1, data[0] % 9 + 1U);
	fuzz_body(text, size - 1, data[0] % 9 + 1U);
	fuzz_response(text, size - 1);
	return 0;
}
