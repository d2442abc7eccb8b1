/*
 * SHA-256 by OpenSSL, random ids by getrandom(2), base64 by a small loop.
 *
 * The base64 decoder is ours because OpenSSL's skips bytes at the ends, wants lines of certain
 * lengths or counts padding as data, depending on which of its two decoders one takes.
 */
#include "base/hash.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"

/* The old calls: the new ones load OpenSSL's providers and its configuration first, which costs a
 * session's start 0.9 ms for nothing (measured). */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

enum { FILE_CHUNK_BYTES = 4 << 20 };

static void finish(SHA256_CTX *context, char hex[static HASH_HEX_SIZE])
{
	static const char DIGITS[] = "0123456789abcdef";
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256_Final(digest, context);
	for (size_t i = 0; i < sizeof(digest); i++) {
		hex[2 * i] = DIGITS[digest[i] >> 4];
		hex[2 * i + 1] = DIGITS[digest[i] & 15];
	}
	hex[HASH_HEX_SIZE - 1] = '\0';
}

void hash_sha256(const void *bytes, size_t len, char hex[static HASH_HEX_SIZE])
{
	SHA256_CTX context;

	SHA256_Init(&context);
	SHA256_Update(&context, len > 0 ? bytes : "", len);
	finish(&context, hex);
}

int hash_sha256_file(int fd, char hex[static HASH_HEX_SIZE],
		     int (*told)(void *context, uint64_t bytes), void *context, struct err *err)
{
	cleanup_free char *chunk = mem_resize(NULL, FILE_CHUNK_BYTES, 1);
	uint64_t done = 0;
	SHA256_CTX sha;

	SHA256_Init(&sha);
	for (;;) {
		ssize_t got = pread(fd, chunk, FILE_CHUNK_BYTES, (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "cannot read the file");
		if (got == 0)
			break;
		SHA256_Update(&sha, chunk, (size_t)got);
		done += (uint64_t)got;
		if (told && told(context, done) != 0)
			return err_set(err, ERR_GONE, "interrupted");
	}
	finish(&sha, hex);
	return 0;
}

bool hash_is_hex(const char *text)
{
	return text && strnlen(text, HASH_HEX_SIZE) == HASH_HEX_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

static const char ALPHABET[] = "abcdefghijklmnopqrstuvwxyz234567";

bool hash_is_id(const char *text)
{
	size_t len = strlen(text);

	return len == HASH_ID_SIZE - 1 && strspn(text, ALPHABET) == len;
}

void hash_random_id(char id[static HASH_ID_SIZE])
{
	unsigned char random[16];
	unsigned held = 0;
	unsigned held_bits = 0;
	size_t next = 0;

	/* Up to 256 bytes come whole or not at all (getrandom(2)); an id that can be guessed is
	 * worse than no process. */
	while (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
		if (errno != EINTR)
			abort();
	}
	for (size_t i = 0; i < HASH_ID_SIZE - 1; i++) {
		if (held_bits < 5) {
			held = held << 8 | (next < sizeof(random) ? random[next++] : 0);
			held_bits += 8;
		}
		held_bits -= 5;
		id[i] = ALPHABET[held >> held_bits & 31];
		held &= (1U << held_bits) - 1;
	}
	id[HASH_ID_SIZE - 1] = '\0';
}

/* The value of a base64 digit (RFC 4648 §4), or -1. */
static int digit_value(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

int hash_base64_decode(struct buf *out, const char *text, size_t len)
{
	size_t old_len = out->len;
	uint32_t group = 0;
	unsigned digits = 0; /* of the present group, padding included */
	unsigned padding = 0;
	char *to;
	size_t made = 0;

	to = buf_reserve(out, len / 4 * 3 + 3);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		int value = digit_value(c);

		if (is_space(c))
			continue;
		if (c == '=' && digits >= 2) {
			padding++;
			value = 0;
		} else if (value < 0 || padding > 0) {
			goto bad;
		}
		group = group << 6 | (uint32_t)value;
		if (++digits < 4)
			continue;
		for (unsigned byte = 0; byte < 3 - padding; byte++)
			to[made++] = (char)(unsigned char)(group >> (16 - 8 * byte));
		/* After padding only white space may follow: a further digit meets padding > 0. */
		digits = 0;
		group = 0;
	}
	if (digits != 0)
		goto bad;
	buf_added(out, made);
	return 0;
bad:
	buf_truncate(out, old_len);
	return -1;
}

void hash_base64_encode(struct buf *out, const void *bytes, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *from = bytes;
	size_t size = (len + 2) / 3 * 4;
	char *to = buf_reserve(out, size);

	for (size_t at = 0; at < len; at += 3) {
		size_t left = len - at;
		unsigned group = (unsigned)from[at] << 16;

		if (left > 1)
			group |= (unsigned)from[at + 1] << 8;
		if (left > 2)
			group |= from[at + 2];
		*to++ = digits[group >> 18];
		*to++ = digits[group >> 12 & 63];
		*to++ = left > 1 ? digits[group >> 6 & 63] : '=';
		*to++ = left > 2 ? digits[group & 63] : '=';
	}
	buf_added(out, size);
}
