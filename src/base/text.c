/*
 * UTF-8: one function that looks at the bytes of one sequence, and everything else built on it.
 *
 * sequence() answers how many bytes stand for one code point or for one U+FFFD, so the check, the
 * repair and the incremental decoder cannot disagree. Its table is Table 3-7 of Unicode 15 (§3.9),
 * with one departure: ED A0..BF xx, a surrogate coded as UTF-8, is one bad sequence and not three
 * (Python's surrogatepass writes these; a reader expects one mark for one character).
 *
 * Outputs of 100 MB pass through here, nearly all of it ASCII: ascii_run() takes eight bytes at a
 * time, and good bytes are appended in as long spans as there are.
 */
#include "base/text.h"

#include <assert.h>
#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */
static const uint32_t REPLACEMENT_POINT = 0xfffd;
static const uint64_t HIGH_BITS = 0x8080808080808080;

enum outcome {
	SEQUENCE_GOOD,
	SEQUENCE_BAD,     /* these bytes are replaced by one U+FFFD */
	SEQUENCE_PARTIAL, /* good so far, but the bytes end here */
};

/* How many bytes at the start are ASCII. */
static size_t ascii_run(const unsigned char *bytes, size_t len)
{
	size_t i = 0;

	for (; len - i >= 8; i += 8) {
		uint64_t word;

		memcpy(&word, bytes + i, 8);
		if (word & HIGH_BITS)
			break;
	}
	while (i < len && bytes[i] < 0x80)
		i++;
	return i;
}

/* Length of the sequence that a lead byte begins, and the range its second byte must be in; 0 for a
 * byte that begins nothing. */
static size_t lead_byte(unsigned char lead, unsigned char *low, unsigned char *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (lead < 0x80)
		return 1;
	if (lead < 0xc2 || lead > 0xf4)
		return 0;
	if (lead < 0xe0)
		return 2;
	if (lead < 0xf0) {
		if (lead == 0xe0)
			*low = 0xa0; /* below: overlong */
		return 3;
	}
	if (lead == 0xf0)
		*low = 0x90; /* below: overlong */
	else if (lead == 0xf4)
		*high = 0x8f; /* above: beyond U+10FFFF */
	return 4;
}

/* Looks at the first sequence of `bytes` (len > 0) and returns its length (all of `len` if
 * partial). */
static size_t sequence(const unsigned char *bytes, size_t len, enum outcome *outcome)
{
	unsigned char low, high;
	size_t want = lead_byte(bytes[0], &low, &high);
	size_t have = 1;

	*outcome = SEQUENCE_BAD;
	if (want == 0)
		return 1;
	if (want > 1 && len > 1) {
		if (bytes[1] < low || bytes[1] > high)
			return 1;
		have = 2;
		while (have < want && have < len && (bytes[have] & 0xc0) == 0x80)
			have++;
		if (bytes[0] == 0xed && bytes[1] > 0x9f) {
			/* A surrogate: bad, whole as three bytes, else two bad bytes each on its
			 * own. */
			if (have == 2 && len == 2)
				*outcome = SEQUENCE_PARTIAL;
			return have == 3 || len == 2 ? have : 1;
		}
	}
	if (have == want)
		*outcome = SEQUENCE_GOOD;
	else if (have == len)
		*outcome = SEQUENCE_PARTIAL;
	return have;
}

static void put_replacement(struct text_decoder *decoder, struct buf *out)
{
	buf_append(out, REPLACEMENT, sizeof(REPLACEMENT) - 1);
	decoder->repaired++;
}

/* Takes one decided sequence off the held bytes. */
static void take_held(struct text_decoder *decoder, struct buf *out, size_t count, bool good)
{
	if (good)
		buf_append(out, decoder->held, count);
	else
		put_replacement(decoder, out);
	decoder->held_len = (unsigned char)(decoder->held_len - count);
	memmove(decoder->held, decoder->held + count, decoder->held_len);
}

/* Feeds the held sequence byte by byte until nothing is held; returns how many bytes it took. */
static size_t finish_held(struct text_decoder *decoder, struct buf *out, const unsigned char *bytes,
			  size_t len)
{
	size_t taken = 0;

	while (decoder->held_len > 0 && taken < len) {
		decoder->held[decoder->held_len++] = bytes[taken++];
		while (decoder->held_len > 0) {
			enum outcome outcome;
			size_t count = sequence(decoder->held, decoder->held_len, &outcome);

			if (outcome == SEQUENCE_PARTIAL)
				break;
			take_held(decoder, out, count, outcome == SEQUENCE_GOOD);
		}
	}
	return taken;
}

