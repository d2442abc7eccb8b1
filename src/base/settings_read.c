/*
 * The configuration file's text, strictly: an unknown key is an error, because a misspelt limit
 * must not silently be no limit. See settings.h.
 *
 * The parser builds a tree without positions. The line of a fault is found afterwards, by walking
 * the text once more down to the key; the text is valid JSON with unique keys by then, so a string
 * followed by ':' is a key, and the first of its name at its depth is the one.
 */
#include "base/settings_impl.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum {
	FILE_SHOWN_BYTES = 90, /* of a path; its end tells more */
	VALUE_SHOWN_CHARS = 40,
	KEY_SHOWN_CHARS = 64,
};

struct reader {
	struct settings *settings;
	const char *text;
	size_t len;
	const char *file;
	const char *group; /* the object that is being read; NULL: the outermost one */
	struct err *err;
};

/* --- where it stands -------------------------------------------------------------------------- */

static size_t line_at(const char *text, size_t at)
{
	size_t line = 1;

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

/* The position behind the string that begins at `at`. */
static size_t string_end(const char *text, size_t len, size_t at)
{
	for (at++; at < len && text[at] != '"'; at++)
		at += text[at] == '\\';
	return at < len ? at + 1 : len;
}

static bool is_key(const char *text, size_t len, size_t end)
{
	while (end < len && strchr(" \t\r\n", text[end]))
		end++;
	return end < len && text[end] == ':';
}

/* Whether the string from `at` to `end` is `name` as JSON is usually written. */
static bool is_name(const char *text, size_t at, size_t end, const char *name)
{
	cleanup_buf struct buf quoted = BUF_INIT;

	json_write_string(&quoted, name, strlen(name));
	return quoted.len == end - at && memcmp(buf_bytes(&quoted), text + at, quoted.len) == 0;
}

/* The line of the key in the group (NULL: outermost); 0 when it is written in an unusual way. */
static size_t line_of(const struct reader *reader, const char *key)
{
	bool inside = false; /* the group */
	unsigned depth = 0;

	for (size_t at = 0; at < reader->len; at++) {
		char c = reader->text[at];
		size_t end;

		depth += c == '{' || c == '[';
		depth -= c == '}' || c == ']';
		if (c != '"')
			continue;
		end = string_end(reader->text, reader->len, at);
		if (is_key(reader->text, reader->len, end)) {
			if (depth == (reader->group ? 2 : 1) && (!reader->group || inside) &&
			    is_name(reader->text, at, end, key))
				return line_at(reader->text, at);
			if (depth == 1)
				inside = reader->group &&
					 is_name(reader->text, at, end, reader->group);
		}
		at = end - 1;
	}
	return 0;
}

/* "…/config.json:4: ", for the front of a message. */
static void put_place(struct buf *out, const char *file, size_t line)
{
	size_t len = strlen(file);
	size_t from = len > FILE_SHOWN_BYTES ? len - FILE_SHOWN_BYTES : 0;

	while (from < len && ((unsigned char)file[from] & 0xc0) == 0x80)
		from++;
	buf_printf(out, "%s%s:", from ? "..." : "", file + from);
	if (line)
		buf_printf(out, "%zu:", line);
	buf_append_char(out, ' ');
}

/* --- what it should be ------------------------------------------------------------------------ */

/* The known key that was most likely meant by the whole key, or NULL. One that is right but for its
 * group counts as near. */
static const char *nearest(const char *key)
{
	const char *dot = strchr(key, '.');
	const char *name = dot ? dot + 1 : key;
	const char *found = NULL;
	size_t best;

	if (strlen(key) > TEXT_DISTANCE_BYTES_MAX)
		return NULL;
	if (strcmp(name, "wall_s") == 0) /* its name in session.json */
		return SETTINGS[SETTING_TIMEOUT].key;
	best = strlen(key) / 3 + 1;
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		const char *known = SETTINGS[id].key;
		const char *known_dot = strchr(known, '.');
		size_t far = text_distance(key, known);

		if (strcmp(name, known_dot ? known_dot + 1 : known) == 0)
			return known;
		if (far < best) {
			best = far;
			found = known;
		}
	}
	return found;
}

static int unknown(const struct reader *reader, const char *key)
{
	cleanup_free char *whole =
		reader->group ? mem_format("%s.%s", reader->group, key) : mem_string(key);
	cleanup_buf struct buf text = BUF_INIT;
	const char *near;

	put_place(&text, reader->file, line_of(reader, key));
	buf_printf(&text, "there is no key \"%.*s\"",
		   (int)text_prefix(whole, strlen(whole), KEY_SHOWN_CHARS), whole);
	near = nearest(whole);
	if (strcmp(whole, "tier") == 0)
		buf_append_string(&text, "; to run without a sandbox is an option, --tier none");
	else if (near && strcmp(near, whole) == 0 && strchr(near, '.'))
		buf_printf(&text, "; it is written as {\"%.*s\": {\"%s\": ...}}",
			   (int)(strchr(near, '.') - near), near, strchr(near, '.') + 1);
	else if (near)
		buf_printf(&text, "; did you mean \"%s\"?", near);
	else
		buf_append_string(&text, "; fumehood config lists them");
	return err_set(reader->err, ERR_INVALID, "%s", buf_bytes(&text));
}

