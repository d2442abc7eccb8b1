/*
 * Printing a notebook as nbformat.write() does; see emit.h.
 *
 * Strings are escaped by base/json, in Python's way. Members are sorted by their bytes: in UTF-8
 * that is the order of code points, which is how Python orders str. Everything written here is a
 * function of the value alone, so a cell printed twice has the same bytes.
 */
#include "notebook/emit.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

struct member {
	const char *key;
	size_t key_len;
	struct json *value;
	char *copy; /* of a key that json_each() lends for the visit only; else NULL */
};

struct members {
	struct member *list;
	size_t count;
};

static void line_break(struct emit *emit)
{
	char *place;

	if (emit->joined)
		return;
	place = buf_reserve(emit->out, (size_t)emit->depth + 1);
	place[0] = '\n';
	memset(place + 1, ' ', emit->depth);
	buf_added(emit->out, (size_t)emit->depth + 1);
}

void emit_open(struct emit *emit, char bracket)
{
	buf_append_char(emit->out, bracket);
	emit->depth++;
	emit->empty = true;
}

void emit_close(struct emit *emit, char bracket)
{
	emit->depth--;
	if (!emit->empty)
		line_break(emit);
	buf_append_char(emit->out, bracket);
	emit->empty = false;
}

void emit_item(struct emit *emit)
{
	if (!emit->empty)
		buf_append_char(emit->out, ',');
	emit->empty = false;
	line_break(emit);
}

static void emit_key_bytes(struct emit *emit, const char *key, size_t len)
{
	emit_item(emit);
	emit_string(emit, key, len);
	buf_append(emit->out, ": ", emit->joined ? 1 : 2);
}

void emit_key(struct emit *emit, const char *key)
{
	emit_key_bytes(emit, key, strlen(key));
}

void emit_null(struct emit *emit)
{
	buf_append(emit->out, "null", 4);
}

void emit_int(struct emit *emit, int64_t value)
{
	buf_printf(emit->out, "%" PRId64, value);
}

void emit_string(struct emit *emit, const char *text, size_t len)
{
	json_write_string(emit->out, text, len);
}

/* Length of the line break at `text`, 0 when there is none. */
static size_t break_length(const unsigned char *text, size_t len)
{
	switch (text[0]) {
	case '\r':
		return len > 1 && text[1] == '\n' ? 2 : 1;
	case '\n':
	case '\v':
	case '\f':
	case 0x1c:
	case 0x1d:
	case 0x1e:
		return 1;
	case 0xc2: /* U+0085 */
		return len > 1 && text[1] == 0x85 ? 2 : 0;
	case 0xe2: /* U+2028, U+2029 */
		return len > 2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9) ? 3 : 0;
	default:
		return 0;
	}
}

size_t emit_line_length(const char *text, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)text;

	for (size_t i = 0; i < len; i++) {
		size_t stop;

		if (bytes[i] >= 0x20 && bytes[i] != 0xc2 && bytes[i] != 0xe2)
			continue;
		stop = break_length(bytes + i, len - i);
		if (stop > 0)
			return i + stop;
	}
	return len;
}

void emit_lines(struct emit *emit, const char *text, size_t len)
{
	if (emit->joined) {
		emit_string(emit, text, len);
		return;
	}
	emit_open(emit, '[');
	while (len > 0) {
		size_t line = emit_line_length(text, len);

		emit_item(emit);
		emit_string(emit, text, line);
		text += line;
		len -= line;
	}
	emit_close(emit, ']');
}

static int member_compare(const void *a, const void *b)
{
	const struct member *left = a;
	const struct member *right = b;
	size_t shorter = left->key_len < right->key_len ? left->key_len : right->key_len;
	int order = memcmp(left->key, right->key, shorter);

	if (order != 0)
		return order;
	return (left->key_len > right->key_len) - (left->key_len < right->key_len);
}

static int members_collect(const char *key, size_t key_len, struct json *value, void *data)
{
	struct members *members = data;
	struct member *member = &members->list[members->count++];

	*member = (struct member){.key = key, .key_len = key_len, .value = value, .copy = NULL};
	/* A key with a NUL in it is no C string in the tree: it is put together for the visit. */
	if (memchr(key, '\0', key_len) != NULL) {
		member->copy = mem_copy(key, key_len);
		member->key = member->copy;
	}
	return 0;
}

/* The members of an object in sorted order; members_release() after use. */
static void members_sorted(struct members *members, const struct json *object)
{
	size_t count = json_type_of(object) == JSON_OBJECT ? json_length(object) : 0;

	members->count = 0;
	members->list = mem_resize(NULL, count + 1, sizeof(*members->list));
	if (count == 0)
		return;
	json_each(object, members_collect, members);
	qsort(members->list, members->count, sizeof(*members->list), member_compare);
}

static void members_release(struct members *members)
{
	for (size_t i = 0; i < members->count; i++)
		free(members->list[i].copy);
	free(members->list);
}

