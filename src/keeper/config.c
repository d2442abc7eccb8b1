/*
 * Reading session.json; see config.h. One table names every key, so that reading and the message
 * about an unknown key come from the same place.
 */
#include "keeper/config.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "notebook/notebook.h"

struct reader {
	struct config *config;
	struct err *err;
	bool box_stands; /* what it was built for cannot be chosen any more */
};

static int wrong(struct err *err, const char *key, const char *want)
{
	return err_set(err, ERR_INVALID, "session.json: \"%s\" must be %s", key, want);
}

static int read_limit(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reader *reader = data;

	(void)key_len;
	if (reader->box_stands && limits_is_of_box(key))
		return err_set(reader->err, ERR_INVALID,
			       "the limit \"%s\" cannot be chosen of a session that is ready", key);
	if (limits_set_one(&reader->config->limits, key, value, reader->err) != 0)
		return err_wrap(reader->err, "session.json");
	return 0;
}

static int read_workspace(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reader *reader = data;
	struct config *config = reader->config;
	size_t len = 0;
	const char *text = json_string(value, &len);

	(void)key_len;
	if (strcmp(key, "path") == 0) {
		if (!text || text[0] != '/' || strlen(text) != len)
			return wrong(reader->err, "workspace.path", "an absolute path");
		config->workspace = mem_string(text);
	} else if (strcmp(key, "path_base64") == 0) {
		cleanup_buf struct buf path = BUF_INIT;

		if (!text || hash_base64_decode(&path, text, len) != 0 ||
		    buf_bytes(&path)[0] != '/' || strlen(buf_bytes(&path)) != path.len)
			return wrong(reader->err, "workspace.path_base64",
				     "an absolute path in base64");
		config->workspace = mem_string(buf_bytes(&path));
	} else if (strcmp(key, "mode") == 0) {
		if (!text || workspace_mode_from_name(text, &config->workspace_mode) != 0)
			return wrong(reader->err, "workspace.mode",
				     "\"rw\", \"ro\" or \"overlay\"");
	} else if (strcmp(key, "private") == 0) {
		config->workspace_private = json_bool(value, false);
	} else {
		return err_set(reader->err, ERR_INVALID,
			       "session.json: unknown key \"workspace.%s\"", key);
	}
	return 0;
}

/* Copies a string value into *to; null leaves it NULL. */
static int read_string(struct reader *reader, const char *key, const struct json *value, char **to)
{
	const char *text = json_string(value, NULL);

	if (!text && json_type_of(value) != JSON_NULL)
		return wrong(reader->err, key, "a string");
	*to = mem_string(text);
	return 0;
}

static int read_tier(struct reader *reader, const struct json *value)
{
	const char *text = json_string(value, NULL);

	/* What version 0.1 called its strongest. */
	if (text && strcmp(text, "partial") == 0)
		text = tier_name(TIER_FULL);
	if (!text || tier_from_name(text, &reader->config->tier) != 0)
		return wrong(reader->err, "tier", "\"full\", \"degraded\" or \"none\"");
	return 0;
}

const char *durability_name(bool power)
{
	return power ? "power" : "process";
}

static int read_durability(struct reader *reader, const struct json *value)
{
	const char *text = json_string(value, NULL);

	if (!text || (strcmp(text, "power") != 0 && strcmp(text, "process") != 0))
		return wrong(reader->err, "durability", "\"process\" or \"power\"");
	reader->config->durability_power = strcmp(text, "power") == 0;
	return 0;
}

/* {"metadata"?: object, "rolled_back"?: what the notebook does with such cells}; or null. */
static int read_notebook(struct config *config, struct json *value, struct err *err)
{
	const struct json *wish = json_get(value, "rolled_back");
	const char *name = json_string(wish, NULL);

	if (json_type_of(value) != JSON_OBJECT)
		return 0;
	if (wish && notebook_rolled_back_from_name(name) == NOTEBOOK_AS_SAID)
		return wrong(err, "notebook.rolled_back", "\"omit\" or \"keep\"");
	json_free(config->notebook);
	config->notebook = json_keep(value);
	return 0;
}

static int read_key(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reader *reader = data;
	struct config *config = reader->config;
	const char *text = json_string(value, NULL);

	(void)key_len;
	if (strcmp(key, "format") == 0)
		return json_int(value, 0) == CONFIG_FORMAT
			       ? 0
			       : err_set(reader->err, ERR_UNSUPPORTED,
					 "session.json is of another format; use the version that "
					 "made it");
	if (strcmp(key, "id") == 0)
		return read_string(reader, key, value, &config->id);
	if (strcmp(key, "name") == 0)
		return read_string(reader, key, value, &config->name);
	if (strcmp(key, "policy") == 0) /* has been read */
		return json_type_of(value) == JSON_OBJECT ? 0
							  : wrong(reader->err, key, "an object");
	if (strcmp(key, "created") == 0)
		return text ? 0 : wrong(reader->err, key, "a time");
	if (strcmp(key, "engine") == 0)
		return text && strcmp(text, "python") == 0 ? 0
							   : wrong(reader->err, key, "\"python\"");
	if (strcmp(key, "python") == 0)
		return read_string(reader, key, value, &config->python);
	if (strcmp(key, "tier") == 0)
		return read_tier(reader, value);
	if (strcmp(key, "durability") == 0)
		return read_durability(reader, value);
	if (strcmp(key, "workspace") == 0)
		return json_type_of(value) == JSON_OBJECT ? json_each(value, read_workspace, reader)
							  : wrong(reader->err, key, "an object");
	if (strcmp(key, "limits") == 0)
		return json_type_of(value) == JSON_OBJECT ? json_each(value, read_limit, reader)
							  : wrong(reader->err, key, "an object");
	if (strcmp(key, "ends_with_client") == 0) {
		config->ends_with_client = json_bool(value, false);
		return json_type_of(value) == JSON_BOOL ? 0
							: wrong(reader->err, key, "true or false");
	}
	if (strcmp(key, "parent") == 0) {
		if (json_type_of(value) != JSON_OBJECT)
			return wrong(reader->err, key, "an object");
		json_free(config->parent);
		config->parent = json_keep(value);
		return 0;
	}
	if (strcmp(key, "notebook") == 0)
		return read_notebook(config, value, reader->err);
	return err_set(reader->err, ERR_INVALID, "session.json: unknown key \"%s\"", key);
}

