/*
 * An image's size in pixels, from the first bytes of its base64 text.
 *
 * PNG (ISO/IEC 15948 §11.2.2), GIF (GIF89a §18), JPEG (ITU-T T.81 §B.2.2), WebP (RFC 9649). Nothing
 * is decoded but the header, and nothing is allocated.
 */
#ifndef FH_DIGEST_IMAGE_H
#define FH_DIGEST_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a size was found. White space in the base64 is passed over; anything else that is none
 * ends it. */
bool image_size(const char *base64, size_t len, uint32_t *width, uint32_t *height);

/* Bytes that base64 text of `len` characters stands for (padding counted off, line ends counted as
 * if they were none). */
uint64_t image_bytes(const char *base64, size_t len);

#endif