static void emit_number(struct emit *emit, const struct json *value)
{
	cleanup_buf struct buf text = BUF_INIT;
	const char *digits;
	size_t len;

	json_write(&text, value);
	digits = buf_bytes(&text);
	len = text.len;
	if (len > EMIT_INT_DIGITS_MAX) {
		size_t sign = digits[0] == '-';

		if (len - sign > EMIT_INT_DIGITS_MAX &&
		    strspn(digits + sign, "0123456789") == len - sign) {
			emit_string(emit, digits, len);
			return;
		}
	}
	buf_append(emit->out, digits, len);
}

static void emit_object(struct emit *emit, const struct json *object)
{
	struct members members;

	members_sorted(&members, object);
	emit_open(emit, '{');
	for (size_t i = 0; i < members.count; i++) {
		emit_key_bytes(emit, members.list[i].key, members.list[i].key_len);
		emit_value(emit, members.list[i].value);
	}
	emit_close(emit, '}');
	members_release(&members);
}

void emit_value(struct emit *emit, const struct json *value)
{
	const char *text;
	size_t len = 0;

	switch (json_type_of(value)) {
	case JSON_NULL:
		emit_null(emit);
		break;
	case JSON_BOOL:
		buf_append_string(emit->out, json_bool(value, false) ? "true" : "false");
		break;
	case JSON_INT:
	case JSON_DOUBLE:
		emit_number(emit, value);
		break;
	case JSON_STRING:
		text = json_string(value, &len);
		emit_string(emit, text, len);
		break;
	case JSON_ARRAY:
		emit_open(emit, '[');
		for (size_t i = 0; i < json_length(value); i++) {
			emit_item(emit);
			emit_value(emit, json_at(value, i));
		}
		emit_close(emit, ']');
		break;
	case JSON_OBJECT:
		emit_object(emit, value);
		break;
	}
}

static bool starts_with(const struct member *member, const char *prefix)
{
	size_t len = strlen(prefix);

	return member->key_len >= len && memcmp(member->key, prefix, len) == 0;
}

static bool ends_with(const struct member *member, const char *suffix)
{
	size_t len = strlen(suffix);

	return member->key_len >= len &&
	       memcmp(member->key + member->key_len - len, suffix, len) == 0;
}

static bool is_mime(const struct member *member, const char *mime)
{
	return member->key_len == strlen(mime) && memcmp(member->key, mime, member->key_len) == 0;
}

/*
 * The schema takes any value under ^application/(.*\+)?json$ and nbformat's reader leaves such
 * values alone. The two disagree about a key with a line feed in it ('.' does not match one); a
 * text is right under both, so such a key counts as a text type.
 */
static bool mime_is_json(const struct member *member)
{
	if (is_mime(member, "application/json"))
		return true;
	return starts_with(member, "application/") && ends_with(member, "+json") &&
	       memchr(member->key, '\n', member->key_len) == NULL;
}

static bool mime_is_split(const struct member *member)
{
	return starts_with(member, "text/") || is_mime(member, "application/javascript") ||
	       is_mime(member, "image/svg+xml");
}

/* The text of a list of strings; false when it is something else. */
static bool join_strings(struct buf *out, const struct json *list)
{
	if (json_type_of(list) != JSON_ARRAY)
		return false;
	for (size_t i = 0; i < json_length(list); i++)
		if (json_type_of(json_at(list, i)) != JSON_STRING)
			return false;
	for (size_t i = 0; i < json_length(list); i++) {
		size_t len = 0;
		const char *text = json_string(json_at(list, i), &len);

		buf_append(out, text, len);
	}
	return true;
}

static void emit_text_member(struct emit *emit, const struct member *member)
{
	cleanup_buf struct buf joined = BUF_INIT;
	size_t len = 0;
	const char *text = json_string(member->value, &len);

	if (text == NULL) {
		if (!join_strings(&joined, member->value))
			json_write(&joined, member->value);
		text = buf_bytes(&joined);
		len = joined.len;
	}
	if (mime_is_split(member))
		emit_lines(emit, text, len);
	else
		emit_string(emit, text, len);
}

void emit_bundle(struct emit *emit, const struct json *data)
{
	struct members members;

	members_sorted(&members, data);
	emit_open(emit, '{');
	for (size_t i = 0; i < members.count; i++) {
		emit_key_bytes(emit, members.list[i].key, members.list[i].key_len);
		if (mime_is_json(&members.list[i]))
			emit_value(emit, members.list[i].value);
		else
			emit_text_member(emit, &members.list[i]);
	}
	emit_close(emit, '}');
	members_release(&members);
}

void emit_attachments(struct emit *emit, const struct json *attachments)
{
	struct members members;

	members_sorted(&members, attachments);
	emit_open(emit, '{');
	for (size_t i = 0; i < members.count; i++) {
		if (json_type_of(members.list[i].value) != JSON_OBJECT)
			continue;
		emit_key_bytes(emit, members.list[i].key, members.list[i].key_len);
		emit_bundle(emit, members.list[i].value);
	}
	emit_close(emit, '}');
	members_release(&members);
}
