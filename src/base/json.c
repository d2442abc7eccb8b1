/*
 * The one door to json-c: the tree, and the writer that walks it.
 *
 * json-c holds the values, their reference counts and the hash tables (seeded at random, so keys
 * from a guest cannot be chosen to collide). Its parser and its serializer are not used: the parser
 * accepts too much, and the serializer escapes "/" and forms numbers in its own way.
 *
 * A number that is no plain int64 is a json-c double with its source text as user data, in the way
 * of json_object_new_double_s(), so json_object_deep_copy() copies the text too.
 *
 * json-c's functions fail only when memory is out; then the process aborts as mem.c does.
 */
#include <locale.h>

/* json-c has an enum json_type and a typedef json_bool of its own; here they go under other
 * names. */
#define json_type json_c_type
#define json_bool json_c_bool
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#undef json_type
#undef json_bool

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/json_impl.h"
#include "base/mem.h"
#include "base/text.h"

/* Most arrays are short; json-c's default is 32 slots. */
enum { ARRAY_SLOTS = 4 };

static struct json_object *inner(const struct json *json)
{
	return (struct json_object *)(uintptr_t)json;
}

static struct json *outer(struct json_object *object)
{
	return (struct json *)object;
}

/* A new value; NULL would mean null, which nobody asked for. */
static struct json *made(struct json_object *object)
{
	if (!object)
		abort();
	return outer(object);
}

static bool is_type(const struct json *json, enum json_c_type type)
{
	return json_object_get_type(inner(json)) == type;
}

void json_free(struct json *json)
{
	json_object_put(inner(json));
}

struct json *json_keep(struct json *json)
{
	json_object_get(inner(json));
	return json;
}

void json_cleanup(struct json **json)
{
	json_free(*json);
}

enum json_type json_type_of(const struct json *json)
{
	switch (json_object_get_type(inner(json))) {
	case json_type_boolean:
		return JSON_BOOL;
	case json_type_int:
		return JSON_INT;
	case json_type_double:
		return JSON_DOUBLE;
	case json_type_string:
		return JSON_STRING;
	case json_type_array:
		return JSON_ARRAY;
	case json_type_object:
		return JSON_OBJECT;
	case json_type_null:
	default:
		return JSON_NULL;
	}
}

struct json *json_get(const struct json *object, const char *key)
{
	struct json_object *value = NULL;

	if (!is_type(object, json_type_object))
		return NULL;
	json_object_object_get_ex(inner(object), key, &value);
	return outer(value);
}

bool json_has(const struct json *object, const char *key)
{
	return is_type(object, json_type_object) &&
	       json_object_object_get_ex(inner(object), key, NULL);
}

const char *json_string(const struct json *value, size_t *len)
{
	if (!is_type(value, json_type_string))
		return NULL;
	if (len)
		*len = (size_t)json_object_get_string_len(inner(value));
	return json_object_get_string(inner(value));
}

const char *json_get_string(const struct json *object, const char *key)
{
	return json_string(json_get(object, key), NULL);
}

int64_t json_get_int(const struct json *object, const char *key, int64_t otherwise)
{
	return json_int(json_get(object, key), otherwise);
}

double json_get_double(const struct json *object, const char *key, double otherwise)
{
	return json_double(json_get(object, key), otherwise);
}

bool json_get_bool(const struct json *object, const char *key, bool otherwise)
{
	return json_bool(json_get(object, key), otherwise);
}

int64_t json_int(const struct json *value, int64_t otherwise)
{
	return is_type(value, json_type_int) ? json_object_get_int64(inner(value)) : otherwise;
}

double json_double(const struct json *value, double otherwise)
{
	if (is_type(value, json_type_double))
		return json_object_get_double(inner(value));
	return is_type(value, json_type_int) ? (double)json_object_get_int64(inner(value))
					     : otherwise;
}

bool json_bool(const struct json *value, bool otherwise)
{
	return is_type(value, json_type_boolean) ? json_object_get_boolean(inner(value))
						 : otherwise;
}

size_t json_length(const struct json *array_or_object)
{
	if (is_type(array_or_object, json_type_array))
		return json_object_array_length(inner(array_or_object));
	if (is_type(array_or_object, json_type_object))
		return (size_t)json_object_object_length(inner(array_or_object));
	return 0;
}

struct json *json_at(const struct json *array, size_t index)
{
	if (!is_type(array, json_type_array))
		return NULL;
	return outer(json_object_array_get_idx(inner(array), index));
}

