/*
 * session.json, both ways. See config.h.
 *
 * The reader takes what a client needs for listing and comparing; the keeper has the strict one,
 * because only the keeper acts on limits and tiers.
 */
#include "client/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

static const char *const TIERS[CONFIG_TIERS] = {
	[CONFIG_TIER_FULL] = "full",
	[CONFIG_TIER_DEGRADED] = "degraded",
	[CONFIG_TIER_NONE] = "none",
};

enum { CONFIG_FORMAT = 1 };

static const struct limit_key {
	const char *name;
	size_t offset; /* in struct fh_limits */
	bool of_box;   /* the keeper cannot change it once its box stands */
	bool or_null;  /* FH_NO_LIMIT is null */
	bool number;   /* a double */
	bool or_zero;  /* FH_NO_CHECKPOINTS is 0 */
} LIMIT_KEYS[] = {
	{"background_bytes", offsetof(struct fh_limits, background_bytes), false, false, false,
	 false},
	{"queue", offsetof(struct fh_limits, queue), false, false, false, false},
	{"record_bytes", offsetof(struct fh_limits, record_bytes), false, false, false, false},
	{"processes", offsetof(struct fh_limits, processes), true, false, false, false},
	{"files", offsetof(struct fh_limits, files), true, false, false, false},
	{"file_bytes", offsetof(struct fh_limits, file_bytes), true, false, false, false},
	{"tmp_bytes", offsetof(struct fh_limits, tmp_bytes), true, false, false, false},
	{"memory_bytes", offsetof(struct fh_limits, memory_bytes), false, true, false, false},
	{"disk_bytes", offsetof(struct fh_limits, disk_bytes), false, true, false, false},
	{"disk_inodes", offsetof(struct fh_limits, disk_inodes), false, true, false, false},
	{"cpus", offsetof(struct fh_limits, cpus), false, false, true, false},
	{"cpu_s", offsetof(struct fh_limits, cpu_s), false, false, true, false},
	{"checkpoints", offsetof(struct fh_limits, checkpoints), false, false, false, true},
};

enum { LIMIT_COUNT = sizeof(LIMIT_KEYS) / sizeof(*LIMIT_KEYS) };

static uint64_t limit_value(const struct fh_limits *limits, const struct limit_key *key)
{
	uint64_t value;

	memcpy(&value, (const char *)limits + key->offset, sizeof(value));
	return value;
}

static double number_value(const struct fh_limits *limits, const struct limit_key *key)
{
	double value;

	memcpy(&value, (const char *)limits + key->offset, sizeof(value));
	return value;
}

static void put_limit(struct json *object, const struct fh_limits *limits,
		      const struct limit_key *key)
{
	uint64_t count = key->number ? 0 : limit_value(limits, key);

	if (key->number && number_value(limits, key) > 0)
		json_set(object, key->name, json_new_double(number_value(limits, key)));
	else if (key->or_null && count == FH_NO_LIMIT)
		json_set(object, key->name, NULL);
	else if (key->or_zero && count == FH_NO_CHECKPOINTS)
		json_set_int(object, key->name, 0);
	else if (count)
		json_set_int(object, key->name, (int64_t)count);
}

static void take_limit(struct fh_limits *limits, const struct json *object,
		       const struct limit_key *key)
{
	uint64_t count = (uint64_t)json_get_int(object, key->name, 0);
	double number = json_get_double(object, key->name, 0);

	if (key->or_null && json_has(object, key->name) && !json_get(object, key->name))
		count = FH_NO_LIMIT;
	if (key->or_zero && count == 0 && json_get(object, key->name))
		count = FH_NO_CHECKPOINTS;
	memcpy((char *)limits + key->offset, key->number ? (void *)&number : (void *)&count,
	       sizeof(count));
}

bool config_box_is_default(const struct config *config)
{
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		if (LIMIT_KEYS[i].of_box && limit_value(&config->limits, &LIMIT_KEYS[i]))
			return false;
	return true;
}

void config_release(struct config *config)
{
	free(config->name);
	free(config->python);
	free(config->workspace);
	free(config->parent);
	json_free(config->policy);
	json_free(config->notebook_metadata);
	*config = (struct config)CONFIG_INIT;
}

bool config_is_id(const char *id)
{
	return hash_is_id(id);
}

/* The path under "path", or under "path_base64" when it is no UTF-8. */
static void set_path(struct json *object, const char *path)
{
	size_t len = strlen(path);
	cleanup_buf struct buf coded = BUF_INIT;

	if (text_is_utf8(path, len)) {
		json_set_string(object, "path", path);
		return;
	}
	hash_base64_encode(&coded, path, len);
	json_set_string(object, "path_base64", buf_bytes(&coded));
}

static struct json *limits_json(const struct config *config)
{
	struct json *limits = json_new_object();

	if (config->wall_s_max > 0 && config->wall_s_max == floor(config->wall_s_max) &&
	    config->wall_s_max < 1e15)
		json_set_int(limits, "wall_s", (int64_t)config->wall_s_max);
	else if (config->wall_s_max > 0)
		json_set(limits, "wall_s", json_new_double(config->wall_s_max));
	if (config->output_bytes_max)
		json_set_int(limits, "output_bytes", (int64_t)config->output_bytes_max);
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		put_limit(limits, &config->limits, &LIMIT_KEYS[i]);
	return limits;
}

