/*
 * Heads that pass and heads that must not; targets and their decoding.
 */
#include "serve/head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int status_of(const char *text, size_t len)
{
	struct head head;
	const char *why;

	return head_parse(text, len, &head, &why);
}

#define STATUS(text) status_of(text, sizeof(text) - 1)

static void good_heads_pass(void **state)
{
	static const char text[] =
		"POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nX-Empty:\r\nAccept: \t a, "
		"Text/HTML \r\naccept: b\r\n\r\n";
	struct head head;
	const char *why;
	bool repeated;

	(void)state;
	assert_int_equal(head_parse(text, sizeof(text) - 1, &head, &why), 0);
	assert_true(slice_is(&head.method, "POST"));
	assert_true(slice_is(&head.target, "/v1/x?a=1"));
	assert_int_equal(head.field_count, 4);
	assert_true(slice_is(head_find(&head, "HOST", &repeated), "h"));
	assert_false(repeated);
	assert_true(slice_is(head_find(&head, "x-empty", NULL), ""));
	assert_true(slice_is(head_find(&head, "accept", &repeated), "a, Text/HTML"));
	assert_true(repeated);
	assert_true(head_lists(head_find(&head, "accept", NULL), "text/html"));
	assert_false(head_lists(head_find(&head, "accept", NULL), "text"));
	assert_null(head_find(&head, "nothing", NULL));
}

static void bad_heads_do_not(void **state)
{
	(void)state;
	assert_int_equal(STATUS("GET / HTTP/1.1\nHost: h\n\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\nA: 1\r\n 2\r\n\r\n"), 400); /* folded */
	assert_int_equal(STATUS("GET / HTTP/1.1\r\n X: 1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\nA : 1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\n: 1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\nA\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\nA: 1\r2\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\nA: 1\0002\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\nA: 1\x7f\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET  / HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET /a b HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET\t/ HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("G@T / HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET /\xff HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("\r\nGET / HTTP/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.0\r\n\r\n"), 505);
	assert_int_equal(STATUS("GET / HTTP/2.0\r\n\r\n"), 505);
	assert_int_equal(STATUS("GET / http/1.1\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET /\r\n\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\n"), 400);
	assert_int_equal(STATUS("GET / HTTP/1.1\r\n\r\nX"), 400);
	assert_int_equal(STATUS(""), 400);
}

static void limits_have_their_status(void **state)
{
	char text[16 << 10];
	size_t len = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n");

	(void)state;
	for (int i = 0; i <= HEAD_FIELDS_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "X-%d: 1\r\n", i);
	len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
	assert_int_equal(status_of(text, len), 431);
	len = (size_t)snprintf(text, sizeof(text), "GET /%09000d HTTP/1.1\r\n\r\n", 0);
	assert_int_equal(status_of(text, len), 414);
}

static int target_of(const char *text, struct target *target)
{
	struct slice slice = {text, strlen(text)};
	const char *why = NULL;
	int outcome = target_parse(&slice, target, &why);

	assert_true(outcome == 0 || (why && *why));
	return outcome;
}

static void targets_are_decoded(void **state)
{
	struct target target;

	(void)state;
	assert_int_equal(target_of("/", &target), 0);
	assert_int_equal(target.segment_count, 0);
	target_release(&target);
	assert_int_equal(target_of("/a/b%20c+/?x=1%2F2+3&y&z=&x=9", &target), 0);
	assert_int_equal(target.segment_count, 2);
	assert_true(target.folder);
	assert_string_equal(target.segments[1], "b c+");
	assert_int_equal(target.segment_lens[1], 4);
	assert_string_equal(target_param(&target, "x"), "1/2 3");
	assert_string_equal(target_param(&target, "y"), "");
	assert_string_equal(target_param(&target, "z"), "");
	assert_null(target_param(&target, "w"));
	target_release(&target);
	assert_int_equal(target_of("/a%ff", &target), 0);
	assert_string_equal(target.segments[0], "a\xff");
	target_release(&target);
}

static void bad_targets_are_refused(void **state)
{
	static const char *const bad[] = {
		"",        "*",      "http://evil/", "/a//b",   "//",   "/a/../b", "/.",
		"/%2e%2e", "/a%2fb", "/a%00",        "/a%",     "/a%4", "/a%zz",   "/?a=%0",
		"/?a=%00", "/#frag", "/a/%2E/b",     "evil:80", "/..",
	};
	char many[400] = "";
	struct target target;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(target_of(bad[i], &target), -1);
		target_release(&target);
	}
	for (size_t i = 0; i < 65; i++)
		memcpy(many + 2 * i, "/a", 3);
	assert_int_equal(target_of(many, &target), -1);
	target_release(&target);
	memcpy(many, "/?", 2);
	for (size_t i = 0; i < 33; i++)
		memcpy(many + 2 + 2 * i, "a&", 3);
	assert_int_equal(target_of(many, &target), -1);
	target_release(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_heads_pass),          cmocka_unit_test(bad_heads_do_not),
		cmocka_unit_test(limits_have_their_status), cmocka_unit_test(targets_are_decoded),
		cmocka_unit_test(bad_targets_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
