/*
 * Policy options to a policy. See policy_options.h.
 *
 * Each option is turned into the member of the policy that it stands for; then the whole is read
 * once more as a policy (policy_read.h), so that there is one place that knows what is allowed.
 */
#include "cli/policy_options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "sandbox/policy_read.h"

/* The whole path, as a member has it. */
static int add_path(struct json *list, const char *option, const char *path, struct err *err)
{
	cleanup_free char *real = realpath(path, NULL);

	if (!real)
		return err_sys(err, "%s %.150s", option, path);
	if (!text_is_utf8(real, strlen(real)))
		return err_set(err, ERR_USAGE,
			       "%s: the path is no UTF-8, so a policy cannot name it; use a "
			       "symlink, or the folder above",
			       option);
	json_push(list, json_new_string(real, strlen(real)));
	return 0;
}

/* The member as a list that may be added to. */
static struct json *list_of(struct json *policy, enum policy_member member)
{
	const char *key = POLICY_INFO[member].key;

	if (json_type_of(json_get(policy, key)) != JSON_ARRAY)
		json_set(policy, key, json_new_array());
	return json_get(policy, key);
}

static int add_paths(struct json *policy, enum policy_member member, const char *option,
		     const struct option_list *paths, struct err *err)
{
	for (size_t i = 0; i < paths->count; i++) {
		if (add_path(list_of(policy, member), option, paths->items[i], err) != 0)
			return -1;
	}
	return 0;
}

/* Rules are separated by commas. */
static void add_rules(struct json *policy, const struct option_list *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		const char *at = rules->items[i];
		size_t len;

		do {
			len = strcspn(at, ",");
			json_push(list_of(policy, POLICY_NET), json_new_string(at, len));
			at += len + 1;
		} while (at[-1]);
	}
}

static int add_variables(struct json *policy, const struct option_list *variables, struct err *err)
{
	const char *key = POLICY_INFO[POLICY_ENV].key;

	for (size_t i = 0; i < variables->count; i++) {
		const char *text = variables->items[i];
		size_t len = strcspn(text, "=");
		cleanup_free char *name = mem_copy(text, len);
		const char *value = text[len] ? text + len + 1 : NULL;

		if (!text_is_utf8(text, strlen(text)))
			return err_set(err, ERR_USAGE, "--env takes NAME or NAME=VALUE in UTF-8");
		if (json_type_of(json_get(policy, key)) != JSON_OBJECT)
			json_set(policy, key, json_new_object());
		json_set(json_get(policy, key), name,
			 value ? json_new_string(value, strlen(value)) : NULL);
	}
	return 0;
}

static void add_number(struct json *policy, enum policy_member member, uint64_t value)
{
	if (value == UINT64_MAX)
		return;
	/* What is too large for JSON is too large for every limit, and is refused as such. */
	json_set_int(policy, POLICY_INFO[member].key,
		     value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static int add_cpus(struct json *policy, const char *text, struct err *err)
{
	char *end;
	double cpus;

	if (!text)
		return 0;
	errno = 0;
	cpus = strtod(text, &end);
	if (end == text || *end || errno || !isfinite(cpus) || strpbrk(text, "xXpP") || cpus <= 0)
		return err_set(err, ERR_USAGE, "--cpus takes a number above 0, such as 1.5, not %s",
			       text);
	json_set(policy, POLICY_INFO[POLICY_CPUS].key, json_new_double(cpus));
	return 0;
}

/* The file, or an empty policy. NULL on failure. */
static struct json *read_file(const char *path, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT, shown = BUF_INIT;

	if (!path)
		return json_new_object();
	if (file_read(AT_FDCWD, path, POLICY_BYTES_MAX, &bytes, err) != 0) {
		err_wrap(err, "--policy");
		return NULL;
	}
	text_escape(&shown, path, strlen(path), false, false);
	return policy_parse(buf_bytes(&bytes), bytes.len, buf_bytes(&shown), err);
}

int policy_options_read(const struct policy_options *options, struct json **policy, struct err *err)
{
	cleanup_json struct json *object = read_file(options->file, err);
	cleanup_wish struct policy_wish wish = POLICY_WISH_INIT;
	struct err why = ERR_INIT;

	*policy = NULL;
	if (!object)
		return -1;
	if (add_paths(object, POLICY_READ, "--read", &options->read, err) != 0 ||
	    add_paths(object, POLICY_WRITE, "--write", &options->write, err) != 0 ||
	    add_variables(object, &options->env, err) != 0 ||
	    add_cpus(object, options->cpus, err) != 0)
		return -1;
	add_rules(object, &options->net);
	add_number(object, POLICY_MEMORY_BYTES, options->memory_bytes);
	add_number(object, POLICY_DISK_BYTES, options->disk_bytes);
	add_number(object, POLICY_PROCESSES, options->processes);
	if (options->tier_floor)
		json_set_string(object, POLICY_INFO[POLICY_TIER_FLOOR].key, options->tier_floor);
	if (policy_wish_read(&wish, object, "the sandbox options", &why) != 0)
		return err_set(err, ERR_USAGE, "%s", why.text);
	if (json_length(object) > 0)
		*policy = mem_take(object);
	return 0;
}
