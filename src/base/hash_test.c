/*
 * SHA-256 by the vectors of FIPS 180-2, base64 by those of RFC 4648, ids by their form.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"

static void test_sha256(void **state)
{
	char hex[HASH_HEX_SIZE];

	(void)state;
	hash_sha256(NULL, 0, hex);
	assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb924"
				 "27ae41e4649b934ca495991b7852b855");
	hash_sha256("abc", 3, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223"
				 "b00361a396177a9cb410ff61f20015ad");
	assert_true(hash_is_hex(hex));
}

static int stop_at_once(void *context, uint64_t bytes)
{
	*(uint64_t *)context = bytes;
	return 1;
}

/* A million times "a" (FIPS 180-2), wherever the descriptor stands; and stopped on the way. */
static void test_sha256_file(void **state)
{
	int fd = memfd_create("hash", 0);
	struct err err = ERR_INIT;
	char hex[HASH_HEX_SIZE], block[1000];
	uint64_t done = 0;

	(void)state;
	memset(block, 'a', sizeof(block));
	for (int i = 0; i < 1000; i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(hash_sha256_file(fd, hex, NULL, NULL, &err), 0);
	assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67"
				 "f1809a48a497200e046d39ccc7112cd0");
	assert_int_equal(hash_sha256_file(fd, hex, stop_at_once, &done, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	assert_int_equal(done, 1000000);
	close(fd);
	assert_int_equal(hash_sha256_file(fd, hex, NULL, NULL, &err), -1);
}

static void test_is_hex(void **state)
{
	static const char GOOD[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	char text[HASH_HEX_SIZE + 1];

	(void)state;
	assert_true(hash_is_hex(GOOD));
	assert_false(hash_is_hex(GOOD + 1));
	assert_false(hash_is_hex(""));
	assert_false(hash_is_hex(NULL));
	for (size_t i = 0; i < HASH_HEX_SIZE - 1; i++) {
		memcpy(text, GOOD, sizeof(GOOD));
		text[i] = i % 2 ? 'A' : '/';
		assert_false(hash_is_hex(text));
	}
	memcpy(text, GOOD, sizeof(GOOD));
	text[HASH_HEX_SIZE - 1] = '0';
	text[HASH_HEX_SIZE] = '\0';
	assert_false(hash_is_hex(text));
}

static void test_random_id(void **state)
{
	char first[HASH_ID_SIZE];
	char seen[26][32] = {{0}};

	(void)state;
	hash_random_id(first);
	for (int round = 0; round < 2000; round++) {
		char id[HASH_ID_SIZE];

		hash_random_id(id);
		assert_int_equal(strlen(id), 26);
		assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyz234567"), 26);
		assert_string_not_equal(id, first);
		for (size_t i = 0; i < 26; i++)
			seen[i][id[i] >= 'a' ? id[i] - 'a' : id[i] - '2' + 26] = 1;
	}
	/* Each place takes each of its values (the last carries three bits): a missing one after
	 * 2000 rounds has a chance below 1e-24. */
	for (size_t i = 0; i < 26; i++) {
		int values = 0;

		for (size_t v = 0; v < 32; v++)
			values += seen[i][v];
		assert_int_equal(values, i < 25 ? 32 : 8);
	}
}

static void decode(const char *text, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT;

	buf_append_string(&out, "kept");
	if (!want) {
		assert_int_equal(hash_base64_decode(&out, text, strlen(text)), -1);
		assert_string_equal(buf_bytes(&out), "kept");
		return;
	}
	assert_int_equal(hash_base64_decode(&out, text, strlen(text)), 0);
	buf_consume(&out, 4);
	assert_string_equal(buf_bytes(&out), want);
}

static void test_base64(void **state)
{
	(void)state;
	decode("", "");
	decode("Zg==", "f");
	decode("Zm8=", "fo");
	decode("Zm9v", "foo");
	decode("Zm9vYg==", "foob");
	decode("Zm9vYmE=", "fooba");
	decode("Zm9vYmFy", "foobar");
	decode(" Zm9v\r\nYm\tFy\n", "foobar");
	decode("Zg=\n=\n", "f");
	decode("+/+/", "\xfb\xff\xbf");
	decode("Z", NULL);
	decode("Zm", NULL);
	decode("Zm9", NULL);
	decode("=", NULL);
	decode("====", NULL);
	decode("Z===", NULL);
	decode("Zg=", NULL);
	decode("Zg=a", NULL);
	decode("Zg==Zg==", NULL);
	decode("Zg===", NULL);
	decode("Zm9v-_", NULL);
	decode("Zm9v\xc3\xa9", NULL);
}

static void test_base64_all_bytes(void **state)
{
	static const char DIGITS[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 256; i++) {
		unsigned group = i << 16 | (255 - i) << 8 | (i ^ 0x5a);

		for (int shift = 18; shift >= 0; shift -= 6)
			buf_append_char(&text, DIGITS[group >> shift & 63]);
	}
	assert_int_equal(hash_base64_decode(&out, buf_bytes(&text), text.len), 0);
	assert_int_equal(out.len, 3 * 256);
	for (unsigned i = 0; i < 256; i++) {
		assert_int_equal((unsigned char)buf_bytes(&out)[3 * i], i);
		assert_int_equal((unsigned char)buf_bytes(&out)[3 * i + 1], 255 - i);
		assert_int_equal((unsigned char)buf_bytes(&out)[3 * i + 2], i ^ 0x5a);
	}
	assert_int_equal(hash_base64_decode(&out, "Zm\0v", 4), -1);
}

static void test_base64_encode(void **state)
{
	static const char *const vectors[][2] = {{"", ""},
						 {"f", "Zg=="},
						 {"fo", "Zm8="},
						 {"foo", "Zm9v"},
						 {"foob", "Zm9vYg=="},
						 {"foobar", "Zm9vYmFy"},
						 {"\xfb\xff\xbf", "+/+/"}};

	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		cleanup_buf struct buf out = BUF_INIT;

		hash_base64_encode(&out, vectors[i][0], strlen(vectors[i][0]));
		assert_string_equal(buf_bytes(&out), vectors[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha256),	  cmocka_unit_test(test_sha256_file),
		cmocka_unit_test(test_is_hex),
		cmocka_unit_test(test_random_id), cmocka_unit_test(test_base64),
		cmocka_unit_test(test_base64_all_bytes), cmocka_unit_test(test_base64_encode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
