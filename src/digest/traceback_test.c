/*
 * Tests of errors. The inputs are what CPython 3.11's traceback.format_exception() printed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "digest/traceback.h"

static char *text_of_script(const struct json *body, const char *code, const char *file)
{
	cleanup_json struct json *cell = json_new_object();
	struct screen screen;
	struct piece piece;

	screen_init(&screen, 100000);
	if (code)
		json_set_string(cell, "code", code);
	if (file)
		json_set_string(cell, "file", file);
	traceback_text(body, cell, &screen);
	piece = screen_piece(&screen, NULL);
	screen_release(&screen);
	while (piece.len > 0 && piece.text[piece.len - 1] == '\n')
		piece.text[--piece.len] = '\0';
	return piece.text;
}

static char *text_of(const struct json *body, const char *code)
{
	return text_of_script(body, code, NULL);
}

/* The traceback as one string, and line by line with and without LF, must give the same. */
static void check_script(const char *ename, const char *evalue, const char *lines, const char *code,
			 const char *file, const char *expected)
{
	for (int way = 0; way < 3; way++) {
		cleanup_json struct json *body = json_new_object();
		struct json *list = json_new_array();
		const char *at = lines;
		cleanup_free char *text = NULL;

		while (*at) {
			size_t len = strcspn(at, "\n");
			size_t step = len + (at[len] == '\n');

			if (way == 0)
				len = step = strlen(at);
			else if (way == 1)
				len = step;
			json_push(list, json_new_string(at, len));
			at += step;
		}
		json_set(body, "traceback", list);
		json_set_string(body, "ename", ename);
		json_set_string(body, "evalue", evalue);
		text = text_of_script(body, code, file);
		if (way == 2 && strstr(lines, "\n\n"))
			continue; /* an empty string is no line */
		assert_string_equal(text, expected);
	}
}

static void check(const char *ename, const char *evalue, const char *lines, const char *code,
		  const char *expected)
{
	check_script(ename, evalue, lines, code, NULL, expected);
}

static void shows_the_line_in_its_place(void **state)
{
	(void)state;
	check("ZeroDivisionError", "division by zero",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 3>\", line 3, in <module>\n"
	      "    ratio(1, 0)\n"
	      "  File \"<cell 3>\", line 2, in ratio\n"
	      "    return a / b\n"
	      "           ~~^~~\n"
	      "ZeroDivisionError: division by zero\n",
	      "def ratio(a, b):\n    return a / b\nratio(1, 0)",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 3>\", line 3, in <module>\n"
	      "    ratio(1, 0)\n"
	      "  File \"<cell 3>\", line 2, in ratio\n"
	      "      1 | def ratio(a, b):\n"
	      "    > 2 |     return a / b\n"
	      "        |            ~~^~~\n"
	      "      3 | ratio(1, 0)\n"
	      "ZeroDivisionError: division by zero");
}

static void shows_two_lines_round_it(void **state)
{
	(void)state;
	check("NameError", "name 'x' is not defined",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 1>\", line 10, in <module>\n"
	      "    x\n"
	      "NameError: name 'x' is not defined\n",
	      "1\n2\n3\n4\n5\n6\n7\n8\n\nx\n11\n12\n13\n",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 1>\", line 10, in <module>\n"
	      "       8 | 8\n"
	      "       9 |\n"
	      "    > 10 | x\n"
	      "      11 | 11\n"
	      "      12 | 12\n"
	      "NameError: name 'x' is not defined");
}

static void keeps_lines_of_earlier_cells(void **state)
{
	static const char LINES[] = "Traceback (most recent call last):\n"
				    "  File \"<cell 2>\", line 1, in <module>\n"
				    "    half({'height': 3})\n"
				    "  File \"<cell 1>\", line 2, in half\n"
				    "    wanted = rows['width']\n"
				    "             ~~~~^^^^^^^^^\n"
				    "KeyError: 'width'";

	(void)state;
	check("KeyError", "'width'", LINES, "half({'height': 3})",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 2>\", line 1, in <module>\n"
	      "    > 1 | half({'height': 3})\n"
	      "  File \"<cell 1>\", line 2, in half\n"
	      "    wanted = rows['width']\n"
	      "             ~~~~^^^^^^^^^\n"
	      "KeyError: 'width'");
	/* Code that is not what ran, or is not known, shows nothing. */
	check("KeyError", "'width'", LINES, "%half", LINES);
	check("KeyError", "'width'", LINES, NULL, LINES);
}

