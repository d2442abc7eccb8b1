/*
 * The table of a policy's members, and reading them. See policy_read.h.
 *
 * What a list holds is copied into plain arrays once, when it is read: a plan is compiled from
 * strings. The least values of limits are those with which a session still starts.
 *
 * Any name of a variable is allowed, LD_PRELOAD and PYTHONPATH too: they act inside the box, on
 * programs that run what the session wants anyway. Nothing outside ever runs with them.
 */
#include "sandbox/policy_read.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/hosts.h"
#include "sandbox/protect.h"

enum { SHOWN_CHARS = 60, KEY_SHOWN_CHARS = 64, SOURCE_SHOWN_CHARS = 90 };

/* Beyond it a double, which is what most JSON is read into, is not exact. */
#define COUNT_MAX ((INT64_C(1) << 53) - 1)
#define YEAR_S (365 * 24 * 3600)

const struct policy_info POLICY_INFO[POLICY_MEMBER_COUNT] = {
	[POLICY_TIER_FLOOR] = {"tier_floor", POLICY_IS_TIER, false, 0, 0,
			       offsetof(struct policy, floor),
			       "the weakest containment that is accepted"},
	[POLICY_READ] = {"read", POLICY_IS_PATHS, false, 0, 0, offsetof(struct policy, read),
			 "paths of the host that are visible, read-only, at the same place"},
	[POLICY_WRITE] = {"write", POLICY_IS_PATHS, false, 0, 0, offsetof(struct policy, write),
			  "paths of the host that are visible, read-write, at the same place"},
	[POLICY_NET] = {"net", POLICY_IS_RULES, false, 0, 0, offsetof(struct policy, net),
			"hosts that may be reached, as HOST[:PORTS]; none: no network"},
	[POLICY_ENV] = {"env", POLICY_IS_VARIABLES, false, 0, 0, offsetof(struct policy, env),
			"environment variables; null takes the value of whoever starts it"},
	[POLICY_PROTECT] = {"protect", POLICY_IS_PATTERNS, false, 0, 0,
			    offsetof(struct policy, protect),
			    "what may not be changed in a project; \"...\" is the usual list"},
	[POLICY_MEMORY_BYTES] = {"memory_bytes", POLICY_IS_COUNT, true, 16 << 20, COUNT_MAX,
				 offsetof(struct policy, memory_bytes_max),
				 "memory of all processes together; null: no limit"},
	[POLICY_SWAP] = {"swap", POLICY_IS_BOOL, false, 0, 0, offsetof(struct policy, swap),
			 "whether memory beyond that may be swapped out"},
	[POLICY_PROCESSES] = {"processes", POLICY_IS_COUNT, false, 1, 1 << 22,
			      offsetof(struct policy, processes_max), "processes and threads"},
	[POLICY_FILES] = {"files", POLICY_IS_COUNT, false, 128, 1 << 20,
			  offsetof(struct policy, files_max), "open files of a process"},
	[POLICY_FILE_BYTES] = {"file_bytes", POLICY_IS_COUNT, false, 4096, COUNT_MAX,
			       offsetof(struct policy, file_bytes_max),
			       "size of a file that is written"},
	[POLICY_DISK_BYTES] = {"disk_bytes", POLICY_IS_COUNT, true, 1 << 20, COUNT_MAX,
			       offsetof(struct policy, disk_bytes_max),
			       "what a private workspace may take; null: no limit"},
	[POLICY_DISK_INODES] = {"disk_inodes", POLICY_IS_COUNT, true, 16, COUNT_MAX,
				offsetof(struct policy, disk_inodes_max),
				"files and folders in a private workspace; null: no limit"},
	[POLICY_TMP_BYTES] = {"tmp_bytes", POLICY_IS_COUNT, false, 1 << 20, COUNT_MAX,
			      offsetof(struct policy, tmp_bytes_max),
			      "size of the private /tmp, and of /dev/shm"},
	[POLICY_TMP_INODES] = {"tmp_inodes", POLICY_IS_COUNT, false, 64, COUNT_MAX,
			       offsetof(struct policy, tmp_inodes_max),
			       "files and folders in the private /tmp, and in /dev/shm"},
	[POLICY_CPUS] = {"cpus", POLICY_IS_NUMBER, true, 0, 4096, offsetof(struct policy, cpus),
			 "processors that may be used at a time, such as 1.5; null: all"},
	[POLICY_CPU_S] = {"cpu_s", POLICY_IS_NUMBER, true, 0, YEAR_S,
			  offsetof(struct policy, cpu_s_max),
			  "processor time of a cell in seconds; null: no limit"},
};

