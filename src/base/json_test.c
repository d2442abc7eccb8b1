/*
 * JSON: what is accepted and what is not, that digits survive, that text comes out as Python writes
 * it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

static struct json *parse(const char *text)
{
	struct err err = ERR_INIT;
	struct json *value = json_parse(text, strlen(text), &JSON_LIMITS, &err);

	if (err.code != ERR_OK)
		fail_msg("%s: %s", text, err.text);
	return value;
}

static void check_written(const struct json *value, const char *want)
{
	cleanup_buf struct buf out = BUF_INIT;

	json_write(&out, value);
	assert_string_equal(buf_bytes(&out), want);
}

/* Text that is compact already comes back as it was. */
static void test_round_trips(void **state)
{
	static const char *const TEXTS[] = {
		"null", "true", "false", "0", "-1", "1.0", "1e5", "-0", "-0.0", "1E+05", "1.10",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808",
		"-9223372036854775809", "123456789012345678901", "1e400", "-1e400", "1e-400",
		"0.1000000000000000055511151231257827", "[]", "{}", "\"\"", "[[],{},[{}]]",
		"{\"b\":1,\"a\":[1,2.50,null,true],\"\":\"\"}",
		"\"caf\xc3\xa9 \xf0\x9f\x98\x80 \x7f\xe2\x80\xa8\"",
		"\"/ \\\" \\\\ \\n\\r\\t\\b\\f \\u0000\\u001f\"",
		"{\"k\\u0000y\":1,\"k\":2,\"k\\u0000\":3,\"\\u0000\":4}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
		cleanup_json struct json *value = parse(TEXTS[i]);
		cleanup_json struct json *copy = json_copy(value);

		check_written(value, TEXTS[i]);
		check_written(copy, TEXTS[i]);
		assert_true(json_equal(value, copy));
	}
}

static void test_normalised(void **state)
{
	static const char *const CASES[][2] = {
		{" [ 1 ,\t2\r\n] ", "[1,2]"},
		{"{ \"a\" : 1 , \"b\" : { } }", "{\"a\":1,\"b\":{}}"},
		{"\"\\/\\u0041\\u00e9\\u20ac\"", "\"/A\xc3\xa9\xe2\x82\xac\""},
		{"\"\\uD83D\\uDe00\"", "\"\xf0\x9f\x98\x80\""},
		{"\"\\ud800\"", "\"\xef\xbf\xbd\""},
		{"\"\\udc00x\"", "\"\xef\xbf\xbdx\""},
		{"\"\\ud800\\n\"", "\"\xef\xbf\xbd\\n\""},
		{"\"\\ud800\\u0041\"", "\"\xef\xbf\xbd" "A\""},
		{"\"\\ud800\\ud83d\\ude00\"", "\"\xef\xbf\xbd\xf0\x9f\x98\x80\""},
		{"\"\\ude00\\ud83d\"", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
		{"{\"\\ud800\":1}", "{\"\xef\xbf\xbd\":1}"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		cleanup_json struct json *value = parse(CASES[i][0]);

		check_written(value, CASES[i][1]);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		int at;
	} CASES[] = {
		{"", 0}, {" ", 1}, {"nul", 0}, {"nullx", 4}, {"True", 0}, {"NaN", 0},
		{"Infinity", 0},
		{"-Infinity", 1}, {"01", 1}, {"-", 1}, {"+1", 0}, {".5", 0}, {"1.", 2}, {"1.e5", 2},
		{"1e", 2}, {"1e+", 3}, {"0x10", 1}, {"--1", 1}, {"1 2", 2}, {"[", 1}, {"[1", 2},
		{"[1,", 3},
		{"[1,]", 3}, {"[,1]", 1}, {"[1 2]", 3}, {"]", 0}, {"{", 1}, {"{\"a\"", 4},
		{"{\"a\":", 5},
		{"{\"a\":1", 6}, {"{\"a\":1,}", 7}, {"{a:1}", 1}, {"{'a':1}", 1}, {"{1:1}", 1},
		{"{\"a\" 1}", 5}, {"{\"a\":1 \"b\":2}", 7}, {"\"", 1}, {"\"a", 2}, {"\"\\\"", 3},
		{"\"\\", 2},
		{"\"\\x41\"", 2}, {"\"\\u12\"", 3}, {"\"\\u12g4\"", 3}, {"\"\\u", 3},
		{"\"a\nb\"", 2},
		{"\"a\tb\"", 2}, {"// c\n1", 0}, {"1/**/", 1}, {"\xef\xbb\xbf" "1", 0},
		{"\"\xff\"", 1},
		{"\"\xed\xa0\x80\"", 1}, {"\"a\xc3\"", 2}, {"\"\\n\xc3\"", 3}, {"\xc3\xa9", 0},
		{"{\"a\":1,\"b\":2,\"a\":3}", 13}, {"{\"a\":1,\"\\u0061\":3}", 7},
		{"{\"a\\u0000\":1,\"a\\u0000\":1}", 13}, {"[1}", 2}, {"{\"a\":1]", 6},
		{"[\"a\",\"\\ud8", 8},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct err err = ERR_INIT;
		char position[32];

		snprintf(position, sizeof(position), "at byte %d: ", CASES[i].at);
		if (json_parse(CASES[i].text, strlen(CASES[i].text), &JSON_LIMITS, &err))
			fail_msg("%s was accepted", CASES[i].text);
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.text, position))
			fail_msg("%s: %s, not %s", CASES[i].text, err.text, position);
		assert_null(json_parse(CASES[i].text, strlen(CASES[i].text), &JSON_LIMITS, NULL));
	}
}

