/*
 * The store: bytes come back as they went in, space is used again and given back, limits and a full
 * disk are told.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "files/store.h"

enum { MIB = 1 << 20 };

static struct store *new_store(uint64_t bytes_max)
{
	cleanup_fd int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err err = ERR_INIT;
	struct store *store = store_new(folder, bytes_max, &err);

	if (!store)
		fail_msg("%s", err.text);
	return store;
}

/* A file of these bytes. */
static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("store_test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, bytes, len, NULL), 0);
	return fd;
}

/* A file of `len` bytes that no other seed gives. */
static int file_by_seed(size_t len, unsigned seed)
{
	cleanup_free char *bytes = mem_zalloc(len + 1);

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)((i * 2654435761u + seed * 40503u) >> 13);
	return file_of(bytes, len);
}

static struct store_object *put(struct store *store, int fd)
{
	struct err err = ERR_INIT;
	struct store_object *object;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	object = store_put(store, fd, (uint64_t)st.st_size, &err);
	if (!object)
		fail_msg("%s", err.text);
	return object;
}

static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 65535, 65536, 65537, MIB, 3 * MIB + 7};

static void test_sizes(void **state)
{
	struct store *store = new_store(64 * MIB);
	struct store_object *objects[sizeof(sizes) / sizeof(*sizes)];
	int files[sizeof(sizes) / sizeof(*sizes)];
	size_t count = sizeof(sizes) / sizeof(*sizes);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		files[i] = file_by_seed(sizes[i], (unsigned)i);
		objects[i] = put(store, files[i]);
		assert_int_equal(store_object_bytes(objects[i]), sizes[i]);
	}
	for (size_t i = 0; i < count; i++) {
		cleanup_fd int copy = file_of("", 0);
		cleanup_fd int over = file_by_seed(70000, 99); /* longer than some, or shorter */

		for (size_t j = 0; j < count; j++)
			assert_int_equal(store_object_is(store, objects[i], files[j], NULL),
					 i == j);
		assert_int_equal(store_object_copy(store, objects[i], copy, NULL), 0);
		assert_int_equal(store_object_is(store, objects[i], copy, NULL), 1);
		assert_int_equal(store_object_is(store, objects[i], over, NULL), 0);
		assert_int_equal(store_object_write_over(store, objects[i], over, NULL), 0);
		assert_int_equal(store_object_is(store, objects[i], over, NULL), 1);
	}
	for (size_t i = 0; i < count; i++) {
		close(files[i]);
		store_object_drop(store, objects[i]);
	}
	store_free(store);
}

/* One byte at the end of each block. */
static void test_one_byte(void **state)
{
	struct store *store = new_store(64 * MIB);
	cleanup_fd int fd = file_by_seed(200000, 1);
	struct store_object *object = put(store, fd);
	static const off_t places[] = {0, 65535, 65536, 131071, 199999};

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char byte;

		assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
		assert_int_equal(store_object_is(store, object, fd, NULL), 0);
		assert_int_equal(store_object_write_over(store, object, fd, NULL), 0);
		assert_int_equal(store_object_is(store, object, fd, NULL), 1);
	}
	store_object_drop(store, object);
	store_free(store);
}

static void test_space(void **state)
{
	struct store *store = new_store(64 * MIB);
	struct store_object *objects[100];
	uint64_t full;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		cleanup_fd int fd = file_by_seed(10000 + 100 * i, i);

		objects[i] = put(store, fd);
	}
	full = store_bytes(store);
	assert_in_range(full, 1000000, 3000000);
	for (int round = 0; round < 20; round++) { /* odd ones go, others come */
		for (unsigned i = 1; i < 100; i += 2)
			store_object_drop(store, objects[i]);
		for (unsigned i = 1; i < 100; i += 2) {
			cleanup_fd int fd = file_by_seed(10000 + 100 * i, i + 1000);

			objects[i] = put(store, fd);
		}
		assert_int_equal(store_bytes(store), full);
	}
	for (unsigned i = 0; i < 100; i++) { /* nobody has been written over */
		cleanup_fd int fd = file_by_seed(10000 + 100 * i, i % 2 ? i + 1000 : i);

		assert_int_equal(store_object_is(store, objects[i], fd, NULL), 1);
	}
	for (unsigned i = 0; i < 100; i += 2)
		store_object_drop(store, objects[i]);
	store_trim(store);
	assert_in_range(store_bytes(store), full / 3, full * 2 / 3);
	for (unsigned i = 1; i < 100; i += 2) {
		cleanup_fd int fd = file_by_seed(10000 + 100 * i, i + 1000);

		assert_int_equal(store_object_is(store, objects[i], fd, NULL), 1);
		store_object_keep(store, objects[i]);
		store_object_drop(store, objects[i]);
		store_object_drop(store, objects[i]);
	}
	store_trim(store);
	assert_in_range(store_bytes(store), 0, 64 << 10);
	store_free(store);
}

