/*
 * Memory that is there or the process is not (see mem.h for why).
 *
 * Zero bytes are asked for as one: the C library may answer NULL for nothing, and a caller must
 * never have to tell that NULL from a failure.
 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void *mem_zalloc(size_t size)
{
	void *pointer = calloc(1, size > 0 ? size : 1);

	if (!pointer)
		abort();
	return pointer;
}

void *mem_resize(void *old, size_t count, size_t size)
{
	size_t total;
	void *pointer;

	if (__builtin_mul_overflow(count, size, &total))
		abort();
	pointer = realloc(old, total > 0 ? total : 1);
	if (!pointer)
		abort();
	return pointer;
}

char *mem_copy(const void *bytes, size_t size)
{
	char *copy;

	if (size == SIZE_MAX)
		abort();
	copy = mem_resize(NULL, size + 1, 1);
	if (size > 0)
		memcpy(copy, bytes, size);
	copy[size] = '\0';
	return copy;
}

char *mem_string(const char *string)
{
	return string ? mem_copy(string, strlen(string)) : NULL;
}

char *mem_format(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		abort();
	return text;
}