/* Turns the tree's form of a key into its bytes. Returns `tree_key` itself if they are the same. */
static const char *plain_key(const char *tree_key, size_t *len, struct buf *scratch)
{
	const char *nul = strstr(tree_key, JSON_KEY_NUL);

	*len = strlen(tree_key);
	if (!nul)
		return tree_key;
	buf_clear(scratch);
	for (; nul; nul = strstr(tree_key, JSON_KEY_NUL)) {
		buf_append(scratch, tree_key, (size_t)(nul - tree_key));
		buf_append_char(scratch, '\0');
		tree_key = nul + strlen(JSON_KEY_NUL);
	}
	buf_append_string(scratch, tree_key);
	*len = scratch->len;
	return buf_bytes(scratch);
}

int json_each(const struct json *object,
	      int (*visit)(const char *key, size_t key_len, struct json *value, void *data),
	      void *data)
{
	cleanup_buf struct buf scratch = BUF_INIT;
	struct lh_entry *entry, *next;

	if (!is_type(object, json_type_object))
		return 0;
	for (entry = json_object_get_object(inner(object))->head; entry; entry = next) {
		size_t key_len;
		const char *key = plain_key(lh_entry_k(entry), &key_len, &scratch);
		int stop;

		next = entry->next; /* read before the visit, which may remove the member */
		stop = visit(key, key_len, outer(lh_entry_v(entry)), data);
		if (stop != 0)
			return stop;
	}
	return 0;
}

struct json *json_new_object(void)
{
	return made(json_object_new_object());
}

struct json *json_new_array(void)
{
	return made(json_object_new_array_ext(ARRAY_SLOTS));
}

struct json *json_new_checked_string(const char *text, size_t len)
{
	assert(len < INT_MAX / 2); /* json-c's lengths are int */
	return made(json_object_new_string_len(len > 0 ? text : "", (int)len));
}

struct json *json_new_string(const char *text, size_t len)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	cleanup_buf struct buf repaired = BUF_INIT;

	if (text_is_utf8(text, len))
		return json_new_checked_string(text, len);
	text_decode(&decoder, &repaired, text, len);
	text_decode_end(&decoder, &repaired);
	return json_new_checked_string(buf_bytes(&repaired), repaired.len);
}

struct json *json_new_int(int64_t value)
{
	return made(json_object_new_int64(value));
}

struct json *json_new_double(double value)
{
	if (isnan(value))
		return json_new_string("nan", 3);
	if (isinf(value))
		return value > 0 ? json_new_string("inf", 3) : json_new_string("-inf", 4);
	return made(json_object_new_double(value));
}

struct json *json_new_bool(bool value)
{
	return made(json_object_new_boolean(value));
}

/* strtod in the C locale: the library may live in a program with a decimal comma. A value beyond
 * the range of double becomes the largest one, so that no infinity gets in. */
static double read_double(const char *text)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double value;

	if (c_locale == (locale_t)0)
		abort();
	value = strtod_l(text, NULL, c_locale);
	freelocale(c_locale);
	return isinf(value) ? copysign(DBL_MAX, value) : value;
}

struct json *json_new_number(const char *text, size_t len)
{
	char *copy = mem_copy(text, len);
	struct json_object *number;

	if (strcspn(copy, ".eE") == len && strcmp(copy, "-0") != 0) {
		long long value;

		errno = 0;
		value = strtoll(copy, NULL, 10);
		if (errno == 0) {
			free(copy);
			return json_new_int(value);
		}
	}
	number = json_object_new_double(read_double(copy));
	if (!number)
		abort();
	json_object_set_serializer(number, json_object_userdata_to_json_string, copy,
				   json_object_free_userdata);
	return outer(number);
}

const char *json_number_text(const struct json *value)
{
	return is_type(value, json_type_double) ? json_object_get_userdata(inner(value)) : NULL;
}

bool json_add_member(struct json *object, const char *tree_key, struct json *value)
{
	int before = json_object_object_length(inner(object));

	if (json_object_object_add(inner(object), tree_key, inner(value)) != 0)
		abort();
	return json_object_object_length(inner(object)) > before;
}

void json_set(struct json *object, const char *key, struct json *value)
{
	assert(is_type(object, json_type_object));
	json_add_member(object, key, value);
}

void json_set_string(struct json *object, const char *key, const char *text)
{
	json_set(object, key, json_new_string(text, strlen(text)));
}

void json_set_int(struct json *object, const char *key, int64_t value)
{
	json_set(object, key, json_new_int(value));
}

