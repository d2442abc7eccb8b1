/*
 * Wishes into a policy, and a policy in force as JSON. See policy_read.h.
 *
 * By the table of members: where each lies in struct policy, and of which kind it is. What comes
 * here has been read, so nothing is checked again.
 */
#include "sandbox/policy_read.h"

#include <string.h>

#include "base/mem.h"
#include "sandbox/protect.h"

static void *place_in(struct policy *policy, enum policy_member member)
{
	return (char *)policy + POLICY_INFO[member].offset;
}

static void apply_one(const struct policy_wish *wish, enum policy_member member,
		      const struct json *value, struct policy *policy)
{
	/* null is 0: no limit */
	uint64_t count = (uint64_t)json_int(value, 0);
	double number = json_double(value, 0);
	bool yes = json_bool(value, false);

	switch (POLICY_INFO[member].kind) {
	case POLICY_IS_TIER:
		(void)tier_from_name(json_string(value, NULL), &policy->floor);
		break;
	case POLICY_IS_PATHS:
	case POLICY_IS_RULES:
	case POLICY_IS_VARIABLES:
	case POLICY_IS_PATTERNS:
		memcpy(place_in(policy, member), &wish->lists[member], sizeof(char **));
		break;
	case POLICY_IS_COUNT:
		memcpy(place_in(policy, member), &count, sizeof(count));
		break;
	case POLICY_IS_NUMBER:
		memcpy(place_in(policy, member), &number, sizeof(number));
		break;
	case POLICY_IS_BOOL:
		memcpy(place_in(policy, member), &yes, sizeof(yes));
		break;
	}
}

struct applying {
	const struct policy_wish *wish;
	struct policy *policy;
};

static int apply_member(const char *key, size_t key_len, struct json *value, void *data)
{
	const struct applying *applying = data;

	(void)key_len;
	apply_one(applying->wish, policy_member_of(key), value, applying->policy);
	return 0;
}

void policy_wish_apply(const struct policy_wish *wish, struct policy *policy)
{
	struct applying applying = {.wish = wish, .policy = policy};

	json_each(wish->json, apply_member, &applying);
}

static int merge_member(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)key_len;
	json_set(data, key, json_keep(value));
	return 0;
}

void policy_wish_merge(struct policy_wish *wish, struct policy_wish *from)
{
	if (!wish->json)
		wish->json = json_new_object();
	json_each(from->json, merge_member, wish->json);
	for (int i = 0; i < POLICY_MEMBER_COUNT; i++) {
		char **list = wish->lists[i];

		if (!from->lists[i])
			continue;
		wish->lists[i] = from->lists[i];
		from->lists[i] = list;
	}
	policy_wish_release(from);
}

static struct json *list_json(const char *const *list)
{
	struct json *array = json_new_array();

	for (size_t i = 0; list && list[i]; i++)
		json_push(array, json_new_string(list[i], strlen(list[i])));
	return array;
}

/* The usual list is long, and "..." says it as well. */
static struct json *patterns_json(const char *const *patterns)
{
	static const char *const usual[] = {"...", NULL};

	return list_json(patterns == PROTECT_DEFAULT ? usual : patterns);
}

static struct json *names_json(const char *const *variables)
{
	struct json *object = json_new_object();

	for (size_t i = 0; variables && variables[i]; i++) {
		cleanup_free char *name = mem_copy(variables[i], strcspn(variables[i], "="));

		json_set(object, name, NULL);
	}
	return object;
}

static struct json *value_json(const struct policy *policy, enum policy_member member)
{
	const struct policy_info *info = &POLICY_INFO[member];
	const void *place = (const char *)policy + info->offset;
	const char *const *list = NULL;
	const char *name = tier_name(policy->floor);
	uint64_t count = 0;
	double number = 0;
	bool yes = false;

	switch (info->kind) {
	case POLICY_IS_TIER:
		return json_new_string(name, strlen(name));
	case POLICY_IS_PATHS:
	case POLICY_IS_RULES:
		memcpy(&list, place, sizeof(list));
		return list_json(list);
	case POLICY_IS_PATTERNS:
		memcpy(&list, place, sizeof(list));
		return patterns_json(list);
	case POLICY_IS_VARIABLES:
		memcpy(&list, place, sizeof(list));
		return names_json(list);
	case POLICY_IS_COUNT:
		memcpy(&count, place, sizeof(count));
		return count || !info->nullable ? json_new_int((int64_t)count) : NULL;
	case POLICY_IS_NUMBER:
		memcpy(&number, place, sizeof(number));
		return number > 0 ? json_new_double(number) : NULL;
	case POLICY_IS_BOOL:
		memcpy(&yes, place, sizeof(yes));
		return json_new_bool(yes);
	}
	return NULL;
}

struct json *policy_describe(const struct policy *policy)
{
	struct json *object = json_new_object();

	for (int i = 0; i < POLICY_MEMBER_COUNT; i++)
		json_set(object, POLICY_INFO[i].key, value_json(policy, (enum policy_member)i));
	return object;
}
