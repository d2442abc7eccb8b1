/*
 * The gate: what is let through, what is refused with which status, and in which order.
 */
#include "serve/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

#define HOST "Host: 127.0.0.1:80\r\n"

struct scene {
	struct tokens tokens;
	struct gate gate;
	char text[TOKEN_TEXT_SIZE];
	int64_t now_us;
};

static int scene_begin(void **state)
{
	static struct scene scene;
	struct token token = {
		.name = "t", .prefix = "bot-", .scopes = SCOPE_READ, .expires_us = INT64_MAX};

	scene.tokens = (struct tokens)TOKENS_INIT;
	assert_int_equal(tokens_create(&scene.tokens, &token, false, scene.text, NULL), 0);
	gate_init(&scene.gate, &scene.tokens, 10);
	assert_int_equal(gate_add_host(&scene.gate, "127.0.0.1:80", NULL), 0);
	assert_int_equal(gate_add_origin(&scene.gate, "http://127.0.0.1:80", false, NULL), 0);
	assert_int_equal(gate_add_origin(&scene.gate, "https://app.example", true, NULL), 0);
	scene.now_us = 1000000;
	*state = &scene;
	return 0;
}

static int scene_end(void **state)
{
	struct scene *scene = *state;

	gate_release(&scene->gate);
	tokens_release(&scene->tokens);
	return 0;
}

/* The verdict on a head with these fields; "$" in it stands for the token. */
static struct verdict ask(struct scene *scene, const char *method, const char *fields, bool local)
{
	struct verdict verdict;
	struct head head;
	const char *why;
	const char *mark = strchr(fields, '$');
	char text[2048];
	int len = mark ? snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n%.*s%s%s\r\n", method,
				  (int)(mark - fields), fields, scene->text, mark + 1)
		       : snprintf(text, sizeof(text), "%s / HTTP/1.1\r\n%s\r\n", method, fields);

	assert_int_equal(head_parse(text, (size_t)len, &head, &why), 0);
	gate_check(&scene->gate, &head, local, scene->now_us, &verdict);
	return verdict;
}

#define STATUS(fields) ask(*state, "GET", fields, false).status

static void who_has_a_token_passes(void **state)
{
	struct verdict verdict = ask(*state, "GET", HOST "Authorization: Bearer $\r\n", false);

	assert_int_equal(verdict.status, 0);
	assert_int_equal(verdict.who.scopes, SCOPE_READ);
	assert_true(principal_sees(&verdict.who, "bot-1"));
	assert_false(principal_sees(&verdict.who, "b"));
	assert_false(principal_sees(&verdict.who, NULL));
	assert_int_equal(STATUS(HOST "Authorization: bearer $\r\n"), 0);
	assert_int_equal(STATUS(HOST "Authorization: Bearer  $\r\n"), 401);
	assert_int_equal(STATUS(HOST "Authorization: Basic $\r\n"), 401);
	assert_int_equal(STATUS(HOST "Authorization: Bearer $x\r\n"), 401);
	assert_int_equal(STATUS(HOST), 401);
}

static void the_unix_socket_needs_none(void **state)
{
	assert_int_equal(ask(*state, "GET", "Host: anything\r\n", true).status, 0);
	assert_string_equal(ask(*state, "GET", "Host: x\r\n", true).who.id, "unix");
	/* But one that is shown counts. */
	assert_int_equal(ask(*state, "GET", "Host: x\r\nAuthorization: Bearer no\r\n", true).status,
			 401);
	assert_int_equal(
		ask(*state, "GET", "Host: x\r\nAuthorization: Bearer $\r\n", true).who.scopes,
		SCOPE_READ);
	/* And no page of a browser gets there. */
	assert_int_equal(ask(*state, "GET", "Host: x\r\nOrigin: http://evil\r\n", true).status,
			 403);
}

static void hosts_are_compared_whole(void **state)
{
	assert_int_equal(STATUS("Host: 127.0.0.1\r\nAuthorization: Bearer $\r\n"), 421);
	assert_int_equal(STATUS("Host: 127.0.0.1:80.evil\r\nAuthorization: Bearer $\r\n"), 421);
	assert_int_equal(STATUS("Host: a@127.0.0.1:80\r\nAuthorization: Bearer $\r\n"), 421);
	assert_int_equal(STATUS("Host: \r\nAuthorization: Bearer $\r\n"), 421);
	assert_int_equal(STATUS("X: 1\r\nAuthorization: Bearer $\r\n"), 421);
}

