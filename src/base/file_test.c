/*
 * Files, in a directory of the test's own: whole or not at all, nothing followed, nothing left
 * over.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Each test gets a fresh directory, open as *state. */
struct place {
	char path[32];
	int fd;
};

static int place_new(void **state)
{
	struct place *place = mem_zalloc(sizeof(*place));

	snprintf(place->path, sizeof(place->path), "/tmp/file_test.XXXXXX");
	if (!mkdtemp(place->path))
		return -1;
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->fd < 0 ? -1 : 0;
}

static int place_free(void **state)
{
	struct place *place = *state;
	int result = file_remove_tree(AT_FDCWD, place->path, NULL);

	close(place->fd);
	free(place);
	return result;
}

static int place_count(const struct place *place)
{
	DIR *dir = opendir(place->path);
	int count = -2;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void put(int fd, const char *name, const char *text)
{
	assert_int_equal(file_replace(fd, name, text, strlen(text), 0644, NULL), 0);
}

static void expect(int fd, const char *name, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;

	assert_int_equal(file_read(fd, name, 1 << 20, &out, NULL), 0);
	assert_string_equal(buf_bytes(&out), text);
}

static void test_read(void **state)
{
	struct place *place = *state;
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	buf_append_string(&out, "kept ");
	put(place->fd, "a", "hello");
	assert_int_equal(file_read(place->fd, "a", 5, &out, &err), 0);
	assert_string_equal(buf_bytes(&out), "kept hello");
	assert_int_equal(file_read(place->fd, "a", 4, &out, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(file_read(place->fd, "none", 4, &out, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(file_read(place->fd, ".", 4, &out, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(buf_bytes(&out), "kept hello");
	put(place->fd, "empty", "");
	assert_int_equal(file_read(place->fd, "empty", 0, &out, &err), 0);
	/* A file that says it has no size, and a limit that it exceeds. */
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", 1 << 20, &out, &err), 0);
	assert_true(out.len > 100);
	buf_clear(&out);
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/maps", 10, &out, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(out.len, 0);
}

static void test_read_special(void **state)
{
	struct place *place = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(mkfifoat(place->fd, "fifo", 0600), 0);
	assert_int_equal(file_read(place->fd, "fifo", 10, &out, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", place->path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(file_read(place->fd, "socket", 10, &out, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

/* More than one step, of a size that is no multiple of anything. */
static void test_large(void **state)
{
	struct place *place = *state;
	cleanup_buf struct buf in = BUF_INIT;
	cleanup_buf struct buf out = BUF_INIT;

	for (int i = 0; in.len < 1000003; i++)
		buf_printf(&in, "%d,", i);
	assert_int_equal(file_replace(place->fd, "big", buf_bytes(&in), in.len, 0600, NULL), 0);
	assert_int_equal(file_read(place->fd, "big", in.len, &out, NULL), 0);
	assert_int_equal(out.len, in.len);
	assert_memory_equal(buf_bytes(&out), buf_bytes(&in), in.len);
}

static void test_replace(void **state)
{
	struct place *place = *state;
	cleanup_fd int old = -1;
	char text[8] = "";
	struct stat st;

	put(place->fd, "a", "one");
	old = openat(place->fd, "a", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fchmod(old, 0640), 0);
	put(place->fd, "a", "two");
	expect(place->fd, "a", "two");
	/* Who had it open still reads the old one. */
	assert_int_equal(read(old, text, sizeof(text)), 3);
	assert_string_equal(text, "one");
	assert_int_equal(fstatat(place->fd, "a", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(file_replace(place->fd, "b", "x", 1, 0600, NULL), 0);
	assert_int_equal(fstatat(place->fd, "b", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(place_count(place), 2);
}

static void test_replace_symlink(void **state)
{
	struct place *place = *state;
	struct stat st;

	put(place->fd, "target", "safe");
	assert_int_equal(symlinkat("target", place->fd, "link"), 0);
	put(place->fd, "link", "new");
	expect(place->fd, "target", "safe");
	assert_int_equal(fstatat(place->fd, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
}

static void test_replace_fails(void **state)
{
	static const char *const BAD[] = {"", ".", "..", "a/b", "/tmp/x", "a/"};
	struct place *place = *state;
	struct err err = ERR_INIT;
	struct rlimit old, small;
	char name[257];

	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		assert_int_equal(file_replace(place->fd, BAD[i], "x", 1, 0600, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
	/* The longest name can be replaced; a longer one leaves nothing behind. */
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	assert_int_equal(file_replace(place->fd, name, "x", 1, 0600, &err), -1);
	assert_int_equal(place_count(place), 0);
	put(place->fd, name + 1, "x");
	/* A directory in the way, and a write that fails half way. */
	assert_int_equal(mkdirat(place->fd, "dir", 0700), 0);
	assert_int_equal(file_replace(place->fd, "dir", "x", 1, 0600, &err), -1);
	assert_int_equal(place_count(place), 2);
	put(place->fd, "a", "old");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){.rlim_cur = 2, .rlim_max = old.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(file_replace(place->fd, "a", "new!", 4, 0600, &err), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(err.sys, EFBIG);
	expect(place->fd, "a", "old");
	assert_int_equal(place_count(place), 3);
}

static void test_open_beneath(void **state)
{
	static const char *const DENIED[] = {"/etc/passwd", "..", "../x", "dir/../../x",
					     "out",         "in", "loop", "outdir/passwd",
					     "dir/up/dir/a"};
	struct place *place = *state;
	struct err err = ERR_INIT;
	struct stat st;
	int fd;

	assert_int_equal(mkdirat(place->fd, "dir", 0700), 0);
	assert_int_equal(symlinkat("/etc/passwd", place->fd, "out"), 0);
	assert_int_equal(symlinkat("/etc", place->fd, "outdir"), 0);
	assert_int_equal(symlinkat("dir/a", place->fd, "in"), 0);
	assert_int_equal(symlinkat("loop", place->fd, "loop"), 0);
	assert_int_equal(symlinkat("..", place->fd, "dir/up"), 0);
	fd = file_open_beneath(place->fd, "dir/a", O_CREAT | O_WRONLY | O_EXCL, 0600, &err);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(fd);
	fd = file_open_beneath(place->fd, "dir/../dir/a", O_RDONLY, 0600, &err);
	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < sizeof(DENIED) / sizeof(DENIED[0]); i++) {
		err = (struct err)ERR_INIT;
		assert_int_equal(file_open_beneath(place->fd, DENIED[i], O_RDONLY, 0, &err), -1);
		if (err.code != ERR_DENIED)
			fail_msg("%s: %s", DENIED[i], err.text);
	}
	assert_int_equal(file_open_beneath(place->fd, "none", O_RDONLY, 0, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(file_open_beneath(place->fd, "", O_RDONLY, 0, &err), -1);
	assert_int_equal(mkfifoat(place->fd, "fifo", 0600), 0);
	assert_int_equal(file_open_beneath(place->fd, "fifo", O_RDONLY, 0, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(file_open_beneath(place->fd, "fifo", O_WRONLY, 0, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	fd = file_open_beneath(place->fd, "fifo", O_PATH, 0, &err);
	assert_true(fd >= 0);
	close(fd);
}

static void test_make_dirs(void **state)
{
	struct place *place = *state;
	cleanup_free char *path = mem_format("%s//x/y///z/", place->path);
	cleanup_free char *below_file = mem_format("%s/f/g", place->path);
	cleanup_free char *file = mem_format("%s/f", place->path);
	struct err err = ERR_INIT;
	struct stat st;

	assert_int_equal(file_make_dirs(path, 0700, &err), 0);
	assert_int_equal(file_make_dirs(path, 0755, &err), 0);
	assert_int_equal(fstatat(place->fd, "x/y/z", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	put(place->fd, "f", "");
	assert_int_equal(file_make_dirs(below_file, 0700, &err), -1);
	assert_int_equal(err.sys, ENOTDIR);
	assert_int_equal(file_make_dirs(file, 0700, &err), -1);
	assert_int_equal(file_make_dirs("", 0700, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(file_make_dirs("/", 0700, &err), 0);
	assert_int_equal(file_make_dirs("/proc/none/x", 0700, &err), -1);
}

static void test_remove_tree(void **state)
{
	struct place *place = *state;
	cleanup_free char *path = mem_format("%s/t/a/b/c", place->path);

	assert_int_equal(file_make_dirs(path, 0700, NULL), 0);
	put(place->fd, "outside", "safe");
	for (int i = 0; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "t/a/file%d", i);
		assert_int_equal(mknodat(place->fd, name, S_IFREG | 0400, 0), 0);
		snprintf(name, sizeof(name), "t/a/b/dir%d", i);
		assert_int_equal(mkdirat(place->fd, name, 0700), 0);
	}
	assert_int_equal(symlinkat("../../outside", place->fd, "t/a/link"), 0);
	assert_int_equal(symlinkat("/", place->fd, "t/a/b/root"), 0);
	assert_int_equal(mkfifoat(place->fd, "t/a/fifo", 0), 0);
	assert_int_equal(fchmodat(place->fd, "t/a/b", 0500, 0), 0);
	assert_int_equal(fchmodat(place->fd, "t/a", 0, 0), 0);
	assert_int_equal(file_remove_tree(place->fd, "t", NULL), 0);
	assert_int_equal(place_count(place), 1);
	expect(place->fd, "outside", "safe");
	/* What is not there, one file, one link. */
	assert_int_equal(file_remove_tree(place->fd, "t", NULL), 0);
	assert_int_equal(symlinkat("outside", place->fd, "l"), 0);
	assert_int_equal(file_remove_tree(place->fd, "l", NULL), 0);
	expect(place->fd, "outside", "safe");
	assert_int_equal(file_remove_tree(place->fd, "outside", NULL), 0);
	assert_int_equal(place_count(place), 0);
}

/* Deeper than descriptors, than a path can be long, and than a stack likes. */
static void test_remove_deep(void **state)
{
	enum { DEPTH = 1200 };
	struct place *place = *state;
	int fd = dup(place->fd);

	for (int i = 0; i < DEPTH; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(file_remove_tree(place->fd, "d", NULL), 0);
	assert_int_equal(place_count(place), 0);
}

/* A mount inside the tree, here a bind mount of the same file system, is not entered. Where nobody
 * may mount there is nothing to test. */
static void test_remove_mount(void **state)
{
	struct place *place = *state;
	cleanup_free char *inside = mem_format("%s/t/m", place->path);
	cleanup_free char *source = mem_format("%s/source/full", place->path);
	struct err err = ERR_INIT;
	int result;

	assert_int_equal(file_make_dirs(inside, 0700, NULL), 0);
	assert_int_equal(file_make_dirs(source, 0700, NULL), 0);
	*strrchr(source, '/') = '\0';
	if (mount(source, inside, NULL, MS_BIND, NULL) < 0) {
		print_message("skipped: mounting a directory is not permitted\n");
		skip();
	}
	result = file_remove_tree(place->fd, "t", &err);
	umount2(inside, MNT_DETACH);
	assert_int_equal(result, -1);
	assert_int_equal(faccessat(place->fd, "source/full", F_OK, 0), 0);
}

static void test_lock(void **state)
{
	struct place *place = *state;
	struct err err = ERR_INIT;
	struct stat st;
	int fd = file_lock(place->fd, "lock", &err);
	int again;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(file_lock(place->fd, "lock", &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	/* Removed and made anew, it is another lock. */
	assert_int_equal(unlinkat(place->fd, "lock", 0), 0);
	again = file_lock(place->fd, "lock", &err);
	assert_true(again >= 0);
	close(again);
	close(fd);
	fd = file_lock(place->fd, "lock", &err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlinkat("lock", place->fd, "link"), 0);
	assert_int_equal(file_lock(place->fd, "link", &err), -1);
}

static void test_write_all_and_inherit(void **state)
{
	struct err err = ERR_INIT;
	int fds[2];
	char text[4] = "";

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(file_write_all(fds[1], "abc", 3, &err), 0);
	assert_int_equal(file_write_all(fds[1], NULL, 0, &err), 0);
	assert_int_equal(read(fds[0], text, 3), 3);
	assert_string_equal(text, "abc");
	assert_int_equal(file_inherit(fds[0], &err), 0);
	assert_int_equal(fcntl(fds[0], F_GETFD), 0);
	assert_int_equal(file_write_all(fds[0], "x", 1, &err), -1);
	assert_int_equal(err.sys, EBADF);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(file_inherit(fds[0], &err), -1);
}

#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, place_new, place_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLACE_TEST(test_read),		PLACE_TEST(test_read_special),
		PLACE_TEST(test_large),		PLACE_TEST(test_replace),
		PLACE_TEST(test_replace_symlink), PLACE_TEST(test_replace_fails),
		PLACE_TEST(test_open_beneath),	PLACE_TEST(test_make_dirs),
		PLACE_TEST(test_remove_tree),	PLACE_TEST(test_remove_deep),
		PLACE_TEST(test_remove_mount),	PLACE_TEST(test_lock),
		cmocka_unit_test(test_write_all_and_inherit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
