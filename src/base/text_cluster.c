/*
 * Cutting text where a reader sees no cut: between grapheme clusters (UAX #29).
 *
 * Whether there is a boundary between two code points follows from the two alone, but for regional
 * indicators: flags are pairs, so whether one begins or ends a pair depends on how many stand
 * before it. That is what is reduced against UAX #29: a pictograph after a ZWJ always joins (GB11
 * asks for a pictograph before the ZWJ as well), prepended marks do not, marks beyond the first
 * plane are not known, and the pictographs are whole blocks. The error is a cut too few.
 *
 * A cluster may be longer than what is asked for (a letter with ten thousand accents): then the
 * result is empty. Nothing here is proportional to more than the text.
 */
#include "base/text.h"

struct range {
	uint32_t first;
	uint32_t last;
};

/*
 * What clings to the code point before it: general categories Mn, Me and Mc of the first plane in
 * Unicode 14 (unassigned code points between two marks count as marks), Thai and Lao SARA AM, ZERO
 * WIDTH NON-JOINER, emoji modifiers, tag characters, variation selectors. Sorted.
 */
static const struct range MARKS[] = {
	{0x300, 0x36f}, {0x483, 0x489}, {0x591, 0x5bd}, {0x5bf, 0x5bf}, {0x5c1, 0x5c2},
	{0x5c4, 0x5c5}, {0x5c7, 0x5c7}, {0x610, 0x61a}, {0x64b, 0x65f}, {0x670, 0x670},
	{0x6d6, 0x6dc}, {0x6df, 0x6e4}, {0x6e7, 0x6e8}, {0x6ea, 0x6ed}, {0x711, 0x711},
	{0x730, 0x74a}, {0x7a6, 0x7b0}, {0x7eb, 0x7f3}, {0x7fd, 0x7fd}, {0x816, 0x819},
	{0x81b, 0x823}, {0x825, 0x827}, {0x829, 0x82d}, {0x859, 0x85b}, {0x898, 0x89f},
	{0x8ca, 0x8e1}, {0x8e3, 0x903}, {0x93a, 0x93c}, {0x93e, 0x94f}, {0x951, 0x957},
	{0x962, 0x963}, {0x981, 0x983}, {0x9bc, 0x9bc}, {0x9be, 0x9cd}, {0x9d7, 0x9d7},
	{0x9e2, 0x9e3}, {0x9fe, 0xa03}, {0xa3c, 0xa51}, {0xa70, 0xa71}, {0xa75, 0xa75},
	{0xa81, 0xa83}, {0xabc, 0xabc}, {0xabe, 0xacd}, {0xae2, 0xae3}, {0xafa, 0xb03},
	{0xb3c, 0xb3c}, {0xb3e, 0xb57}, {0xb62, 0xb63}, {0xb82, 0xb82}, {0xbbe, 0xbcd},
	{0xbd7, 0xbd7}, {0xc00, 0xc04}, {0xc3c, 0xc3c}, {0xc3e, 0xc56}, {0xc62, 0xc63},
	{0xc81, 0xc83}, {0xcbc, 0xcbc}, {0xcbe, 0xcd6}, {0xce2, 0xce3}, {0xd00, 0xd03},
	{0xd3b, 0xd3c}, {0xd3e, 0xd4d}, {0xd57, 0xd57}, {0xd62, 0xd63}, {0xd81, 0xd83},
	{0xdca, 0xddf}, {0xdf2, 0xdf3}, {0xe31, 0xe31}, {0xe33, 0xe3a}, {0xe47, 0xe4e},
	{0xeb1, 0xeb1}, {0xeb3, 0xebc}, {0xec8, 0xecd}, {0xf18, 0xf19}, {0xf35, 0xf35},
	{0xf37, 0xf37}, {0xf39, 0xf39}, {0xf3e, 0xf3f}, {0xf71, 0xf84}, {0xf86, 0xf87},
	{0xf8d, 0xfbc}, {0xfc6, 0xfc6}, {0x102b, 0x103e}, {0x1056, 0x1059}, {0x105e, 0x1060},
	{0x1062, 0x1064}, {0x1067, 0x106d}, {0x1071, 0x1074}, {0x1082, 0x108d}, {0x108f, 0x108f},
	{0x109a, 0x109d}, {0x135d, 0x135f}, {0x1712, 0x1715}, {0x1732, 0x1734}, {0x1752, 0x1753},
	{0x1772, 0x1773}, {0x17b4, 0x17d3}, {0x17dd, 0x17dd}, {0x180b, 0x180d}, {0x180f, 0x180f},
	{0x1885, 0x1886}, {0x18a9, 0x18a9}, {0x1920, 0x193b}, {0x1a17, 0x1a1b}, {0x1a55, 0x1a7f},
	{0x1ab0, 0x1b04}, {0x1b34, 0x1b44}, {0x1b6b, 0x1b73}, {0x1b80, 0x1b82}, {0x1ba1, 0x1bad},
	{0x1be6, 0x1bf3}, {0x1c24, 0x1c37}, {0x1cd0, 0x1cd2}, {0x1cd4, 0x1ce8}, {0x1ced, 0x1ced},
	{0x1cf4, 0x1cf4}, {0x1cf7, 0x1cf9}, {0x1dc0, 0x1dff}, {0x200c, 0x200c}, {0x20d0, 0x20f0},
	{0x2cef, 0x2cf1}, {0x2d7f, 0x2d7f}, {0x2de0, 0x2dff}, {0x302a, 0x302f}, {0x3099, 0x309a},
	{0xa66f, 0xa672}, {0xa674, 0xa67d}, {0xa69e, 0xa69f}, {0xa6f0, 0xa6f1}, {0xa802, 0xa802},
	{0xa806, 0xa806}, {0xa80b, 0xa80b}, {0xa823, 0xa827}, {0xa82c, 0xa82c}, {0xa880, 0xa881},
	{0xa8b4, 0xa8c5}, {0xa8e0, 0xa8f1}, {0xa8ff, 0xa8ff}, {0xa926, 0xa92d}, {0xa947, 0xa953},
	{0xa980, 0xa983}, {0xa9b3, 0xa9c0}, {0xa9e5, 0xa9e5}, {0xaa29, 0xaa36}, {0xaa43, 0xaa43},
	{0xaa4c, 0xaa4d}, {0xaa7b, 0xaa7d}, {0xaab0, 0xaab0}, {0xaab2, 0xaab4}, {0xaab7, 0xaab8},
	{0xaabe, 0xaabf}, {0xaac1, 0xaac1}, {0xaaeb, 0xaaef}, {0xaaf5, 0xaaf6}, {0xabe3, 0xabea},
	{0xabec, 0xabed}, {0xfb1e, 0xfb1e}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff},
	{0xe0020, 0xe007f}, {0xe0100, 0xe01ef},
};

