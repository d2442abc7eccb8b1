/*
 * JSON: json-c behind one door, and a writer that needs no tree.
 *
 * json-c keeps a number's digits and is NUL-safe, but its parser accepts too much. json_parse() is
 * therefore our own: valid UTF-8, depth, size, no raw control characters, no NaN or Infinity, no
 * comments, no trailing bytes; lone surrogate escapes become U+FFFD. Integers beyond 64 bits and
 * numbers as they were written keep their digits: they are stored as json-c doubles with their
 * source text, and json_write() prints that text. A key may contain NUL: json_each() and
 * json_write() give it whole, json_get() cannot ask for it.
 *
 * `struct json` is json-c's object under our name; only json.c includes json-c.
 */
#ifndef FH_BASE_JSON_H
#define FH_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct json;

enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_INT,
	JSON_DOUBLE,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json_limits {
	size_t bytes_max;
	unsigned depth_max; /* nested arrays and objects */
	bool keys_unique;   /* a repeated key is an error */
	/* Accept NaN, Infinity, -Infinity (Python's dialect) as the strings "nan", "inf",
	 * "-inf". */
	bool nan_as_text;
};

/* 64 MiB, 200 deep, repeated keys refused, no NaN. */
extern const struct json_limits JSON_LIMITS;

/* What a parsed tree may take (an estimate): "[{},{},..." costs 270 bytes of memory for a byte of
 * text. */
enum { JSON_TREE_BYTES_MAX = 512 << 20 };

/* One JSON value that fills `bytes`. NULL and ERR_INVALID/ERR_LIMIT with the byte position in the
 * text on failure. The caller owns the result (json_free). RFC 8259. */
struct json *json_parse(const char *bytes, size_t len, const struct json_limits *limits,
			struct err *err);

/* As json_parse, for a part of a longer text: on failure the text of *err is the reason alone, and
 * *fault the byte position in `bytes`. */
struct json *json_parse_part(const char *bytes, size_t len, const struct json_limits *limits,
			     size_t *fault, struct err *err);

void json_free(struct json *json);         /* NULL is fine; drops one reference */
struct json *json_keep(struct json *json); /* one more reference; returns its argument */
void json_cleanup(struct json **json);
#define cleanup_json __attribute__((cleanup(json_cleanup)))

enum json_type json_type_of(const struct json *json); /* NULL is JSON_NULL */

/* Members. A missing member and a wrong type give NULL / the default; results are borrowed, `len`
 * may be NULL. An integer is also a double; 1.0 is no integer. A double is finite: beyond its range
 * it reads as +-DBL_MAX. */
struct json *json_get(const struct json *object, const char *key);
bool json_has(const struct json *object, const char *key);      /* also when it is null */
const char *json_string(const struct json *value, size_t *len); /* NULL unless a string */
const char *json_get_string(const struct json *object, const char *key);
int64_t json_get_int(const struct json *object, const char *key, int64_t otherwise);
double json_get_double(const struct json *object, const char *key, double otherwise);
bool json_get_bool(const struct json *object, const char *key, bool otherwise);
int64_t json_int(const struct json *value, int64_t otherwise);
double json_double(const struct json *value, double otherwise);
bool json_bool(const struct json *value, bool otherwise);

size_t json_length(const struct json *array_or_object); /* 0 for anything else */
struct json *json_at(const struct json *array, size_t index);

/* Iterates an object in its own order; `visit` returns 0 to go on. Returns what stopped it. */
int json_each(const struct json *object,
	      int (*visit)(const char *key, size_t key_len, struct json *value, void *data),
	      void *data);

/* Building. json_set and json_push take ownership of `value` (also of NULL, which is null). */
struct json *json_new_object(void);
struct json *json_new_array(void);
struct json *json_new_string(const char *text, size_t len); /* valid UTF-8; repaired otherwise */
struct json *json_new_int(int64_t value);
struct json *json_new_double(double value); /* not finite: the string "nan", "inf", "-inf" */
struct json *json_new_bool(bool value);
void json_set(struct json *object, const char *key, struct json *value);
void json_set_string(struct json *object, const char *key, const char *text);
void json_set_int(struct json *object, const char *key, int64_t value);
void json_push(struct json *array, struct json *value);
bool json_remove(struct json *object, const char *key);
struct json *json_copy(const struct json *value); /* deep */
bool json_equal(const struct json *a, const struct json *b);

/* Compact text of a value, keys in their own order, UTF-8 (only ", \ and control characters
 * escaped). */
void json_write(struct buf *out, const struct json *value);

/* An object with a line for each member, objects in it likewise, indented by tabs; arrays stay on
 * one line. LF at the end. */
void json_write_indented(struct buf *out, const struct json *object);

/* The text as a JSON string with its quotes; bad UTF-8 is repaired. Returns the number of
 * repairs. */
size_t json_write_string(struct buf *out, const char *text, size_t len);

/*
 * A double as Python's repr prints it (shortest digits that read back the same; "1e+16", "0.1").
 * The value is finite. nbformat.write and json.dumps print this form.
 */
void json_write_double(struct buf *out, double value);

/* The source text of a number that was parsed ("1.0", "1e5", "123456789012345678901"), or NULL for
 * a number that was built. Borrowed. */
const char *json_number_text(const struct json *value);

#endif
