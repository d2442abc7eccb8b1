/*
 * Ranges and types; see range.h.
 */
#include "serve/range.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

static bool take_number(const char **at, const char *end, uint64_t *number)
{
	const char *start = *at;

	*number = 0;
	while (*at < end && **at >= '0' && **at <= '9') {
		if (*at - start >= 18)
			return false;
		*number = *number * 10 + (uint64_t)(*(*at)++ - '0');
	}
	return *at > start;
}

enum range_kind range_read(const struct slice *field, uint64_t total, uint64_t *start,
			   uint64_t *end)
{
	const char *at = field->at;
	const char *stop = at + field->len;
	uint64_t first = 0, last = 0;
	bool has_first, has_last;

	if (field->len < 6 || strncasecmp(at, "bytes=", 6) != 0)
		return RANGE_NONE;
	at += 6;
	has_first = take_number(&at, stop, &first);
	if (at == stop || *at != '-')
		return RANGE_NONE;
	at++;
	has_last = take_number(&at, stop, &last);
	if (at != stop || (!has_first && !has_last) || (has_first && has_last && last < first))
		return RANGE_NONE;
	if (has_first ? first >= total : last == 0 || total == 0)
		return RANGE_OUTSIDE;
	*start = has_first ? first : last < total ? total - last : 0;
	*end = has_first && has_last && last < total - 1 ? last + 1 : total;
	return RANGE_SOME;
}

static const struct {
	const char *start;
	size_t len;
	const char *type;
} SIGNATURES[] = {
	{"\x89PNG\r\n\x1a\n", 8, "image/png"},
	{"\xff\xd8\xff", 3, "image/jpeg"},
	{"GIF87a", 6, "image/gif"},
	{"GIF89a", 6, "image/gif"},
	{"%PDF-", 5, "application/pdf"},
	{"PK\x03\x04", 4, "application/zip"},
	{"\x1f\x8b", 2, "application/gzip"},
};

const char *file_type(const char *bytes, size_t len)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < sizeof(SIGNATURES) / sizeof(SIGNATURES[0]); i++)
		if (len >= SIGNATURES[i].len &&
		    memcmp(bytes, SIGNATURES[i].start, SIGNATURES[i].len) == 0)
			return SIGNATURES[i].type;
	if (len >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
		return "image/webp";
	/* A character may be cut at the end of the part. */
	text_decode(&decoder, &text, bytes, len);
	buf_release(&text);
	return decoder.repaired == 0 && !memchr(bytes, '\0', len) ? "text/plain; charset=utf-8"
								  : "application/octet-stream";
}