static void counts_library_frames(void **state)
{
	(void)state;
	check("JSONDecodeError", "Expecting property name",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 2>\", line 2, in <module>\n"
	      "    json.loads('{')\n"
	      "  File \"/usr/lib/python3.11/json/__init__.py\", line 346, in loads\n"
	      "    return _default_decoder.decode(s)\n"
	      "           ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
	      "  File \"/usr/lib/python3.11/json/decoder.py\", line 353, in raw_decode\n"
	      "    obj, end = self.scan_once(s, idx)\n"
	      "json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)\n",
	      "import json\njson.loads('{')\n",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 2>\", line 2, in <module>\n"
	      "      1 | import json\n"
	      "    > 2 | json.loads('{')\n"
	      "  [2 library frames left out; the last is \"decoder.py\", line 353, in raw_decode]\n"
	      "json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)");
}

static void shows_syntax_errors(void **state)
{
	(void)state;
	check("SyntaxError", "'(' was never closed (<cell 4>, line 2)",
	      "  File \"<cell 4>\", line 2\n"
	      "    b = (2 +\n"
	      "        ^\n"
	      "SyntaxError: '(' was never closed\n",
	      "a = 1\n\tb = (2 +\nprint(a)",
	      "  File \"<cell 4>\", line 2\n"
	      "      1 | a = 1\n"
	      "    > 2 | \tb = (2 +\n"
	      "        | \t    ^\n"
	      "      3 | print(a)\n"
	      "SyntaxError: '(' was never closed");
	check("SyntaxError", "made up",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 8>\", line 1, in <module>\n"
	      "    raise SyntaxError('made up', ('nowhere.py', 99, 50, 'short\\n'))\n"
	      "  File \"nowhere.py\", line 99\n"
	      "    short\n"
	      "         ^\n"
	      "SyntaxError: made up\n",
	      "raise SyntaxError('made up', ('nowhere.py', 99, 50, 'short\\n'))",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 8>\", line 1, in <module>\n"
	      "    > 1 | raise SyntaxError('made up', ('nowhere.py', 99, 50, 'short\\n'))\n"
	      "  File \"nowhere.py\", line 99\n"
	      "    short\n"
	      "         ^\n"
	      "SyntaxError: made up");
}

static void keeps_causes_and_notes(void **state)
{
	(void)state;
	check("ValueError", "a\nb",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 5>\", line 6, in <module>\n"
	      "    1/0\n"
	      "    ~^~\n"
	      "ZeroDivisionError: division by zero\n"
	      "\n"
	      "During handling of the above exception, another exception occurred:\n"
	      "\n"
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 5>\", line 8, in <module>\n"
	      "    raise e\n"
	      "ValueError: a\n"
	      "b\n"
	      "note 1\n"
	      "  note 1b\n",
	      "\n\n\n\ntry:\n  1/0\nexcept Exception as x:\n  raise e",
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 5>\", line 6, in <module>\n"
	      "      4 |\n"
	      "      5 | try:\n"
	      "    > 6 |   1/0\n"
	      "        |   ~^~\n"
	      "      7 | except Exception as x:\n"
	      "      8 |   raise e\n"
	      "ZeroDivisionError: division by zero\n"
	      "\n"
	      "During handling of the above exception, another exception occurred:\n"
	      "\n"
	      "Traceback (most recent call last):\n"
	      "  File \"<cell 5>\", line 8, in <module>\n"
	      "      6 |   1/0\n"
	      "      7 | except Exception as x:\n"
	      "    > 8 |   raise e\n"
	      "ValueError: a\n"
	      "b\n"
	      "note 1\n"
	      "  note 1b");
}

static void keeps_groups(void **state)
{
	(void)state;
	check("ExceptionGroup", "many (2 sub-exceptions)",
	      "  + Exception Group Traceback (most recent call last):\n"
	      "  |   File \"<cell 3>\", line 2, in <module>\n"
	      "  |     g(1)\n"
	      "  |   File \"/lib/x.py\", line 7, in g\n"
	      "  |     raise ExceptionGroup('many', many)\n"
	      "  | ExceptionGroup: many (2 sub-exceptions)\n"
	      "  +-+---------------- 1 ----------------\n"
	      "    | ValueError: x\n"
	      "    +---------------- 2 ----------------\n"
	      "    | Traceback (most recent call last):\n"
	      "    |   File \"/lib/x.py\", line 3, in h\n"
	      "    |     raise TypeError('y')\n"
	      "    | TypeError: y\n"
	      "    | z\n"
	      "    +------------------------------------\n",
	      "import x\ng(1)",
	      "  + Exception Group Traceback (most recent call last):\n"
	      "  |   File \"<cell 3>\", line 2, in <module>\n"
	      "  |       1 | import x\n"
	      "  |     > 2 | g(1)\n"
	      "  |   [1 library frame left out; the last is \"x.py\", line 7, in g]\n"
	      "  | ExceptionGroup: many (2 sub-exceptions)\n"
	      "  +-+---------------- 1 ----------------\n"
	      "    | ValueError: x\n"
	      "    +---------------- 2 ----------------\n"
	      "    | Traceback (most recent call last):\n"
	      "    |   [1 library frame left out; the last is \"x.py\", line 3, in h]\n"
	      "    | TypeError: y\n"
	      "    | z\n"
	      "    +------------------------------------");
}

