/* Which terminals show images, what they answer, and what is sent to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/graphics.h"

/* 1x1 PNG. */
static const char PNG[] =
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
	"AABJRU5ErkJggg==";

/* The environment of a case: "NAME=value" up to NULL. */
static const char *const *environment;

static const char *get(const char *name)
{
	for (size_t i = 0; environment[i]; i++)
		if (strncmp(environment[i], name, strlen(name)) == 0 &&
		    environment[i][strlen(name)] == '=')
			return environment[i] + strlen(name) + 1;
	return NULL;
}

static void test_environment(void **state)
{
	static const struct {
		const char *variables[4];
		int outcome;
		enum graphics graphics;
	} cases[] = {
		{{NULL}, 1, GRAPHICS_PATH},
		{{"TERM=xterm-256color"}, 0, GRAPHICS_PATH},
		{{"TERM=dumb"}, 1, GRAPHICS_PATH},
		{{"TERM=xterm-kitty"}, 1, GRAPHICS_KITTY},
		{{"TERM=xterm", "KITTY_WINDOW_ID=1"}, 1, GRAPHICS_KITTY},
		{{"TERM=xterm", "TERM_PROGRAM=ghostty"}, 1, GRAPHICS_KITTY},
		{{"TERM=xterm", "TERM_PROGRAM=iTerm.app"}, 1, GRAPHICS_ITERM},
		{{"TERM=xterm", "LC_TERMINAL=iTerm2"}, 1, GRAPHICS_ITERM},
		{{"TERM=screen-256color", "KITTY_WINDOW_ID=1"}, 1, GRAPHICS_PATH},
		{{"TERM=xterm", "TMUX=/tmp/x", "TERM_PROGRAM=WezTerm"}, 1, GRAPHICS_PATH},
		{{"TERM=tmux", "FUMEHOOD_IMAGES=kitty"}, 1, GRAPHICS_KITTY},
		{{"TERM=xterm-kitty", "FUMEHOOD_IMAGES=path"}, 1, GRAPHICS_PATH},
		{{"TERM=xterm", "FUMEHOOD_IMAGES=iterm"}, 1, GRAPHICS_ITERM},
		{{"TERM=xterm", "FUMEHOOD_IMAGES="}, 0, GRAPHICS_PATH},
		{{"TERM=xterm", "FUMEHOOD_IMAGES=sixel"}, 1, GRAPHICS_SIXEL},
		{{"TERM=xterm", "FUMEHOOD_IMAGES=no"}, -1, GRAPHICS_PATH},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum graphics graphics = GRAPHICS_PATH;

		environment = cases[i].variables;
		assert_int_equal(graphics_from_environment(&graphics, get, NULL), cases[i].outcome);
		assert_int_equal(graphics, cases[i].graphics);
	}
}

static void check_answers(const char *sent, bool ended, enum graphics expected, const char *typed)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	enum graphics graphics = GRAPHICS_PATH;
	bool seen = false;

	/* Byte by byte, as it may come. */
	for (size_t i = 0; sent[i]; i++) {
		buf_append_char(&bytes, sent[i]);
		seen = graphics_take_answers(&bytes, &graphics) || seen;
	}
	assert_int_equal(seen, ended);
	assert_int_equal(graphics, expected);
	assert_string_equal(buf_bytes(&bytes), typed);
}

static void test_answers(void **state)
{
	(void)state;
	check_answers("\033_Gi=31;OK\033\\\033[?62;c", true, GRAPHICS_KITTY, "");
	check_answers("\033_Gi=31;ENOTSUPPORTED:x\033\\\033[?62;4c", true, GRAPHICS_SIXEL, "");
	check_answers("\033_Gi=31;OK\033\\\033[?62;4;22c", true, GRAPHICS_KITTY, "");
	check_answers("\033[?63;1;2;4;6c", true, GRAPHICS_SIXEL, "");
	check_answers("\033[?4;2c", true, GRAPHICS_PATH, "");
	check_answers("\033[?62;14;40;;c", true, GRAPHICS_PATH, "");
	check_answers("\033[?1;2c", true, GRAPHICS_PATH, "");
	check_answers("1 + \033[?62;4c1\n", true, GRAPHICS_SIXEL, "1 + 1\n");
	check_answers("typed\033[A", false, GRAPHICS_PATH, "typed\033[A");
	check_answers("\033[?25h", false, GRAPHICS_PATH, "\033[?25h");
	check_answers("", false, GRAPHICS_PATH, "");
}

