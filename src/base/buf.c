/*
 * A growing byte buffer: one malloc block of dead bytes, live bytes, a NUL, and room.
 *
 * Capacity doubles, so appending is amortised O(1). Dead bytes at the front are taken back by
 * moving the live ones only when the dead outnumber half of the block; then each byte moved is paid
 * for by a byte that was consumed.
 *
 * Invariant: data == NULL and head == len == cap == 0, or head + len < cap and data[head + len] ==
 * 0.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { CAPACITY_MIN = 64 };

void buf_release(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf)BUF_INIT;
}

const char *buf_bytes(const struct buf *buf)
{
	return buf->data ? buf->data + buf->head : "";
}

/* Moves the live bytes, and their NUL, to the front. */
static void compact(struct buf *buf)
{
	memmove(buf->data, buf->data + buf->head, buf->len + 1);
	buf->head = 0;
}

char *buf_reserve(struct buf *buf, size_t extra)
{
	size_t need;

	/* Lengths from outside meet their limits before they get here. */
	assert(extra < SIZE_MAX / 4 && buf->len < SIZE_MAX / 4);
	need = buf->len + extra + 1;
	if (buf->head > 0 && buf->cap - buf->head < need && buf->head > buf->cap / 2)
		compact(buf);
	if (buf->cap - buf->head < need) {
		size_t cap = buf->cap > CAPACITY_MIN ? buf->cap : CAPACITY_MIN;

		while (cap - buf->head < need)
			cap *= 2;
		buf->data = mem_resize(buf->data, cap, 1);
		buf->cap = cap;
		buf->data[buf->head + buf->len] = '\0';
	}
	return buf->data + buf->head + buf->len;
}

void buf_added(struct buf *buf, size_t count)
{
	if (count == 0 && !buf->data)
		return;
	assert(count < buf->cap - buf->head - buf->len);
	buf->len += count;
	buf->data[buf->head + buf->len] = '\0';
}

void buf_append(struct buf *buf, const void *bytes, size_t count)
{
	if (count == 0)
		return;
	memcpy(buf_reserve(buf, count), bytes, count);
	buf_added(buf, count);
}

void buf_append_string(struct buf *buf, const char *string)
{
	buf_append(buf, string, strlen(string));
}

void buf_append_char(struct buf *buf, char c)
{
	*buf_reserve(buf, 1) = c;
	buf_added(buf, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	buf_vprintf(buf, format, args);
	va_end(args);
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
	char *end = buf_reserve(buf, CAPACITY_MIN);
	size_t room = buf->cap - buf->head - buf->len;
	va_list again;
	int len;

	va_copy(again, args);
	len = vsnprintf(end, room, format, again);
	va_end(again);
	if (len <
	    0) /* more than INT_MAX bytes, or a wide character that is none: our own mistake */
		abort();
	if ((size_t)len >= room) {
		end = buf_reserve(buf, (size_t)len);
		vsnprintf(end, (size_t)len + 1, format, args);
	}
	buf_added(buf, (size_t)len);
}

void buf_consume(struct buf *buf, size_t count)
{
	assert(count <= buf->len);
	if (count == 0)
		return;
	buf->head += count;
	buf->len -= count;
	if (buf->len == 0)
		buf_clear(buf);
	else if (buf->head > buf->cap / 2)
		compact(buf);
}

void buf_truncate(struct buf *buf, size_t len)
{
	assert(len <= buf->len);
	buf->len = len;
	if (buf->data)
		buf->data[buf->head + len] = '\0';
}

void buf_clear(struct buf *buf)
{
	buf->head = 0;
	buf->len = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

char *buf_take(struct buf *buf, size_t *len)
{
	char *taken;

	buf_reserve(buf, 0);
	if (buf->head > 0)
		compact(buf);
	taken = buf->data;
	if (len)
		*len = buf->len;
	*buf = (struct buf)BUF_INIT;
	return taken;
}
