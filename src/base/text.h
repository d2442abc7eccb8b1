/*
 * Text: UTF-8, checked, repaired, decoded piece by piece, counted and cut.
 *
 * Bytes from a guest are hostile: each function here takes any bytes. A bad byte becomes U+FFFD by
 * the WHATWG rule ("maximal subpart", Unicode 15 §3.9), a surrogate coded as UTF-8 (ED A0..BF xx)
 * becomes one U+FFFD, and nothing else is touched: NUL and ESC pass.
 */
#ifndef FH_BASE_TEXT_H
#define FH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* An incremental decoder: at most 3 bytes of an unfinished sequence are kept between calls. */
struct text_decoder {
	unsigned char held[4];
	unsigned char held_len;
	uint64_t repaired; /* how many U+FFFD were put in */
};

#define TEXT_DECODER_INIT \
	{ \
		.held = {0}, .held_len = 0, .repaired = 0 \
	}

/* Appends the valid UTF-8 for `bytes` to `out`; an unfinished sequence at the end is held back. */
void text_decode(struct text_decoder *decoder, struct buf *out, const void *bytes, size_t len);

/* Ends the text: a held sequence becomes U+FFFD. */
void text_decode_end(struct text_decoder *decoder, struct buf *out);

/* Whether the bytes are UTF-8 without surrogates. */
bool text_is_utf8(const void *bytes, size_t len);

/* Length in code points of valid UTF-8 (bytes that are no continuation bytes, for any bytes). */
size_t text_count(const char *text, size_t len);

/* Decodes the code point at `text` (len > 0) into *point and returns its length 1..4; a bad byte
 * gives U+FFFD and 1. */
size_t text_next(const char *text, size_t len, uint32_t *point);

/* Appends the UTF-8 of a code point (a surrogate or a value above U+10FFFF gives U+FFFD). */
void text_put(struct buf *out, uint32_t point);

/* The longest prefix of valid UTF-8 `text` that has at most `points` code points and does not split
 * a grapheme cluster, in bytes. Clusters by UAX #29 in the reduced form that matters here:
 * combining marks (Mn, Me, Mc of the common blocks), variation selectors, ZWJ sequences, emoji
 * modifiers, regional indicator pairs, Hangul L/V/T, CR LF. */
size_t text_prefix(const char *text, size_t len, size_t points);

/* The longest suffix with the same property; returns the byte offset at which it begins. */
size_t text_suffix(const char *text, size_t len, size_t points);

/* Whether `id` is 1..64 of [A-Za-z0-9_-]: the form nbformat 4.5 gives cell ids. */
bool text_is_id(const char *id, size_t len);

/* How many bytes must be put in, taken out or replaced to make one text of the other; `b` has at
 * most TEXT_DISTANCE_BYTES_MAX bytes. For "did you mean": what is longer is no slip of the pen. */
enum { TEXT_DISTANCE_BYTES_MAX = 48 };
size_t text_distance(const char *a, const char *b);

/* Appends bytes so that a terminal cannot be harmed: C0 and C1 controls, DEL, bidi overrides and
 * bad UTF-8 are shown as \xNN, \u{N}; with `lines`, LF and TAB pass; with `colour`, also SGR
 * sequences (ESC [ digits ; m), CR, BS and erase-line (ESC [ K). */
void text_escape(struct buf *out, const char *text, size_t len, bool lines, bool colour);

#endif
