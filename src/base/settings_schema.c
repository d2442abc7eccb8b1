/*
 * The JSON Schema (draft 2020-12) of the configuration file, made from the table in settings.c.
 *
 * doc/config.schema.json is this text: editors complete and check by it what fumehood itself would
 * refuse. A test compares the two, so that neither can be changed alone.
 */
#include "base/settings_impl.h"

#include <string.h>

#include "base/mem.h"

static struct json *new_type(const char *type)
{
	struct json *schema = json_new_object();

	json_set_string(schema, "type", type);
	return schema;
}

static struct json *new_pattern(const char *pattern)
{
	struct json *schema = new_type("string");

	json_set_string(schema, "pattern", pattern);
	return schema;
}

static struct json *new_modules(void)
{
	struct json *schema = new_type("array"), *item = new_pattern(SETTING_MODULE_PATTERN);

	json_set_int(item, "maxLength", SETTING_MODULE_BYTES_MAX);
	json_set(schema, "items", item);
	json_set_int(schema, "maxItems", SETTING_MODULES_MAX);
	json_set(schema, "uniqueItems", json_new_bool(true));
	return schema;
}

static struct json *new_reference(void)
{
	struct json *schema = json_new_object();

	json_set_string(schema, "$ref", "#/$defs/modules");
	return schema;
}

/* One list for all, or an object of lists by environment. */
static void set_modules(struct json *schema)
{
	struct json *choice = json_new_array(), *lists = new_type("object");
	struct json *known = json_new_object(), *paths = json_new_object();

	json_set(known, "default", new_reference());
	json_set(paths, SETTING_PATH_PATTERN, new_reference());
	json_set(lists, "properties", known);
	json_set(lists, "patternProperties", paths);
	json_set(lists, "additionalProperties", json_new_bool(false));
	json_push(choice, new_reference());
	json_push(choice, lists);
	json_set(schema, "oneOf", choice);
}

static void set_choices(struct json *schema, const char *const *choices)
{
	struct json *values = json_new_array();

	for (size_t i = 0; choices[i]; i++)
		json_push(values, json_new_string(choices[i], strlen(choices[i])));
	json_set(schema, "enum", values);
}

/* "type": one, or one of two. */
static void set_type(struct json *schema, const char *type, bool or_null)
{
	struct json *types;

	if (!or_null) {
		json_set_string(schema, "type", type);
		return;
	}
	types = json_new_array();
	json_push(types, json_new_string(type, strlen(type)));
	json_push(types, json_new_string("null", strlen("null")));
	json_set(schema, "type", types);
}

static struct json *setting_schema(const struct setting_info *info)
{
	struct json *schema = json_new_object();
	struct json *fallback =
		json_parse(info->fallback, strlen(info->fallback), &JSON_LIMITS, NULL);

	json_set_string(schema, "description", info->about);
	switch (info->kind) {
	case SETTING_IS_PYTHON:
		json_set_string(schema, "type", "string");
		json_set_string(schema, "pattern", SETTING_PYTHON_PATTERN);
		break;
	case SETTING_IS_MODULES:
		set_modules(schema);
		break;
	case SETTING_IS_SECONDS:
	case SETTING_IS_NUMBER:
		set_type(schema, "number", info->or_null);
		json_set_int(schema, "exclusiveMinimum", 0);
		json_set_int(schema, "maximum", info->max);
		break;
	case SETTING_IS_COUNT:
		set_type(schema, "integer", info->or_null);
		json_set_int(schema, "minimum", info->min);
		json_set_int(schema, "maximum", info->max);
		break;
	case SETTING_IS_BOOL:
		json_set_string(schema, "type", "boolean");
		break;
	case SETTING_IS_CHOICE:
		set_choices(schema, info->choices);
		break;
	case SETTING_IS_TEXT:
		json_set_string(schema, "type", "string");
		json_set_string(schema, "pattern", "^[^\\x00-\\x1f\\x7f]+$");
		json_set_int(schema, "maxLength", info->max);
		break;
	}
	if (fallback)
		json_set(schema, "default", fallback);
	return schema;
}

static struct json *new_object_schema(struct json *properties)
{
	struct json *schema = new_type("object");

	json_set(schema, "properties", properties);
	json_set(schema, "additionalProperties", json_new_bool(false));
	return schema;
}

/* The object to which the setting belongs: `top`, or the properties of its group. */
static struct json *place_of(struct json *top, const char *key)
{
	const char *dot = strchr(key, '.');
	cleanup_free char *group = mem_copy(key, dot ? (size_t)(dot - key) : 0);

	if (!dot)
		return top;
	if (!json_get(top, group))
		json_set(top, group, new_object_schema(json_new_object()));
	return json_get(json_get(top, group), "properties");
}

void settings_write_schema(struct buf *out)
{
	cleanup_json struct json *schema = json_new_object();
	struct json *properties = json_new_object(), *shared = json_new_object();

	json_set_string(schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
	json_set_string(schema, "title", "Configuration of Fumehood");
	json_set_string(schema, "description", "See fumehood-config(5).");
	json_set(properties, "$schema", new_type("string"));
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		const char *key = SETTINGS[id].key;
		const char *dot = strchr(key, '.');

		json_set(place_of(properties, key), dot ? dot + 1 : key,
			 setting_schema(&SETTINGS[id]));
	}
	json_set_string(schema, "type", "object");
	json_set(schema, "properties", properties);
	json_set(schema, "additionalProperties", json_new_bool(false));
	json_set(shared, "modules", new_modules());
	json_set(schema, "$defs", shared);
	json_write_indented(out, schema);
}
