/*
 * One file of units; see store.h.
 *
 * Objects that are dropped leave extents in `dropped`, in no order, so that to free a snapshot of
 * many files costs the loop nothing. Whoever next needs space sorts them into `holes`, which are in
 * the order of their offsets and never touch each other; the first one that fits from where the
 * last search ended is taken. All of it is under one mutex, the copying is not: an object that is
 * being filled is known to its maker alone.
 */
#include "files/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
	BLOCK_BYTES = 64 << 10,
	BY_HAND_BYTES = 64 << 10, /* up to this, read and write are quicker than a splice */
};

struct extent {
	uint64_t offset, bytes; /* whole units */
	bool trimmed;           /* the disk has it back */
};

struct extents {
	struct extent *list;
	size_t count, room;
};

struct store_object {
	size_t refs; /* under the store's mutex */
	uint64_t offset, bytes;
};

struct store {
	atomic_size_t refs;
	int fd;
	uint64_t bytes_max;
	pthread_mutex_t mutex; /* over what follows */
	uint64_t end;          /* of the file */
	uint64_t used;         /* by objects, in whole units */
	struct extents holes, dropped;
	size_t next_hole; /* where the next search begins */
};

/* --- space --- */

static uint64_t whole_units(uint64_t bytes)
{
	return (bytes + STORE_UNIT_BYTES - 1) / STORE_UNIT_BYTES * STORE_UNIT_BYTES;
}

static void extent_add(struct extents *to, struct extent extent)
{
	if (to->count == to->room) {
		to->room = to->room ? 2 * to->room : 64;
		to->list = mem_resize(to->list, to->room, sizeof(*to->list));
	}
	to->list[to->count++] = extent;
}

