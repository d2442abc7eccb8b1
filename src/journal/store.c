/*
 * From an event to its stored line: links for long values, escapes for foreign `$blob` keys.
 *
 * A value longer than EVENT_INLINE_BYTES_MAX becomes {"$blob":"<sha256>","bytes":n,"mime":"..."}.
 * What counts as a value: each field of the body, and each member of a field that is an object
 * (such as `data`, whose members are the mime types of one display). A string is stored as its text
 * (an image as the base64 that Jupyter's messages have) with the mime type of its key; anything
 * else as its JSON text with application/json, a type that a string never gets. So the way back is
 * unambiguous.
 *
 * Only Fumehood may make a link: a key of dollars and "blob" that is in the event already gets one
 * more dollar. Inside a blob nothing is escaped, as nothing there is read as a link.
 *
 * Each value is first written into the line and cut off again when it turns out long, which spares
 * a pass over the many that are short. Bounded: fields of a body are few (the keeper's), and an
 * object with more than BUNDLE_KEYS_MAX members is one value, so one event makes a bounded number
 * of blobs.
 */
#include "journal/store.h"

#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "journal/line.h"

enum { BUNDLE_KEYS_MAX = 32, MIME_BYTES_MAX = 127 };

static const char MIME_JSON[] = "application/json";
static const char MIME_TEXT[] = "text/plain";

struct storing {
	struct buf *out;
	struct blob_room *room;
	struct err *err;
	uint64_t repaired;
	bool first; /* no comma before the next member */
};

bool blob_is_key(const char *key, size_t len)
{
	size_t dollars = 0;

	while (dollars < len && key[dollars] == '$')
		dollars++;
	return dollars > 0 && len - dollars == 4 && memcmp(key + dollars, "blob", 4) == 0;
}

static void write_key(struct storing *storing, const char *key, size_t key_len)
{
	if (!storing->first)
		buf_append_char(storing->out, ',');
	storing->first = false;
	if (blob_is_key(key, key_len))
		buf_printf(storing->out, "\"$%s\"", key);
	else
		storing->repaired += json_write_string(storing->out, key, key_len);
	buf_append_char(storing->out, ':');
}

static void write_escaped(struct storing *storing, const struct json *value);

static int write_escaped_member(const char *key, size_t key_len, struct json *value, void *data)
{
	write_key(data, key, key_len);
	write_escaped(data, value);
	return 0;
}

/* A whole value without links. */
static void write_escaped(struct storing *storing, const struct json *value)
{
	enum json_type type = json_type_of(value);

	if (type == JSON_OBJECT) {
		buf_append_char(storing->out, '{');
		storing->first = true;
		json_each(value, write_escaped_member, storing);
		storing->first = false;
		buf_append_char(storing->out, '}');
	} else if (type == JSON_ARRAY) {
		size_t length = json_length(value);

		buf_append_char(storing->out, '[');
		for (size_t i = 0; i < length; i++) {
			if (i > 0)
				buf_append_char(storing->out, ',');
			write_escaped(storing, json_at(value, i));
		}
		buf_append_char(storing->out, ']');
	} else {
		json_write(storing->out, value);
	}
}

static int write_link(struct storing *storing, const void *bytes, size_t len, const char *mime)
{
	char hex[HASH_HEX_SIZE];

	if (blob_keep(storing->room, bytes, len, hex, storing->err) != 0)
		return -1;
	buf_printf(storing->out, "{\"$blob\":\"%s\",\"bytes\":%zu,\"mime\":", hex, len);
	json_write_string(storing->out, mime, strlen(mime));
	buf_append_char(storing->out, '}');
	return 0;
}

static int write_json_link(struct storing *storing, const struct json *value)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, value);
	return write_link(storing, buf_bytes(&text), text.len, MIME_JSON);
}

/* A value that becomes a link when it is long. */
static int write_value(struct storing *storing, const char *key, size_t key_len,
		       const struct json *value)
{
	size_t start = storing->out->len;
	size_t len = 0;
	const char *text = json_string(value, &len);

	if (text && len > EVENT_INLINE_BYTES_MAX) {
		bool is_mime = key_len <= MIME_BYTES_MAX && memchr(key, '/', key_len) &&
			       strlen(key) == key_len && strcmp(key, MIME_JSON) != 0;

		return write_link(storing, text, len, is_mime ? key : MIME_TEXT);
	}
	write_escaped(storing, value);
	if (text || storing->out->len - start <= EVENT_INLINE_BYTES_MAX)
		return 0;
	buf_truncate(storing->out, start);
	return write_json_link(storing, value);
}

static int write_bundle_member(const char *key, size_t key_len, struct json *value, void *data)
{
	write_key(data, key, key_len);
	return write_value(data, key, key_len, value);
}

static int write_field(const char *key, size_t key_len, struct json *value, void *data)
{
	struct storing *storing = data;
	size_t start;

	if (line_is_head_key(key, key_len))
		return 0;
	write_key(storing, key, key_len);
	if (json_type_of(value) != JSON_OBJECT || json_length(value) > BUNDLE_KEYS_MAX)
		return write_value(storing, key, key_len, value);
	start = storing->out->len;
	buf_append_char(storing->out, '{');
	storing->first = true;
	if (json_each(value, write_bundle_member, storing) != 0)
		return -1;
	storing->first = false;
	buf_append_char(storing->out, '}');
	if (storing->out->len - start <= (size_t)BUNDLE_KEYS_MAX * EVENT_INLINE_BYTES_MAX / 4)
		return 0;
	buf_truncate(storing->out, start);
	return write_json_link(storing, value);
}

int event_store(struct buf *out, const struct event *event, struct blob_room *room,
		uint64_t *repaired, struct err *err)
{
	struct storing storing = {
		.out = out, .room = room, .err = err, .repaired = 0, .first = false};

	storing.repaired = line_write_head(out, event);
	if (event->type != EVENT_STREAM && event->body &&
	    json_each(event->body, write_field, &storing) != 0)
		return -1;
	buf_append(out, "}\n", 2);
	*repaired += storing.repaired;
	return 0;
}
