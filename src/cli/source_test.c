/* Code from -c, files and notebooks: a BOM, other encodings, NUL, what is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/begin.h"
#include "cli/source.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/fh-source-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return file_remove_tree(AT_FDCWD, folder, NULL);
}

/* Writes a file and reads it as a source. */
static int read_file(struct source *source, const char *name, const char *text, size_t len,
		     struct err *err)
{
	cleanup_free char *path = mem_format("%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int outcome;

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, len, NULL), 0);
	close(fd);
	outcome = source_read(source, NULL, path, err);
	unlink(path);
	return outcome;
}

/* The folder without its links, the file as it was named. */
static void test_path(void **state)
{
	cleanup_source struct source source = SOURCE_INIT, other = SOURCE_INIT;
	cleanup_free char *link = mem_format("%s/there", folder);
	cleanup_free char *expected = mem_format("%s/a.py", folder);
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(read_file(&source, "a.py", "1", 1, &err), 0);
	assert_string_equal(source.path, expected);
	assert_int_equal(symlink(folder, link), 0);
	assert_int_equal(read_file(&other, "there/a.py", "1", 1, &err), 0);
	assert_string_equal(other.path, expected);
	assert_int_equal(unlink(link), 0);
}

static void test_code(void **state)
{
	cleanup_source struct source source = SOURCE_INIT, bad = SOURCE_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(source_read(&source, "print(1)", NULL, &err), 0);
	assert_string_equal(buf_bytes(&source.code), "print(1)");
	assert_null(source.directory);
	assert_null(source.path);
	assert_int_equal(source_read(&bad, "\xff", NULL, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void test_file(void **state)
{
	cleanup_source struct source source = SOURCE_INIT, bad = SOURCE_INIT, none = SOURCE_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(read_file(&source, "a \"b\"\n.py", "\xef\xbb\xbfx\r\n\0\ty", 9, &err), 0);
	assert_int_equal(source.code.len, 6);
	assert_memory_equal(buf_bytes(&source.code), "x\r\n\0\ty", 6);
	assert_string_equal(source.directory, folder);
	assert_int_equal(read_file(&bad, "latin.py", "a\nb\n\xe4\nc", 7, &err), -1);
	assert_non_null(strstr(err.text, "line 3"));
	assert_int_equal(source_read(&none, NULL, "/no/such/file.py", &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_notebook(void **state)
{
	static const char text[] =
		"{\"nbformat\":4,\"nbformat_minor\":5,\"metadata\":{},\"cells\":["
		"{\"cell_type\":\"code\",\"id\":\"a\",\"metadata\":{},\"source\":\"1\",\"outputs\":"
		"[],\"execution_count\":null},"
		"{\"cell_type\":\"code\",\"id\":\"b\",\"metadata\":{},\"source\":\" "
		"\\n\",\"outputs\":[],\"execution_count\":null},"
		"{\"cell_type\":\"code\",\"id\":\"c\",\"metadata\":{\"tags\":[7,\"skip-execution\"]"
		"},\"source\":\"1\","
		"\"outputs\":[],\"execution_count\":null}]}";
	cleanup_source struct source source = SOURCE_INIT, broken = SOURCE_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(read_file(&source, "x.IPYNB", text, sizeof(text) - 1, &err), 0);
	assert_true(source.is_notebook);
	assert_int_equal(source.document.cell_count, 3);
	assert_false(source_skips(&source.document.cells[0], "skip-execution"));
	assert_true(source_skips(&source.document.cells[1], "skip-execution"));
	assert_true(source_skips(&source.document.cells[2], "skip-execution"));
	assert_false(document_has_tag(&source.document.cells[2], "raises-exception"));
	assert_int_equal(read_file(&broken, "x.ipynb", text, 40, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_false(broken.is_notebook);
}

static void test_workspace_text(void **state)
{
	static const struct {
		const char *text, *path;
		enum workspace_mode mode;
	} good[] = {
		{"/a", "/a", WORKSPACE_RW},     {"/a:ro", "/a", WORKSPACE_RO},
		{"/a:rw", "/a", WORKSPACE_RW},  {"/a:overlay", "/a", WORKSPACE_OVERLAY},
		{"/a:b", "/a:b", WORKSPACE_RW}, {"/a:ro:rw", "/a:ro", WORKSPACE_RW},
		{":x", ":x", WORKSPACE_RW},     {"/a:", "/a:", WORKSPACE_RW},
	};
	struct err err = ERR_INIT;
	enum workspace_mode mode;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cleanup_free char *path = begin_split_workspace(good[i].text, &mode, &err);

		assert_string_equal(path, good[i].path);
		assert_int_equal(mode, good[i].mode);
	}
	assert_null(begin_split_workspace("", &mode, &err));
	assert_null(begin_split_workspace(":ro", &mode, &err));
	assert_int_equal(err.code, ERR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_code),           cmocka_unit_test(test_path),
		cmocka_unit_test(test_file),           cmocka_unit_test(test_notebook),
		cmocka_unit_test(test_workspace_text),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