/* Pictographs and what emoji sequences join by ZWJ: blocks, not single characters. */
static const struct range PICTOGRAPHS[] = {
	{0xa9, 0xa9}, {0xae, 0xae}, {0x203c, 0x203c}, {0x2049, 0x2049}, {0x2122, 0x2122},
	{0x2139, 0x2139}, {0x2190, 0x21ff}, {0x2300, 0x23ff}, {0x2460, 0x24ff}, {0x25a0, 0x27bf},
	{0x2900, 0x297f}, {0x2b00, 0x2bff}, {0x3030, 0x3030}, {0x303d, 0x303d}, {0x3297, 0x3297},
	{0x3299, 0x3299}, {0x1f000, 0x1faff},
};

enum hangul { HANGUL_NONE, HANGUL_L, HANGUL_V, HANGUL_T, HANGUL_LV, HANGUL_LVT };

static const uint32_t ZWJ = 0x200d;

static bool in_ranges(const struct range *ranges, size_t count, uint32_t point)
{
	size_t low = 0;

	while (count > 0) {
		size_t half = count / 2;

		if (point > ranges[low + half].last) {
			low += half + 1;
			count -= half + 1;
		} else if (point < ranges[low + half].first) {
			count = half;
		} else {
			return true;
		}
	}
	return false;
}

static bool is_mark(uint32_t point)
{
	return point >= MARKS[0].first && in_ranges(MARKS, sizeof(MARKS) / sizeof(MARKS[0]), point);
}

static bool is_pictograph(uint32_t point)
{
	return in_ranges(PICTOGRAPHS, sizeof(PICTOGRAPHS) / sizeof(PICTOGRAPHS[0]), point);
}

