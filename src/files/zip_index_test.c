/*
 * Archives made byte by byte: one that is right, and each way to be wrong.
 */
#include "files/zip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"

/* An entry as it is to be written; what is not set is right. */
struct made {
	const char *name;
	const char *local_name; /* in its own header; NULL: the same */
	const char *content;
	uint32_t mode; /* 0: a plain file's */
	uint32_t flags, method;
	uint32_t bytes;   /* told in place of the true number */
	uint32_t offset;  /* added to where it lies */
	uint32_t stretch; /* added to the length of what is packed */
};

static void put16(struct buf *out, uint32_t value)
{
	buf_append_char(out, (char)(value & 0xff));
	buf_append_char(out, (char)(value >> 8 & 0xff));
}

static void put32(struct buf *out, uint32_t value)
{
	put16(out, value & 0xffff);
	put16(out, value >> 16);
}

static void put_sizes(struct buf *out, const struct made *made)
{
	uint32_t len = made->content ? (uint32_t)strlen(made->content) : 0;

	put32(out, 0);
	put32(out, len + made->stretch);
	put32(out, made->bytes ? made->bytes : len + made->stretch);
}

static void put_local(struct buf *out, const struct made *made)
{
	const char *name = made->local_name ? made->local_name : made->name;

	put32(out, 0x04034b50);
	put16(out, 20);
	put16(out, made->flags);
	put16(out, made->method);
	put32(out, 0);
	put_sizes(out, made);
	put16(out, (uint32_t)strlen(name));
	put16(out, 0);
	buf_append_string(out, name);
	buf_append_string(out, made->content ? made->content : "");
}

static void put_central(struct buf *out, const struct made *made, uint32_t offset)
{
	put32(out, 0x02014b50);
	put16(out, 3 << 8 | 20);
	put16(out, 20);
	put16(out, made->flags);
	put16(out, made->method);
	put32(out, 0);
	put_sizes(out, made);
	put16(out, (uint32_t)strlen(made->name));
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
	put32(out, made->mode << 16);
	put32(out, offset + made->offset);
	buf_append_string(out, made->name);
}

static void put_end(struct buf *out, uint32_t count, uint32_t size, uint32_t offset)
{
	put32(out, 0x06054b50);
	put32(out, 0);
	put16(out, count);
	put16(out, count);
	put32(out, size);
	put32(out, offset);
	put16(out, 0);
}

static void make(struct buf *out, const struct made *list, size_t count)
{
	cleanup_buf struct buf directory = BUF_INIT;
	uint32_t start;

	for (size_t i = 0; i < count; i++) {
		start = (uint32_t)out->len;
		put_local(out, &list[i]);
		put_central(&directory, &list[i], start);
	}
	start = (uint32_t)out->len;
	buf_append(out, buf_bytes(&directory), directory.len);
	put_end(out, (uint32_t)count, (uint32_t)directory.len, start);
}

static enum err_code read_bytes(const struct buf *archive, struct zip_index *index)
{
	struct err err = ERR_INIT;

	if (zip_read_index((const unsigned char *)buf_bytes(archive), archive->len, index, &err) ==
	    0)
		return ERR_OK;
	return err.code;
}

/* What becomes of an archive of these entries. */
static enum err_code verdict(const struct made *list, size_t count)
{
	cleanup_buf struct buf archive = BUF_INIT;
	struct zip_index index = ZIP_INDEX_INIT;
	enum err_code code;

	make(&archive, list, count);
	code = read_bytes(&archive, &index);
	zip_index_release(&index);
	return code;
}

static enum err_code verdict_of_one(struct made made)
{
	return verdict(&made, 1);
}

static void good(void **state)
{
	static const struct made list[] = {
		{.name = "a.txt", .content = "hello"},
		{.name = "d/", .mode = S_IFDIR | 0700},
		{.name = "d/run", .content = "#!", .mode = S_IFREG | 06755},
		{.name = "-rf", .content = "x"},
		{.name = "bad\xff", .content = "x"},
		{.name = "deep/er/f", .content = "", .flags = 1 << 11},
	};
	cleanup_buf struct buf archive = BUF_INIT;
	struct zip_index index = ZIP_INDEX_INIT;

	(void)state;
	make(&archive, list, 6);
	assert_int_equal(read_bytes(&archive, &index), ERR_OK);
	assert_int_equal(index.count, 6);
	assert_int_equal(index.entries[0].mode, 0644);
	assert_int_equal(index.entries[0].bytes, 5);
	assert_memory_equal(buf_bytes(&archive) + index.entries[0].data, "hello", 5);
	assert_true(index.entries[1].folder);
	assert_int_equal(index.entries[1].name_len, 1);
	assert_int_equal(index.entries[2].mode, 0755); /* neither setuid nor setgid */
	zip_index_release(&index);
}

static void names(void **state)
{
	static const char *const bad[] = {
		"/abs", "../x",  "a/../../x", "a/..",  "..",   ".",          "a/./b",
		"a//b", "..\\x", "a\\..\\x",  "C:\\x", "c:/x", "\\\\srv\\x", "./a",
	};
	static const char *const fine[] = {"%2e%2e/x", "a\\b", "..a", "c:x", "a b", "\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (verdict_of_one((struct made){.name = bad[i], .content = "x"}) != ERR_INVALID)
			fail_msg("%s is taken", bad[i]);
	for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++)
		if (verdict_of_one((struct made){.name = fine[i], .content = "x"}) != ERR_OK)
			fail_msg("%s is refused", fine[i]);
	assert_int_equal(zip_check_name("a\0b", 3, NULL), -1);
	assert_int_equal(verdict_of_one((struct made){.name = "\xff", .flags = 1 << 11}),
			 ERR_INVALID);
}