/* The space of neighbours is one. */
static void test_neighbours(void **state)
{
	struct store *store = new_store(64 * MIB);
	cleanup_fd int small = file_by_seed(40960, 1), large = file_by_seed(3 * 40960, 2);
	struct store_object *objects[5];
	uint64_t bytes;

	(void)state;
	for (int i = 0; i < 5; i++)
		objects[i] = put(store, small);
	bytes = store_bytes(store);
	store_object_drop(store, objects[2]);
	store_object_drop(store, objects[1]);
	store_object_drop(store, objects[3]);
	objects[1] = put(store, large);
	assert_int_equal(store_bytes(store), bytes);
	assert_int_equal(store_object_is(store, objects[0], small, NULL), 1);
	assert_int_equal(store_object_is(store, objects[1], large, NULL), 1);
	assert_int_equal(store_object_is(store, objects[4], small, NULL), 1);
	store_object_drop(store, objects[0]);
	store_object_drop(store, objects[1]);
	store_object_drop(store, objects[4]);
	store_free(store);
}

static void test_limit(void **state)
{
	struct store *store = new_store(MIB);
	cleanup_fd int fd = file_by_seed(MIB, 1), small = file_by_seed(1, 2);
	struct store_object *object = put(store, fd);
	struct err err = ERR_INIT;

	(void)state;
	assert_null(store_put(store, small, 1, &err));
	assert_int_equal(err.code, ERR_LIMIT);
	assert_null(store_put(store, small, UINT64_MAX, &err));
	assert_int_equal(err.code, ERR_LIMIT);
	store_object_drop(store, object);
	object = put(store, small);
	store_object_drop(store, object);
	store_free(store);
}

static void test_shorter(void **state)
{
	struct store *store = new_store(64 * MIB);
	cleanup_fd int fd = file_by_seed(100000, 1);
	struct err err = ERR_INIT;

	(void)state;
	assert_null(store_put(store, fd, 100001, &err));
	assert_int_equal(err.code, ERR_GONE);
	assert_null(store_put(store, fd, 2 * MIB, &err));
	assert_int_equal(err.code, ERR_GONE);
	store_trim(store);
	assert_in_range(store_bytes(store), 0, 64 << 10);
	store_free(store);
}

static void test_full_disk(void **state)
{
	char path[] = "/tmp/store_test_XXXXXX";
	struct err err = ERR_INIT;
	struct store *store;
	struct store_object *object, *between;
	cleanup_fd int folder = -1, half = file_by_seed(600 << 10, 1);
	cleanup_fd int more = file_by_seed(700 << 10, 1), small = file_by_seed(1, 2);

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can mount\n");
		skip();
	}
	assert_non_null(mkdtemp(path));
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=1m") != 0) {
		rmdir(path);
		print_message("skipped: mounting a tmpfs is not permitted\n");
		skip();
	}
	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	store = store_new(folder, 64 * MIB, &err);
	assert_non_null(store);
	object = put(store, half);
	between = put(store, small);
	assert_null(store_put(store, half, 600 << 10, &err));
	assert_int_equal(err.code, ERR_NO_SPACE);
	assert_int_equal(store_object_is(store, object, half, NULL), 1);
	store_object_drop(store, object); /* its space is trimmed when it is needed elsewhere */
	object = put(store, more);
	assert_int_equal(store_object_is(store, object, more, NULL), 1);
	store_object_drop(store, between);
	store_object_drop(store, object);
	store_free(store);
	close(fd_take(&folder));
	assert_int_equal(umount(path), 0);
	rmdir(path);
}

static void *put_and_drop(void *data)
{
	struct store *store = data;
	unsigned seed = (unsigned)(uintptr_t)pthread_self();

	for (unsigned i = 0; i < 300; i++) {
		cleanup_fd int fd = file_by_seed(1 + i * 331 % 90000, seed + i);
		struct store_object *object = put(store, fd);

		assert_int_equal(store_object_is(store, object, fd, NULL), 1);
		store_object_drop(store, object);
		if (i % 16 == 0)
			store_trim(store);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct store *store = new_store(64 * MIB);
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_and_drop, store), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	store_free(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),   cmocka_unit_test(test_one_byte),
		cmocka_unit_test(test_space),   cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_limit),   cmocka_unit_test(test_shorter),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
