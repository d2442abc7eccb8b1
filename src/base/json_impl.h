/*
 * What json.c, json_parse.c and json_write.c tell each other; nobody else includes this.
 *
 * json-c keeps a key as a C string, so a key with NUL in it would end early and two keys could
 * become one. Inside the tree such a key has C0 80 in place of each NUL: a byte sequence that valid
 * UTF-8 cannot contain, so no other key is ever mistaken for it. json_each() and json_write() turn
 * it back.
 */
#ifndef FH_BASE_JSON_IMPL_H
#define FH_BASE_JSON_IMPL_H

#include "base/json.h"

#define JSON_KEY_NUL "\xc0\x80"

/* A number that prints as `text` (`len` bytes of the JSON grammar); an integer when json_write() of
 * the integer gives the same bytes. */
struct json *json_new_number(const char *text, size_t len);

/* As json_new_string for bytes that are known to be valid UTF-8. */
struct json *json_new_checked_string(const char *text, size_t len);

/* How many bytes at the start of the text are ASCII and stand for themselves in a JSON string. */
size_t json_plain_run(const char *text, size_t len);

/* As json_set, with a key in the tree's own form. Returns false when it replaced a member. */
bool json_add_member(struct json *object, const char *tree_key, struct json *value);

#endif
