/* When a cell is whole, and how the next line is indented. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/repl_code.h"

static const char *const WHOLE[] = {
	"x = 1\n",
	"\n",
	"",
	"# only a comment (\n",
	"f(1,\n  2)\n",
	"x = '''a\nb'''\n",
	"x = 'it\\'s'\n",
	"x = \"(\"\n",
	"x = r'\\''\n",
	"x = 1 + \\\n  2\n",
	"if x:\n    y\n\n",
	"if x: y\n\n",
	"if x:\n    y\nelse:\n    z\n  \n",
	"def f():\n    return 1\nf()\n",
	"for x in y:\n    pass\n# end\nz\n",
	"def f():\n\n\n",
	"@cached\n\n\n",
	"x = 'open\n", /* the guest says what is wrong */
	"f('open\n",
	"x)\n",
	"if x == ')': (\n))\n\n",
	"iffy(1)\n",
	"format = 1\n",
	"print?\n",
	"?print\n",
	"!echo \"it's (\n",
	"%time sum([1,\n",
	"%%bash\necho 'it\n\n",
	"lambda: 0\n",
	"x[1:2]\n",
	"    x = 1\n    y = 2\n",
	"classes = 3\n",
	"x = 1;\n",
	"\n\n\n",
};

static const char *const OPEN[] = {
	"f(1,\n",
	"f(1,\n\n\n",
	"x = [\n",
	"x = '''a\n",
	"x = '''a'\n\n\n",
	"x = f\"\"\"{1}\n",
	"x = 1 + \\\n",
	"x = 'a\\\n",
	"if x:\n",
	"if x:\n\n",
	"if x: y\n",
	"if x:  # why\n",
	"if x:\n    y\n",
	"if x:\n    y\nelse:\n",
	"@cached\n",
	"@cached\ndef f():\n    return 1\n",
	"def f():\n    return (1,\n",
	"class A:\n    def f(self):\n        pass\n",
	"async def f():\n    pass\n",
	"%%bash\n",
	"%%bash\necho 1\n",
	"!echo a \\\n",
	"match x:\n",
	"try:\n    f()\nexcept (A,\n",
	"for x in y: print(x)\n",
	"while(True): f()\n",
};

static void test_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(WHOLE) / sizeof(WHOLE[0]); i++)
		if (!repl_code_is_whole(WHOLE[i], strlen(WHOLE[i]), NULL))
			fail_msg("this should be whole: %s", WHOLE[i]);
	for (size_t i = 0; i < sizeof(OPEN) / sizeof(OPEN[0]); i++)
		if (repl_code_is_whole(OPEN[i], strlen(OPEN[i]), NULL))
			fail_msg("this should be open: %s", OPEN[i]);
}

static void test_indent(void **state)
{
	static const struct {
		const char *code;
		size_t indent;
	} cases[] = {
		{"if x:\n", 4},
		{"if x:\n    y = 1\n", 4},
		{"if x:\n    for y in z:\n", 8},
		{"def f():\n    if x:\n        return 1\n", 4},
		{"def f():\n    returned = 1\n", 4},
		{"f(\n", 4},
		{"x = '''\n", 0},
		{"%%bash\n", 0},
		{"\tif x:\n", 12},
		{"x\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t indent = 99;

		(void)repl_code_is_whole(cases[i].code, strlen(cases[i].code), &indent);
		if (indent != cases[i].indent)
			fail_msg("%s: %zu instead of %zu", cases[i].code, indent, cases[i].indent);
	}
}

/* Cut anywhere, filled with anything: no crash, no read past the end (the sanitizers look). */
static void test_any_bytes(void **state)
{
	static const char text[] =
		"@a\ndef f(x=[1, '\\'', \"\"\"q\\\n\"\"\"]):\n\tif x: \\\n  y\n%%m\n!a\\\n\xff\n";
	char copy[sizeof(text)];

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		for (size_t from = 0; from <= len; from++) {
			char *exact = test_malloc(len - from + 1);
			size_t indent;

			memcpy(copy, text, sizeof(text));
			memcpy(exact, copy + from, len - from);
			(void)repl_code_is_whole(exact, len - from, &indent);
			(void)repl_code_is_blank(exact, len - from);
			(void)repl_code_is_exit(exact, len - from);
			test_free(exact);
		}
	}
}

static void test_blank_and_exit(void **state)
{
	(void)state;
	assert_true(repl_code_is_blank("", 0));
	assert_true(repl_code_is_blank(" \n# x\n\t", 7));
	assert_true(repl_code_is_blank("# x", 3));
	assert_false(repl_code_is_blank("# x\ny", 5));
	assert_true(repl_code_is_exit("exit\n", 5));
	assert_true(repl_code_is_exit("quit() ;\n", 9));
	assert_false(repl_code_is_exit("exit(1)\n", 8));
	assert_false(repl_code_is_exit("exits\n", 6));
	assert_false(repl_code_is_exit("\n", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_indent),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_blank_and_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