void text_decode(struct text_decoder *decoder, struct buf *out, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	size_t i = finish_held(decoder, out, at, len);
	size_t good_from = i; /* bytes from here to i are good and not yet appended */

	while (i < len) {
		enum outcome outcome;
		size_t count = ascii_run(at + i, len - i);

		i += count;
		if (i == len)
			break;
		count = sequence(at + i, len - i, &outcome);
		if (outcome == SEQUENCE_GOOD) {
			i += count;
			continue;
		}
		buf_append(out, at + good_from, i - good_from);
		if (outcome == SEQUENCE_BAD) {
			put_replacement(decoder, out);
		} else {
			memcpy(decoder->held, at + i, count);
			decoder->held_len = (unsigned char)count;
		}
		i += count;
		good_from = i;
	}
	if (i > good_from)
		buf_append(out, at + good_from, i - good_from);
}

void text_decode_end(struct text_decoder *decoder, struct buf *out)
{
	while (decoder->held_len > 0) {
		enum outcome outcome;
		size_t count = sequence(decoder->held, decoder->held_len, &outcome);

		/* Half a surrogate is no beginning of anything in UTF-8: two bad bytes, as WHATWG
		 * has it. */
		if (decoder->held_len == 2 && decoder->held[0] == 0xed && decoder->held[1] > 0x9f)
			count = 1;
		take_held(decoder, out, count, false);
	}
}

bool text_is_utf8(const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	size_t i = 0;

	while (i < len) {
		enum outcome outcome;

		i += ascii_run(at + i, len - i);
		if (i == len)
			break;
		i += sequence(at + i, len - i, &outcome);
		if (outcome != SEQUENCE_GOOD)
			return false;
	}
	return true;
}

size_t text_count(const char *text, size_t len)
{
	size_t continuations = 0;
	size_t i = 0;

	for (; len - i >= 8; i += 8) {
		uint64_t word;

		/* A continuation byte has bit 7 set and bit 6 clear. */
		memcpy(&word, text + i, 8);
		continuations += (size_t)__builtin_popcountll(word & ~(word << 1) & HIGH_BITS);
	}
	for (; i < len; i++)
		continuations += ((unsigned char)text[i] & 0xc0) == 0x80;
	return len - continuations;
}

size_t text_next(const char *text, size_t len, uint32_t *point)
{
	const unsigned char *at = (const unsigned char *)text;
	enum outcome outcome;
	size_t count = sequence(at, len, &outcome);

	if (outcome != SEQUENCE_GOOD) {
		*point = REPLACEMENT_POINT;
		return 1;
	}
	if (count == 1) {
		*point = at[0];
		return 1;
	}
	*point = at[0] & (0x7fU >> count);
	for (size_t i = 1; i < count; i++)
		*point = *point << 6 | (at[i] & 0x3fU);
	return count;
}

void text_put(struct buf *out, uint32_t point)
{
	char bytes[4];
	size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

	if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
		buf_append(out, REPLACEMENT, sizeof(REPLACEMENT) - 1);
		return;
	}
	if (len == 1) {
		buf_append_char(out, (char)point);
		return;
	}
	for (size_t i = len - 1; i > 0; i--) {
		bytes[i] = (char)(unsigned char)(0x80 | (point & 0x3f));
		point >>= 6;
	}
	bytes[0] = (char)(unsigned char)((0xf00U >> len) | point);
	buf_append(out, bytes, len);
}

bool text_is_id(const char *id, size_t len)
{
	if (len < 1 || len > 64)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = id[i];

		if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		      c == '_' || c == '-'))
			return false;
	}
	return true;
}

size_t text_distance(const char *a, const char *b)
{
	size_t row[TEXT_DISTANCE_BYTES_MAX + 1];
	size_t len = strlen(b);

	assert(len <= TEXT_DISTANCE_BYTES_MAX);
	for (size_t k = 0; k <= len; k++)
		row[k] = k;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t k = 1; k <= len; k++) {
			size_t best = diagonal + (a[i - 1] != b[k - 1]);

			if (row[k] + 1 < best)
				best = row[k] + 1;
			if (row[k - 1] + 1 < best)
				best = row[k - 1] + 1;
			diagonal = row[k];
			row[k] = best;
		}
	}
	return row[len];
}
