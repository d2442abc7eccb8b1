/* The table and the user's file; what a name stands for, in a folder of the test. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "model/catalog.h"

static void test_ours(void **state)
{
	cleanup_catalog struct catalog catalog = CATALOG_INIT;

	(void)state;
	catalog_init(&catalog);
	assert_int_equal(catalog.count, 3);
	for (size_t i = 0; i < catalog.count; i++) {
		const struct catalog_model *model = &catalog.models[i];

		assert_true(catalog_is_name(model->name));
		assert_true(hash_is_hex(model->sha256));
		assert_ptr_equal(catalog_find(&catalog, model->alias), model);
		assert_non_null(model->packages);
		for (const char *const *hash = model->packages->hashes; *hash; hash++)
			assert_true(hash_is_hex(*hash));
	}
	assert_null(catalog_find(&catalog, "q16"));
}

static int read_text(struct catalog *catalog, const char *text, struct err *err)
{
	return catalog_read(catalog, text, strlen(text), "/m.json", err);
}

static void test_own(void **state)
{
	cleanup_catalog struct catalog catalog = CATALOG_INIT;
	struct err err = ERR_INIT;

	(void)state;
	catalog_init(&catalog);
	assert_int_equal(read_text(&catalog,
				   "{\"mine\":{\"url\":\"https://x/y.gguf\",\"bytes\":7},"
				   "\"qwen2.5-coder-0.5b\":{\"file\":\"/data/q.gguf\"}}",
				   &err),
			 0);
	assert_int_equal(catalog.count, 4);
	assert_string_equal(catalog_find(&catalog, "mine")->url, "https://x/y.gguf");
	assert_int_equal(catalog_find(&catalog, "mine")->bytes, 7);
	assert_string_equal(catalog_find(&catalog, "qwen2.5-coder-0.5b")->file, "/data/q.gguf");
	assert_null(catalog_find(&catalog, "q05"));
}

static void test_refused(void **state)
{
	static const char *const cases[][2] = {
		{"[]", "must be an object"},
		{"{\"a\":1}", "either"},
		{"{\"a\":{}}", "either"},
		{"{\"a\":{\"url\":\"https://x\",\"file\":\"/x\"}}", "either"},
		{"{\"a\":{\"url\":\"http://x\"}}", "https://"},
		{"{\"a\":{\"url\":\"https://x\",\"sha256\":\"AB\"}}", "64 hex"},
		{"{\"a\":{\"file\":\"x\"}}", "absolute"},
		{"{\"a\":{\"file\":\"/x\",\"size\":1}}", "a.size is not known"},
		{"{\"a\":{\"file\":\"/x\",\"bytes\":0}}", "above 0"},
		{"{\"a\":{\"file\":\"/x\\u0000y\"}}", "a text"},
		{"{\"../a\":{\"file\":\"/x\"}}", "no name"},
		{"{\"a\":{\"file\":\"/x\"},\"a\":{\"file\":\"/x\"}}", "/m.json"},
		{"{", "/m.json"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_catalog struct catalog catalog = CATALOG_INIT;
		struct err err = ERR_INIT;

		catalog_init(&catalog);
		assert_int_equal(read_text(&catalog, cases[i][0], &err), -1);
		if (!strstr(err.text, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], err.text);
	}
}

static void touch(const char *folder, const char *name)
{
	cleanup_free char *path = mem_format("%s/%s", folder, name);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void test_places(void **state)
{
	char place[] = "/tmp/fh-catalog-XXXXXX";
	cleanup_catalog struct catalog catalog = CATALOG_INIT;
	struct err err = ERR_INIT;
	char *folder, *found;

	(void)state;
	assert_non_null(mkdtemp(place));
	setenv("XDG_DATA_HOME", place, 1);
	catalog_init(&catalog);
	folder = catalog_folder(&err);
	assert_non_null(folder);
	assert_null(catalog_default(&catalog, NULL, &err));
	assert_non_null(strstr(err.text, "fumehood model pull"));
	assert_null(catalog_resolve(&catalog, "q05", &err));
	assert_non_null(strstr(err.text, "fumehood model pull qwen2.5-coder-0.5b"));
	assert_null(catalog_resolve(&catalog, "q99", &err));
	assert_non_null(strstr(err.text, "known are"));
	assert_null(catalog_resolve(&catalog, "../q.gguf", &err));
	touch(folder, "mine.gguf");
	found = catalog_default(&catalog, "", &err);
	assert_string_equal(found, "mine");
	free(found);
	touch(folder, "qwen2.5-coder-0.5b.gguf");
	found = catalog_default(&catalog, NULL, &err);
	assert_string_equal(found, "qwen2.5-coder-0.5b");
	free(found);
	found = catalog_resolve(&catalog, "q05", &err);
	assert_non_null(strstr(found, "/models/qwen2.5-coder-0.5b.gguf"));
	free(found);
	free(folder);
	assert_int_equal(file_remove_tree(AT_FDCWD, place, &err), 0);
}

static void test_endpoint(void **state)
{
	cleanup_catalog struct catalog catalog = CATALOG_INIT;
	struct err err = ERR_INIT;
	char *url;

	(void)state;
	catalog_init(&catalog);
	setenv("HF_ENDPOINT", "http://127.0.0.1:81/", 1);
	url = catalog_url(&catalog.models[0], &err);
	assert_int_equal(strncmp(url, "http://127.0.0.1:81/Qwen/", 25), 0);
	free(url);
	setenv("HF_ENDPOINT", "http://example.org", 1);
	assert_null(catalog_url(&catalog.models[0], &err));
	assert_null(catalog_url(catalog_find(&catalog, "smol135"), &err));
	unsetenv("HF_ENDPOINT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ours),     cmocka_unit_test(test_own),
		cmocka_unit_test(test_refused),  cmocka_unit_test(test_places),
		cmocka_unit_test(test_endpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
