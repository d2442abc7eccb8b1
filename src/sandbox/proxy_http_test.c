/* The HTTP side: heads that are passed on and how, heads that are refused and why, bodies. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/proxy_http.h"

/* Scans and reads a head, in pieces of `piece` bytes. */
static enum refusal read_head(const char *bytes, size_t len, size_t piece,
			      struct proxy_http_request *request)
{
	struct proxy_http_scan scan = {0};
	enum proxy_outcome outcome = PROXY_MORE;
	enum refusal refusal = REFUSAL_NONE;
	size_t head_len = 0;

	for (size_t have = piece; outcome == PROXY_MORE && have < len + piece; have += piece)
		outcome =
			proxy_http_scan(&scan, bytes, have < len ? have : len, &head_len, &refusal);
	if (outcome == PROXY_REFUSED)
		return refusal;
	assert_int_equal(outcome, PROXY_DONE);
	return proxy_http_read(bytes, head_len, request);
}

static void passes(const char *text, const char *expected)
{
	for (size_t piece = 1; piece < 9; piece += 7) {
		struct proxy_http_request request = PROXY_HTTP_REQUEST_INIT;
		enum refusal refusal = read_head(text, strlen(text), piece, &request);

		if (refusal != REFUSAL_NONE)
			fail_msg("%s: %s", text, refusal_name(refusal));
		assert_false(request.tunnel);
		assert_string_equal(buf_bytes(&request.head), expected);
		proxy_http_release(&request);
	}
}

static void tunnels(const char *text, const char *host, uint16_t port)
{
	struct proxy_http_request request = PROXY_HTTP_REQUEST_INIT;

	assert_int_equal(read_head(text, strlen(text), 3, &request), REFUSAL_NONE);
	assert_true(request.tunnel);
	assert_string_equal(request.target.name, host);
	assert_int_equal(request.target.port, port);
	assert_int_equal(request.head.len, 0);
	proxy_http_release(&request);
}

static void refuses_bytes(const char *bytes, size_t len, enum refusal expected)
{
	struct proxy_http_request request = PROXY_HTTP_REQUEST_INIT;
	enum refusal refusal = read_head(bytes, len, 5, &request);

	if (refusal != expected)
		fail_msg("%.200s: %s, not %s", bytes, refusal_name(refusal),
			 refusal_name(expected));
	proxy_http_release(&request);
}

static void refuses(const char *text, enum refusal expected)
{
	refuses_bytes(text, strlen(text), expected);
}

#define TAIL "Via: 1.1 fumehood\r\nConnection: close\r\n\r\n"

static void test_plain(void **state)
{
	(void)state;
	passes("GET http://a.example/x?y=1 HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
	       "GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n" TAIL);
	passes("GET http://A.Example:80 HTTP/1.1\r\nhost:a.EXAMPLE\r\n\r\n",
	       "GET / HTTP/1.1\r\nHost: a.example\r\n" TAIL);
	passes("GET HTTP://a.example:8080?q HTTP/1.1\r\nHost: a.example:8080\r\n\r\n",
	       "GET /?q HTTP/1.1\r\nHost: a.example:8080\r\n" TAIL);
	passes("GET http://[2606:4700:0::1111]/ HTTP/1.1\r\nHost: [2606:4700::1111]:80\r\n\r\n",
	       "GET / HTTP/1.1\r\nHost: [2606:4700::1111]\r\n" TAIL);
	passes("OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
	       "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n" TAIL);
	passes("GET http://a.example/ HTTP/1.0\r\n\r\n",
	       "GET / HTTP/1.0\r\nHost: a.example\r\nVia: 1.0 fumehood\r\n"
	       "Connection: close\r\n\r\n");
}

static void test_hop_by_hop(void **state)
{
	(void)state;
	passes("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"
	       "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\n"
	       "Connection: keep-alive, X-One\r\nX-One: 1\r\nX-Two:  2 \r\nTE: trailers\r\n"
	       "Connection: x-three\r\nX-Three: 3\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
	       "Keep-Alive: 5\r\nTrailer: X\r\n\r\n",
	       "GET / HTTP/1.1\r\nHost: a.example\r\nX-Two: 2\r\n" TAIL);
	passes("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\n",
	       "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n" TAIL);
	passes("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"
	       "Transfer-Encoding: Chunked\r\nExpect: 100-continue\r\n\r\n",
	       "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: Chunked\r\n"
	       "Expect: 100-continue\r\n" TAIL);
}

