/*
 * JSON text without a tree: strings and doubles.
 *
 * Strings: escaped as json.dumps(ensure_ascii=False) escapes them, so notebooks come out byte for
 * byte as nbformat writes them. Eight bytes at a time are looked at for one that needs care,
 * because outputs of 100 MB pass through here.
 *
 * Doubles: the shortest digits that read back as the same value, in repr()'s layout. Any decimal of
 * up to 15 digits survives the way to double and back, so if 15 digits read back, they are the
 * shortest ones with zeros behind; else 16 or 17 are needed. At a power of two the values below lie
 * twice as close as those above, so that the nearest 16-digit decimal can fail below while its
 * upper neighbour reads back; that one is tried too. Subnormal values have fewer digits than 15, so
 * there all lengths are tried. printf and strtod run in the same locale, so its decimal point does
 * not matter.
 */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_impl.h"
#include "base/text.h"

static const uint64_t ONES = 0x0101010101010101;
static const uint64_t HIGH_BITS = 0x8080808080808080;

/* High bit set where a byte of `word` is zero. (Above a zero byte also where it is 1: harmless, the
 * byte is looked at again.) */
static uint64_t zero_bytes(uint64_t word)
{
	return (word - ONES) & ~word & HIGH_BITS;
}

size_t json_plain_run(const char *text, size_t len)
{
	size_t i = 0;

	for (; len - i >= 8; i += 8) {
		uint64_t word, care;

		memcpy(&word, text + i, 8);
		care = (word & HIGH_BITS) | ((word - ONES * 0x20) & ~word & HIGH_BITS) |
		       zero_bytes(word ^ ONES * '"') | zero_bytes(word ^ ONES * '\\');
		if (care)
			break;
	}
	for (; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
			break;
	}
	return i;
}

static void write_escape(struct buf *out, char c)
{
	static const char FROM[] = "\n\"\\\r\t\b\f";
	static const char TO[] = "n\"\\rtbf";
	const char *at = c != '\0' ? strchr(FROM, c) : NULL;

	if (at)
		buf_append(out, (char[]){'\\', TO[at - FROM]}, 2);
	else
		buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
}

/* Writes the text without quotes up to the first bad byte; returns how far it came. */
static size_t write_valid(struct buf *out, const char *text, size_t len)
{
	size_t from = 0; /* bytes from here to i are fine and not yet appended */
	size_t i = 0;

	while (i < len) {
		uint32_t point;
		size_t step;

		i += json_plain_run(text + i, len - i);
		if (i == len)
			break;
		if ((unsigned char)text[i] >= 0x80) {
			step = text_next(text + i, len - i, &point);
			if (step == 1) /* no good sequence of a byte >= 0x80 has length 1 */
				break;
			i += step;
			continue;
		}
		buf_append(out, text + from, i - from);
		write_escape(out, text[i]);
		from = ++i;
	}
	if (i > from)
		buf_append(out, text + from, i - from);
	return i;
}

size_t json_write_string(struct buf *out, const char *text, size_t len)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	size_t done;

	buf_append_char(out, '"');
	done = write_valid(out, text, len);
	if (done < len) {
		cleanup_buf struct buf repaired = BUF_INIT;

		text_decode(&decoder, &repaired, text + done, len - done);
		text_decode_end(&decoder, &repaired);
		write_valid(out, buf_bytes(&repaired), repaired.len);
	}
	buf_append_char(out, '"');
	return (size_t)decoder.repaired;
}

enum { DIGITS_MAX = 17 };

struct decimal {
	char digits[DIGITS_MAX + 1]; /* value = d.ddd * 10^exponent */
	int count;
	int exponent;
};

/* The nearest decimal of `count` digits; `printed` gets printf's form of it. */
static void to_decimal(double value, int count, struct decimal *decimal, char printed[static 40])
{
	const char *at = printed;

	snprintf(printed, 40, "%.*e", count - 1, value);
	decimal->count = 0;
	for (; *at != 'e'; at++) {
		/* Whatever is no digit is the locale's decimal point. */
		if (*at >= '0' && *at <= '9' && decimal->count < DIGITS_MAX)
			decimal->digits[decimal->count++] = *at;
	}
	decimal->exponent = (int)strtol(at + 1, NULL, 10);
}

