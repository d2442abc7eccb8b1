/*
 * Tokens: their scopes, their files, and that a folder which changes is read anew.
 */
#include "serve/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

static void scopes_go_both_ways(void **state)
{
	unsigned scopes = 0;
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(scopes_read("run,read", &scopes, NULL), 0);
	assert_int_equal(scopes, SCOPE_READ | SCOPE_RUN);
	scopes_write(&text, scopes);
	assert_string_equal(buf_bytes(&text), "read,run");
	assert_int_equal(scopes_read("all", &scopes, NULL), 0);
	assert_int_equal(scopes, SCOPE_ALL);
	assert_int_equal(scopes_read("", &scopes, NULL), -1);
	assert_int_equal(scopes_read("run,", &scopes, NULL), -1);
	assert_int_equal(scopes_read("runs", &scopes, &err), -1);
	assert_non_null(strstr(err.text, "manage"));
}

static void files_are_read_strictly(void **state)
{
	struct token token = {.name = "n",
			      .prefix = "p",
			      .scopes = SCOPE_RUN,
			      .expires_us = 1790000000000000,
			      .created_us = 1};
	struct token again;
	cleanup_buf struct buf text = BUF_INIT;

	(void)state;
	memcpy(token.id, "abcdefabcdef", 13);
	memset(token.sha256, 'a', 64);
	token_write(&text, &token);
	assert_int_equal(token_read(buf_bytes(&text), text.len, &again), 0);
	assert_string_equal(again.id, token.id);
	assert_string_equal(again.prefix, "p");
	assert_int_equal(again.expires_us, token.expires_us);
	for (size_t i = 0; i + 2 < text.len; i++) /* torn at any byte: none */
		assert_int_equal(token_read(buf_bytes(&text), i, &again), -1);
	assert_int_equal(token_read("{}", 2, &again), -1);
	assert_int_equal(token_read("[1]", 3, &again), -1);
}

static void a_folder_is_followed(void **state)
{
	char folder[] = "/tmp/token-test-XXXXXX";
	char first[TOKEN_TEXT_SIZE], second[TOKEN_TEXT_SIZE];
	struct token token = {.name = "one", .scopes = SCOPE_RUN, .expires_us = INT64_MAX};
	struct token old = {.name = "old", .scopes = SCOPE_RUN, .expires_us = 5};
	struct tokens tokens = TOKENS_INIT, other = TOKENS_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_non_null(mkdtemp(folder));
	setenv("XDG_STATE_HOME", folder, 1);
	assert_int_equal(tokens_open(&tokens, &err), 0);
	assert_int_equal(tokens_open(&other, &err), 0);
	assert_int_equal(tokens_create(&tokens, &token, true, first, &err), 0);
	tokens_refresh(&other);
	assert_non_null(tokens_check(&other, first, strlen(first)));
	assert_null(tokens_check(&other, first, strlen(first) - 1));
	assert_null(tokens_check(&other, "", 0));
	assert_int_equal(tokens_create(&tokens, &old, true, second, &err), 0);
	tokens_refresh(&other);
	assert_int_equal(other.count, 2);
	assert_null(tokens_check(&other, second, strlen(second))); /* it has ended */
	/* One in memory outlives what is read anew. */
	assert_int_equal(tokens_create(&other, &token, false, second, &err), 0);
	tokens_refresh(&tokens);
	assert_int_equal(tokens_revoke(&tokens, tokens_find(&tokens, "one", &err), &err), 0);
	tokens_refresh(&other);
	assert_null(tokens_check(&other, first, strlen(first)));
	assert_non_null(tokens_check(&other, second, strlen(second)));
	assert_null(tokens_find(&other, "nobody", &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	/* What others could read is refused. */
	assert_int_equal(chmod(tokens.path, 0755), 0);
	tokens_release(&tokens);
	assert_int_equal(tokens_open(&tokens, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	tokens_release(&tokens);
	tokens_release(&other);
	(void)file_remove_tree(-100, folder, NULL); /* AT_FDCWD */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scopes_go_both_ways),
		cmocka_unit_test(files_are_read_strictly),
		cmocka_unit_test(a_folder_is_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