static bool is_regional(uint32_t point)
{
	return point >= 0x1f1e6 && point <= 0x1f1ff;
}

static bool is_control(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point <= 0x9f) || point == 0x2028 ||
	       point == 0x2029;
}

static enum hangul hangul_of(uint32_t point)
{
	if (point < 0x1100 || point > 0xd7fb)
		return HANGUL_NONE;
	if (point <= 0x115f || (point >= 0xa960 && point <= 0xa97c))
		return HANGUL_L;
	if (point <= 0x11a7 || (point >= 0xd7b0 && point <= 0xd7c6))
		return HANGUL_V;
	if (point <= 0x11ff || point >= 0xd7cb)
		return HANGUL_T;
	if (point >= 0xac00 && point <= 0xd7a3)
		return (point - 0xac00) % 28 == 0 ? HANGUL_LV : HANGUL_LVT;
	return HANGUL_NONE;
}

/* GB6 to GB8. */
static bool hangul_joins(enum hangul before, enum hangul after)
{
	switch (before) {
	case HANGUL_L:
		return after == HANGUL_L || after == HANGUL_V || after == HANGUL_LV ||
		       after == HANGUL_LVT;
	case HANGUL_LV:
	case HANGUL_V:
		return after == HANGUL_V || after == HANGUL_T;
	case HANGUL_LVT:
	case HANGUL_T:
		return after == HANGUL_T;
	case HANGUL_NONE:
	default:
		return false;
	}
}

/* Whether `after` belongs to the cluster of `before`. `regionals` counts the regional indicators
 * that end with `before`. */
static bool joins(uint32_t before, uint32_t after, size_t regionals)
{
	if (before < 0x300 && after < 0x300 && before != '\r')
		return false; /* nothing below U+0300 clings; the common case */
	if (before == '\r' && after == '\n')
		return true;
	if (is_control(before) || is_control(after))
		return false;
	if (after == ZWJ || is_mark(after))
		return true;
	if (before == ZWJ)
		return is_pictograph(after);
	if (is_regional(before) && is_regional(after))
		return regionals % 2 == 1;
	return hangul_joins(hangul_of(before), hangul_of(after));
}

size_t text_prefix(const char *text, size_t len, size_t points)
{
	size_t boundary = 0; /* the last place to cut that is short enough */
	size_t regionals = 0;
	size_t i = 0;
	uint32_t before = 0;

	if (len <= points) /* a code point has a byte at least */
		return len;
	for (size_t seen = 0; i < len; seen++) {
		uint32_t point;
		size_t step = text_next(text + i, len - i, &point);

		if (seen == 0 || !joins(before, point, regionals))
			boundary = i;
		if (seen == points)
			return boundary;
		regionals = is_regional(point) ? regionals + 1 : 0;
		before = point;
		i += step;
	}
	return len;
}

/* Start of the code point that ends at `end` (> 0). A bad byte is a code point of its own. */
static size_t step_back(const char *text, size_t end)
{
	size_t start = end - 1;
	uint32_t point;

	while (start > 0 && end - start < 4 && ((unsigned char)text[start] & 0xc0) == 0x80)
		start--;
	return text_next(text + start, end - start, &point) == end - start ? start : end - 1;
}

/* How many regional indicators end at `end`. */
static size_t count_regionals(const char *text, size_t end)
{
	size_t count = 0;

	while (end > 0) {
		size_t start = step_back(text, end);
		uint32_t point;

		text_next(text + start, end - start, &point);
		if (!is_regional(point))
			break;
		count++;
		end = start;
	}
	return count;
}

size_t text_suffix(const char *text, size_t len, size_t points)
{
	size_t start = len;
	size_t regionals, before_at;
	uint32_t before;

	for (size_t seen = 0; seen < points && start > 0; seen++)
		start = step_back(text, start);
	if (start == 0 || start == len)
		return start;
	/* Forward to a boundary. */
	regionals = count_regionals(text, start);
	before_at = step_back(text, start);
	text_next(text + before_at, start - before_at, &before);
	while (start < len) {
		uint32_t point;
		size_t step = text_next(text + start, len - start, &point);

		if (!joins(before, point, regionals))
			break;
		regionals = is_regional(point) ? regionals + 1 : 0;
		before = point;
		start += step;
	}
	return start;
}