/* The text need not end with a NUL, and one inside is no end. */
static void test_bounds(void **state)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *value = json_parse("1234", 2, &JSON_LIMITS, &err);

	(void)state;
	assert_int_equal(json_int(value, 0), 12);
	assert_null(json_parse("1\0", 2, &JSON_LIMITS, &err));
	assert_null(json_parse("\"a\0b\"", 5, &JSON_LIMITS, &err));
	assert_null(json_parse(NULL, 0, &JSON_LIMITS, &err));
}

/* Cut anywhere, a text is refused and nothing leaks. */
static void test_every_cut(void **state)
{
	static const char TEXT[] =
		"{\"a\":[1.5,-2,\"x\\u00e9\\n\",{\"b\":null}],\"c\":{\"d\":true}}";

	(void)state;
	for (size_t len = 0; len < sizeof(TEXT) - 1; len++) {
		cleanup_free char *text = mem_copy(TEXT, len);

		assert_null(json_parse(text, len, &JSON_LIMITS, NULL));
	}
}

static void test_limits(void **state)
{
	struct json_limits limits = JSON_LIMITS;
	cleanup_json struct json *deep = NULL;
	cleanup_json struct json *repeated = NULL;
	struct err err = ERR_INIT;

	(void)state;
	limits.bytes_max = 4;
	assert_null(json_parse("12345", 5, &limits, &err));
	assert_int_equal(err.code, ERR_LIMIT);
	limits = JSON_LIMITS;
	limits.depth_max = 3;
	assert_null(json_parse("[[[[]]]]", 8, &limits, &err));
	assert_int_equal(err.code, ERR_LIMIT);
	deep = json_parse("[[[]],[{}]]", 11, &limits, NULL);
	assert_non_null(deep);
	limits.depth_max = 0;
	assert_null(json_parse("[]", 2, &limits, NULL));
	limits = JSON_LIMITS;
	limits.keys_unique = false;
	repeated = json_parse("{\"a\":1,\"b\":2,\"a\":[3]}", 21, &limits, NULL);
	check_written(repeated, "{\"a\":[3],\"b\":2}");
}

/* A small text that asks for a large tree. */
static void test_tree_limit(void **state)
{
	enum { OBJECTS = 1000000 };
	cleanup_buf struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	(void)state;
	buf_append_char(&text, '[');
	for (int i = 0; i < OBJECTS; i++)
		buf_append_string(&text, "{},");
	buf_append_string(&text, "{}]");
	assert_null(json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, &err));
	assert_int_equal(err.code, ERR_LIMIT);
}

