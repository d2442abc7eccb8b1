/*
 * From a stored line back to the event: links replaced by their values, escapes taken off.
 *
 * The reverse of store.c, and like it a writer: a body that holds a key that matters is written as
 * text with the values in place of their links, and read again. That costs a pass over the text,
 * but keeps the order of members, the digits of numbers and keys with NUL in them without a second
 * way of copying trees. A body without such a key, nearly every one, is left alone. A value that
 * came out of a blob is not looked into: nothing in it was escaped, and so a guest cannot write a
 * link into a blob and have it followed.
 *
 * A blob that is missing, has another length than its link says (a power cut) or is no JSON
 * although it should be, becomes a text that says so: one lost image must not cost the notebook.
 */
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "journal/journal.h"
#include "journal/store.h"

enum { INLINE_DEPTH_MAX = 512 }; /* a value of a blob stands a few levels down in the body */

struct inlining {
	struct buf *out;
	int dirfd;
	uint64_t bytes_left;
	bool changed;
	bool first; /* no comma before the next member */
	struct err *err;
};

static int write_value(struct inlining *inlining, const struct json *value);

static int has_marks_member(const char *key, size_t key_len, struct json *value, void *data);

/* Whether a key `$blob`, `$$blob` ... is anywhere in the value. */
static bool has_marks(const struct json *value)
{
	size_t length = json_type_of(value) == JSON_ARRAY ? json_length(value) : 0;

	if (json_type_of(value) == JSON_OBJECT)
		return json_each(value, has_marks_member, NULL) != 0;
	for (size_t i = 0; i < length; i++) {
		if (has_marks(json_at(value, i)))
			return true;
	}
	return false;
}

static int has_marks_member(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)data;
	return blob_is_key(key, key_len) || has_marks(value);
}

/* The hash of a link, or NULL when the value is none. */
static const char *link_hash(const struct json *value)
{
	const char *hex = json_get_string(value, "$blob");

	return hex && hash_is_hex(hex) ? hex : NULL;
}

static void write_notice(struct inlining *inlining, const char *what, const char *hex)
{
	buf_printf(inlining->out, "\"(%s blob %s)\"", what, hex);
}

/* Writes the value that the bytes of a blob stand for; the link when its tree would be too large.
 */
static void write_decoded(struct inlining *inlining, const struct buf *bytes,
			  const struct json *link)
{
	const struct json_limits limits = {
		.bytes_max = bytes->len,
		.depth_max = INLINE_DEPTH_MAX / 2,
		.keys_unique = false,
		.nan_as_text = false,
	};
	const char *mime = json_get_string(link, "mime");
	cleanup_json struct json *value = NULL;
	struct err why = ERR_INIT;

	inlining->changed = true;
	if (json_get_int(link, "bytes", -1) != (int64_t)bytes->len) {
		write_notice(inlining, "damaged", link_hash(link));
		return;
	}
	if (!mime || strcmp(mime, "application/json") != 0) {
		json_write_string(inlining->out, buf_bytes(bytes), bytes->len);
		return;
	}
	value = json_parse(buf_bytes(bytes), bytes->len, &limits, &why);
	if (why.code == ERR_OK)
		buf_append(inlining->out, buf_bytes(bytes), bytes->len);
	else if (why.code == ERR_LIMIT)
		json_write(inlining->out, link);
	else
		write_notice(inlining, "damaged", link_hash(link));
}

static int write_linked(struct inlining *inlining, const struct json *link)
{
	const char *hex = link_hash(link);
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err why = ERR_INIT;
	uint64_t size = 0;
	int result;

	/* First only the size is asked for: the value may be larger than what is wanted. */
	result = blob_read(inlining->dirfd, hex, 0, 0, &bytes, &size, &why);
	if (result == 0 && size > inlining->bytes_left) {
		json_write(inlining->out, link);
		return 0;
	}
	if (result == 0)
		result = blob_read(inlining->dirfd, hex, 0, size, &bytes, &size, &why);
	if (result == 0) {
		inlining->bytes_left -= bytes.len;
		write_decoded(inlining, &bytes, link);
		return 0;
	}
	if (why.code != ERR_NOT_FOUND)
		return err_set(inlining->err, why.code, "%s", why.text);
	write_notice(inlining, "missing", hex);
	inlining->changed = true;
	return 0;
}

static int write_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct inlining *inlining = data;
	bool escaped = key_len > 1 && key[1] == '$' && blob_is_key(key, key_len);

	if (!inlining->first)
		buf_append_char(inlining->out, ',');
	inlining->first = false;
	inlining->changed = inlining->changed || escaped;
	json_write_string(inlining->out, key + escaped, key_len - escaped);
	buf_append_char(inlining->out, ':');
	return write_value(inlining, value);
}

static int write_object(struct inlining *inlining, const struct json *object)
{
	buf_append_char(inlining->out, '{');
	inlining->first = true;
	if (json_each(object, write_member, inlining) != 0)
		return -1;
	inlining->first = false;
	buf_append_char(inlining->out, '}');
	return 0;
}

static int write_value(struct inlining *inlining, const struct json *value)
{
	size_t length = json_length(value);

	if (link_hash(value))
		return write_linked(inlining, value);
	if (json_type_of(value) == JSON_OBJECT)
		return write_object(inlining, value);
	if (json_type_of(value) != JSON_ARRAY) {
		json_write(inlining->out, value);
		return 0;
	}
	buf_append_char(inlining->out, '[');
	for (size_t i = 0; i < length; i++) {
		if (i > 0)
			buf_append_char(inlining->out, ',');
		if (write_value(inlining, json_at(value, i)) != 0)
			return -1;
	}
	buf_append_char(inlining->out, ']');
	return 0;
}

int event_inline(int dirfd, struct event *event, uint64_t bytes_max, bool *inlined, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct inlining inlining = {
		.out = &text,
		.dirfd = dirfd,
		.bytes_left = bytes_max,
		.changed = false,
		.first = true,
		.err = err,
	};
	struct json_limits limits = {
		.bytes_max = 0,
		.depth_max = INLINE_DEPTH_MAX,
		.keys_unique = false,
		.nan_as_text = false,
	};
	struct json *body;

	if (inlined)
		*inlined = false;
	if (!has_marks(event->body))
		return 0;
	if (write_object(&inlining, event->body) != 0)
		return -1;
	if (!inlining.changed)
		return 0;
	limits.bytes_max = text.len;
	body = json_parse(buf_bytes(&text), text.len, &limits, err);
	if (!body)
		return err_wrap(err, "values of event %llu", (unsigned long long)event->seq);
	json_free(event->body);
	event->body = body;
	if (inlined)
		*inlined = true;
	return 0;
}
