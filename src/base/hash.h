/* SHA-256 (OpenSSL), base64 and random ids. */
#ifndef FH_BASE_HASH_H
#define FH_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { HASH_HEX_SIZE = 65, HASH_ID_SIZE = 27 };

/* Lower-case hex of SHA-256 of the bytes, NUL-terminated. */
void hash_sha256(const void *bytes, size_t len, char hex[static HASH_HEX_SIZE]);

/* The same of a whole regular file, from its beginning, wherever the descriptor stands. `told` (may
 * be NULL) is called with the bytes done after every few MiB; when it returns anything but 0, or
 * reading fails, the result is -1 with *err (ERR_GONE, ERR_IO). */
int hash_sha256_file(int fd, char hex[static HASH_HEX_SIZE],
		     int (*told)(void *context, uint64_t bytes), void *context, struct err *err);

bool hash_is_hex(const char *text); /* exactly 64 of [0-9a-f] */

/* 128 random bits (getrandom) as 26 characters of lower-case RFC 4648 base32. */
void hash_random_id(char id[static HASH_ID_SIZE]);

/* Whether the text has the form of one. */
bool hash_is_id(const char *text);

/* Appends the decoded bytes of base64 text; white space is skipped. -1 when it is not base64. */
int hash_base64_decode(struct buf *out, const char *text, size_t len);

/* Appends the base64 of the bytes, padded, without line breaks (RFC 4648 §4). */
void hash_base64_encode(struct buf *out, const void *bytes, size_t len);

#endif