/* The members that the file and the request "start" have in common. */
static void set_chosen(struct json *object, const struct config *config)
{
	json_set(object, "limits", limits_json(config));
	json_set(object, "ends_with_client", json_new_bool(config->ends_with_client));
	json_set_string(object, "durability", config->durability_power ? "power" : "process");
	if (config->notebook_metadata || config->keeps_rolled_back) {
		struct json *notebook = json_new_object();

		if (config->notebook_metadata)
			json_set(notebook, "metadata", json_copy(config->notebook_metadata));
		if (config->keeps_rolled_back)
			json_set_string(notebook, "rolled_back", "keep");
		json_set(object, "notebook", notebook);
	}
}

struct json *config_chosen(const struct config *config)
{
	struct json *object = json_new_object();

	if (config->name)
		json_set_string(object, "name", config->name);
	if (config->policy)
		json_set(object, "policy", json_copy(config->policy));
	set_chosen(object, config);
	return object;
}

void config_write(struct buf *out, const struct config *config)
{
	cleanup_json struct json *object = json_new_object();
	struct json *workspace = json_new_object();
	char created[CLOCK_TEXT_SIZE];

	clock_format(config->created_us, created);
	json_set_int(object, "format", CONFIG_FORMAT);
	json_set_string(object, "id", config->id);
	if (config->name)
		json_set_string(object, "name", config->name);
	else
		json_set(object, "name", NULL);
	json_set_string(object, "created", created);
	json_set_string(object, "engine", "python");
	if (config->python)
		json_set_string(object, "python", config->python);
	set_path(workspace, config->workspace);
	json_set_string(workspace, "mode",
			config->workspace_overlay     ? "overlay"
			: config->workspace_read_only ? "ro"
						      : "rw");
	json_set(workspace, "private", json_new_bool(config->workspace_private));
	json_set(object, "workspace", workspace);
	json_set_string(object, "tier", TIERS[config->tier]);
	if (config->policy)
		json_set(object, "policy", json_copy(config->policy));
	set_chosen(object, config);
	json_write(out, object);
	buf_append_char(out, '\n');
}

/* The workspace's path as bytes, or NULL. The caller owns it. */
static char *read_path(const struct json *workspace)
{
	const char *path = json_get_string(workspace, "path");
	const char *coded = json_get_string(workspace, "path_base64");
	cleanup_buf struct buf bytes = BUF_INIT;

	if (path)
		return mem_string(path);
	if (!coded || hash_base64_decode(&bytes, coded, strlen(coded)) != 0 || bytes.len == 0 ||
	    memchr(buf_bytes(&bytes), '\0', bytes.len))
		return NULL;
	return buf_take(&bytes, NULL);
}

static bool keeps(const char *rolled_back)
{
	return rolled_back && strcmp(rolled_back, "keep") == 0;
}

int config_read(const char *bytes, size_t len, struct config *config, struct err *err)
{
	cleanup_json struct json *object = json_parse(bytes, len, &JSON_LIMITS, err);
	const struct json *workspace = json_get(object, "workspace");
	const struct json *limits = json_get(object, "limits");
	const char *id = json_get_string(object, "id");
	const char *created = json_get_string(object, "created"), *mode;
	cleanup_free char *path = NULL;
	const char *tier;

	if (!object)
		return -1;
	path = read_path(workspace);
	if (!id || !config_is_id(id) || !path)
		return err_set(err, ERR_CORRUPT, "session.json lacks id or workspace");
	memcpy(config->id, id, HASH_ID_SIZE);
	config->name = mem_string(json_get_string(object, "name"));
	config->created_us = created ? clock_parse(created) : 0;
	if (config->created_us == INT64_MIN)
		config->created_us = 0;
	config->python = mem_string(json_get_string(object, "python"));
	config->workspace = mem_take(path);
	config->workspace_private = json_get_bool(workspace, "private", false);
	mode = json_get_string(workspace, "mode");
	config->workspace_read_only = mode && strcmp(mode, "ro") == 0;
	config->workspace_overlay = mode && strcmp(mode, "overlay") == 0;
	tier = json_get_string(object, "tier");
	for (int i = 0; tier && i < CONFIG_TIERS; i++) {
		if (strcmp(tier, TIERS[i]) == 0)
			config->tier = (enum config_tier)i;
	}
	config->wall_s_max = json_get_double(limits, "wall_s", 0);
	config->output_bytes_max = (uint64_t)json_get_int(limits, "output_bytes", 0);
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		take_limit(&config->limits, limits, &LIMIT_KEYS[i]);
	config->ends_with_client = json_get_bool(object, "ends_with_client", false);
	config->durability_power = json_get_string(object, "durability") &&
				   strcmp(json_get_string(object, "durability"), "power") == 0;
	config->notebook_metadata = json_get(json_get(object, "notebook"), "metadata");
	config->keeps_rolled_back =
		keeps(json_get_string(json_get(object, "notebook"), "rolled_back"));
	config->parent = mem_string(json_get_string(json_get(object, "parent"), "session"));
	config->policy = json_get(object, "policy");
	if (config->policy)
		json_keep(config->policy);
	if (config->notebook_metadata)
		json_keep(config->notebook_metadata);
	return 0;
}
