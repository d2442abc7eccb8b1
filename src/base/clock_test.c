/*
 * Clock texts: known instants, the edges of the calendar, and that what is written reads back.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"

static void test_known(void **state)
{
	static const struct {
		int64_t us;
		const char *text;
	} CASES[] = {
		{0, "1970-01-01T00:00:00.000000Z"},
		{-1, "1969-12-31T23:59:59.999999Z"},
		{1, "1970-01-01T00:00:00.000001Z"},
		{951782400000000, "2000-02-29T00:00:00.000000Z"},
		{951868799999999, "2000-02-29T23:59:59.999999Z"},
		{951868800000000, "2000-03-01T00:00:00.000000Z"},
		{4107542400000000, "2100-03-01T00:00:00.000000Z"},
		{4107456000000000, "2100-02-28T00:00:00.000000Z"},
		{1796001414123456, "2026-11-30T01:16:54.123456Z"},
		{-62167219200000000, "0000-01-01T00:00:00.000000Z"},
		{253402300799999999, "9999-12-31T23:59:59.999999Z"},
	};
	char text[CLOCK_TEXT_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		clock_format(CASES[i].us, text);
		assert_string_equal(text, CASES[i].text);
		assert_true(clock_parse(text) == CASES[i].us);
	}
}

static void test_clamped(void **state)
{
	char text[CLOCK_TEXT_SIZE];

	(void)state;
	clock_format(INT64_MAX, text);
	assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
	clock_format(INT64_MIN, text);
	assert_string_equal(text, "0000-01-01T00:00:00.000000Z");
}

/* Each day of the 400 years that the calendar repeats after has the successor it should have. */
static void test_every_day(void **state)
{
	static const int LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int year = 1900;
	int month = 1;
	int day = 1;
	int64_t us = clock_parse("1900-01-01T12:34:56.000007Z");

	(void)state;
	for (int i = 0; i < 146097 + 800; i++) {
		int leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
		char want[64];
		char text[CLOCK_TEXT_SIZE];

		snprintf(want, sizeof(want), "%04d-%02d-%02dT12:34:56.000007Z", year, month, day);
		clock_format(us, text);
		assert_string_equal(text, want);
		assert_true(clock_parse(text) == us);
		us += INT64_C(86400000000);
		if (++day > LENGTHS[month - 1] + leap) {
			day = 1;
			month = month % 12 + 1;
			year += month == 1;
		}
	}
}

static void test_bad_texts(void **state)
{
	static const char *const BAD[] = {
		"",
		"2026-11-29",
		"2026-11-29T17:16:54Z",
		"2026-11-29T17:16:54.123Z",
		"2026-11-29T17:16:54.123456",
		"2026-11-29T17:16:54.123456+00:00",
		"2026-11-29T17:16:54.123456Zx",
		"2026-11-29 17:16:54.123456Z",
		"2026-11-29T17:16:54,123456Z",
		"2026-11-29T17:16:5 .123456Z",
		"2026-13-29T17:16:54.123456Z",
		"2026-00-29T17:16:54.123456Z",
		"2026-11-31T17:16:54.123456Z",
		"2026-11-00T17:16:54.123456Z",
		"2026-02-29T17:16:54.123456Z",
		"2026-11-29T24:00:00.000000Z",
		"2026-11-29T17:60:54.123456Z",
		"2026-11-29T17:16:60.123456Z",
		"-026-11-29T17:16:54.123456Z",
		"0000-00-00T00:00:00.000000Z",
		"9999-99-99T99:99:99.999999Z",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_true(clock_parse(BAD[i]) == INT64_MIN);
	assert_true(clock_parse(NULL) == INT64_MIN);
}

static void test_clocks(void **state)
{
	int64_t before = clock_monotonic_us();

	(void)state;
	assert_true(clock_monotonic_us() >= before);
	assert_true(clock_wall_us() > clock_parse("2024-01-01T00:00:00.000000Z"));
	assert_true(clock_wall_us() < clock_parse("2999-01-01T00:00:00.000000Z"));
}

static void test_time_left(void **state)
{
	int64_t now_us = clock_monotonic_us(), left_ms = clock_left_ms(now_us + 60000000, 100000);

	(void)state;
	assert_int_equal(clock_left_ms(0, 100), 100);
	assert_int_equal(clock_left_ms(now_us - 1, 100), 0);
	assert_int_equal(clock_left_ms(now_us + 60000000, 100), 100);
	assert_true(left_ms > 0 && left_ms <= 60001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),	  cmocka_unit_test(test_clamped),
		cmocka_unit_test(test_every_day), cmocka_unit_test(test_bad_texts),
		cmocka_unit_test(test_clocks),	  cmocka_unit_test(test_time_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
