/* The SOCKS side: whole and in pieces, names and addresses, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "sandbox/proxy_socks.h"

struct result {
	enum proxy_outcome outcome;
	enum refusal refusal;
	struct proxy_socks socks;
	struct buf reply;
	size_t used;
};

/* Feeds bytes in pieces, as a connection does that drops what was used. */
static struct result feed(const char *bytes, size_t len, size_t piece)
{
	struct result result = {.outcome = PROXY_MORE};
	struct buf inbox = BUF_INIT;

	for (size_t at = 0; at < len && result.outcome == PROXY_MORE; at += piece) {
		size_t used;

		buf_append(&inbox, bytes + at, len - at < piece ? len - at : piece);
		result.outcome = proxy_socks_read(&result.socks, buf_bytes(&inbox), inbox.len,
						  &used, &result.reply, &result.refusal);
		buf_consume(&inbox, used);
		result.used += used;
	}
	buf_release(&inbox);
	return result;
}

static void release(struct result *result)
{
	proxy_socks_release(&result->socks);
	buf_release(&result->reply);
}

#define feed_text(text, piece) feed(text, sizeof(text) - 1, piece)

static void leads_to(struct result result, const char *host, uint16_t port)
{
	assert_string_equal(refusal_name(result.refusal), "none");
	assert_int_equal(result.outcome, PROXY_DONE);
	assert_string_equal(result.socks.target.name, host);
	assert_int_equal(result.socks.target.port, port);
	release(&result);
}

static void is_refused(struct result result, enum refusal refusal)
{
	assert_int_equal(result.outcome, PROXY_REFUSED);
	assert_string_equal(refusal_name(result.refusal), refusal_name(refusal));
	release(&result);
}

#define HELLO "\x05\x01\x00"
#define NAME \
	"\x05\x01\x00\x03\x09" \
	"a.exaMple\x01\xbb"

static void test_targets(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 40; piece++) {
		leads_to(feed_text(HELLO NAME, piece), "a.example", 443);
		leads_to(feed_text(HELLO "\x05\x01\x00\x01\x7f\x00\x00\x01\x1f\x90", piece),
			 "127.0.0.1", 8080);
		leads_to(feed_text(HELLO "\x05\x01\x00\x04\x26\x06\x47\x00\x00\x00\x00\x00\x00"
					 "\x00\x00\x00\x00\x00\x11\x11\x01\xbb",
				   piece),
			 "2606:4700::1111", 443);
		leads_to(feed_text(HELLO "\x05\x01\x00\x03\x07"
					 "1.2.3.4\x00\x50",
				   piece),
			 "1.2.3.4", 80);
		/* no authentication and login offered; then login alone, answered to anything */
		leads_to(feed_text("\x05\x02\x02\x00" NAME, piece), "a.example", 443);
		leads_to(feed_text("\x05\x01\x02"
				   "\x01\x02us\x03pwd" NAME,
				   piece),
			 "a.example", 443);
		leads_to(feed_text("\x05\x01\x02"
				   "\x01\x00\x00" NAME,
				   piece),
			 "a.example", 443);
	}
}

static void test_replies(void **state)
{
	struct result result = feed_text(HELLO NAME "rest", 100);
	struct buf answer = BUF_INIT;

	(void)state;
	assert_int_equal(result.reply.len, 2);
	assert_memory_equal(buf_bytes(&result.reply), "\x05\x00", 2);
	assert_int_equal(result.used, sizeof(HELLO NAME) - 1);
	assert_string_equal(buf_bytes(&result.socks.asked), "a.exaMple");
	release(&result);
	result = feed_text("\x05\x01\x02"
			   "\x01\x00\x00" NAME,
			   100);
	assert_int_equal(result.reply.len, 4);
	assert_memory_equal(buf_bytes(&result.reply), "\x05\x02\x01\x00", 4);
	release(&result);
	proxy_socks_answer(REFUSAL_NOT_ALLOWED, &answer);
	assert_int_equal(answer.len, 10);
	assert_memory_equal(buf_bytes(&answer), "\x05\x02\x00\x01\0\0\0\0\0\0", 10);
	buf_clear(&answer);
	proxy_socks_answer(REFUSAL_NONE, &answer);
	assert_memory_equal(buf_bytes(&answer), "\x05\x00\x00\x01\0\0\0\0\0\0", 10);
	buf_release(&answer);
}

static void test_refusals(void **state)
{
	struct result result;

	(void)state;
	is_refused(feed_text("\x04\x01\x00\x50\x01\x02\x03\x04\x00", 3), REFUSAL_SOCKS_VERSION);
	is_refused(feed_text(HELLO "\x04\x01\x00\x01", 3), REFUSAL_SOCKS_VERSION);
	is_refused(feed_text(HELLO "\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50", 3),
		   REFUSAL_SOCKS_COMMAND);
	is_refused(feed_text(HELLO "\x05\x03\x00\x01\x01\x02\x03\x04\x00\x50", 3),
		   REFUSAL_SOCKS_COMMAND);
	is_refused(feed_text(HELLO "\x05\x01\x00\x02\x01\x02\x03\x04\x00\x50", 3),
		   REFUSAL_SOCKS_ADDRESS);
	is_refused(feed_text("\x05\x01\x02\x05\x00\x00", 3), REFUSAL_SOCKS_AUTH);
	is_refused(feed_text(HELLO "\x05\x01\x00\x03\x11"
				   "evil\x00.allowed.com\x01\xbb",
			     3),
		   REFUSAL_HOST_BYTES);
	is_refused(feed_text(HELLO "\x05\x01\x00\x03\x0c"
				   "allowed.com.\x01\xbb",
			     3),
		   REFUSAL_HOST_TRAILING_DOT);
	is_refused(feed_text(HELLO "\x05\x01\x00\x03\x00\x01\xbb", 3), REFUSAL_HOST_EMPTY);
	is_refused(feed_text(HELLO "\x05\x01\x00\x03\x05"
				   "127.1\x00\x50",
			     3),
		   REFUSAL_HOST_NUMBER);
	is_refused(feed_text(HELLO "\x05\x01\x00\x03\x03"
				   "::1\x00\x50",
			     3),
		   REFUSAL_HOST_BYTES);
	is_refused(feed_text(HELLO "\x05\x01\x00\x01\x01\x02\x03\x04\x00\x00", 3), REFUSAL_PORT);
	is_refused(feed_text(HELLO "\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01"
				   "\x00\x50",
			     3),
		   REFUSAL_HOST_V4_IN_V6);
	result = feed_text("\x05\x02\x01\x03", 9);
	assert_memory_equal(buf_bytes(&result.reply), "\x05\xff", 2);
	is_refused(result, REFUSAL_SOCKS_AUTH);
	is_refused(feed_text("\x05\x00", 9), REFUSAL_SOCKS_AUTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
