/*
 * The policy in session.json, and writing back what has changed; see config.h.
 *
 * Some members of a policy are limits that can change while the session lives (limit_table.h). One
 * thing must not be in two places: those go where all limits are, and "limits" of the file, which
 * is what a change is written to, has the last word. The rest stays a wish that is put into
 * session->policy.
 */
#include "keeper/config.h"

#include "base/file.h"
#include "base/mem.h"

struct taking {
	struct config *config;
	struct err *err;
};

static int take_limit(const char *key, size_t key_len, struct json *value, void *data)
{
	const struct taking *taking = data;

	(void)key_len;
	if (!limits_has(key))
		return 0;
	if (limits_set_one(&taking->config->limits, key, value, taking->err) != 0)
		return err_wrap(taking->err, "session.json: policy");
	return 0;
}

int config_read_policy(struct config *config, const struct json *value, struct err *err)
{
	struct taking taking = {.config = config, .err = err};

	if (policy_wish_read(&config->policy, value, "session.json: policy", err) != 0)
		return -1;
	return json_each(value, take_limit, &taking) == 0 ? 0 : -1;
}

static int set_member(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)key_len;
	json_set(data, key, json_keep(value));
	return 0;
}

static void set_members(struct json *object, const char *name, const struct json *set)
{
	if (json_length(set) == 0)
		return;
	if (json_type_of(json_get(object, name)) != JSON_OBJECT)
		json_set(object, name, json_new_object());
	json_each(set, set_member, json_get(object, name));
}

int config_rewrite(int dirfd, const struct json *limits, const struct json *policy, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT, text = BUF_INIT;
	cleanup_json struct json *object = NULL;

	if (file_read(dirfd, "session.json", CONFIG_BYTES_MAX, &bytes, err) != 0)
		return -1;
	object = json_parse(buf_bytes(&bytes), bytes.len, &JSON_LIMITS, err);
	if (!object)
		return err_wrap(err, "session.json");
	if (json_type_of(object) != JSON_OBJECT)
		return err_set(err, ERR_CORRUPT, "session.json is no object any more");
	set_members(object, "limits", limits);
	set_members(object, "policy", policy);
	json_write(&text, object);
	buf_append_char(&text, '\n');
	return file_replace(dirfd, "session.json", buf_bytes(&text), text.len, 0600, err);
}