/* The next decimal of the same length away from zero, if it reads back as `value`. */
static bool upper_neighbour(double value, struct decimal *decimal)
{
	struct decimal next = *decimal;
	char text[40];
	int i = next.count - 1;

	while (i >= 0 && next.digits[i] == '9')
		next.digits[i--] = '0';
	if (i < 0)
		return false; /* 9.99...: its neighbour is 1 with fewer digits, and that was tried
			       */
	next.digits[i]++;
	/* As an integer with an exponent: no decimal point, so no locale. */
	snprintf(text, sizeof(text), "%.*se%d", next.count, next.digits,
		 next.exponent - (next.count - 1));
	if (strtod(text, NULL) != value)
		return false;
	*decimal = next;
	return true;
}

/* The shortest decimal that reads back as `value` (finite, > 0). */
static void shortest_decimal(double value, struct decimal *decimal)
{
	int count = value < DBL_MIN ? 1 : DBL_DIG;
	char printed[40];

	for (;; count++) {
		to_decimal(value, count, decimal, printed);
		if (count == DIGITS_MAX || strtod(printed, NULL) == value ||
		    upper_neighbour(value, decimal))
			break;
	}
	while (decimal->count > 1 && decimal->digits[decimal->count - 1] == '0')
		decimal->count--;
}

void json_write_double(struct buf *out, double value)
{
	struct decimal decimal = {.digits = "0", .count = 1, .exponent = 0};
	int whole;

	assert(isfinite(value));
	if (signbit(value))
		buf_append_char(out, '-');
	if (value != 0)
		shortest_decimal(fabs(value), &decimal);

	if (decimal.exponent < -4 || decimal.exponent >= 16) {
		buf_append(out, decimal.digits, 1);
		if (decimal.count > 1) {
			buf_append_char(out, '.');
			buf_append(out, decimal.digits + 1, (size_t)decimal.count - 1);
		}
		buf_printf(out, "e%c%02d", decimal.exponent < 0 ? '-' : '+', abs(decimal.exponent));
		return;
	}
	/* Digits before the point, zeros where there are none, ".0" when none is left. */
	whole = decimal.exponent + 1;
	if (whole <= 0)
		buf_append_char(out, '0');
	for (int i = 0; i < whole; i++)
		buf_append_char(out, i < decimal.count ? decimal.digits[i] : '0');
	buf_append_char(out, '.');
	for (int i = whole; i < 0; i++)
		buf_append_char(out, '0');
	for (int i = whole > 0 ? whole : 0; i < decimal.count; i++)
		buf_append_char(out, decimal.digits[i]);
	if (whole >= decimal.count)
		buf_append_char(out, '0');
}

/* --- for people --- */

static void indent(struct buf *out, unsigned depth)
{
	buf_append_char(out, '\n');
	while (depth-- > 0)
		buf_append_char(out, '\t');
}

struct printing {
	struct buf *out;
	unsigned depth;
	bool first;
};

static int print_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct printing *printing = data;
	struct printing inner = {printing->out, printing->depth + 1, true};

	if (!printing->first)
		buf_append_char(printing->out, ',');
	printing->first = false;
	indent(printing->out, printing->depth);
	json_write_string(printing->out, key, key_len);
	buf_append_string(printing->out, ": ");
	if (json_type_of(value) != JSON_OBJECT) {
		json_write(printing->out, value);
		return 0;
	}
	buf_append_char(printing->out, '{');
	json_each(value, print_member, &inner);
	indent(printing->out, printing->depth);
	buf_append_char(printing->out, '}');
	return 0;
}

void json_write_indented(struct buf *out, const struct json *object)
{
	struct printing printing = {out, 1, true};

	buf_append_char(out, '{');
	json_each(object, print_member, &printing);
	buf_append_string(out, "\n}\n");
}