/* "... must be WHAT, not VALUE". */
static int wrong(const struct reader *reader, const char *key, const char *whole,
		 const struct json *value, const char *what)
{
	cleanup_buf struct buf text = BUF_INIT, shown = BUF_INIT;
	size_t cut;

	json_write(&shown, value);
	cut = text_prefix(buf_bytes(&shown), shown.len, VALUE_SHOWN_CHARS);
	put_place(&text, reader->file, line_of(reader, key));
	buf_printf(&text, "\"%s\" must be %s, not %.*s%s", whole, what, (int)cut, buf_bytes(&shown),
		   cut < shown.len ? "..." : "");
	return err_set(reader->err, ERR_INVALID, "%s", buf_bytes(&text));
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Whether the setting is `name` in the group (NULL: outermost). */
static bool is_setting(enum setting_id id, const char *group, const char *name)
{
	const char *key = SETTINGS[id].key;
	size_t len = group ? strlen(group) : 0;

	if (!group)
		return strcmp(key, name) == 0 && !strchr(name, '.');
	return strncmp(key, group, len) == 0 && key[len] == '.' && strcmp(key + len + 1, name) == 0;
}

static bool is_group(const char *name)
{
	size_t len = strlen(name);

	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		const char *dot = strchr(SETTINGS[id].key, '.');

		if (dot && (size_t)(dot - SETTINGS[id].key) == len &&
		    strncmp(SETTINGS[id].key, name, len) == 0)
			return true;
	}
	return false;
}

static int read_key(const char *key, size_t key_len, struct json *value, void *data);

static int read_group(struct reader *reader, const char *group, struct json *value)
{
	struct reader inner = *reader;

	if (json_type_of(value) != JSON_OBJECT)
		return wrong(reader, group, group, value, "an object");
	inner.group = group;
	return json_each(value, read_key, &inner);
}

static int read_key(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reader *reader = data;
	cleanup_buf struct buf allowed = BUF_INIT;

	/* A key with NUL in it is none of ours, even if it begins like one. */
	if (strlen(key) != key_len)
		return unknown(reader, key);
	if (!reader->group && strcmp(key, "$schema") == 0)
		return json_type_of(value) == JSON_STRING
			       ? 0
			       : wrong(reader, key, key, value, "a string");
	if (!reader->group && is_group(key))
		return read_group(reader, key, value);
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		if (!is_setting(id, reader->group, key))
			continue;
		if (setting_fits(id, value)) {
			setting_put(reader->settings, id, json_keep(value), SETTING_FROM_FILE);
			return 0;
		}
		setting_write_allowed(&allowed, id);
		return wrong(reader, key, SETTINGS[id].key, value, buf_bytes(&allowed));
	}
	return unknown(reader, key);
}

/* A fault of the JSON itself. A repeated key is named: the fault is where it stands. */
static int bad_json(const struct reader *reader, size_t fault, const struct err *why)
{
	cleanup_buf struct buf text = BUF_INIT;
	size_t start = fault < reader->len ? fault : reader->len;
	size_t end;

	end = string_end(reader->text, reader->len, start);
	put_place(&text, reader->file, line_at(reader->text, start));
	if (start < reader->len && reader->text[start] == '"' &&
	    is_key(reader->text, reader->len, end))
		buf_printf(&text, "%s: %.*s", why->text,
			   (int)text_prefix(reader->text + start, end - start, KEY_SHOWN_CHARS),
			   reader->text + start);
	else
		buf_printf(&text, "this is no JSON: %s", why->text);
	return err_set(reader->err, why->code, "%s", buf_bytes(&text));
}

int settings_read(struct settings *settings, const char *bytes, size_t len, const char *file,
		  struct err *err)
{
	struct reader reader = {
		.settings = settings, .text = bytes, .len = len, .file = file, .err = err};
	struct json_limits limits = JSON_LIMITS;
	struct err why = ERR_INIT;
	cleanup_json struct json *json = NULL;
	size_t fault = 0;

	limits.bytes_max = SETTINGS_BYTES_MAX;
	json = json_parse_part(bytes, len, &limits, &fault, &why);
	if (!json && why.code != ERR_OK)
		return bad_json(&reader, fault, &why);
	if (json_type_of(json) != JSON_OBJECT) {
		cleanup_buf struct buf text = BUF_INIT;

		put_place(&text, file, 0);
		return err_set(err, ERR_INVALID, "%sit must be an object: {...}", buf_bytes(&text));
	}
	return json_each(json, read_key, &reader) == 0 ? 0 : -1;
}
