/*
 * Addresses of servers: what is made of them, what is refused, and that no key leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/openai.h"
#include "model/place.h"

static void test_addresses(void **state)
{
	static const struct {
		const char *given, *shown, *chat, *models, *root;
		bool direct;
	} rows[] = {
		{"http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1",
		 "http://127.0.0.1:8080/v1/chat/completions", "http://127.0.0.1:8080/v1/models",
		 "http://127.0.0.1:8080", true},
		{"http://127.9.9.9/v1/", "http://127.9.9.9/v1",
		 "http://127.9.9.9/v1/chat/completions", "http://127.9.9.9/v1/models",
		 "http://127.9.9.9", true},
		{"http://[::1]:80/v1///", "http://[::1]:80/v1",
		 "http://[::1]:80/v1/chat/completions", "http://[::1]:80/v1/models",
		 "http://[::1]:80", true},
		{"http://localhost", "http://localhost/", "http://localhost/chat/completions",
		 "http://localhost/models", "http://localhost", true},
		{"http://a.localhost/v1", "http://a.localhost/v1",
		 "http://a.localhost/v1/chat/completions", "http://a.localhost/v1/models",
		 "http://a.localhost", true},
		/* With the whole path of the call. */
		{"https://host/api/v1/chat/completions", "https://host/api/v1",
		 "https://host/api/v1/chat/completions", "https://host/api/v1/models",
		 "https://host/api", false},
		{"https://localhost.example/openai", "https://localhost.example/openai",
		 "https://localhost.example/openai/chat/completions",
		 "https://localhost.example/openai/models", "https://localhost.example/openai",
		 false},
		/* What is behind "?" goes along, and is not shown. */
		{"https://host/v1?api-version=2&code=secret", "https://host/v1",
		 "https://host/v1/chat/completions?api-version=2&code=secret",
		 "https://host/v1/models?api-version=2&code=secret", "https://host", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct place place = {0};
		struct err err = ERR_INIT;

		if (place_init(&place, rows[i].given, NULL, NULL, &err) != 0)
			fail_msg("%s: %s", rows[i].given, err.text);
		assert_string_equal(place.shown, rows[i].shown);
		assert_string_equal(place.chat_url, rows[i].chat);
		assert_string_equal(place.models_url, rows[i].models);
		assert_string_equal(place.root_url, rows[i].root);
		assert_int_equal(place.direct, rows[i].direct);
		assert_null(place.key);
		assert_null(place.unix_socket);
		place_release(&place);
		assert_null(place.shown);
	}
}

static void refused(const char *url, const char *unix_socket, const char *key, const char *words)
{
	struct place place = {0};
	struct err err = ERR_INIT;

	assert_int_equal(place_init(&place, url, unix_socket, key, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	if (!strstr(err.text, words))
		fail_msg("%s is not in: %s", words, err.text);
	if (key)
		assert_null(strstr(err.text, key));
}

static void test_what_is_refused(void **state)
{
	cleanup_free char *long_url = mem_format("http://host/%3000s", "");
	cleanup_free char *long_key = mem_format("%*d", OPENAI_KEY_BYTES_MAX + 1, 7);
	cleanup_free char *long_path = mem_format("/%0108d", 7);

	(void)state;
	memset(long_url + 12, 'a', 3000);
	memset(long_key, 'k', OPENAI_KEY_BYTES_MAX);
	refused(NULL, NULL, NULL, "no address");
	refused("", NULL, NULL, "http://127.0.0.1:8080/v1");
	refused("127.0.0.1:8080", NULL, NULL, "it is like");
	refused("ftp://host/v1", NULL, NULL, "it is like");
	refused("file:///etc/passwd", NULL, NULL, "it is like");
	refused("http://user@host/v1", NULL, NULL, "into the environment");
	refused("http://user:word@host/v1", NULL, NULL, "into the environment");
	refused("http://host/v1#part", NULL, NULL, "#");
	refused(long_url, NULL, NULL, "too long");
	refused("http://host/v1", NULL, "two words", "no key has");
	refused("http://host/v1", NULL, "sk-1\r\nX-Other: 1", "no key has");
	refused("http://host/v1", NULL, "sk-\xc3\xa9", "no key has");
	refused("http://host/v1", NULL, long_key, "too long");
	refused("http://localhost/v1", long_path, NULL, "107 are the most");
}

static void test_a_unix_socket_and_a_key(void **state)
{
	struct place place = {0};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(
		place_init(&place, "http://host/v1", "/run/x/server.sock", "sk-secret", &err), 0);
	assert_string_equal(place.unix_socket, "/run/x/server.sock");
	assert_string_equal(place.key, "sk-secret");
	assert_true(place.direct);
	place_release(&place);
	assert_int_equal(place_init(&place, "http://host/v1", NULL, "", &err), 0);
	assert_null(place.key); /* an empty one is none */
	place_release(&place);
}

static void test_handles(void **state)
{
	struct curl_slist *headers = NULL;
	struct place place = {0};
	struct err err = ERR_INIT;
	CURL *easy;

	(void)state;
	assert_int_equal(curl_global_init(CURL_GLOBAL_DEFAULT), 0);
	assert_int_equal(place_init(&place, "http://host/v1", NULL, "sk-secret", &err), 0);
	easy = place_easy(&place, place.chat_url, &headers, &err);
	assert_non_null(easy);
	assert_true(place_header(&headers, "Content-Type: application/json"));
	assert_string_equal(headers->data, "Expect:");
	assert_string_equal(headers->next->data, "Authorization: Bearer sk-secret");
	assert_string_equal(headers->next->next->data, "Content-Type: application/json");
	assert_null(headers->next->next->next);
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	place_release(&place);
	curl_global_cleanup();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_a_unix_socket_and_a_key),
		cmocka_unit_test(test_handles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
