/*
 * Fuzzes policies: any bytes as a policy file. What is taken can be told and is then taken again,
 * as the same; what is refused is said in UTF-8 with the file's name.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/policy_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct err *err)
{
	assert(err->code == ERR_INVALID || err->code == ERR_LIMIT);
	assert(strncmp(err->text, "/p.json:", strlen("/p.json:")) == 0);
	assert(text_is_utf8(err->text, strlen(err->text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = mem_copy(data, size);
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT, again = POLICY_WISH_INIT;
	cleanup_json struct json *json = NULL, *told = NULL, *told_again = NULL;
	struct policy policy, other;
	struct err err = ERR_INIT;
	int result;

	json = policy_parse(text, size, "/p.json", &err);
	if (!json) {
		check_error(&err);
		return 0;
	}
	result = policy_wish_read(&wish, json, "/p.json", &err);
	assert(result == 0);
	policy_init(&policy);
	policy_wish_apply(&wish, &policy);
	told = policy_describe(&policy);
	result = policy_wish_read(&again, told, "/p.json", &err);
	/* "..." among other patterns is told as what it stands for, which may be too many. */
	if (result != 0) {
		check_error(&err);
		return 0;
	}
	policy_init(&other);
	policy_wish_apply(&again, &other);
	other.env = policy.env;
	other.protect = policy.protect;
	told_again = policy_describe(&other);
	assert(json_equal(told, told_again));
	return 0;
}