void json_push(struct json *array, struct json *value)
{
	assert(is_type(array, json_type_array));
	if (json_object_array_add(inner(array), inner(value)) != 0)
		abort();
}

bool json_remove(struct json *object, const char *key)
{
	if (!is_type(object, json_type_object) ||
	    !json_object_object_get_ex(inner(object), key, NULL))
		return false;
	json_object_object_del(inner(object), key);
	return true;
}

struct json *json_copy(const struct json *value)
{
	struct json_object *copy = NULL;

	if (value && json_object_deep_copy(inner(value), &copy, NULL) != 0)
		abort();
	return outer(copy);
}

/* Two doubles; integers beyond 64 bits are compared by their digits, which a double cannot hold. */
static bool doubles_equal(const struct json *a, const struct json *b)
{
	const char *a_text = json_number_text(a);
	const char *b_text = json_number_text(b);

	if (a_text && b_text && strcspn(a_text, ".eE") == strlen(a_text) &&
	    strcspn(b_text, ".eE") == strlen(b_text))
		return strcmp(a_text, b_text) == 0;
	return json_double(a, 0) == json_double(b, 0);
}

static bool objects_equal(const struct json *a, const struct json *b)
{
	struct lh_entry *entry;

	if (json_length(a) != json_length(b))
		return false;
	for (entry = json_object_get_object(inner(a))->head; entry; entry = entry->next) {
		struct json_object *other = NULL;

		if (!json_object_object_get_ex(inner(b), lh_entry_k(entry), &other) ||
		    !json_equal(outer(lh_entry_v(entry)), outer(other)))
			return false;
	}
	return true;
}

static bool arrays_equal(const struct json *a, const struct json *b)
{
	size_t length = json_length(a);

	if (length != json_length(b))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!json_equal(json_at(a, i), json_at(b, i)))
			return false;
	}
	return true;
}

bool json_equal(const struct json *a, const struct json *b)
{
	enum json_type type = json_type_of(a);
	size_t a_len = 0;
	size_t b_len = 0;

	if (a == b)
		return true;
	if (type != json_type_of(b))
		return false;
	switch (type) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return json_bool(a, false) == json_bool(b, false);
	case JSON_INT:
		return json_int(a, 0) == json_int(b, 0);
	case JSON_DOUBLE:
		return doubles_equal(a, b);
	case JSON_STRING: {
		const char *a_text = json_string(a, &a_len);
		const char *b_text = json_string(b, &b_len);

		return a_len == b_len && memcmp(a_text, b_text, a_len) == 0;
	}
	case JSON_ARRAY:
		return arrays_equal(a, b);
	case JSON_OBJECT:
	default:
		return objects_equal(a, b);
	}
}

static void write_object(struct buf *out, const struct json *value)
{
	cleanup_buf struct buf scratch = BUF_INIT;
	struct lh_entry *entry = json_object_get_object(inner(value))->head;

	buf_append_char(out, '{');
	for (; entry; entry = entry->next) {
		size_t key_len;
		const char *key = plain_key(lh_entry_k(entry), &key_len, &scratch);

		json_write_string(out, key, key_len);
		buf_append_char(out, ':');
		json_write(out, outer(lh_entry_v(entry)));
		if (entry->next)
			buf_append_char(out, ',');
	}
	buf_append_char(out, '}');
}

static void write_array(struct buf *out, const struct json *value)
{
	size_t length = json_length(value);

	buf_append_char(out, '[');
	for (size_t i = 0; i < length; i++) {
		if (i > 0)
			buf_append_char(out, ',');
		json_write(out, json_at(value, i));
	}
	buf_append_char(out, ']');
}

static void write_double(struct buf *out, const struct json *value)
{
	const char *text = json_number_text(value);

	if (text)
		buf_append_string(out, text);
	else
		json_write_double(out, json_double(value, 0));
}

void json_write(struct buf *out, const struct json *value)
{
	const char *text;
	size_t len = 0;

	switch (json_type_of(value)) {
	case JSON_NULL:
		buf_append_string(out, "null");
		break;
	case JSON_BOOL:
		buf_append_string(out, json_bool(value, false) ? "true" : "false");
		break;
	case JSON_INT:
		buf_printf(out, "%lld", (long long)json_int(value, 0));
		break;
	case JSON_DOUBLE:
		write_double(out, value);
		break;
	case JSON_STRING:
		text = json_string(value, &len);
		json_write_string(out, text, len);
		break;
	case JSON_ARRAY:
		write_array(out, value);
		break;
	case JSON_OBJECT:
		write_object(out, value);
		break;
	}
}
