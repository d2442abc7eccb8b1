/*
 * Finding programs: what models were seen to write, one row each, and every prefix of all of it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "agent/fence.h"
#include "base/buf.h"
#include "base/mem.h"

struct row {
	const char *answer;
	const char *code; /* of the first candidate; NULL: there is no program */
	enum fence_kind kind;
};

static const struct row ROWS[] = {
	{"```python\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"```py\nprint(1)\n```\n", "print(1)\n", FENCE_PYTHON},
	{"```Python\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"```python3\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"``` python\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"```{.python}\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"```python title=\"a.py\"\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"~~~python\nprint(1)\n~~~", "print(1)\n", FENCE_PYTHON},
	{"````python\ns = '```'\nprint(s)\n````", "s = '```'\nprint(s)\n", FENCE_PYTHON},
	{"Sure!\r\n```python\r\nprint(1)\r\n```\r\nDone.", "print(1)\n", FENCE_PYTHON},
	{"1. Do:\n   ```python\n   if x:\n       print(1)\n   ```\n", "if x:\n    print(1)\n",
	 FENCE_PYTHON},
	/* Bare ones count when they look like Python; a line that names the language is no code. */
	{"```\nprint(1)\n```", "print(1)\n", FENCE_BARE},
	{"```\npython\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"```python\npython\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"```\nThe answer is 4.\n```", NULL, FENCE_BARE},
	{"```bash\npip install pandas\n```", NULL, FENCE_BARE},
	{"```bash\npip install pandas\n```\n```python\nprint(1)\n```\nOutput:\n```\n1\n```",
	 "print(1)\n", FENCE_PYTHON},
	{"```json\n{\"a\": 1}\n```", NULL, FENCE_BARE},
	/* Cut short, or without the end. */
	{"```python\nprint(1)\nprint(2)", "print(1)\nprint(2)\n", FENCE_UNCLOSED},
	{"```python\nprint(1)\n``", "print(1)\n``\n", FENCE_UNCLOSED},
	{"```python\n", NULL, FENCE_UNCLOSED},
	{"```python", NULL, FENCE_UNCLOSED},
	{"```", NULL, FENCE_UNCLOSED},
	/* A fence inside a string that is quoted three times. */
	{"```python\ntext = \"\"\"\n```\nhello\n```\n\"\"\"\nprint(text)\n```\n",
	 "text = \"\"\"\n```\nhello\n```\n\"\"\"\nprint(text)\n", FENCE_PYTHON},
	{"```python\nx = '''\n```\nprint(1)", "x = '''\n", FENCE_PYTHON},
	{"```python\nprint('it\\'s \"\"\" fine')\n```\n```\n1\n```",
	 "print('it\\'s \"\"\" fine')\n", FENCE_PYTHON},
	/* Several. */
	{"```python\ndef f():\n    return 1\n```\nUse it:\n```python\nprint(f())\n```",
	 "def f():\n    return 1\n", FENCE_PYTHON},
	{"```python\nprint(1)\n```\nBetter:\n```python\nprint(2)\n```", "print(2)\n", FENCE_PYTHON},
	/* Thoughts are no answer. */
	{"<think>```python\nprint(0)\n```</think>\n```python\nprint(1)\n```", "print(1)\n",
	 FENCE_PYTHON},
	{"I think ```python\nprint(0)\n```</think>```python\nprint(1)\n```", "print(1)\n",
	 FENCE_PYTHON},
	{"<thought>\nplan\n</thought>\n```python\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	{"<think>```python\nprint(1)\n```", "print(1)\n", FENCE_PYTHON},
	/* No fence at all. */
	{"import csv\nprint(1)\n", "import csv\nprint(1)\n", FENCE_PROSE},
	{"# count\nprint(1)", "# count\nprint(1)\n", FENCE_PROSE},
	{"x = 1\nprint(x)", "x = 1\nprint(x)\n", FENCE_PROSE},
	{"for i in range(3):\n    print(i)", "for i in range(3):\n    print(i)\n", FENCE_PROSE},
	{"The answer is 42.", NULL, FENCE_PROSE},
	{"I am sorry, I cannot do that.", NULL, FENCE_PROSE},
	{"For this task we need a loop (see below).", NULL, FENCE_PROSE},
	{"Use `print(1)` for it.", NULL, FENCE_PROSE},
	{"", NULL, FENCE_PROSE},
	{"Use ```print(1)``` here.", NULL, FENCE_PROSE},
	{"```print(1)```", NULL, FENCE_PROSE},
};

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		cleanup_fence struct fence fence = FENCE_INIT;

		fence_read(&fence, ROWS[i].answer, strlen(ROWS[i].answer));
		if ((fence.count > 0) != (ROWS[i].code != NULL))
			fail_msg("row %zu: %zu candidates; the first: %s", i, fence.count,
				 fence.count ? fence.candidates[0].code : "");
		if (!fence.count)
			continue;
		if (strcmp(fence.candidates[0].code, ROWS[i].code) != 0)
			fail_msg("row %zu: %s", i, fence.candidates[0].code);
		assert_int_equal(fence.candidates[0].kind, ROWS[i].kind);
	}
}

/* The next candidates: joined, then the others. */
static void test_order(void **state)
{
	static const char ANSWER[] =
		"```python\ndef f():\n    return 1\n```\n```python\nprint(f())\n```\n"
		"```\nprint('bare')\n```\n```sh\nls\n```";
	cleanup_fence struct fence fence = FENCE_INIT;

	(void)state;
	fence_read(&fence, ANSWER, strlen(ANSWER));
	assert_int_equal(fence.count, 4);
	assert_string_equal(fence.candidates[0].code, "def f():\n    return 1\n");
	assert_string_equal(fence.candidates[1].code, "def f():\n    return 1\nprint(f())\n");
	assert_string_equal(fence.candidates[2].code, "print(f())\n");
	assert_string_equal(fence.candidates[3].code, "print('bare')\n");
	assert_int_equal(fence.candidates[3].kind, FENCE_BARE);
}

static void test_nul_is_no_program(void **state)
{
	static const char ANSWER[] = "```python\nprint(1)\0\n```";
	cleanup_fence struct fence fence = FENCE_INIT;

	(void)state;
	fence_read(&fence, ANSWER, sizeof(ANSWER) - 1);
	assert_int_equal(fence.count, 0);
}

static void test_prefixes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++)
		for (size_t len = 0; len <= strlen(ROWS[i].answer); len++) {
			cleanup_fence struct fence fence = FENCE_INIT;
			cleanup_free char *cut = mem_copy(ROWS[i].answer, len);

			fence_read(&fence, cut, len);
			for (size_t c = 0; c < fence.count; c++) {
				size_t n = strlen(fence.candidates[c].code);

				assert_true(n > 0 && fence.candidates[c].code[n - 1] == '\n');
			}
			(void)fence_is_open(cut, len);
		}
}