static void test_nan_as_text(void **state)
{
	static const char TEXT[] = "[NaN,Infinity,-Infinity,-1,{\"a\":NaN}]";
	struct json_limits limits = JSON_LIMITS;
	cleanup_json struct json *value = NULL;

	(void)state;
	limits.nan_as_text = true;
	value = json_parse(TEXT, sizeof(TEXT) - 1, &limits, NULL);
	check_written(value, "[\"nan\",\"inf\",\"-inf\",-1,{\"a\":\"nan\"}]");
	assert_null(json_parse("nan", 3, &limits, NULL));
	assert_null(json_parse("-NaN", 4, &limits, NULL));
	assert_null(json_parse("Nan", 3, &limits, NULL));
}

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		enum json_type type;
		double value;
	} CASES[] = {
		{"0", JSON_INT, 0},
		{"-17", JSON_INT, -17},
		{"9223372036854775807", JSON_INT, 9223372036854775807.0},
		{"9223372036854775808", JSON_DOUBLE, 9223372036854775808.0},
		{"-0", JSON_DOUBLE, -0.0},
		{"1.0", JSON_DOUBLE, 1.0},
		{"1e5", JSON_DOUBLE, 1e5},
		{"2.5e-3", JSON_DOUBLE, 0.0025},
		{"1e999", JSON_DOUBLE, DBL_MAX},
		{"-1e999", JSON_DOUBLE, -DBL_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		cleanup_json struct json *value = parse(CASES[i].text);

		assert_int_equal(json_type_of(value), CASES[i].type);
		assert_true(json_double(value, 7) == CASES[i].value);
		if (CASES[i].type == JSON_INT)
			assert_null(json_number_text(value));
		else
			assert_string_equal(json_number_text(value), CASES[i].text);
	}
}

/* A program with a decimal comma reads and writes the same JSON. */
static void test_locale(void **state)
{
	static const char *const COMMA[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
	cleanup_json struct json *value = NULL;
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(COMMA) / sizeof(COMMA[0]); i++) {
		if (setlocale(LC_NUMERIC, COMMA[i]))
			break;
	}
	value = parse("2.75");
	json_write_double(&out, json_double(value, 0));
	setlocale(LC_NUMERIC, "C");
	assert_string_equal(buf_bytes(&out), "2.75");
}

static void test_reading(void **state)
{
	cleanup_json struct json *value = parse("{\"i\":5,\"d\":1.5,\"s\":\"a\\u0000b\",\"t\":true,"
						"\"n\":null,\"a\":[1,\"x\"],\"o\":{\"k\":2}}");
	size_t len;

	(void)state;
	assert_int_equal(json_get_int(value, "i", 9), 5);
	assert_int_equal(json_get_int(value, "d", 9), 9);
	assert_int_equal(json_get_int(value, "s", 9), 9);
	assert_int_equal(json_get_int(value, "none", 9), 9);
	assert_true(json_get_double(value, "d", 9) == 1.5);
	assert_true(json_get_double(value, "i", 9) == 5);
	assert_true(json_get_double(value, "t", 9) == 9);
	assert_true(json_get_bool(value, "t", false));
	assert_true(json_get_bool(value, "i", true));
	assert_false(json_get_bool(value, "i", false));
	assert_memory_equal(json_string(json_get(value, "s"), &len), "a\0b", 4);
	assert_int_equal(len, 3);
	assert_null(json_get_string(value, "i"));
	assert_null(json_get(value, "n"));
	assert_int_equal(json_length(value), 7);
	assert_int_equal(json_length(json_get(value, "a")), 2);
	assert_int_equal(json_length(json_get(value, "s")), 0);
	assert_int_equal(json_int(json_at(json_get(value, "a"), 0), 0), 1);
	assert_null(json_at(json_get(value, "a"), 2));
	assert_null(json_at(value, 0));
	assert_int_equal(json_get_int(json_get(value, "o"), "k", 0), 2);
	/* Nothing at all is a value too. */
	assert_int_equal(json_type_of(NULL), JSON_NULL);
	assert_null(json_get(NULL, "a"));
	assert_null(json_string(NULL, NULL));
	assert_int_equal(json_length(NULL), 0);
	assert_false(json_remove(NULL, "a"));
	assert_null(json_copy(NULL));
	json_free(NULL);
}

