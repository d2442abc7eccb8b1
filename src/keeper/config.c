/*
 * Reading session.json; see config.h. One table names every key, so that reading and the message
 * about an unknown key come from the same place.
 */
#include "keeper/config.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

enum { LIMIT_COUNT = 8 };

struct limit_key {
	const char *name;
	size_t offset;
	bool of_box; /* enforced by the box, from its start */
};

static const struct limit_key LIMIT_KEYS[LIMIT_COUNT] = {
	{"output_bytes", offsetof(struct limits, output_bytes), false},
	{"background_bytes", offsetof(struct limits, background_bytes), false},
	{"queue", offsetof(struct limits, queue), false},
	{"record_bytes", offsetof(struct limits, record_bytes), false},
	{"processes", offsetof(struct limits, processes), true},
	{"files", offsetof(struct limits, files), true},
	{"file_bytes", offsetof(struct limits, file_bytes), true},
	{"tmp_bytes", offsetof(struct limits, tmp_bytes), true},
};

void limits_init(struct limits *limits)
{
	struct policy policy;

	policy_init(&policy);
	*limits = (struct limits){
		.wall_s = 300,
		.output_bytes = 64 << 20,
		.background_bytes = 16 << 20,
		.queue = 64,
		.record_bytes = (uint64_t)4 << 30,
		.processes = policy.processes_max,
		.files = policy.files_max,
		.file_bytes = policy.file_bytes_max,
		.tmp_bytes = policy.tmp_bytes_max,
	};
}

static uint64_t *limit_at(struct limits *limits, const struct limit_key *key)
{
	return (uint64_t *)(void *)((char *)limits + key->offset);
}

struct json *limits_json(const struct limits *limits)
{
	struct json *object = json_new_object();
	struct limits copy = *limits;

	json_set(object, "wall_s", json_new_double(limits->wall_s));
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		json_set_int(object, LIMIT_KEYS[i].name, (int64_t)*limit_at(&copy, &LIMIT_KEYS[i]));
	return object;
}

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
	struct limits *limits = &reader->config->limits;
	int64_t number;

	(void)key_len;
	if (strcmp(key, "wall_s") == 0) {
		limits->wall_s = json_double(value, -1);
		if (!(limits->wall_s > 0) || !isfinite(limits->wall_s))
			return wrong(reader->err, key, "a number of seconds above 0");
		return 0;
	}
	number = json_int(value, -1);
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		if (strcmp(key, LIMIT_KEYS[i].name) != 0)
			continue;
		if (reader->box_stands && LIMIT_KEYS[i].of_box)
			break;
		if (number <= 0)
			return wrong(reader->err, key, "a whole number above 0");
		*limit_at(limits, &LIMIT_KEYS[i]) = (uint64_t)number;
		return 0;
	}
	return err_set(reader->err, ERR_INVALID, "session.json: there is no limit \"%s\"", key);
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
		if (!text || (strcmp(text, "rw") != 0 && strcmp(text, "ro") != 0))
			return wrong(reader->err, "workspace.mode", "\"rw\" or \"ro\"");
		config->workspace_mode = text[1] == 'w' ? WORKSPACE_RW : WORKSPACE_RO;
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

	if (!text || tier_from_name(text, &reader->config->tier) != 0 ||
	    (reader->config->tier != TIER_PARTIAL && reader->config->tier != TIER_NONE))
		return wrong(reader->err, "tier", "\"partial\" or \"none\"");
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
	if (strcmp(key, "created") == 0)
		return text ? 0 : wrong(reader->err, key, "a time");
	if (strcmp(key, "engine") == 0)
		return text && strcmp(text, "python") == 0 ? 0
							   : wrong(reader->err, key, "\"python\"");
	if (strcmp(key, "python") == 0)
		return read_string(reader, key, value, &config->python);
	if (strcmp(key, "tier") == 0)
		return read_tier(reader, value);
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
	if (strcmp(key, "notebook") == 0) {
		config->notebook = json_type_of(value) == JSON_OBJECT ? json_keep(value) : NULL;
		return 0;
	}
	return err_set(reader->err, ERR_INVALID, "session.json: unknown key \"%s\"", key);
}

void config_init(struct config *config)
{
	*config = (struct config){.workspace_mode = WORKSPACE_RW, .tier = TIER_PARTIAL};
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
	static const char *const free_keys[] = {"name", "limits", "ends_with_client", "notebook"};
	struct reader *reader = data;

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
	json_set_string(workspace, "mode", config->workspace_mode == WORKSPACE_RW ? "rw" : "ro");
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
	json_set(object, "ends_with_client", json_new_bool(config->ends_with_client));
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
	*config = (struct config){0};
}