static void origins_are_compared_whole(void **state)
{
	struct verdict verdict;

	assert_int_equal(STATUS(HOST "Origin: http://127.0.0.1:80\r\nAuthorization: Bearer $\r\n"),
			 0);
	assert_int_equal(STATUS(HOST "Origin: null\r\nAuthorization: Bearer $\r\n"), 403);
	assert_int_equal(
		STATUS(HOST "Origin: https://app.example.evil\r\nAuthorization: Bearer $\r\n"),
		403);
	assert_int_equal(STATUS(HOST "Origin: HTTPS://app.example\r\nAuthorization: Bearer $\r\n"),
			 403);
	assert_int_equal(STATUS(HOST "Sec-Fetch-Site: cross-site\r\nAuthorization: Bearer $\r\n"),
			 403);
	assert_int_equal(STATUS(HOST "Sec-Fetch-Site: none\r\nAuthorization: Bearer $\r\n"), 0);
	verdict = ask(*state, "GET",
		      HOST "Origin: https://app.example\r\nAuthorization: Bearer $\r\n", false);
	assert_int_equal(verdict.status, 0);
	assert_string_equal(verdict.cors_origin, "https://app.example");
	verdict = ask(*state, "OPTIONS",
		      HOST "Origin: https://app.example\r\nAccess-Control-Request-Method: PUT\r\n",
		      false);
	assert_int_equal(verdict.status, 204);
	verdict = ask(*state, "OPTIONS",
		      HOST "Origin: https://no.example\r\nAccess-Control-Request-Method: PUT\r\n",
		      false);
	assert_int_equal(verdict.status, 403);
}

static void a_browser_shows_its_token_as_a_protocol(void **state)
{
	assert_int_equal(STATUS(HOST "Upgrade: websocket\r\nSec-WebSocket-Protocol: fumehood.v1, "
				     "fumehood.token.$\r\n"),
			 0);
	assert_int_equal(STATUS(HOST "Upgrade: websocket\r\nSec-WebSocket-Protocol: "
				     "fumehood.token.$x\r\n"),
			 401);
	assert_int_equal(STATUS(HOST "Sec-WebSocket-Protocol: fumehood.token.$\r\n"), 401);
}

static void rates_are_bounded(void **state)
{
	struct scene *scene = *state;
	int passed = 0, limited = 0;

	for (int i = 0; i < 30; i++) {
		int status = STATUS(HOST "Authorization: Bearer $\r\n");

		passed += status == 0;
		limited += status == 429;
	}
	assert_int_equal(passed, 20); /* twice the rate at once */
	assert_int_equal(limited, 10);
	scene->now_us += 1000000;
	assert_int_equal(STATUS(HOST "Authorization: Bearer $\r\n"), 0);
	limited = 0;
	for (int i = 0; i < 30; i++)
		limited += STATUS(HOST "Authorization: Bearer wrong\r\n") == 429;
	assert_int_equal(limited, 10);
	/* Who guesses holds up nobody who knows. */
	assert_int_equal(STATUS(HOST "Authorization: Bearer $\r\n"), 0);
}

static void names_have_a_form(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(gate_add_host(&scene->gate, "a b", NULL), -1);
	assert_int_equal(gate_add_host(&scene->gate, "", NULL), -1);
	assert_int_equal(gate_add_host(&scene->gate, "*", NULL), -1);
	assert_int_equal(gate_add_origin(&scene->gate, "example.org", true, NULL), -1);
	assert_int_equal(gate_add_origin(&scene->gate, "https://x/path", true, NULL), -1);
	assert_int_equal(gate_add_origin(&scene->gate, "null", true, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_has_a_token_passes, scene_begin, scene_end),
		cmocka_unit_test_setup_teardown(the_unix_socket_needs_none, scene_begin, scene_end),
		cmocka_unit_test_setup_teardown(hosts_are_compared_whole, scene_begin, scene_end),
		cmocka_unit_test_setup_teardown(origins_are_compared_whole, scene_begin, scene_end),
		cmocka_unit_test_setup_teardown(a_browser_shows_its_token_as_a_protocol,
						scene_begin, scene_end),
		cmocka_unit_test_setup_teardown(rates_are_bounded, scene_begin, scene_end),
		cmocka_unit_test_setup_teardown(names_have_a_form, scene_begin, scene_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
