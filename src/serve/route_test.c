/*
 * Routes, addresses, and what may be asked of a new session.
 */
#include "serve/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/lookup.h"
#include "serve/serve.h"
#include "serve/token.h"

/* The path of the route, NULL when there is none; *status and `allow` as route_find(). */
static const char *path_of(const char *method, const char *path, int *status, char allow[static 64])
{
	struct slice verb = {method, strlen(method)};
	struct slice text = {path, strlen(path)};
	const struct route *route;
	struct target target;
	const char *why;

	*status = 0;
	assert_int_equal(target_parse(&text, &target, &why), 0);
	route = route_find(&verb, &target, status, allow);
	target_release(&target);
	return route ? route->path : NULL;
}

static void requests_find_their_route(void **state)
{
	char allow[64];
	int status;

	(void)state;
	assert_string_equal(path_of("GET", "/v1/sessions", &status, allow), "/v1/sessions");
	assert_string_equal(path_of("HEAD", "/v1/sessions/a", &status, allow), "/v1/sessions/{}");
	assert_string_equal(path_of("GET", "/v1/sessions/a/cells/c/text", &status, allow),
			    "/v1/sessions/{}/cells/{}/text");
	assert_string_equal(path_of("PUT", "/v1/sessions/a/files/x/y/z", &status, allow),
			    "/v1/sessions/{}/files/{...}");
	assert_string_equal(path_of("GET", "/v1/sessions/a/files/x/", &status, allow),
			    "/v1/sessions/{}/files/{...}");
	assert_null(path_of("POST", "/v1/sessions/a", &status, allow));
	assert_int_equal(status, 405);
	assert_string_equal(allow, "GET, HEAD, DELETE");
	assert_null(path_of("GET", "/v1/sessions/", &status, allow));
	assert_int_equal(status, 404);
	assert_null(path_of("GET", "/v1/sessions/a/channelx", &status, allow));
	assert_int_equal(status, 404);
	assert_null(path_of("GET", "/v1/sessions/a/cells", &status, allow));
	assert_null(path_of("GET", "/", &status, allow));
	assert_int_equal(status, 404);
}

static void every_route_is_guarded(void **state)
{
	(void)state;
	for (const struct route *route = ROUTES; route->method; route++) {
		assert_non_null(route->handle);
		/* Without a scope are only those that tell of no session. */
		assert_true(route->scope != 0 || !strstr(route->path, "sessions"));
		assert_true(!route->open || route->scope == 0);
		assert_true(route->body == BODY_NONE || route->body_bytes_max > 0);
		assert_true(strcmp(route->method, "GET") != 0 || route->body == BODY_NONE);
	}
}

static int address(const char *text, bool behind_proxy)
{
	struct sockaddr_storage address;
	struct err err = ERR_INIT;
	int outcome = serve_read_address(text, behind_proxy, &address, &err);

	assert_true(outcome == 0 || err.code == ERR_USAGE);
	return outcome;
}

static void only_the_loopback_is_listened_on(void **state)
{
	static const char *const bad[] = {
		"0.0.0.0:80",
		"[::]:80",
		"10.0.0.1:80",
		"127.0.0.2:80",
		"localhost:80",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:x",
		":80",
		"127.0.0.1:65536",
		"127.0.0.1:-1",
		"127.0.0.1:8 ",
		"[::1:80",
		"::1:80",
		"[127.0.0.1]:80",
		"127.0.0.01:80",
		"*:80",
		"127.0.0.1:80x",
		"",
		"[::ffff:1.2.3.4]:1",
	};

	(void)state;
	assert_int_equal(address("127.0.0.1:8000", false), 0);
	assert_int_equal(address("[::1]:0", false), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(address(bad[i], false), -1);
	assert_int_equal(address("0.0.0.0:80", true), 0);
	assert_int_equal(address("localhost:80", true), -1);
}

static enum err_code start(const char *text, bool trusted)
{
	struct json *body = json_parse(text, strlen(text), &JSON_LIMITS, NULL);
	struct err err = ERR_INIT;

	if (lookup_check_start(body, trusted, &err) == 0)
		err.code = ERR_OK;
	json_free(body);
	return err.code;
}

static void what_reaches_into_the_host_needs_trust(void **state)
{
	static const char *const trusted[] = {
		"{\"workspace\":\"/x\"}",
		"{\"python\":\"/x\"}",
		"{\"tier\":\"none\"}",
		"{\"policy\":{\"read\":[\"/\"]}}",
		"{\"policy\":{\"write\":[]}}",
		"{\"policy\":{\"env\":{\"A\":null}}}",
		"{\"policy\":{\"net\":[\"a.b\"]}}",
		"{\"policy\":{\"protect\":[]}}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(trusted) / sizeof(trusted[0]); i++) {
		assert_int_equal(start(trusted[i], true), ERR_OK);
		assert_int_equal(start(trusted[i], false), ERR_DENIED);
	}
	assert_int_equal(start("{}", false), ERR_OK);
	assert_int_equal(start("{\"name\":\"a\",\"timeout\":5,\"policy\":{\"memory_bytes\":1,"
			       "\"cpus\":1.5,\"tier_floor\":\"full\"},\"limits\":{\"queue\":1}}",
			       false),
			 ERR_OK);
	assert_int_equal(start("[]", true), ERR_INVALID);
	assert_int_equal(start("{\"name\":1}", true), ERR_INVALID);
	assert_int_equal(start("{\"name\":\"../x\"}", true), ERR_INVALID);
	assert_int_equal(start("{\"timeout\":0}", true), ERR_INVALID);
	assert_int_equal(start("{\"limits\":{\"queue\":0}}", true), ERR_INVALID);
	assert_int_equal(start("{\"limits\":{\"x\":1}}", true), ERR_INVALID);
	assert_int_equal(start("{\"tier\":\"x\"}", true), ERR_INVALID);
	assert_int_equal(start("{\"x\":1}", true), ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_find_their_route),
		cmocka_unit_test(every_route_is_guarded),
		cmocka_unit_test(only_the_loopback_is_listened_on),
		cmocka_unit_test(what_reaches_into_the_host_needs_trust),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
