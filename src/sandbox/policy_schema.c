/*
 * The JSON Schema (draft 2020-12) of a policy, made from the table in policy_read.c.
 *
 * doc/policy.schema.json is this text: editors complete and check by it what Fumehood itself would
 * refuse. A test compares the two, so that neither can be changed alone. What no
 * schema can say is left to the reader: the form of a host's rule and of a pattern, and lengths in
 * bytes.
 */
#include "sandbox/policy_read.h"

#include <string.h>

#include "base/mem.h"
#include "sandbox/hosts.h"

static void set_text_list(struct json *schema, const char *pattern, int items_max, int bytes_max)
{
	struct json *item = json_new_object();

	json_set_string(item, "type", "string");
	if (pattern)
		json_set_string(item, "pattern", pattern);
	json_set_int(item, "maxLength", bytes_max);
	json_set_string(schema, "type", "array");
	json_set(schema, "items", item);
	json_set_int(schema, "maxItems", items_max);
}

static struct json *new_types(const char *type, bool nullable)
{
	struct json *types;

	if (!nullable)
		return json_new_string(type, strlen(type));
	types = json_new_array();
	json_push(types, json_new_string(type, strlen(type)));
	json_push(types, json_new_string("null", strlen("null")));
	return types;
}

static void set_variables(struct json *schema)
{
	struct json *names = json_new_object(), *value = json_new_object();

	json_set_string(names, "pattern", "^[A-Za-z_][A-Za-z0-9_]*$");
	json_set_int(names, "maxLength", POLICY_NAME_BYTES_MAX);
	json_set(value, "type", new_types("string", true));
	json_set_int(value, "maxLength", POLICY_VALUE_BYTES_MAX);
	json_set_string(schema, "type", "object");
	json_set(schema, "propertyNames", names);
	json_set(schema, "additionalProperties", value);
	json_set_int(schema, "maxProperties", POLICY_LIST_MAX);
}

static void set_tiers(struct json *schema)
{
	static const enum tier tiers[] = {TIER_DEGRADED, TIER_FULL};
	struct json *values = json_new_array();

	for (size_t i = 0; i < sizeof(tiers) / sizeof(*tiers); i++) {
		const char *name = tier_name(tiers[i]);

		json_push(values, json_new_string(name, strlen(name)));
	}
	json_set(schema, "enum", values);
}

static struct json *member_schema(const struct policy_info *info)
{
	struct json *schema = json_new_object();

	json_set_string(schema, "description", info->about);
	switch (info->kind) {
	case POLICY_IS_TIER:
		set_tiers(schema);
		break;
	case POLICY_IS_PATHS:
		set_text_list(schema, "^/", POLICY_LIST_MAX, POLICY_PATH_BYTES_MAX);
		break;
	case POLICY_IS_RULES:
		set_text_list(schema, NULL, HOSTS_RULES_MAX, HOSTS_RULE_MAX);
		break;
	case POLICY_IS_PATTERNS:
		set_text_list(schema, NULL, POLICY_LIST_MAX, POLICY_PATTERN_BYTES_MAX);
		break;
	case POLICY_IS_VARIABLES:
		set_variables(schema);
		break;
	case POLICY_IS_COUNT:
		json_set(schema, "type", new_types("integer", info->nullable));
		json_set_int(schema, "minimum", info->min);
		json_set_int(schema, "maximum", info->max);
		break;
	case POLICY_IS_NUMBER:
		json_set(schema, "type", new_types("number", info->nullable));
		json_set_int(schema, "exclusiveMinimum", 0);
		json_set_int(schema, "maximum", info->max);
		break;
	case POLICY_IS_BOOL:
		json_set_string(schema, "type", "boolean");
		break;
	}
	return schema;
}

void policy_write_schema(struct buf *out)
{
	cleanup_json struct json *schema = json_new_object();
	struct json *properties = json_new_object(), *link = json_new_object();

	json_set_string(link, "type", "string");
	json_set(properties, "$schema", link);
	for (int i = 0; i < POLICY_MEMBER_COUNT; i++)
		json_set(properties, POLICY_INFO[i].key, member_schema(&POLICY_INFO[i]));
	json_set_string(schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
	json_set_string(schema, "title", "Policy of Fumehood");
	json_set_string(schema, "description", "See fumehood-policy(5).");
	json_set_string(schema, "type", "object");
	json_set(schema, "properties", properties);
	json_set(schema, "additionalProperties", json_new_bool(false));
	json_write_indented(out, schema);
}