static int compare_extents(const void *a, const void *b)
{
	const struct extent *left = a, *right = b;

	return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* Sorts what was dropped into the holes. One that ends where the next begins is joined with it, and
 * is trimmed if both are. */
static void gather(struct store *store)
{
	struct extents *holes = &store->holes;
	size_t kept = 0;

	if (store->dropped.count == 0)
		return;
	for (size_t i = 0; i < store->dropped.count; i++)
		extent_add(holes, store->dropped.list[i]);
	store->dropped.count = 0;
	qsort(holes->list, holes->count, sizeof(*holes->list), compare_extents);
	for (size_t i = 1; i < holes->count; i++) {
		struct extent *last = &holes->list[kept], *extent = &holes->list[i];

		if (last->offset + last->bytes == extent->offset) {
			last->bytes += extent->bytes;
			last->trimmed = last->trimmed && extent->trimmed;
		} else {
			holes->list[++kept] = *extent;
		}
	}
	holes->count = kept + 1;
	store->next_hole = 0;
}

/* Cuts `bytes` from a hole and says where; UINT64_MAX: none has so many. */
static uint64_t take_hole(struct store *store, uint64_t bytes)
{
	struct extents *holes = &store->holes;

	for (size_t i = 0; i < holes->count; i++) {
		size_t at = (store->next_hole + i) % holes->count;
		struct extent *hole = &holes->list[at];
		uint64_t offset = hole->offset;

		if (hole->bytes < bytes)
			continue;
		hole->offset += bytes;
		hole->bytes -= bytes;
		store->next_hole = at;
		if (hole->bytes == 0) {
			holes->count--;
			memmove(hole, hole + 1, (holes->count - at) * sizeof(*hole));
		}
		return offset;
	}
	return UINT64_MAX;
}

static struct store_object *object_new(struct store *store, uint64_t bytes, struct err *err)
{
	uint64_t units = whole_units(bytes);
	struct store_object *object = NULL;

	pthread_mutex_lock(&store->mutex);
	if (bytes <= store->bytes_max && store->used + units <= whole_units(store->bytes_max)) {
		object = mem_zalloc(sizeof(*object));
		object->refs = 1;
		object->bytes = bytes;
		gather(store);
		object->offset = units ? take_hole(store, units) : 0;
		if (object->offset == UINT64_MAX) {
			object->offset = store->end;
			store->end += units;
		}
		store->used += units;
	}
	pthread_mutex_unlock(&store->mutex);
	if (!object)
		err_set(err, ERR_LIMIT, "the session keeps at most %llu bytes of files",
			(unsigned long long)store->bytes_max);
	return object;
}

struct store_object *store_object_keep(struct store *store, struct store_object *object)
{
	pthread_mutex_lock(&store->mutex);
	object->refs++;
	pthread_mutex_unlock(&store->mutex);
	return object;
}

void store_object_drop(struct store *store, struct store_object *object)
{
	uint64_t units = object ? whole_units(object->bytes) : 0;
	bool last;

	if (!object)
		return;
	pthread_mutex_lock(&store->mutex);
	last = --object->refs == 0;
	if (last && units > 0)
		extent_add(&store->dropped,
			   (struct extent){.offset = object->offset, .bytes = units});
	if (last)
		store->used -= units;
	pthread_mutex_unlock(&store->mutex);
	if (last)
		free(object);
}

uint64_t store_object_bytes(const struct store_object *object)
{
	return object->bytes;
}

/* Takes the holes out of the store, so that nobody is given one that is about to be punched. */
static struct extents holes_take(struct store *store)
{
	struct extents taken;

	pthread_mutex_lock(&store->mutex);
	gather(store);
	taken = store->holes;
	store->holes = (struct extents){.list = NULL, .count = 0, .room = 0};
	store->next_hole = 0;
	pthread_mutex_unlock(&store->mutex);
	return taken;
}

/* Cuts the file where the last object ends, which gives back what the file system has reserved for
 * it to grow, too. */
static void cut_end(struct store *store)
{
	struct extents *holes = &store->holes;
	struct extent last = {.offset = 0, .bytes = 0};

	if (holes->count > 0)
		last = holes->list[holes->count - 1];
	if (last.bytes == 0 || last.offset + last.bytes != store->end ||
	    ftruncate(store->fd, (off_t)last.offset) != 0)
		return;
	store->end = last.offset;
	holes->count--;
	store->next_hole = 0;
}

void store_trim(struct store *store)
{
	struct extents holes = holes_take(store);

	for (size_t i = 0; i < holes.count; i++) {
		struct extent *hole = &holes.list[i];

		/* Where the file system cannot, the space is used again all the same. */
		if (!hole->trimmed)
			hole->trimmed =
				fallocate(store->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  (off_t)hole->offset, (off_t)hole->bytes) == 0;
	}
	pthread_mutex_lock(&store->mutex);
	for (size_t i = 0; i < holes.count; i++)
		extent_add(&store->dropped, holes.list[i]);
	gather(store);
	cut_end(store);
	pthread_mutex_unlock(&store->mutex);
	free(holes.list);
}

/* --- copying --- */

static ssize_t read_block(int fd, char *block, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t got = pread(fd, block + done, len - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static int write_block(int fd, const char *block, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t put = pwrite(fd, block + done, len - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		done += (size_t)put;
	}
	return 0;
}

/* A part of a file that is copied. */
struct part {
	int from, to;
	uint64_t from_at, to_at;
	uint64_t bytes; /* still to be copied */
};

static void part_moves(struct part *part, uint64_t bytes)
{
	part->from_at += bytes;
	part->to_at += bytes;
	part->bytes -= bytes;
}

/* As far as the kernel does it; the rest is done by hand. */
static void copy_by_kernel(struct part *part)
{
	while (part->bytes > 0) {
		off_t from = (off_t)part->from_at, to = (off_t)part->to_at;
		ssize_t done = copy_file_range(part->from, &from, part->to, &to, part->bytes, 0);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		part_moves(part, (uint64_t)done);
	}
}

static int copy_by_hand(struct part *part, struct err *err)
{
	char block[BLOCK_BYTES];

	while (part->bytes > 0) {
		size_t len = part->bytes < sizeof(block) ? (size_t)part->bytes : sizeof(block);
		ssize_t got = read_block(part->from, block, len, part->from_at);

		if (got < 0)
			return err_sys(err, "cannot read the file");
		if (got == 0)
			return err_set(err, ERR_GONE, "the file is shorter by now");
		if (write_block(part->to, block, (size_t)got, part->to_at) != 0)
			return err_sys(err, "cannot write the file");
		part_moves(part, (uint64_t)got);
	}
	return 0;
}

static int copy_part(struct part part, struct err *err)
{
	if (part.bytes > BY_HAND_BYTES)
		copy_by_kernel(&part);
	return copy_by_hand(&part, err);
}

struct store_object *store_put(struct store *store, int fd, uint64_t bytes, struct err *err)
{
	struct store_object *object = object_new(store, bytes, err);
	struct part part = {.from = fd, .to = store->fd, .bytes = bytes};
	struct err reason = ERR_INIT;
	int result;

	if (!object)
		return NULL;
	part.to_at = object->offset;
	result = copy_part(part, &reason);
	if (result != 0 && reason.code == ERR_NO_SPACE) {
		store_trim(store);
		result = copy_part(part, &reason);
	}
	if (result == 0)
		return object;
	store_object_drop(store, object);
	if (err)
		*err = reason;
	return NULL;
}

int store_object_copy(struct store *store, const struct store_object *object, int fd,
		      struct err *err)
{
	return copy_part((struct part){.from = store->fd,
				       .from_at = object->offset,
				       .to = fd,
				       .bytes = object->bytes},
			 err);
}

/* Compares block by block; `write`: makes each equal. Answers as store_object_is(). */
static int compare(struct store *store, const struct store_object *object, int fd, bool write,
		   struct err *err)
{
	char block[BLOCK_BYTES], there[BLOCK_BYTES];

	for (uint64_t at = 0; at < object->bytes; at += sizeof(block)) {
		uint64_t left = object->bytes - at;
		size_t len = left < sizeof(block) ? (size_t)left : sizeof(block);
		ssize_t got = read_block(fd, there, len, at);

		if (got < 0 ||
		    read_block(store->fd, block, len, object->offset + at) != (ssize_t)len)
			return err_sys(err, "cannot read the file");
		if ((size_t)got == len && memcmp(block, there, len) == 0)
			continue;
		if (!write)
			return 0;
		if (write_block(fd, block, len, at) != 0)
			return err_sys(err, "cannot write the file");
	}
	return 1;
}

int store_object_is(struct store *store, const struct store_object *object, int fd, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_sys(err, "cannot look at the file");
	if ((uint64_t)st.st_size != object->bytes)
		return 0;
	return compare(store, object, fd, false, err);
}

int store_object_write_over(struct store *store, const struct store_object *object, int fd,
			    struct err *err)
{
	if (compare(store, object, fd, true, err) < 0)
		return -1;
	if (ftruncate(fd, (off_t)object->bytes) != 0)
		return err_sys(err, "cannot cut the file");
	return 0;
}

/* --- the store --- */

/* A file without a name; where there is no such thing (NFS, 9p), one whose name is taken away. */
static int open_nameless(int folder)
{
	int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char id[HASH_ID_SIZE];
	cleanup_free char *name = NULL;

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	hash_random_id(id);
	name = mem_format(".fumehood-%s.tmp", id);
	fd = openat(folder, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlinkat(folder, name, 0);
	return fd;
}

struct store *store_new(int folder, uint64_t bytes_max, struct err *err)
{
	int fd = open_nameless(folder);
	struct store *store;

	if (fd < 0) {
		err_sys(err, "cannot make a file for what snapshots keep");
		return NULL;
	}
	store = mem_zalloc(sizeof(*store));
	atomic_init(&store->refs, 1);
	store->fd = fd;
	store->bytes_max = bytes_max;
	pthread_mutex_init(&store->mutex, NULL);
	return store;
}

struct store *store_keep(struct store *store)
{
	atomic_fetch_add(&store->refs, 1);
	return store;
}

void store_free(struct store *store)
{
	if (!store || atomic_fetch_sub(&store->refs, 1) != 1)
		return;
	close(store->fd);
	pthread_mutex_destroy(&store->mutex);
	free(store->holes.list);
	free(store->dropped.list);
	free(store);
}

uint64_t store_bytes(const struct store *store)
{
	struct stat st;

	return fstat(store->fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}
