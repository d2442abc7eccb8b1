/*
 * Image headers, read byte by byte through a base64 decoder, since in a JPEG the size may stand
 * behind hundreds of kilobytes of colour profile and preview. The search stops at a mebibyte.
 */
#include "digest/image.h"

#include <string.h>

enum { HEADER_BYTES = 30, SEARCH_BYTES_MAX = 1 << 20 };

struct reader {
	const char *at;
	const char *end;
	uint32_t bits;
	unsigned bit_count;
	size_t taken;
};

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The next byte, or -1. */
static int next_byte(struct reader *reader)
{
	while (reader->bit_count < 8) {
		int value;

		if (reader->at == reader->end || reader->taken >= SEARCH_BYTES_MAX)
			return -1;
		if (*reader->at == '\n' || *reader->at == '\r' || *reader->at == ' ') {
			reader->at++;
			continue;
		}
		value = digit(*reader->at++);
		if (value < 0) {
			reader->at = reader->end;
			return -1;
		}
		reader->bits = (reader->bits << 6 | (uint32_t)value) & 0xffffff;
		reader->bit_count += 6;
	}
	reader->bit_count -= 8;
	reader->taken++;
	return (int)(reader->bits >> reader->bit_count & 0xff);
}

static uint32_t little(const unsigned char *bytes, unsigned count)
{
	uint32_t value = 0;

	while (count-- > 0)
		value = value << 8 | bytes[count];
	return value;
}

static uint32_t big(const unsigned char *bytes, unsigned count)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

static bool webp_size(const unsigned char *header, size_t len, uint32_t *width, uint32_t *height)
{
	uint32_t packed;

	if (len >= 30 && memcmp(header + 12, "VP8X", 4) == 0) {
		*width = little(header + 24, 3) + 1;
		*height = little(header + 27, 3) + 1;
	} else if (len >= 25 && memcmp(header + 12, "VP8L", 4) == 0 && header[20] == 0x2f) {
		packed = little(header + 21, 4);
		*width = (packed & 0x3fff) + 1;
		*height = (packed >> 14 & 0x3fff) + 1;
	} else if (len >= 30 && memcmp(header + 12, "VP8 ", 4) == 0) {
		*width = little(header + 26, 2) & 0x3fff;
		*height = little(header + 28, 2) & 0x3fff;
	} else {
		return false;
	}
	return true;
}

/* The formats whose size stands in the first bytes, of which `len` are there. */
static bool header_size(const unsigned char *header, size_t len, uint32_t *width, uint32_t *height)
{
	if (len >= 24 && memcmp(header, "\x89PNG\r\n\x1a\n", 8) == 0 &&
	    memcmp(header + 12, "IHDR", 4) == 0) {
		*width = big(header + 16, 4);
		*height = big(header + 20, 4);
		return true;
	}
	if (len >= 10 && (memcmp(header, "GIF87a", 6) == 0 || memcmp(header, "GIF89a", 6) == 0)) {
		*width = little(header + 6, 2);
		*height = little(header + 8, 2);
		return true;
	}
	return memcmp(header, "RIFF", 4) == 0 && memcmp(header + 8, "WEBP", 4) == 0 &&
	       webp_size(header, len, width, height);
}

static bool skip(struct reader *reader, uint32_t count)
{
	while (count-- > 0)
		if (next_byte(reader) < 0)
			return false;
	return true;
}

/* How many of `count` bytes there were. */
static size_t read_bytes(struct reader *reader, unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int byte = next_byte(reader);

		if (byte < 0)
			return i;
		bytes[i] = (unsigned char)byte;
	}
	return count;
}

/* From behind SOI: segments up to a frame header (SOF0..SOF15 without DHT, JPG, DAC). */
static bool jpeg_size(struct reader *reader, uint32_t *width, uint32_t *height)
{
	for (;;) {
		unsigned char frame[7]; /* length, precision, height, width */
		int marker = next_byte(reader);

		if (marker != 0xff)
			return false;
		while (marker == 0xff)
			marker = next_byte(reader);
		if (marker < 0xc0 || marker == 0xd8 || marker == 0xd9 || marker == 0xda ||
		    read_bytes(reader, frame, 2) < 2)
			return false;
		if (marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
			if (read_bytes(reader, frame + 2, 5) < 5)
				return false;
			*height = big(frame + 3, 2);
			*width = big(frame + 5, 2);
			return true;
		}
		if (big(frame, 2) < 2 || !skip(reader, big(frame, 2) - 2))
			return false;
	}
}

bool image_size(const char *base64, size_t len, uint32_t *width, uint32_t *height)
{
	struct reader reader = {.at = base64, .end = base64 + len};
	unsigned char header[HEADER_BYTES] = {0};
	uint32_t wide = 0;
	uint32_t high = 0;
	size_t len_read = read_bytes(&reader, header, 2);
	bool found;

	if (header[0] == 0xff && header[1] == 0xd8) {
		found = jpeg_size(&reader, &wide, &high);
	} else {
		len_read += read_bytes(&reader, header + 2, HEADER_BYTES - 2);
		found = header_size(header, len_read, &wide, &high);
	}
	if (!found || wide == 0 || high == 0 || wide > INT32_MAX || high > INT32_MAX)
		return false;
	*width = wide;
	*height = high;
	return true;
}

uint64_t image_bytes(const char *base64, size_t len)
{
	while (len > 0 && (base64[len - 1] == '=' || base64[len - 1] == '\n'))
		len--;
	return (uint64_t)len * 3 / 4;
}
