/*
 * Memory that all guests share with the zygote, in as few pieces as can be.
 *
 * A fork copies a table entry for each page, some twenty thousand of them once pandas is there;
 * that is most of what a new guest costs. Of a page of 2 MiB one entry is copied, and a guest that
 * writes to it gets a copy of 4 KiB as ever: the kernel splits its entry, not the page. So when all
 * is imported the zygote asks for large pages where it has memory of its own (MADV_COLLAPSE,
 * Linux 6.1; an older kernel, and one whose administrator has forbidden them, says no, and it is
 * only slower). Nothing is asked for later: no guest grows by it.
 *
 * Python takes its memory for small objects by the mebibyte, wherever the kernel has a gap. These
 * arenas are given out of chunks instead, aligned and side by side: else half of that memory could
 * not be part of a large page. PyObject_SetArenaAllocator() is outside of the limited API, so it is
 * looked up by name; its struct is documented and has not changed since Python 3.4.
 */
#include "guest.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum {
	LARGE_BYTES = 2 << 20,
	CHUNK_BYTES = 32 << 20,
	CHUNKS_MAX = 64, /* beyond them, and what is larger, goes the old way */
	ARENA_BYTES_MIN = 256 << 10,
	ARENAS_MAX = CHUNK_BYTES / ARENA_BYTES_MIN,
	SMALL_BYTES = 4096, /* of the bytes of mincore(2): on larger pages there is less to gain */
};

/* As PyObjectArenaAllocator in CPython's Include/cpython/objimpl.h. */
struct arena_allocator {
	void *data;
	void *(*allocate)(void *data, size_t size);
	void (*release)(void *data, void *arena, size_t size);
};

struct chunk {
	char *start;
	char used[ARENAS_MAX];
};

/* Static: the allocator is the process's. Under the GIL throughout. */
static struct {
	struct arena_allocator before;
	size_t arena_bytes; /* of all that come from chunks; 0: none has */
	struct chunk chunks[CHUNKS_MAX];
	size_t chunk_count;
} arenas;

/* An aligned piece of the address space; NULL when there is none. */
static char *map_chunk(void)
{
	const size_t whole = CHUNK_BYTES + LARGE_BYTES;
	char *mapped =
		mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (mapped == MAP_FAILED)
		return NULL;
	before = (size_t)(-(uintptr_t)mapped & (LARGE_BYTES - 1));
	if (before)
		munmap(mapped, before);
	munmap(mapped + before + CHUNK_BYTES, LARGE_BYTES - before);
	return mapped + before;
}

static void *take_arena(struct chunk *chunk)
{
	for (size_t i = 0; i < CHUNK_BYTES / arenas.arena_bytes; i++) {
		if (chunk->used[i])
			continue;
		chunk->used[i] = 1;
		return chunk->start + i * arenas.arena_bytes;
	}
	return NULL;
}

static void *allocate_arena(void *data, size_t size)
{
	void *arena = NULL;

	(void)data;
	if (!arenas.arena_bytes && size >= ARENA_BYTES_MIN && CHUNK_BYTES % size == 0)
		arenas.arena_bytes = size;
	if (size != arenas.arena_bytes)
		return arenas.before.allocate(arenas.before.data, size);
	for (size_t i = 0; i < arenas.chunk_count && !arena; i++)
		arena = take_arena(&arenas.chunks[i]);
	if (!arena && arenas.chunk_count < CHUNKS_MAX) {
		struct chunk *chunk = &arenas.chunks[arenas.chunk_count];

		chunk->start = map_chunk();
		if (chunk->start) {
			arenas.chunk_count++;
			arena = take_arena(chunk);
		}
	}
	return arena ? arena : arenas.before.allocate(arenas.before.data, size);
}

/* The memory goes back to the kernel; its place is kept. */
static void release_arena(void *data, void *arena, size_t size)
{
	(void)data;
	for (size_t i = 0; i < arenas.chunk_count; i++) {
		struct chunk *chunk = &arenas.chunks[i];
		uintptr_t offset = (uintptr_t)arena - (uintptr_t)chunk->start;

		if (offset >= CHUNK_BYTES)
			continue;
		chunk->used[offset / arenas.arena_bytes] = 0;
		(void)madvise(arena, size, MADV_DONTNEED);
		return;
	}
	arenas.before.release(arenas.before.data, arena, size);
}

void pages_own_arenas(void)
{
	struct arena_allocator ours = {.allocate = allocate_arena, .release = release_arena};
	void (*get)(struct arena_allocator *) = NULL;
	void (*set)(struct arena_allocator *) = NULL;

	*(void **)&get = dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
	*(void **)&set = dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
	if (!get || !set || arenas.before.allocate)
		return;
	get(&arenas.before);
	set(&ours);
}

/* Whether most of a large page's worth is there already: a page is not made of nothing. */
static int is_filled(char *start)
{
	unsigned char resident[LARGE_BYTES / SMALL_BYTES];
	size_t count = 0;

	if (mincore(start, LARGE_BYTES, resident) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(resident); i++)
		count += resident[i] & 1;
	return count > sizeof(resident) / 2;
}

static size_t collapse(uintptr_t start, uintptr_t end)
{
	size_t made = 0;

	start = (start + LARGE_BYTES - 1) & ~(uintptr_t)(LARGE_BYTES - 1);
	for (; start + LARGE_BYTES <= end; start += LARGE_BYTES) {
		char *at = (char *)start; // NOLINT(performance-no-int-to-ptr)

		if (is_filled(at) && madvise(at, LARGE_BYTES, MADV_COLLAPSE) == 0)
			made++;
	}
	return made;
}

size_t pages_collapse(void)
{
	FILE *maps = sysconf(_SC_PAGESIZE) == SMALL_BYTES ? fopen("/proc/self/maps", "re") : NULL;
	char line[512];
	size_t made = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char rights[5], name[16] = "";

		/* proc_pid_maps(5); a name that is cut off is of a file */
		if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %15s", &start, &end, rights, name) >= 3 &&
		    strcmp(rights, "rw-p") == 0 && (!name[0] || strcmp(name, "[heap]") == 0))
			made += collapse(start, end);
	}
	if (maps)
		fclose(maps);
	return made;
}
