/*
 * Heads made here byte by byte, in the shape of the real ones (test/flow/test_model.py reads
 * those), and each way in which one can be wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/gguf.h"

static void put(struct buf *out, uint64_t number, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		buf_append_char(out, (char)(number >> (8 * i)));
}

static void put_text(struct buf *out, const char *text)
{
	put(out, strlen(text), 8);
	buf_append_string(out, text);
}

static void put_pair(struct buf *out, const char *key, const char *value)
{
	put_text(out, key);
	put(out, 8, 4);
	put_text(out, value);
}

static void put_count(struct buf *out, const char *key, uint64_t value)
{
	put_text(out, key);
	put(out, 4, 4);
	put(out, value, 4);
}

/* What differs from a good head; zeros: nothing. */
struct made {
	const char *architecture, *kind;
	bool without_template, without_tokenizer;
	unsigned version, parts, no_tensors;
};

/* Two tensors: 64 x 4 of F32 at 0, 256 x 2 of Q4_K at 1,024; so 1,312 bytes of weights. */
static void make(struct buf *out, const struct made *made)
{
	static const char *const words[] = {"a", "", "ccc"};
	unsigned keys = 6U + !made->without_template + !made->without_tokenizer + (made->parts > 0);

	buf_append_string(out, "GGUF");
	put(out, made->version ? made->version : 3, 4);
	put(out, made->no_tensors ? 0 : 2, 8);
	put(out, keys, 8);
	put_pair(out, "general.architecture", made->architecture ? made->architecture : "qwen2");
	put_pair(out, "general.type", made->kind ? made->kind : "model");
	put_pair(out, "general.name", "Small\x1b[31m One");
	put_count(out, "qwen2.context_length", 32768);
	put_count(out, "general.file_type", 15);
	put_text(out, "tokenizer.ggml.tokens");
	put(out, 9, 4);
	put(out, 8, 4);
	put(out, 3, 8);
	for (size_t i = 0; i < 3; i++)
		put_text(out, words[i]);
	if (!made->without_tokenizer)
		put_pair(out, "tokenizer.ggml.model", "gpt2");
	if (!made->without_template)
		put_pair(out, "tokenizer.chat_template", "{{ messages }}");
	if (made->parts) {
		put_text(out, "split.count");
		put(out, 2, 4);
		put(out, made->parts, 2);
	}
	if (made->no_tensors)
		return;
	put_text(out, "first");
	put(out, 2, 4);
	put(out, 64, 8);
	put(out, 4, 8);
	put(out, 0, 4);
	put(out, 0, 8);
	put_text(out, "second");
	put(out, 2, 4);
	put(out, 256, 8);
	put(out, 2, 8);
	put(out, 12, 4);
	put(out, 1024, 8);
}

static int read_made(const struct made *made, struct gguf *gguf, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	make(&bytes, made);
	return gguf_read(buf_bytes(&bytes), bytes.len, gguf, err);
}

static void test_good(void **state)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err err = ERR_INIT;
	struct gguf gguf;

	(void)state;
	make(&bytes, &(struct made){.version = 3});
	assert_int_equal(gguf_read(buf_bytes(&bytes), bytes.len, &gguf, &err), 0);
	assert_string_equal(gguf.architecture, "qwen2");
	assert_string_equal(gguf.name, "Small\\x1b[31m One");
	assert_string_equal(gguf.tokenizer, "gpt2");
	assert_string_equal(gguf.quantisation, "Q4_K_M");
	assert_int_equal(gguf.context, 32768);
	assert_int_equal(gguf.parameters, 64 * 4 + 256 * 2);
	assert_int_equal(gguf.bytes, (bytes.len + 31) / 32 * 32 + 1024 + 2 * 144);
	assert_int_equal(gguf_check(&gguf, gguf.bytes, &err), 0);
	assert_int_equal(gguf_check(&gguf, gguf.bytes - 1, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_non_null(strstr(err.text, "fetch it again"));
	assert_int_equal(read_made(&(struct made){.version = 2}, &gguf, &err), 0);
}

/* Each beginning of a head needs more, and no byte behind its end is read (ASan). */
static void test_cut(void **state)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	(void)state;
	make(&bytes, &(struct made){.version = 3});
	for (size_t len = 0; len < bytes.len; len++) {
		char *copy = malloc(len ? len : 1);
		struct err err = ERR_INIT;
		struct gguf gguf;

		assert_non_null(copy);
		memcpy(copy, buf_bytes(&bytes), len);
		assert_int_equal(gguf_read(copy, len, &gguf, &err), 1);
		free(copy);
	}
}

static void test_refused(void **state)
{
	static const struct {
		struct made made;
		const char *says;
	} cases[] = {
		{{.architecture = "clip"}, "writes no text"},
		{{.architecture = "bert"}, "writes no text"},
		{{.architecture = "whisper"}, "writes no text"},
		{{.kind = "adapter"}, "adapter"},
		{{.without_template = true}, "Instruct"},
		{{.without_tokenizer = true}, "whole model"},
		{{.no_tensors = 1}, "vocabulary only"},
		{{.parts = 3}, "one of 3 parts"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = ERR_INIT;
		struct gguf gguf;

		assert_int_equal(read_made(&cases[i].made, &gguf, &err), 0);
		assert_int_equal(gguf_check(&gguf, UINT64_MAX, &err), -1);
		assert_non_null(strstr(err.text, cases[i].says));
	}
}

static void test_not_read(void **state)
{
	static const unsigned char big[] = {'G', 'G', 'U', 'F', 0, 0, 0, 3, 0, 0, 0, 0};
	struct err err = ERR_INIT;
	struct gguf gguf;

	(void)state;
	assert_int_equal(gguf_read("GGML\1\0\0\0", 8, &gguf, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(gguf_read(big, sizeof(big), &gguf, &err), -1);
	assert_non_null(strstr(err.text, "big endian"));
	assert_int_equal(read_made(&(struct made){.version = 9}, &gguf, &err), -1);
	assert_non_null(strstr(err.text, "version 9"));
}

static void test_limits(void **state)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err err = ERR_INIT;
	struct gguf gguf;

	(void)state;
	buf_append_string(&bytes, "GGUF");
	put(&bytes, 3, 4);
	put(&bytes, 1, 8);
	put(&bytes, UINT64_MAX, 8);
	assert_int_equal(gguf_read(buf_bytes(&bytes), bytes.len, &gguf, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	buf_truncate(&bytes, 16);
	put(&bytes, 1, 8);
	put_text(&bytes, "a");
	put(&bytes, 9, 4); /* an array of 2^60 numbers */
	put(&bytes, 10, 4);
	put(&bytes, UINT64_C(1) << 60, 8);
	assert_int_equal(gguf_read(buf_bytes(&bytes), bytes.len, &gguf, &err), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),    cmocka_unit_test(test_cut),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_not_read),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