struct reader {
	struct policy_wish *wish;
	const char *source;
	enum policy_member member; /* whose list is read */
	size_t count;
	struct err *err;
};

void policy_wish_release(struct policy_wish *wish)
{
	for (int i = 0; i < POLICY_MEMBER_COUNT; i++) {
		for (size_t k = 0; wish->lists[i] && wish->lists[i][k]; k++)
			free(wish->lists[i][k]);
		free(wish->lists[i]);
	}
	json_free(wish->json);
	*wish = (struct policy_wish)POLICY_WISH_INIT;
}

enum policy_member policy_member_of(const char *key)
{
	int member = 0;

	while (member < POLICY_MEMBER_COUNT && strcmp(POLICY_INFO[member].key, key) != 0)
		member++;
	return (enum policy_member)member;
}

void policy_write_allowed(struct buf *out, enum policy_member member)
{
	const struct policy_info *info = &POLICY_INFO[member];

	switch (info->kind) {
	case POLICY_IS_TIER:
		buf_append_string(out, "\"full\" or \"degraded\"");
		break;
	case POLICY_IS_PATHS:
		buf_printf(out, "an array of up to %d absolute paths", POLICY_LIST_MAX);
		break;
	case POLICY_IS_RULES:
		buf_append_string(out,
				  "an array of hosts, such as [\"pypi.org\", \"*.example.org\"]");
		break;
	case POLICY_IS_VARIABLES:
		buf_printf(out,
			   "an object of up to %d variables: a string for each, or null for the "
			   "value of whoever starts it",
			   POLICY_LIST_MAX);
		break;
	case POLICY_IS_PATTERNS:
		buf_printf(out, "an array of up to %d patterns, such as [\"...\", \"bin/*\"]",
			   POLICY_LIST_MAX);
		break;
	case POLICY_IS_COUNT:
		buf_printf(out, "a whole number from %lld to %lld", (long long)info->min,
			   (long long)info->max);
		break;
	case POLICY_IS_NUMBER:
		buf_printf(out, "a number above 0, at most %lld", (long long)info->max);
		break;
	case POLICY_IS_BOOL:
		buf_append_string(out, "true or false");
		break;
	}
	if (info->nullable)
		buf_append_string(out, ", or null for no limit");
}

/* --- messages --------------------------------------------------------------------------------- */

static int shown(const char *text, size_t chars)
{
	return (int)text_prefix(text, strlen(text), chars);
}

static void put_source(struct buf *out, const char *source)
{
	buf_printf(out, "%.*s: ", shown(source, SOURCE_SHOWN_CHARS), source);
}

/* "... must be WHAT, not VALUE". */
static int wrong(const struct reader *reader, enum policy_member member, const struct json *value)
{
	cleanup_buf struct buf text = BUF_INIT, quoted = BUF_INIT;
	size_t cut;

	json_write(&quoted, value);
	cut = text_prefix(buf_bytes(&quoted), quoted.len, SHOWN_CHARS);
	put_source(&text, reader->source);
	buf_printf(&text, "\"%s\" must be ", POLICY_INFO[member].key);
	policy_write_allowed(&text, member);
	/* Of a variable the value may be a secret. */
	if (member != POLICY_ENV)
		buf_printf(&text, ", not %.*s%s", (int)cut, buf_bytes(&quoted),
			   cut < quoted.len ? "..." : "");
	return err_set(reader->err, ERR_INVALID, "%s", buf_bytes(&text));
}

int policy_unknown(const char *key, const char *source, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	size_t best = strlen(key) / 3 + 1;
	const char *found = NULL;

	for (int i = 0; i < POLICY_MEMBER_COUNT; i++) {
		size_t far = strlen(key) > TEXT_DISTANCE_BYTES_MAX
				     ? best
				     : text_distance(key, POLICY_INFO[i].key);

		if (far < best) {
			best = far;
			found = POLICY_INFO[i].key;
		}
	}
	put_source(&text, source);
	buf_append_string(&text, "there is no key \"");
	buf_append(&text, key, (size_t)shown(key, KEY_SHOWN_CHARS));
	buf_append_string(&text, "\" in a policy");
	if (strcmp(key, "tier") == 0)
		found = "tier_floor";
	if (found)
		buf_printf(&text, "; did you mean \"%s\"?", found);
	else
		buf_append_string(&text, "; fumehood-policy(5) lists them");
	return err_set(err, ERR_INVALID, "%s", buf_bytes(&text));
}

