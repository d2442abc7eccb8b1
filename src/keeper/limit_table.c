/*
 * The table of limits; see limit_table.h.
 */
#include "keeper/limit_table.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "sandbox/policy.h"

enum {
	LIMIT_COUNT = 15,
	/* A guest keeps its own descriptors from 100 upwards, out of the way of the code that it
	 * runs (guest/order.c); with fewer it could not start. */
	FILES_MIN = 128,
	/* Less than the interpreter itself needs would end every session at its start. */
	MEMORY_MIN = 16 << 20,
	SMALL_MAX = 64,
};

/* What its values are. A small one is at most SMALL_MAX, and may be 0. The last two can be null,
 * which is no limit and here 0. */
enum kind { IS_SECONDS, IS_COUNT, IS_SMALL, IS_COUNT_OR_NULL, IS_NUMBER_OR_NULL };

static const struct limit {
	const char *name;
	const char *unit;
	size_t offset; /* of a double, or a uint64_t */
	enum kind kind;
	enum limit_change change;
	uint64_t least;
} LIMITS[LIMIT_COUNT] = {
	{"wall_s", "s", offsetof(struct limits, wall_s), IS_SECONDS, LIMIT_NOW, 0},
	{"output_bytes", "bytes", offsetof(struct limits, output_bytes), IS_COUNT, LIMIT_NOW, 1},
	{"background_bytes", "bytes", offsetof(struct limits, background_bytes), IS_COUNT,
	 LIMIT_NOW, 1},
	{"queue", "cells", offsetof(struct limits, queue), IS_COUNT, LIMIT_NOW, 1},
	{"record_bytes", "bytes", offsetof(struct limits, record_bytes), IS_COUNT, LIMIT_NOW, 1},
	{"processes", "processes", offsetof(struct limits, processes), IS_COUNT, LIMIT_LOWER, 1},
	{"files", "files", offsetof(struct limits, files), IS_COUNT, LIMIT_LOWER, FILES_MIN},
	{"file_bytes", "bytes", offsetof(struct limits, file_bytes), IS_COUNT, LIMIT_LOWER, 1},
	{"tmp_bytes", "bytes", offsetof(struct limits, tmp_bytes), IS_COUNT, LIMIT_RESTART, 1},
	{"checkpoints", "checkpoints", offsetof(struct limits, checkpoints), IS_SMALL, LIMIT_NOW,
	 0},
	{"memory_bytes", "bytes", offsetof(struct limits, memory_bytes), IS_COUNT_OR_NULL,
	 LIMIT_NOW, MEMORY_MIN},
	{"disk_bytes", "bytes", offsetof(struct limits, disk_bytes), IS_COUNT_OR_NULL, LIMIT_NOW,
	 1},
	{"disk_inodes", "files", offsetof(struct limits, disk_inodes), IS_COUNT_OR_NULL, LIMIT_NOW,
	 1},
	{"cpus", "processors", offsetof(struct limits, cpus), IS_NUMBER_OR_NULL, LIMIT_NOW, 0},
	{"cpu_s", "s", offsetof(struct limits, cpu_s), IS_NUMBER_OR_NULL, LIMIT_NOW, 0},
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
		.checkpoints = 3,
		.memory_bytes = policy.memory_bytes_max,
		.disk_bytes = policy.disk_bytes_max,
		.disk_inodes = policy.disk_inodes_max,
		.cpus = policy.cpus,
		.cpu_s = policy.cpu_s_max,
	};
}

static uint64_t count_of(const struct limits *limits, const struct limit *limit)
{
	uint64_t value;

	memcpy(&value, (const char *)limits + limit->offset, sizeof(value));
	return value;
}

static void set_count(struct limits *limits, const struct limit *limit, uint64_t value)
{
	memcpy((char *)limits + limit->offset, &value, sizeof(value));
}

static double number_of(const struct limits *limits, const struct limit *limit)
{
	double value;

	memcpy(&value, (const char *)limits + limit->offset, sizeof(value));
	return value;
}

static struct json *value_json(const struct limits *limits, const struct limit *limit)
{
	switch (limit->kind) {
	case IS_SECONDS:
		return json_new_double(number_of(limits, limit));
	case IS_NUMBER_OR_NULL:
		return number_of(limits, limit) > 0 ? json_new_double(number_of(limits, limit))
						    : NULL;
	case IS_COUNT_OR_NULL:
		if (count_of(limits, limit) == 0)
			return NULL;
		break;
	case IS_COUNT:
	case IS_SMALL:
		break;
	}
	return json_new_int((int64_t)count_of(limits, limit));
}

struct json *limits_json(const struct limits *limits)
{
	struct json *object = json_new_object();

	for (size_t i = 0; i < LIMIT_COUNT; i++)
		json_set(object, LIMITS[i].name, value_json(limits, &LIMITS[i]));
	return object;
}

static const struct limit *find(const char *name)
{
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		if (strcmp(name, LIMITS[i].name) == 0)
			return &LIMITS[i];
	return NULL;
}

