/* The helper for sixels: what comes back is looked at, whatever the helper is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/sixel.h"

/* A folder with a helper that is this script of sh. */
struct scene {
	char folder[32];
};

static void scene_open(struct scene *scene, const char *script)
{
	cleanup_free char *path = NULL;
	cleanup_fd int fd = -1;

	memcpy(scene->folder, "/tmp/sixel-test-XXXXXX", sizeof("/tmp/sixel-test-XXXXXX"));
	assert_non_null(mkdtemp(scene->folder));
	path = mem_format("%s/fumehood-sixel", scene->folder);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, "#!/bin/sh\n", 10, NULL), 0);
	assert_int_equal(file_write_all(fd, script, strlen(script), NULL), 0);
	assert_int_equal(setenv("FUMEHOOD_LIBEXEC", scene->folder, 1), 0);
}

static void scene_close(struct scene *scene)
{
	assert_int_equal(unsetenv("FUMEHOOD_LIBEXEC"), 0);
	assert_int_equal(file_remove_tree(AT_FDCWD, scene->folder, NULL), 0);
}

static void check(const char *script, size_t len, enum err_code code, const char *expected)
{
	cleanup_free char *png = mem_zalloc(len + 1);
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	struct scene scene;
	int outcome;

	scene_open(&scene, script);
	assert_true(sixel_is_there());
	outcome = sixel_from_png(&out, png, len, 640, &err);
	scene_close(&scene);
	if (err.code != code)
		fail_msg("%s: %s", script, err.text);
	assert_int_equal(outcome, code == ERR_OK ? 0 : -1);
	assert_string_equal(buf_bytes(&out), expected);
}

static void test_helpers(void **state)
{
	(void)state;
	check("cat >/dev/null; printf '\\033Pq%s\\033\\\\' \"$1\"", 10, ERR_OK, "\033Pq640\033\\");
	/* More than what the socket holds, both ways, read or not. */
	check("printf '\\033Pq\\033\\\\'; cat >/dev/null", 4 << 20, ERR_OK, "\033Pq\033\\");
	check("exec <&-; printf '\\033Pq\\033\\\\'", 4 << 20, ERR_OK, "\033Pq\033\\");
	check("printf '\\033Pq\\033\\\\'; exit 1", 10, ERR_INVALID, "");
	check("printf '\\033Pq\\033]0;title\\007\\033\\\\'", 10, ERR_INVALID, "");
	check("kill -9 $$", 10, ERR_INVALID, "");
	check("exec head -c 40000000 /dev/zero", 10, ERR_LIMIT, "");
	/* No environment, and no descriptor beside the three. */
	check("cat >/dev/null; for n in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && exit 1; done; "
	      "[ -z \"$HOME\" ] && printf '\\033Pq\\033\\\\'",
	      10, ERR_OK, "\033Pq\033\\");
}

#define CASE(text) text, sizeof(text) - 1

static void test_sequences(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool good;
	} cases[] = {
		{CASE("\033Pq\033\\"), true},
		{CASE("\033P0;1;0q\"1;1;6;6#0;2;0;0;0~-\n\r\033\\"), true},
		{CASE("\033P\033\\"), true},
		{CASE("\033P\\"), false},
		{CASE(""), false},
		{CASE("\033Pq"), false},
		{CASE("\033Pq\033\\x"), false},
		{CASE("\033Pq\033[c\033\\"), false},
		{CASE("\033Pq\0\033\\"), false},
		{CASE("\033Pq\x9b\033\\"), false},
		{CASE("\033Pq\a\033\\"), false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(sixel_is_sequence(cases[i].bytes, cases[i].len), cases[i].good);
}

static void test_without_the_helper(void **state)
{
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(setenv("FUMEHOOD_LIBEXEC", "/nowhere", 1), 0);
	assert_false(sixel_is_there());
	assert_int_equal(sixel_from_png(&out, "", 0, 1, &err), -1);
	assert_int_equal(out.len, 0);
	assert_int_equal(unsetenv("FUMEHOOD_LIBEXEC"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_helpers),
		cmocka_unit_test(test_sequences),
		cmocka_unit_test(test_without_the_helper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
