/*
 * A growing byte buffer.
 *
 * `data` is NULL or has a NUL behind `len` bytes, so text in it is a C string as well. Consuming
 * from the front is amortised O(1): bytes before `head` are dead and are reclaimed when more than
 * half of the buffer is dead. `data + head` is never used directly: buf_bytes() gives it.
 */
#ifndef FH_BASE_BUF_H
#define FH_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t head; /* first live byte */
	size_t len;  /* live bytes */
	size_t cap;
};

#define BUF_INIT {.data = NULL, .head = 0, .len = 0, .cap = 0}

void buf_release(struct buf *buf);

/* Live bytes; never NULL (an empty string when there are none). */
const char *buf_bytes(const struct buf *buf);

/* Makes room for `extra` more bytes and returns where they go; follow with buf_added(). */
char *buf_reserve(struct buf *buf, size_t extra);
void buf_added(struct buf *buf, size_t count);

void buf_append(struct buf *buf, const void *bytes, size_t count);
void buf_append_string(struct buf *buf, const char *string);
void buf_append_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/* Drops `count` bytes (<= len) from the front. */
void buf_consume(struct buf *buf, size_t count);

/* Cuts to `len` bytes (<= the present length). */
void buf_truncate(struct buf *buf, size_t len);

/* Empties it and keeps the memory. */
void buf_clear(struct buf *buf);

/* Hands the bytes (NUL-terminated, from malloc) to the caller and leaves the buffer empty. */
char *buf_take(struct buf *buf, size_t *len);

#define cleanup_buf __attribute__((cleanup(buf_release)))

#endif