static int unknown(const char *name, struct err *err)
{
	cleanup_buf struct buf names = BUF_INIT;

	for (size_t i = 0; i < LIMIT_COUNT; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", LIMITS[i].name);
	return err_set(err, ERR_INVALID, "there is no limit \"%.40s\"; there are %s", name,
		       buf_bytes(&names));
}

static int set_number(struct limits *limits, const struct limit *limit, const struct json *value,
		      struct err *err)
{
	double number = json_double(value, -1);

	if (!isfinite(number) || number <= 0 || number > LIMITS_WALL_S_MAX)
		return err_set(err, ERR_INVALID, "\"%s\" must be a number of %s above 0%s",
			       limit->name, limit->kind == IS_SECONDS ? "seconds" : limit->unit,
			       limit->kind == IS_SECONDS ? "" : ", or null");
	memcpy((char *)limits + limit->offset, &number, sizeof(number));
	return 0;
}

int limits_set_one(struct limits *limits, const char *name, const struct json *value,
		   struct err *err)
{
	const struct limit *limit = find(name);
	int64_t count = json_int(value, -1);
	bool nullable;

	if (!limit)
		return unknown(name, err);
	nullable = limit->kind == IS_COUNT_OR_NULL || limit->kind == IS_NUMBER_OR_NULL;
	if (nullable && json_type_of(value) == JSON_NULL) {
		memset((char *)limits + limit->offset, 0, sizeof(uint64_t));
		return 0;
	}
	if (limit->kind == IS_SECONDS || limit->kind == IS_NUMBER_OR_NULL)
		return set_number(limits, limit, value, err);
	if (limit->kind == IS_SMALL) {
		if (count < 0 || count > SMALL_MAX)
			return err_set(err, ERR_INVALID, "\"%s\" must be a whole number, 0 to %d",
				       name, SMALL_MAX);
		set_count(limits, limit, (uint64_t)count);
		return 0;
	}
	if (count <= 0 || (uint64_t)count < limit->least)
		return err_set(err, ERR_INVALID, "\"%s\" must be a whole number, %llu or more%s",
			       name, (unsigned long long)limit->least, nullable ? ", or null" : "");
	set_count(limits, limit, (uint64_t)count);
	return 0;
}

struct setting {
	struct limits limits;
	struct err *err;
};

static int set_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct setting *setting = data;

	(void)key_len;
	return limits_set_one(&setting->limits, key, value, setting->err);
}

int limits_set(struct limits *limits, const struct json *set, struct err *err)
{
	struct setting setting = {.limits = *limits, .err = err};

	if (json_each(set, set_member, &setting) != 0)
		return -1;
	*limits = setting.limits;
	return 0;
}

bool limits_has(const char *name)
{
	return find(name) != NULL;
}

struct json *limits_one(const struct limits *limits, const char *name)
{
	const struct limit *limit = find(name);
	struct json *object = json_new_object();

	assert(limit);
	json_set_string(object, "name", limit->name);
	json_set(object, "value", value_json(limits, limit));
	json_set_string(object, "unit", limit->unit);
	return object;
}

bool limits_is_of_time(const char *name)
{
	const struct limit *limit = find(name);

	assert(limit);
	return strcmp(limit->unit, "s") == 0;
}

bool limits_is_of_box(const char *name)
{
	const struct limit *limit = find(name);

	return limit && limit->change != LIMIT_NOW;
}

bool limits_is_shared(const char *name)
{
	static const char *const names[] = {"memory_bytes", "disk_bytes", "disk_inodes", "cpus"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return limits_is_of_box(name);
}

void limits_take_box(struct limits *in_force, const struct limits *to, bool started)
{
	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		uint64_t value;

		if (LIMITS[i].change == LIMIT_NOW)
			continue;
		value = count_of(to, &LIMITS[i]);
		if (started ||
		    (LIMITS[i].change == LIMIT_LOWER && value < count_of(in_force, &LIMITS[i])))
			set_count(in_force, &LIMITS[i], value);
	}
}

static bool waits(const struct limits *in_force, const struct limits *wanted,
		  const struct limit *limit)
{
	return limit->change != LIMIT_NOW && count_of(in_force, limit) != count_of(wanted, limit);
}

struct json *limits_describe(const struct limits *in_force, const struct limits *wanted)
{
	static const char *const changes[] = {
		[LIMIT_NOW] = "now", [LIMIT_LOWER] = "lower", [LIMIT_RESTART] = "restart"};
	struct json *object = json_new_object();

	for (size_t i = 0; i < LIMIT_COUNT; i++) {
		struct json *about = json_new_object();

		json_set(about, "value", value_json(in_force, &LIMITS[i]));
		json_set_string(about, "changes", changes[LIMITS[i].change]);
		if (waits(in_force, wanted, &LIMITS[i]))
			json_set(about, "next", value_json(wanted, &LIMITS[i]));
		json_set(object, LIMITS[i].name, about);
	}
	return object;
}

struct json *limits_next(const struct limits *in_force, const struct limits *wanted)
{
	struct json *object = json_new_object();

	for (size_t i = 0; i < LIMIT_COUNT; i++)
		if (waits(in_force, wanted, &LIMITS[i]))
			json_set(object, LIMITS[i].name, value_json(wanted, &LIMITS[i]));
	return object;
}