static void test_building(void **state)
{
	cleanup_json struct json *object = json_new_object();
	struct json *array = json_new_array();
	struct json *kept;

	(void)state;
	json_push(array, json_new_int(INT64_MIN));
	json_push(array, NULL);
	json_push(array, json_new_double(0.1));
	json_push(array, json_new_double(NAN));
	json_push(array, json_new_double(INFINITY));
	json_push(array, json_new_double(-INFINITY));
	json_push(array, json_new_string("a\xff\0\"", 4));
	json_push(array, json_new_string(NULL, 0));
	json_set(object, "array", array);
	json_set(object, "t", json_new_bool(true));
	json_set_string(object, "s", "x");
	json_set_int(object, "i", -1);
	json_set(object, "n", NULL);
	json_set_int(object, "i", -2);
	check_written(
		object,
		"{\"array\":[-9223372036854775808,null,0.1,\"nan\",\"inf\",\"-inf\","
		"\"a\xef\xbf\xbd\\u0000\\\"\",\"\"],\"t\":true,\"s\":\"x\",\"i\":-2,\"n\":null}");
	assert_true(json_remove(object, "n"));
	assert_false(json_remove(object, "n"));
	kept = json_keep(json_get(object, "array"));
	assert_true(json_remove(object, "array"));
	assert_int_equal(json_length(kept), 8);
	json_free(kept);
	check_written(object, "{\"t\":true,\"s\":\"x\",\"i\":-2}");
	assert_null(json_number_text(json_get(object, "i")));
}

struct visits {
	struct json *object;
	struct buf keys;
};

static int visit(const char *key, size_t key_len, struct json *value, void *data)
{
	struct visits *visits = data;
	int number = (int)json_int(value, -1);

	buf_append(&visits->keys, key, key_len);
	buf_printf(&visits->keys, "=%d;", number);
	json_remove(visits->object, key);
	return number == 3 ? 33 : 0;
}

static void test_each(void **state)
{
	cleanup_json struct json *object =
		parse("{\"z\":1,\"a\\u0000\\u0000b\":2,\"m\":3,\"q\":4}");
	struct visits visits = {.object = object, .keys = BUF_INIT};

	(void)state;
	assert_int_equal(json_each(object, visit, &visits), 33);
	assert_int_equal(visits.keys.len, 15);
	assert_memory_equal(buf_bytes(&visits.keys), "z=1;a\0\0b=2;m=3;", 15);
	assert_int_equal(json_each(NULL, visit, &visits), 0);
	buf_release(&visits.keys);
}