static void test_connect(void **state)
{
	(void)state;
	tunnels("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", "a.example", 443);
	tunnels("CONNECT a.example:443 HTTP/1.0\r\n\r\n", "a.example", 443);
	tunnels("CONNECT A.example:8443 HTTP/1.1\r\nHost: a.example\r\n"
		"Proxy-Connection: Keep-Alive\r\nUser-Agent: x\r\n\r\n",
		"a.example", 8443);
	tunnels("CONNECT [2606:4700::1111]:443 HTTP/1.1\r\nHost: [2606:4700::1111]:443\r\n\r\n",
		"2606:4700::1111", 443);
	tunnels("CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "a.example", 443);
}

static void test_hosts(void **state)
{
	(void)state;
	refuses("CONNECT a.example HTTP/1.1\r\n\r\n", REFUSAL_PORT);
	refuses("CONNECT a.example.:443 HTTP/1.1\r\n\r\n", REFUSAL_HOST_TRAILING_DOT);
	refuses("CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n", REFUSAL_HOST_NUMBER);
	refuses("CONNECT [::ffff:1.2.3.4]:443 HTTP/1.1\r\n\r\n", REFUSAL_HOST_V4_IN_V6);
	refuses("CONNECT http://a.example:443 HTTP/1.1\r\n\r\n", REFUSAL_HOST_IPV6);
	refuses("CONNECT a.example:443/x HTTP/1.1\r\n\r\n", REFUSAL_PORT);
	refuses("CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n",
		REFUSAL_REQUEST_HOST);
	refuses("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
		REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n", REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n",
		REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: a.example.\r\n\r\n", REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost:\r\n\r\n", REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n",
		REFUSAL_REQUEST_HOST);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n",
		REFUSAL_REQUEST_HOST);
	refuses("GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_PORT);
	refuses("GET http://u@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_HOST_BYTES);
	refuses("GET http://a.example\\@b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
		REFUSAL_HOST_BYTES);
	refuses("GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_HOST_EMPTY);
	refuses("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_REQUEST_FORM);
	refuses("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_REQUEST_FORM);
	refuses("GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		REFUSAL_REQUEST_SCHEME);
	refuses("GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_REQUEST_SCHEME);
	refuses("GET http:/a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", REFUSAL_REQUEST_SCHEME);
}

static void test_framing(void **state)
{
	static const char *const headers[] = {
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"Content-Length: 5\r\nContent-Length: 5\r\n",
		"Content-Length: 5\r\nContent-Length: 6\r\n",
		"Content-Length: 5, 5\r\n",
		"Content-Length: +5\r\n",
		"Content-Length: -1\r\n",
		"Content-Length: 0x5\r\n",
		"Content-Length:\r\n",
		"Content-Length: 5 5\r\n",
		"Content-Length: 9999999999999999999\r\n",
		"Transfer-Encoding: gzip, chunked\r\n",
		"Transfer-Encoding: identity\r\n",
		"Transfer-Encoding: chunked, identity\r\n",
		"Transfer-Encoding: xchunked\r\n",
		"Transfer-Encoding: \"chunked\"\r\n",
		"Transfer-Encoding:\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
		"Content-Length: 5\r\nConnection: content-length\r\n",
		"Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n",
		"Connection: close, host\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		char *text = mem_format("POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"
					"%s\r\n",
					headers[i]);

		refuses(text, REFUSAL_REQUEST_FRAMING);
		free(text);
	}
	refuses("POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		REFUSAL_REQUEST_FRAMING);
	refuses("CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
		REFUSAL_REQUEST_FRAMING);
	refuses("CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		REFUSAL_REQUEST_FRAMING);
}

static void test_syntax(void **state)
{
	static const char nul[] = "GET http://a.example/\0 HTTP/1.1\r\n\r\n";

	(void)state;
	refuses("GET http://a.example/ HTTP/1.1\nHost: a.example\n\n", REFUSAL_REQUEST_LINE_END);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: a.example\n\r\n",
		REFUSAL_REQUEST_LINE_END);
	refuses("GET http://a.example/ HTTP/1.1\rHost: a.example\r\n\r\n",
		REFUSAL_REQUEST_LINE_END);
	refuses("GET http://a.example/ HTTP/1.1\r\nX: a\r\r\n\r\n", REFUSAL_REQUEST_LINE_END);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: 1\r\n 2\r\n\r\n",
		REFUSAL_REQUEST_FOLD);
	refuses("GET http://a.example/ HTTP/1.1\r\n\tX: 1\r\n\r\n", REFUSAL_REQUEST_FOLD);
	refuses("GET http://a.example/ HTTP/1.1\r\nHost : a.example\r\n\r\n",
		REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/ HTTP/1.1\r\n: a\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/ HTTP/1.1\r\nnothing\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/ HTTP/1.1\r\nX: a\x01\r\n\r\n", REFUSAL_REQUEST_NUL);
	refuses("GET http://a.example/\x7f HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_NUL);
	refuses_bytes(nul, sizeof(nul) - 1, REFUSAL_REQUEST_NUL);
	refuses("GET  http://a.example/ HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/  HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/x y HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET\thttp://a.example/ HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/\tx HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/#f HTTP/1.1\r\nHost: a.example\r\n\r\n",
		REFUSAL_REQUEST_SYNTAX);
	refuses("G(T http://a.example/ HTTP/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("GET http://a.example/\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
	refuses("PRI * HTTP/2.0\r\n\r\n", REFUSAL_REQUEST_VERSION);
	refuses("GET http://a.example/ HTTP/1.2\r\n\r\n", REFUSAL_REQUEST_VERSION);
	refuses("GET http://a.example/ http/1.1\r\n\r\n", REFUSAL_REQUEST_SYNTAX);
}

static void test_sizes(void **state)
{
	struct buf text = BUF_INIT;
	struct proxy_http_request request = PROXY_HTTP_REQUEST_INIT;

	(void)state;
	buf_append_string(&text, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: ");
	for (size_t i = 0; i < PROXY_HTTP_HEAD_MAX; i++)
		buf_append_char(&text, 'x');
	buf_append_string(&text, "\r\n\r\n");
	refuses_bytes(buf_bytes(&text), text.len, REFUSAL_REQUEST_SIZE);
	assert_int_equal(proxy_http_read(buf_bytes(&text), text.len, &request),
			 REFUSAL_REQUEST_SIZE);
	for (int headers = PROXY_HTTP_HEADERS_MAX; headers < PROXY_HTTP_HEADERS_MAX + 2;
	     headers++) {
		buf_clear(&text);
		buf_append_string(&text, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n");
		for (int i = 1; i < headers; i++)
			buf_append_string(&text, "X: 1\r\n");
		buf_append_string(&text, "\r\n");
		refuses_bytes(buf_bytes(&text), text.len,
			      headers > PROXY_HTTP_HEADERS_MAX ? REFUSAL_REQUEST_HEADERS
							       : REFUSAL_NONE);
	}
	buf_clear(&text);
	buf_append_string(&text, "GET http://a.example/ HTTP/1.1\r\nConnection: ");
	for (size_t i = 0; i <= PROXY_HTTP_CONNECTION_MAX; i++)
		buf_append_char(&text, 'x');
	buf_append_string(&text, "\r\n\r\n");
	refuses_bytes(buf_bytes(&text), text.len, REFUSAL_REQUEST_HEADERS);
	buf_release(&text);
	proxy_http_release(&request);
}

/* Takes `text` in two pieces cut at each byte; all ways must agree. */
static void takes(enum proxy_body_stage stage, uint64_t left, const char *text, size_t expected,
		  enum proxy_body_stage end)
{
	size_t len = strlen(text);

	for (size_t at = 0; at <= len; at++) {
		struct proxy_body body = {.stage = stage, .left = left};
		size_t taken = proxy_body_take(&body, text, at);

		if (taken == at)
			taken += proxy_body_take(&body, text + at, len - at);
		assert_int_equal(taken, expected);
		assert_int_equal(body.stage, end);
	}
}

static void test_bodies(void **state)
{
	const enum proxy_body_stage chunked = PROXY_BODY_SIZE;

	(void)state;
	takes(PROXY_BODY_DONE, 0, "GET /", 0, PROXY_BODY_DONE);
	takes(PROXY_BODY_LENGTH, 3, "abcGET", 3, PROXY_BODY_DONE);
	takes(PROXY_BODY_LENGTH, 9, "abc", 3, PROXY_BODY_LENGTH);
	takes(chunked, 0, "0\r\n\r\nGET", 5, PROXY_BODY_DONE);
	takes(chunked, 0, "3\r\nabc\r\n0\r\n\r\nGET", 13, PROXY_BODY_DONE);
	takes(chunked, 0, "A;x=\"y\"\r\n0123456789\r\n00\r\nX: y\r\n\r\n!", 33, PROXY_BODY_DONE);
	takes(chunked, 0, "3\r\nabcd", 6, PROXY_BODY_BAD);
	takes(chunked, 0, "3\nabc", 1, PROXY_BODY_BAD);
	takes(chunked, 0, "\r\nabc", 0, PROXY_BODY_BAD);
	takes(chunked, 0, "0x3\r\nabc", 1, PROXY_BODY_BAD);
	takes(chunked, 0, " 3\r\nabc", 0, PROXY_BODY_BAD);
	takes(chunked, 0, "3 \r\nabc", 1, PROXY_BODY_BAD);
	takes(chunked, 0, "-1\r\n", 0, PROXY_BODY_BAD);
	takes(chunked, 0, "1000000000000000\r\n", 15, PROXY_BODY_BAD);
	takes(chunked, 0, "3;a\nb\r\nabc", 3, PROXY_BODY_BAD);
	takes(chunked, 0, "3\r\nabc\n0\r\n\r\n", 6, PROXY_BODY_BAD);
	takes(chunked, 0, "0\r\nX: y\n\r\n", 7, PROXY_BODY_BAD);
	takes(chunked, 0, "0\r\n\rX", 4, PROXY_BODY_BAD);
}

/* In one piece and byte by byte, as a connection does it. */
static void rewrites(const char *text, const char *expected)
{
	for (size_t piece = 1; piece < 1000; piece += 998) {
		struct buf inbox = BUF_INIT;
		struct buf out = BUF_INIT;
		enum proxy_outcome outcome = PROXY_MORE;
		size_t len = strlen(text);

		for (size_t at = 0; at < len; at += piece) {
			size_t used = 0;

			buf_append(&inbox, text + at, len - at < piece ? len - at : piece);
			if (outcome == PROXY_MORE)
				outcome = proxy_response_rewrite(buf_bytes(&inbox), inbox.len,
								 &used, &out);
			buf_consume(&inbox, used);
		}
		buf_append(&out, buf_bytes(&inbox), inbox.len);
		assert_string_equal(buf_bytes(&out), expected);
		buf_release(&inbox);
		buf_release(&out);
	}
}

static void test_responses(void **state)
{
	(void)state;
	rewrites("HTTP/1.1 200 OK\r\nX: y\r\n\r\nbody\r\n\r\n",
		 "HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nbody\r\n\r\n");
	rewrites("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\nKeep-Alive: 5\r\nX: y\r\n"
		 "Proxy-Connection: x\r\n\r\n",
		 "HTTP/1.0 200 OK\r\nX: y\r\nConnection: close\r\n\r\n");
	rewrites("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n"
		 "HTTP/1.1 404 No\r\n\r\nx",
		 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n"
		 "HTTP/1.1 404 No\r\nConnection: close\r\n\r\nx");
	rewrites("HTTP/1.1 200 OK\nX: y\n\nbody",
		 "HTTP/1.1 200 OK\nX: y\nConnection: close\r\n\nbody");
	rewrites("no head at all\r\n\r\n", "no head at all\r\n\r\n");
	rewrites("HTTP/2 200\r\n\r\n", "HTTP/2 200\r\n\r\n");
}

static void test_answers(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	proxy_http_refuse(REFUSAL_NOT_ALLOWED, "evil.example", &out);
	assert_memory_equal(buf_bytes(&out), "HTTP/1.1 403 Forbidden\r\n", 24);
	assert_non_null(strstr(buf_bytes(&out), "evil.example is not among the allowed hosts "
						"(not_allowed)"));
	for (int i = 1; i < REFUSAL_COUNT; i++) {
		enum refusal refusal = (enum refusal)i;

		assert_in_range(refusal_http_status(refusal), 400, 505);
		assert_in_range(refusal_socks_reply(refusal), 1, 8);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(refusal_name(refusal),
						refusal_name((enum refusal)j));
	}
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),   cmocka_unit_test(test_hop_by_hop),
		cmocka_unit_test(test_connect), cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_framing), cmocka_unit_test(test_syntax),
		cmocka_unit_test(test_sizes),   cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_answers), cmocka_unit_test(test_responses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