/* --- lists ------------------------------------------------------------------------------------ */

static void keep(struct reader *reader, char *text)
{
	char ***list = &reader->wish->lists[reader->member];

	*list = mem_resize(*list, reader->count + 2, sizeof(**list));
	(*list)[reader->count++] = text;
	(*list)[reader->count] = NULL;
}

static int read_paths(struct reader *reader, const struct json *value)
{
	size_t count = json_length(value);

	if (json_type_of(value) != JSON_ARRAY || count > POLICY_LIST_MAX)
		return wrong(reader, reader->member, value);
	for (size_t i = 0; i < count; i++) {
		size_t len = 0;
		const char *path = json_string(json_at(value, i), &len);

		if (!path || path[0] != '/' || len > POLICY_PATH_BYTES_MAX || strlen(path) != len)
			return wrong(reader, reader->member, json_at(value, i));
		keep(reader, mem_copy(path, len));
	}
	return 0;
}

static int add_rules(struct reader *reader, struct hosts *hosts, const struct json *value)
{
	for (size_t i = 0; i < json_length(value); i++) {
		cleanup_buf struct buf source = BUF_INIT;
		size_t len = 0;
		const char *text = json_string(json_at(value, i), &len);

		put_source(&source, reader->source);
		if (!text)
			return wrong(reader, reader->member, json_at(value, i));
		if (hosts_add(hosts, text, len, reader->err) != 0)
			return err_wrap(reader->err, "%s\"%s\"", buf_bytes(&source),
					POLICY_INFO[reader->member].key);
		keep(reader, mem_copy(text, len));
	}
	return 0;
}

static int read_rules(struct reader *reader, const struct json *value)
{
	struct hosts hosts = HOSTS_INIT;
	int result;

	if (json_type_of(value) != JSON_ARRAY)
		return wrong(reader, reader->member, value);
	result = add_rules(reader, &hosts, value);
	hosts_release(&hosts);
	return result;
}

static int read_patterns(struct reader *reader, const struct json *value)
{
	cleanup_buf struct buf source = BUF_INIT;
	size_t count = json_length(value);

	put_source(&source, reader->source);
	if (json_type_of(value) != JSON_ARRAY || count > POLICY_LIST_MAX)
		return wrong(reader, reader->member, value);
	for (size_t i = 0; i < count; i++) {
		size_t len = 0;
		const char *text = json_string(json_at(value, i), &len);

		if (!text || strlen(text) != len || len > POLICY_PATTERN_BYTES_MAX)
			return wrong(reader, reader->member, json_at(value, i));
		if (strcmp(text, "...") == 0) {
			for (size_t k = 0; PROTECT_DEFAULT[k]; k++)
				keep(reader, mem_string(PROTECT_DEFAULT[k]));
			continue;
		}
		if (protect_check(text, reader->err) != 0)
			return err_wrap(reader->err, "%s\"protect\"", buf_bytes(&source));
		keep(reader, mem_copy(text, len));
	}
	return 0;
}

/* As a shell has it: letters, digits and '_', no digit first. */
static bool is_variable(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool letter = (name[i] >= 'a' && name[i] <= 'z') ||
			      (name[i] >= 'A' && name[i] <= 'Z') || name[i] == '_';

		if (!letter && (i == 0 || name[i] < '0' || name[i] > '9'))
			return false;
	}
	return len > 0 && len <= POLICY_NAME_BYTES_MAX;
}

static int read_variable(const char *name, size_t name_len, struct json *value, void *data)
{
	struct reader *reader = data;
	size_t len = 0;
	const char *text = json_string(value, &len);
	cleanup_buf struct buf what = BUF_INIT;

	put_source(&what, reader->source);
	if (!is_variable(name, name_len))
		return err_set(reader->err, ERR_INVALID,
			       "%s\"env\": the name of a variable has letters, digits and _, and "
			       "no digit first, not \"%.*s\"",
			       buf_bytes(&what), shown(name, SHOWN_CHARS), name);
	if (json_type_of(value) == JSON_NULL)
		return 0;
	if (!text || strlen(text) != len || len > POLICY_VALUE_BYTES_MAX)
		return err_set(reader->err, ERR_INVALID,
			       "%s\"env\": %s must be null, or a string of at most %d bytes "
			       "without NUL",
			       buf_bytes(&what), name, POLICY_VALUE_BYTES_MAX);
	keep(reader, mem_format("%s=%s", name, text));
	return 0;
}