static void test_equal(void **state)
{
	static const struct {
		const char *a;
		const char *b;
		bool equal;
	} CASES[] = {
		{"{\"a\":1,\"b\":[1.5,\"x\"]}", "{\"b\":[1.5,\"x\"],\"a\":1}", true},
		{"{\"a\":null}", "{\"b\":null}", false},
		{"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
		{"[1,2]", "[2,1]", false},
		{"[1]", "[1,1]", false},
		{"1.0", "1e0", true},
		{"1", "1.0", false},
		{"123456789012345678901", "123456789012345678902", false},
		{"123456789012345678901", "123456789012345678901", true},
		{"\"a\\u0000b\"", "\"a\\u0000c\"", false},
		{"null", "false", false},
		{"true", "false", false},
		{"null", "null", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		cleanup_json struct json *a = parse(CASES[i].a);
		cleanup_json struct json *b = parse(CASES[i].b);

		assert_int_equal(json_equal(a, b), CASES[i].equal);
		assert_int_equal(json_equal(b, a), CASES[i].equal);
	}
}

/* What Python 3.11's repr() prints for these. */
static void test_doubles(void **state)
{
	static const struct {
		double value;
		const char *want;
	} CASES[] = {
		{0.0, "0.0"}, {-0.0, "-0.0"}, {1.0, "1.0"}, {-1.5, "-1.5"}, {100.0, "100.0"},
		{123456.0, "123456.0"}, {0.1, "0.1"}, {0.2 + 0.1, "0.30000000000000004"},
		{1.0 / 3, "0.3333333333333333"}, {2.0 / 3, "0.6666666666666666"},
		{1e15, "1000000000000000.0"}, {1e16, "1e+16"},
		{9999999999999998.0, "9999999999999998.0"},
		{123456789012345680.0, "1.2345678901234568e+17"}, {1e22, "1e+22"}, {1e23, "1e+23"},
		{1e-4, "0.0001"}, {1e-5, "1e-05"}, {0.00012345, "0.00012345"}, {1.5e-7, "1.5e-07"},
		{1e100, "1e+100"}, {1.7976931348623157e308, "1.7976931348623157e+308"},
		{2.2250738585072014e-308, "2.2250738585072014e-308"},
		{2.225073858507201e-308, "2.225073858507201e-308"}, {5e-324, "5e-324"},
		{1e-323, "1e-323"}, {1.5e-323, "1.5e-323"},
		/* Powers of two whose nearest 16 digits do not read back. */
		{0x1p-44, "5.684341886080802e-14"}, {0x1p-24, "5.960464477539063e-08"},
		{0x1p89, "6.189700196426902e+26"}, {0x1p-1022, "2.2250738585072014e-308"},
		{0x1p53, "9007199254740992.0"}, {0x1p54, "1.8014398509481984e+16"},
		{4503599627370495.5, "4503599627370495.5"}, {5e-05, "5e-05"},
		{3.141592653589793, "3.141592653589793"}, {299792458.0, "299792458.0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		cleanup_buf struct buf out = BUF_INIT;

		json_write_double(&out, CASES[i].value);
		assert_string_equal(buf_bytes(&out), CASES[i].want);
	}
}

/* Any bits: the text reads back as the same value. */
static void test_doubles_read_back(void **state)
{
	uint64_t bits = 88172645463325252u;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		cleanup_buf struct buf out = BUF_INIT;
		double value;

		bits ^= bits << 13;
		bits ^= bits >> 7;
		bits ^= bits << 17;
		memcpy(&value, &bits, sizeof(value));
		if (!isfinite(value))
			continue;
		json_write_double(&out, value);
		assert_true(strtod(buf_bytes(&out), NULL) == value);
	}
}

static void test_write_string(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *want;
		size_t repairs;
	} CASES[] = {
		{"", 0, "\"\"", 0},
		{"12345678\"12345678\\1234567\n", 26, "\"12345678\\\"12345678\\\\1234567\\n\"", 0},
		{"\xff"
		 "a\"\xed\xa0\x80\xe2\x82",
		 8,
		 "\"\xef\xbf\xbd"
		 "a\\\"\xef\xbf\xbd\xef\xbf\xbd\"",
		 3},
		{"\x7f/\xe2\x80\xa8", 5, "\"\x7f/\xe2\x80\xa8\"", 0},
		{"\0\x01\x1f", 3, "\"\\u0000\\u0001\\u001f\"", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		cleanup_buf struct buf out = BUF_INIT;

		assert_int_equal(json_write_string(&out, CASES[i].text, CASES[i].len),
				 CASES[i].repairs);
		assert_string_equal(buf_bytes(&out), CASES[i].want);
	}
}

/* A byte that needs care is found wherever it stands, and what is written reads back. */
static void test_write_string_places(void **state)
{
	(void)state;
	for (unsigned byte = 0; byte < 256; byte++) {
		for (size_t place = 0; place < 20; place++) {
			cleanup_buf struct buf out = BUF_INIT;
			cleanup_json struct json *again = NULL;
			char text[20];
			size_t len = 0;

			memset(text, 'x', sizeof(text));
			text[place] = (char)byte;
			assert_int_equal(json_write_string(&out, text, sizeof(text)), byte >= 0x80);
			again = json_parse(buf_bytes(&out), out.len, &JSON_LIMITS, NULL);
			assert_non_null(json_string(again, &len));
			assert_int_equal(len, byte >= 0x80 ? 22 : 20);
			if (byte < 0x80)
				assert_memory_equal(json_string(again, NULL), text, len);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips),  cmocka_unit_test(test_normalised),
		cmocka_unit_test(test_refused),	     cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_every_cut),    cmocka_unit_test(test_limits),
		cmocka_unit_test(test_tree_limit),   cmocka_unit_test(test_nan_as_text),
		cmocka_unit_test(test_numbers),	     cmocka_unit_test(test_locale),
		cmocka_unit_test(test_reading),	     cmocka_unit_test(test_building),
		cmocka_unit_test(test_each),	     cmocka_unit_test(test_equal),
		cmocka_unit_test(test_doubles),	     cmocka_unit_test(test_doubles_read_back),
		cmocka_unit_test(test_write_string), cmocka_unit_test(test_write_string_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