static void kinds(void **state)
{
	static const uint32_t modes[] = {S_IFLNK | 0777, S_IFIFO | 0644,  S_IFCHR | 0644,
					 S_IFBLK | 0644, S_IFSOCK | 0644, S_IFDIR | 0755};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		assert_int_equal(verdict_of_one((struct made){
					 .name = "x", .content = "/etc/passwd", .mode = modes[i]}),
				 ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "x/", .content = "y"}), ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "x", .flags = 1}), ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "x", .method = 14}), ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "x", .content = "abc", .bytes = 9}),
			 ERR_INVALID);
}

/* What one reader sees and another does not. */
static void two_truths(void **state)
{
	static const struct made twice[] = {{.name = "a", .content = "1"},
					    {.name = "a", .content = "2"}};
	static const struct made folder_twice[] = {{.name = "a/"}, {.name = "a", .content = "2"}};
	static const struct made both[] = {{.name = "a", .content = "1"},
					   {.name = "a-b", .content = "1"},
					   {.name = "a/b", .content = "2"}};
	static const struct made overlap[] = {{.name = "a", .content = "111", .stretch = 20},
					      {.name = "b", .content = "2"}};

	(void)state;
	assert_int_equal(verdict(twice, 2), ERR_INVALID);
	assert_int_equal(verdict(folder_twice, 2), ERR_INVALID);
	assert_int_equal(verdict(both, 3), ERR_INVALID);
	assert_int_equal(verdict(overlap, 2), ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "a", .local_name = "b"}),
			 ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "a", .offset = 1}), ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "a", .offset = 1u << 30}),
			 ERR_INVALID);
	assert_int_equal(verdict_of_one((struct made){.name = "a", .stretch = 1000}), ERR_INVALID);
}

static void bombs(void **state)
{
	struct made list[100];

	(void)state;
	assert_int_equal(verdict_of_one((struct made){
				 .name = "a", .method = ZIP_DEFLATED, .bytes = 0xfffffffe}),
			 ERR_LIMIT);
	assert_int_equal(verdict_of_one((struct made){
				 .name = "a", .method = ZIP_DEFLATED, .bytes = 100 << 20}),
			 ERR_LIMIT);
	for (size_t i = 0; i < 100; i++)
		list[i] = (struct made){
			.name = mem_format("f%zu", i), .method = ZIP_DEFLATED, .bytes = 1 << 20};
	assert_int_equal(verdict(list, 50), ERR_OK); /* ZIP_FREE_BYTES are free */
	assert_int_equal(verdict(list, 100), ERR_LIMIT);
	for (size_t i = 0; i < 100; i++)
		free((char *)(uintptr_t)list[i].name);
}

static void put_end64(struct buf *out, uint32_t count, uint32_t size, uint32_t offset)
{
	uint32_t at = (uint32_t)out->len;

	put32(out, 0x06064b50);
	put32(out, 44);
	put32(out, 0);
	put16(out, 45);
	put16(out, 45);
	put32(out, 0);
	put32(out, 0);
	for (int i = 0; i < 2; i++) {
		put32(out, count);
		put32(out, 0);
	}
	put32(out, size);
	put32(out, 0);
	put32(out, offset);
	put32(out, 0);
	put32(out, 0x07064b50);
	put32(out, 0);
	put32(out, at);
	put32(out, 0);
	put32(out, 1);
	put_end(out, 0xffff, UINT32_MAX, UINT32_MAX);
}

static void zip64(void **state)
{
	const struct made made = {.name = "big", .content = "hello"};
	cleanup_buf struct buf archive = BUF_INIT, directory = BUF_INIT, wrong = BUF_INIT;
	struct zip_index index = ZIP_INDEX_INIT;

	(void)state;
	put_local(&archive, &made);
	put_central(&directory, &made, 0);
	buf_append(&archive, buf_bytes(&directory), directory.len);
	buf_append(&wrong, buf_bytes(&archive), archive.len);
	put_end64(&archive, 1, (uint32_t)directory.len, (uint32_t)(archive.len - directory.len));
	assert_int_equal(read_bytes(&archive, &index), ERR_OK);
	assert_int_equal(index.count, 1);
	zip_index_release(&index);
	put_end64(&wrong, 1, (uint32_t)directory.len, (uint32_t)(wrong.len - directory.len) + 1);
	assert_int_equal(read_bytes(&wrong, &index), ERR_INVALID);
	zip_index_release(&index);
}

/* Cut anywhere, or with something before or behind it, it is no archive. */
static void cuts(void **state)
{
	static const struct made list[] = {{.name = "a", .content = "1"},
					   {.name = "b/c", .content = "22"}};
	cleanup_buf struct buf archive = BUF_INIT, more = BUF_INIT;
	struct zip_index index = ZIP_INDEX_INIT;

	(void)state;
	make(&archive, list, 2);
	for (size_t len = 0; len < archive.len; len++) {
		cleanup_free unsigned char *part =
			(unsigned char *)mem_copy(buf_bytes(&archive), len);

		assert_int_equal(zip_read_index(part, len, &index, NULL), -1);
		zip_index_release(&index);
	}
	buf_append_string(&more, "front");
	buf_append(&more, buf_bytes(&archive), archive.len);
	assert_int_equal(read_bytes(&more, &index), ERR_INVALID);
	zip_index_release(&index);
	buf_append_string(&archive, "behind");
	assert_int_equal(read_bytes(&archive, &index), ERR_INVALID);
	zip_index_release(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good),       cmocka_unit_test(names), cmocka_unit_test(kinds),
		cmocka_unit_test(two_truths), cmocka_unit_test(bombs), cmocka_unit_test(zip64),
		cmocka_unit_test(cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