static int read_variables(struct reader *reader, const struct json *value)
{
	if (json_type_of(value) != JSON_OBJECT || json_length(value) > POLICY_LIST_MAX)
		return wrong(reader, reader->member, value);
	return json_each(value, read_variable, reader);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool fits(const struct policy_info *info, const struct json *value)
{
	enum json_type type = json_type_of(value);
	const char *text = json_string(value, NULL);
	double number = json_double(value, -1);
	enum tier tier;

	if (type == JSON_NULL)
		return info->nullable;
	switch (info->kind) {
	case POLICY_IS_TIER:
		/* "none" is said where a session is started, by --tier none, or not at all. */
		return text && tier_from_name(text, &tier) == 0 && tier != TIER_NONE;
	case POLICY_IS_COUNT:
		return type == JSON_INT && json_int(value, -1) >= info->min &&
		       json_int(value, -1) <= info->max;
	case POLICY_IS_NUMBER:
		return (type == JSON_INT || type == JSON_DOUBLE) && isfinite(number) &&
		       number > 0 && number <= (double)info->max;
	case POLICY_IS_BOOL:
		return type == JSON_BOOL;
	case POLICY_IS_PATHS:
	case POLICY_IS_RULES:
	case POLICY_IS_VARIABLES:
	case POLICY_IS_PATTERNS:
		break;
	}
	return false;
}

static int read_value(struct reader *reader, const struct json *value)
{
	switch (POLICY_INFO[reader->member].kind) {
	case POLICY_IS_PATHS:
		return read_paths(reader, value);
	case POLICY_IS_RULES:
		return read_rules(reader, value);
	case POLICY_IS_VARIABLES:
		return read_variables(reader, value);
	case POLICY_IS_PATTERNS:
		return read_patterns(reader, value);
	case POLICY_IS_TIER:
	case POLICY_IS_COUNT:
	case POLICY_IS_NUMBER:
	case POLICY_IS_BOOL:
		break;
	}
	return fits(&POLICY_INFO[reader->member], value) ? 0 : wrong(reader, reader->member, value);
}

static int read_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reader *reader = data;

	/* A key with NUL in it is none of ours, even if it begins like one. */
	if (strlen(key) != key_len)
		return policy_unknown(key, reader->source, reader->err);
	if (strcmp(key, "$schema") == 0 && json_type_of(value) == JSON_STRING)
		return 0;
	reader->member = policy_member_of(key);
	reader->count = 0;
	if (reader->member == POLICY_MEMBER_COUNT)
		return policy_unknown(key, reader->source, reader->err);
	if (json_type_of(value) == JSON_ARRAY || json_type_of(value) == JSON_OBJECT) {
		/* Asked for, even if there is nothing in it. */
		reader->wish->lists[reader->member] = mem_zalloc(sizeof(char *));
	}
	return read_value(reader, value);
}

int policy_wish_read(struct policy_wish *wish, const struct json *object, const char *source,
		     struct err *err)
{
	struct reader reader = {.wish = wish, .source = source, .err = err};

	if (json_type_of(object) != JSON_OBJECT) {
		cleanup_buf struct buf text = BUF_INIT;

		put_source(&text, source);
		return err_set(err, ERR_INVALID, "%sa policy is an object: {...}",
			       buf_bytes(&text));
	}
	wish->json = json_copy(object);
	json_remove(wish->json, "$schema");
	return json_each(object, read_member, &reader) == 0 ? 0 : -1;
}

/* The line of a fault of the JSON itself. */
static int bad_json(const char *bytes, size_t len, size_t fault, const char *source,
		    const struct err *why, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	size_t line = 1;

	for (size_t i = 0; i < fault && i < len; i++)
		line += bytes[i] == '\n';
	buf_printf(&text, "%.*s:%zu: ", shown(source, SOURCE_SHOWN_CHARS), source, line);
	return err_set(err, why->code, "%sthis is no JSON: %s", buf_bytes(&text), why->text);
}

struct json *policy_parse(const char *bytes, size_t len, const char *source, struct err *err)
{
	struct json_limits limits = JSON_LIMITS;
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT;
	cleanup_json struct json *json = NULL;
	struct err why = ERR_INIT;
	size_t fault = 0;

	limits.bytes_max = POLICY_BYTES_MAX;
	json = json_parse_part(bytes, len, &limits, &fault, &why);
	if (!json && why.code != ERR_OK) {
		bad_json(bytes, len, fault, source, &why, err);
		return NULL;
	}
	if (policy_wish_read(&wish, json, source, err) != 0)
		return NULL;
	return mem_take(wish.json);
}