static void check_image(enum graphics graphics, const char *mime, const char *data,
			unsigned width_pixels, const char *expected)
{
	cleanup_buf struct buf out = BUF_INIT;
	bool shown = graphics_image(&out, graphics, mime, data, strlen(data), 80, width_pixels);

	assert_int_equal(shown, expected != NULL);
	assert_string_equal(buf_bytes(&out), expected ? expected : "");
}

static void test_images(void **state)
{
	static const char split[] =
		"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA\n"
		"AABJRU5ErkJggg==\n";
	cleanup_buf struct buf expected = BUF_INIT;

	(void)state;
	buf_printf(&expected, "\033_Ga=T,f=100,q=2,m=0;%s\033\\\n", PNG);
	check_image(GRAPHICS_KITTY, "image/png", PNG, 0, buf_bytes(&expected));
	check_image(GRAPHICS_KITTY, "image/png", split, 100, buf_bytes(&expected));
	buf_clear(&expected);
	buf_printf(&expected, "\033]1337;File=inline=1;size=70:%s\a\n", PNG);
	check_image(GRAPHICS_ITERM, "image/png", PNG, 0, buf_bytes(&expected));
	check_image(GRAPHICS_PATH, "image/png", PNG, 0, NULL);
	check_image(GRAPHICS_KITTY, "image/jpeg", PNG, 0, NULL);
	check_image(GRAPHICS_SIXEL, "image/jpeg", PNG, 0, NULL);
	check_image(GRAPHICS_KITTY, "image/png", "", 0, NULL);
	check_image(GRAPHICS_KITTY, "image/png",
		    "R0lGODdhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=", 0, NULL); /* a GIF */
	check_image(GRAPHICS_KITTY, "image/png", "iVBORw0KGgoAAAANSUhEUgAA\033\\AAEAAAABCAYA", 0,
		    NULL);
	check_image(GRAPHICS_ITERM, "image/png", "iVBORw0KGgoAAAANSUhEUgAA\aAAEAAAABCAYAAAA", 0,
		    NULL);
	/* 2^31 pixels wide */
	check_image(GRAPHICS_KITTY, "image/png", "iVBORw0KGgoAAAANSUhEUoAAAAEAAAABCAYAAAAf", 0,
		    NULL);
}

static void test_large(void **state)
{
	cleanup_buf struct buf data = BUF_INIT, out = BUF_INIT;

	(void)state;
	/* The header of a PNG 8,192 wide, then zeros. */
	buf_append_string(&data, "iVBORw0KGgoAAAANSUhEUgAAIAAAAAABCAYA");
	while (data.len < 9000)
		buf_append_string(&data, "AAAA");
	assert_true(graphics_image(&out, GRAPHICS_KITTY, "image/png", buf_bytes(&data), data.len,
				   80, 1000));
	assert_non_null(strstr(buf_bytes(&out), "q=2,c=80,m=1;"));
	assert_non_null(strstr(buf_bytes(&out), "\033\\\033_Gm=1;"));
	assert_non_null(strstr(buf_bytes(&out), "\033\\\033_Gm=0;"));
	assert_int_equal(out.len,
			 9000 + strlen("\033_Ga=T,f=100,q=2,c=80,m=1;\033\\\033_Gm=1;\033\\"
				       "\033_Gm=0;\033\\\n"));
	buf_clear(&out);
	assert_false(graphics_image(&out, GRAPHICS_KITTY, "image/png", buf_bytes(&data),
				    GRAPHICS_BASE64_BYTES_MAX + 1, 80, 1000));
	assert_int_equal(out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