void config_init(struct config *config)
{
	*config = (struct config){.workspace_mode = WORKSPACE_RW, .tier = TIER_FULL};
	limits_init(&config->limits);
}

int config_read(int dirfd, struct config *config, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	cleanup_json struct json *json = NULL;
	struct reader reader = {.config = config, .err = err};

	config_init(config);
	if (file_read(dirfd, "session.json", CONFIG_BYTES_MAX, &bytes, err) != 0)
		return -1;
	json = json_parse(buf_bytes(&bytes), bytes.len, &JSON_LIMITS, err);
	if (!json)
		return err_wrap(err, "session.json");
	if (json_type_of(json) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "session.json is no object");
	/* First, wherever it stands: limits of their own have the last word. */
	if (json_has(json, "policy") &&
	    config_read_policy(config, json_get(json, "policy"), err) != 0)
		return -1;
	if (json_each(json, read_key, &reader) != 0)
		return -1;
	if (!config->id || !text_is_id(config->id, strlen(config->id)))
		return wrong(err, "id", "the session's id");
	if (!config->workspace)
		return wrong(err, "workspace", "an object with a path");
	if (config->python && config->python[0] != '/')
		return wrong(err, "python", "an absolute path");
	return 0;
}

static int choose_key(const char *key, size_t key_len, struct json *value, void *data)
{
	static const char *const free_keys[] = {"name", "limits", "ends_with_client", "durability",
						"notebook"};
	struct reader *reader = data;

	if (strcmp(key, "policy") == 0 && json_length(value) == 1 && json_has(value, "net"))
		return config_read_policy(reader->config, value, reader->err);
	for (size_t i = 0; i < sizeof(free_keys) / sizeof(*free_keys); i++)
		if (strcmp(key, free_keys[i]) == 0)
			return read_key(key, key_len, value, data);
	return err_set(reader->err, ERR_INVALID,
		       "\"%s\" cannot be chosen of a session that is ready", key);
}

int config_choose(struct config *config, struct json *chosen, struct err *err)
{
	struct reader reader = {.config = config, .err = err, .box_stands = true};

	return json_each(chosen, choose_key, &reader) == 0 ? 0 : -1;
}

static struct json *workspace_json(const struct config *config)
{
	struct json *workspace = json_new_object();
	size_t len = strlen(config->workspace);

	if (text_is_utf8(config->workspace, len)) {
		json_set_string(workspace, "path", config->workspace);
	} else {
		cleanup_buf struct buf coded = BUF_INIT;

		hash_base64_encode(&coded, config->workspace, len);
		json_set_string(workspace, "path_base64", buf_bytes(&coded));
	}
	json_set_string(workspace, "mode", workspace_mode_name(config->workspace_mode));
	json_set(workspace, "private", json_new_bool(config->workspace_private));
	return workspace;
}

void config_write(struct buf *out, const struct config *config, const struct json *chosen)
{
	cleanup_json struct json *object = json_new_object();
	struct json *limits = json_get(chosen, "limits");
	char created[CLOCK_TEXT_SIZE];

	clock_format(clock_wall_us(), created);
	json_set_int(object, "format", CONFIG_FORMAT);
	json_set_string(object, "id", config->id);
	json_set(object, "name",
		 config->name ? json_new_string(config->name, strlen(config->name)) : NULL);
	json_set_string(object, "created", created);
	json_set_string(object, "engine", "python");
	json_set_string(object, "python", config->python);
	json_set(object, "workspace", workspace_json(config));
	json_set_string(object, "tier", tier_name(config->tier));
	json_set(object, "limits", limits ? json_keep(limits) : json_new_object());
	if (json_get(chosen, "policy"))
		json_set(object, "policy", json_keep(json_get(chosen, "policy")));
	json_set(object, "ends_with_client", json_new_bool(config->ends_with_client));
	json_set_string(object, "durability", durability_name(config->durability_power));
	if (config->notebook)
		json_set(object, "notebook", json_keep(config->notebook));
	json_write(out, object);
	buf_append_char(out, '\n');
}

void config_release(struct config *config)
{
	free(config->id);
	free(config->name);
	free(config->python);
	free(config->workspace);
	json_free(config->notebook);
	json_free(config->parent);
	policy_wish_release(&config->policy);
	*config = (struct config){0};
}
