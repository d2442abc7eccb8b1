/*
 * Variables of a policy: see policy.h.
 */
#include "client/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int take(const char *name, size_t len, struct json *value, void *data)
{
	struct json *taken = data;
	const char *text = NULL;

	if (strlen(name) != len)
		return -1;
	if (json_type_of(value) != JSON_NULL)
		json_set(taken, name, json_keep(value));
	else
		text = getenv(name);
	if (text)
		json_set(taken, name, json_new_string(text, strlen(text)));
	return 0;
}

int policy_take_variables(struct json *policy, struct err *err)
{
	const struct json *env = json_get(policy, "env");
	cleanup_json struct json *taken = NULL;

	if (json_type_of(env) != JSON_OBJECT)
		return 0;
	taken = json_new_object();
	if (json_each(env, take, taken) != 0)
		return err_set(err, ERR_USAGE, "a variable of a policy has a NUL in its name");
	json_set(policy, "env", mem_take(taken));
	return 0;
}
