/*
 * Time as int64 microseconds, and its RFC 3339 text.
 *
 * The calendar is computed here and not by gmtime_r: that one takes a lock, reads TZ, and counts
 * leap seconds when TZ names a "right/" zone, so the same instant would get two names.
 *
 * Days are counted in years that begin on 1 March: the leap day is then the last day of its year,
 * and month lengths follow one formula (153 days per five months).
 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	DAYS_PER_ERA = 146097,   /* 400 years */
	DAYS_TO_EPOCH = 719468,  /* from 0000-03-01 to 1970-01-01 */
};

static const int64_t US_PER_SECOND = 1000000;
static const int64_t SECONDS_PER_DAY = 86400;
static const int64_t WALL_MIN_US = -62167219200000000; /* 0000-01-01T00:00:00.000000Z */
static const int64_t WALL_MAX_US = 253402300799999999; /* 9999-12-31T23:59:59.999999Z */

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;

	/* It fails only for a clock that does not exist; these two always do. */
	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * US_PER_SECOND + now.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t clock_monotonic_us(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_left_ms(int64_t deadline_us, int64_t most_ms)
{
	int64_t left_us = deadline_us - clock_monotonic_us();

	if (!deadline_us || left_us / 1000 >= most_ms)
		return most_ms;
	return left_us > 0 ? left_us / 1000 + 1 : 0;
}

/* Rounds towards minus infinity; b > 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0 ? 1 : 0);
}

/* Days from 1970-01-01 to a date of the Gregorian calendar, year >= 0. */
static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
	int64_t march_year = month > 2 ? year : year - 1;
	int64_t march_month = (month + 9) % 12;
	int64_t era = floor_div(march_year, 400);
	int64_t in_era = march_year - era * 400;

	return era * DAYS_PER_ERA + in_era * 365 + in_era / 4 - in_era / 100 +
	       (153 * march_month + 2) / 5 + day - 1 - DAYS_TO_EPOCH;
}

static void date_from_days(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
	int64_t shifted = days + DAYS_TO_EPOCH;
	int64_t era = floor_div(shifted, DAYS_PER_ERA);
	int64_t in_era = shifted - era * DAYS_PER_ERA;
	/* Take out the leap days before dividing: one in 1460, none in 36524, one in the last
	 * day. */
	int64_t march_year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
	int64_t in_year = in_era - (march_year * 365 + march_year / 4 - march_year / 100);
	int64_t march_month = (5 * in_year + 2) / 153;

	*day = in_year - (153 * march_month + 2) / 5 + 1;
	*month = march_month < 10 ? march_month + 3 : march_month - 9;
	*year = era * 400 + march_year + (*month <= 2 ? 1 : 0);
}

/* Writes `value` as exactly `digits` decimal digits. */
static void put_digits(char *text, int64_t value, int digits)
{
	for (int i = digits - 1; i >= 0; i--) {
		text[i] = (char)('0' + value % 10);
		value /= 10;
	}
}

void clock_format(int64_t wall_us, char text[static CLOCK_TEXT_SIZE])
{
	int64_t us, seconds, days, year, month, day;

	wall_us = wall_us < WALL_MIN_US   ? WALL_MIN_US
		  : wall_us > WALL_MAX_US ? WALL_MAX_US
					  : wall_us;
	seconds = floor_div(wall_us, US_PER_SECOND);
	us = wall_us - seconds * US_PER_SECOND;
	days = floor_div(seconds, SECONDS_PER_DAY);
	seconds -= days * SECONDS_PER_DAY;
	date_from_days(days, &year, &month, &day);

	memcpy(text, "0000-00-00T00:00:00.000000Z", CLOCK_TEXT_SIZE);
	put_digits(text, year, 4);
	put_digits(text + 5, month, 2);
	put_digits(text + 8, day, 2);
	put_digits(text + 11, seconds / 3600, 2);
	put_digits(text + 14, seconds / 60 % 60, 2);
	put_digits(text + 17, seconds % 60, 2);
	put_digits(text + 20, us, 6);
}

static int64_t get_digits(const char *text, int digits)
{
	int64_t value = 0;

	for (int i = 0; i < digits; i++)
		value = value * 10 + (text[i] - '0');
	return value;
}

int64_t clock_parse(const char *text)
{
	static const char FORM[CLOCK_TEXT_SIZE] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
	char again[CLOCK_TEXT_SIZE];
	int64_t days, seconds, wall_us;

	if (!text || strnlen(text, CLOCK_TEXT_SIZE) != CLOCK_TEXT_SIZE - 1)
		return INT64_MIN;
	for (int i = 0; i < CLOCK_TEXT_SIZE - 1; i++) {
		if (FORM[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != FORM[i])
			return INT64_MIN;
	}
	days = days_from_date(get_digits(text, 4), get_digits(text + 5, 2),
			      get_digits(text + 8, 2));
	seconds = get_digits(text + 11, 2) * 3600 + get_digits(text + 14, 2) * 60 +
		  get_digits(text + 17, 2);
	wall_us = (days * SECONDS_PER_DAY + seconds) * US_PER_SECOND + get_digits(text + 20, 6);

	/* A field out of range (month 13, 31 April, second 60) reads back as another text. */
	clock_format(wall_us, again);
	return memcmp(again, text, CLOCK_TEXT_SIZE) == 0 ? wall_us : INT64_MIN;
}