static void shortens_recursion(void **state)
{
	cleanup_buf struct buf lines = BUF_INIT;
	cleanup_json struct json *body = json_new_object();
	struct json *list = json_new_array();
	cleanup_free char *text = NULL;

	(void)state;
	buf_append_string(&lines, "Traceback (most recent call last):\n");
	for (int i = 0; i < 500; i++)
		buf_printf(&lines,
			   "  File \"<cell 1>\", line %d, in f%d\n    g()\n"
			   "  [Previous line repeated 2 more times]\n",
			   i + 1, i);
	buf_append_string(&lines, "RecursionError: maximum recursion depth exceeded\n");
	json_push(list, json_new_string(buf_bytes(&lines), lines.len));
	json_set(body, "traceback", list);
	json_set_string(body, "ename", "RecursionError");
	text = text_of(body, NULL);
	assert_non_null(strstr(
		text, "in f3\n    g()\n  [Previous line repeated 2 more times]\n"
		      "  [488 more frames left out]\n  File \"<cell 1>\", line 493, in f492\n"));
	assert_null(strstr(text, "in f4\n"));
	assert_non_null(strstr(text, "in f499\n"));
	assert_non_null(strstr(text, "RecursionError: maximum"));
}

static void knows_the_script(void **state)
{
	static const char lines[] = "Traceback (most recent call last):\n"
				    "  File \"/workspace/a.py\", line 4, in <module>\n    ratio()\n"
				    "  File \"<cell 1>\", line 1, in ratio\n    1/0\n"
				    "  File \"/workspace/a.pyx\", line 4, in f\n    ratio()\n"
				    "  File \"/workspace/a.py\", line 2, in f\n    1/0\n"
				    "ZeroDivisionError: division by zero\n";

	(void)state;
	check_script("ZeroDivisionError", "division by zero", lines, "def f():\n    1/0\n\nratio()",
		     "/workspace/a.py",
		     "Traceback (most recent call last):\n"
		     "  File \"/workspace/a.py\", line 4, in <module>\n    ratio()\n"
		     "  File \"<cell 1>\", line 1, in ratio\n    1/0\n"
		     "  [1 library frame left out; the last is \"a.pyx\", line 4, in f]\n"
		     "  File \"/workspace/a.py\", line 2, in f\n"
		     "      1 | def f():\n"
		     "    > 2 |     1/0\n"
		     "      3 |\n"
		     "      4 | ratio()\n"
		     "ZeroDivisionError: division by zero");
}

static void says_the_name_at_least(void **state)
{
	(void)state;
	check("Odd", "", "", NULL, "Odd");
	check("SystemExit", "3", "", "exit(3)", "SystemExit: 3");
	check("", "", "", NULL, "Error");
	check("Odd", "x", "R> something else\n", NULL, "R> something else\nOdd: x");
	check("Odd", "x", "\x1b[31mOdd\x1b[0m: x\n", NULL, "Odd: x");
}

static void bears_any_body(void **state)
{
	static const char *const BODIES[] = {
		"{}",
		"{\"traceback\":3}",
		"{\"traceback\":{\"a\":1},\"ename\":null}",
		"{\"traceback\":[1,null,[],\"\",\"  File \\\"\",\"  File \\\"x\\\", line "
		"\"],\"evalue\":7}",
		"{\"traceback\":[\"  File \\\"<cell 99999999999999999999999>\\\", line 0\\n\\n  "
		"x\"]}",
		"{\"traceback\":[\"  File \\\"<cell 1>\\\", line 18446744073709551615, in f\\n "
		"x\"]}",
		"{\"traceback\":[\"  + \",\"  |\",\"  +-\",\"  | x\"]}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(BODIES) / sizeof(BODIES[0]); i++) {
		cleanup_json struct json *body =
			json_parse(BODIES[i], strlen(BODIES[i]), &JSON_LIMITS, NULL);
		cleanup_free char *text = NULL;

		assert_non_null(body);
		text = text_of(body, "x\ny");
		assert_non_null(strstr(text, "Error"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shows_the_line_in_its_place),
		cmocka_unit_test(shows_two_lines_round_it),
		cmocka_unit_test(keeps_lines_of_earlier_cells),
		cmocka_unit_test(counts_library_frames),
		cmocka_unit_test(shows_syntax_errors),
		cmocka_unit_test(knows_the_script),
		cmocka_unit_test(keeps_causes_and_notes),
		cmocka_unit_test(keeps_groups),
		cmocka_unit_test(shortens_recursion),
		cmocka_unit_test(says_the_name_at_least),
		cmocka_unit_test(bears_any_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
