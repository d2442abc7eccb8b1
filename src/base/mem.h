/*
 * Memory: allocation that does not fail, and cleanup at the end of a scope.
 *
 * Every length that comes from outside meets a named limit before it gets here, so a failing
 * malloc means that the machine is out of memory; the process then aborts, and the journal on
 * disk is what survives (promise 2). That keeps error paths for errors that can be handled.
 */
#ifndef FH_BASE_MEM_H
#define FH_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* `size` zeroed bytes, owned by the caller (free()). Aborts when there are none. */
void *mem_zalloc(size_t size);

/* As realloc; aborts on failure and when count * size overflows. The caller owns the result. */
void *mem_resize(void *old, size_t count, size_t size);

/* A copy of `size` bytes with a NUL behind them; the caller owns it. `bytes` may be NULL if size is
 * 0. */
char *mem_copy(const void *bytes, size_t size);

/* A copy of the string, owned by the caller; NULL for NULL. */
char *mem_string(const char *string);

/* printf into a new string owned by the caller. */
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void mem_cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void mem_cleanup_fd(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* Scope cleanup: `cleanup_free char *p = NULL;` and `cleanup_fd int fd = -1;` */
#define cleanup_free __attribute__((cleanup(mem_cleanup_free)))
#define cleanup_fd __attribute__((cleanup(mem_cleanup_fd)))

/* Moves ownership out of a cleanup variable: returns the value and leaves NULL / -1 behind. */
#define mem_take(pointer) \
	__extension__({ __typeof__(pointer) taken_ = (pointer); (pointer) = NULL; taken_; })

static inline int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#endif