static void test_many_blocks(void **state)
{
	cleanup_buf struct buf answer = BUF_INIT;
	cleanup_fence struct fence fence = FENCE_INIT;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		buf_printf(&answer, "```python\nprint(%u)\n```\n", i);
	fence_read(&fence, buf_bytes(&answer), answer.len);
	assert_int_equal(fence.count, FENCE_CANDIDATES_MAX);
	assert_string_equal(fence.candidates[0].code, "print(31)\n");
}

static void test_open(void **state)
{
	(void)state;
	assert_true(fence_is_open("```python\nprint(1)", 18));
	assert_false(fence_is_open("```python\nprint(1)\n```", 22));
	assert_false(fence_is_open("no block", 8));
}

static void test_same_code(void **state)
{
	(void)state;
	assert_true(fence_same_code("print(1)\n", "print(1)"));
	assert_true(fence_same_code("# a\nprint(1)  \n\n", "\nprint(1)\n# b"));
	assert_false(fence_same_code("print(1)\n", "print(2)\n"));
	assert_false(fence_same_code("if x:\n  f()\n", "if x:\nf()\n"));
	assert_false(fence_same_code("a\nb\n", "a\n"));
	assert_true(fence_same_code("", "# nothing\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_many_blocks),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_same_code),
		cmocka_unit_test(test_nul_is_no_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
