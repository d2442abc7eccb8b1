/*
 * Taking snapshots and telling what differs: against a walk that knows nothing of manifests, at the
 * limits, and on what cannot be kept.
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
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "files/snapshot_kit.h"

static struct snapshot_figures figures_of(const struct snapshot *snapshot)
{
	struct snapshot_figures figures;

	snapshot_figures(snapshot, &figures);
	return figures;
}

static void assert_unprotected(const struct snapshot *snapshot, const char *text)
{
	struct snapshot_notes notes = {.list = NULL};

	snapshot_unprotected(snapshot, &notes);
	assert_int_equal(notes.count + notes.more, figures_of(snapshot).unprotected);
	assert_notes(&notes, text);
	snapshot_notes_release(&notes);
}

/* A file of `len` bytes, made at once. */
static void make_file(const struct desk *desk, const char *path, size_t len, char fill)
{
	cleanup_free char *bytes = mem_zalloc(len + 1);
	cleanup_fd int fd =
		openat(desk->model.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	memset(bytes, fill, len);
	assert_int_equal(file_write_all(fd, bytes, len, NULL), 0);
}

/* --- what differs --- */

static void random_edits(uint64_t seed, bool same_size)
{
	struct desk desk;
	struct snapshot *snapshot;
	struct dump dump;

	desk_open(&desk, seed);
	desk.model.same_size = same_size;
	snapshot = desk_take(&desk, NULL);
	dump_make(&dump, desk.model.fd);
	for (int round = 0; round < 40; round++) {
		cleanup_buf struct buf expected = BUF_INIT, found = BUF_INIT;
		struct snapshot *next;
		struct dump now;

		for (int i = 0; i < 1 + round % 9; i++)
			model_edit(&desk.model);
		dump_make(&now, desk.model.fd);
		dump_expect(&dump, &now, &expected);
		desk_diff(&desk, snapshot, &found);
		if (strcmp(buf_bytes(&expected), buf_bytes(&found)) != 0)
			fail_msg("seed %d round %d: expected\n%sfound\n%s", (int)seed, round,
				 buf_bytes(&expected), buf_bytes(&found));
		if (round % 3) {
			dump_release(&now);
			continue;
		}
		next = desk_take(&desk, snapshot);
		assert_unprotected(next, "");
		snapshot_free(snapshot);
		dump_release(&dump);
		snapshot = next;
		dump = now;
	}
	dump_release(&dump);
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		random_edits(seed, seed % 2);
}

/* --- what is read --- */

static void test_incremental(void **state)
{
	struct desk desk;
	struct snapshot *first, *second, *third;
	uint64_t bytes;

	(void)state;
	desk_open(&desk, 1);
	model_mkdir(&desk.model, "a");
	make_file(&desk, "a/x", 100000, 'x');
	make_file(&desk, "y", 50000, 'y');
	first = desk_take(&desk, NULL);
	assert_int_equal(figures_of(first).files, 2);
	assert_int_equal(figures_of(first).kept_bytes, 150000);
	assert_int_equal(figures_of(first).copied_bytes, 150000);
	bytes = store_bytes(desk.store);
	second = desk_take(&desk, first);
	assert_int_equal(figures_of(second).kept_bytes, 150000);
	assert_int_equal(figures_of(second).copied_bytes, 0);
	make_file(&desk, "y", 60000, 'z');
	/* Touched, moved to another inode: the same bytes are not kept twice. */
	assert_int_equal(utimensat(desk.model.fd, "a/x", NULL, 0), 0);
	third = desk_take(&desk, second);
	assert_int_equal(figures_of(third).copied_bytes, 60000);
	snapshot_free(second);
	assert_int_equal(snapshot_keep(first) == first, true);
	snapshot_free(first);
	store_trim(desk.store);
	assert_in_range(store_bytes(desk.store), bytes + 60000, bytes + 200000);
	snapshot_free(first);
	store_trim(desk.store);
	assert_in_range(store_bytes(desk.store), 160000, 320000);
	snapshot_free(third);
	store_trim(desk.store);
	assert_in_range(store_bytes(desk.store), 0, 64 << 10);
	desk_close(&desk);
}

/* Written again at once, in place, with the same size and mtime: where the kernel stamps both with
 * the same ctime, the bytes tell. */
static void test_young(void **state)
{
	struct desk desk;
	cleanup_fd int fd = -1;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};

	(void)state;
	desk_open(&desk, 1);
	make_file(&desk, "f", 4, 'a');
	fd = openat(desk.model.fd, "f", O_RDWR | O_CLOEXEC);
	assert_int_equal(futimens(fd, times), 0);
	for (int i = 0; i < 300; i++) {
		cleanup_buf struct buf found = BUF_INIT;
		struct snapshot *first = desk_take(&desk, NULL), *second;
		char text[5];

		snprintf(text, sizeof(text), "%04d", i);
		assert_int_equal(pwrite(fd, text, 4, 0), 4);
		assert_int_equal(futimens(fd, times), 0);
		desk_diff(&desk, first, &found);
		assert_string_equal(buf_bytes(&found), "changed f\n");
		second = desk_take(&desk, first);
		assert_int_equal(figures_of(second).copied_bytes, 4);
		snapshot_free(first);
		snapshot_free(second);
	}
	desk_close(&desk);
}

/* What is younger than a tick is read a second time; what is older is not. */
static void test_read_again(void **state)
{
	struct desk desk;
	struct snapshot *first, *second;
	uint64_t compared = 0;

	(void)state;
	desk_open(&desk, 1);
	for (int i = 0; i < 1000 && compared == 0; i++) { /* a busy machine may take longer */
		make_file(&desk, "f", 100, 'a');
		first = desk_take(&desk, NULL);
		second = desk_take(&desk, first);
		compared = figures_of(second).compared_bytes;
		assert_int_equal(figures_of(second).copied_bytes, 0);
		snapshot_free(first);
		snapshot_free(second);
	}
	assert_int_equal(compared, 100);
	first = desk_take(&desk, NULL);
	for (int i = 0; i < 100000 && compared > 0; i++) {
		second = desk_take(&desk, first);
		compared = figures_of(second).compared_bytes;
		snapshot_free(first);
		first = second;
	}
	assert_int_equal(compared, 0);
	snapshot_free(first);
	desk_close(&desk);
}

/* --- limits --- */

static struct snapshot *take_with(struct desk *desk, const struct snapshot_limits *limits,
				  int64_t time_us, const atomic_bool *cancel)
{
	const struct snapshot_work work = {
		.tree = &desk->tree, .time_us_max = time_us, .cancel = cancel};

	return snapshot_take(&work, desk->store, limits, NULL);
}

static void test_caps(void **state)
{
	struct snapshot_limits limits = SNAPSHOT_LIMITS;
	struct desk desk;
	struct snapshot *snapshot;

	(void)state;
	desk_open(&desk, 1);
	model_mkdir(&desk.model, "d");
	make_file(&desk, "a", 1001, 'a');
	make_file(&desk, "b", 1000, 'b');
	make_file(&desk, "c", 1000, 'c');
	make_file(&desk, "d/a", 500, 'd');
	make_file(&desk, "d/b", 1000, 'd');
	limits.file_bytes_max = 1000;
	limits.sum_bytes_max = 2500;
	snapshot = take_with(&desk, &limits, SNAPSHOT_TAKE_US_MAX, NULL);
	assert_unprotected(snapshot, "a file_bytes\nd/b sum_bytes\n");
	assert_int_equal(figures_of(snapshot).kept_bytes, 2500);
	snapshot_free(snapshot);
	limits.entries_max = 3;
	snapshot = take_with(&desk, &limits, SNAPSHOT_TAKE_US_MAX, NULL);
	assert_int_equal(figures_of(snapshot).stop, STOP_ENTRIES);
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_store_full(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;

	(void)state;
	desk_open(&desk, 1);
	store_free(desk.store);
	desk.store = store_new(desk.aside, 8192, NULL);
	make_file(&desk, "a", 5000, 'a');
	make_file(&desk, "b", 5000, 'b');
	make_file(&desk, "c", 0, 'c');
	snapshot = desk_take(&desk, NULL);
	assert_unprotected(snapshot, "b store\n");
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_time(void **state)
{
	const struct snapshot_limits limits = SNAPSHOT_LIMITS;
	struct desk desk;
	struct snapshot *snapshot;
	atomic_bool cancel;

	(void)state;
	atomic_init(&cancel, true);
	desk_open(&desk, 1);
	make_file(&desk, "a", 10, 'a');
	snapshot = take_with(&desk, &limits, 0, NULL);
	assert_int_equal(figures_of(snapshot).stop, STOP_TIME);
	assert_int_equal(figures_of(snapshot).files, 0);
	/* And so nothing is removed as new. */
	desk_restore(&desk, snapshot, &(struct snapshot_restored)SNAPSHOT_RESTORED_INIT);
	assert_int_equal(faccessat(desk.model.fd, "a", F_OK, 0), 0);
	snapshot_free(snapshot);
	snapshot = take_with(&desk, &limits, SNAPSHOT_TAKE_US_MAX, &cancel);
	assert_int_equal(figures_of(snapshot).stop, STOP_TIME);
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_many_files(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;

	(void)state;
	desk_open(&desk, 1);
	for (int i = 0; i < 100000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(mknodat(desk.model.fd, name, S_IFREG | 0600, 0), 0);
	}
	snapshot = desk_take(&desk, NULL);
	assert_int_equal(figures_of(snapshot).stop, STOP_ENTRIES);
	assert_int_equal(figures_of(snapshot).files, SNAPSHOT_ENTRIES_MAX);
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_deep(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	int at;

	(void)state;
	desk_open(&desk, 1);
	at = dup(desk.model.fd);
	for (int depth = 0; depth < 300; depth++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
	snapshot = desk_take(&desk, NULL);
	assert_int_equal(figures_of(snapshot).stop, STOP_DEPTH);
	assert_int_equal(figures_of(snapshot).folders, MANIFEST_DEPTH_MAX + 1);
	assert_int_equal(figures_of(snapshot).unprotected, 1);
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* --- what cannot be kept --- */

static void make_socket(const struct desk *desk, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", desk->model.root, name);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void test_special(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	char name[256];

	(void)state;
	desk_open(&desk, 1);
	memset(name, 'n', 255);
	name[255] = '\0';
	make_file(&desk, name, 10, 'n');
	make_file(&desk, "\xff\xfe", 10, 'n');
	assert_int_equal(mkfifoat(desk.model.fd, "fifo", 0600), 0);
	make_socket(&desk, "socket");
	assert_int_equal(symlinkat("/etc/passwd", desk.model.fd, "link"), 0);
	snapshot = desk_take(&desk, NULL);
	assert_unprotected(snapshot, "fifo special\nsocket special\n");
	assert_int_equal(figures_of(snapshot).links, 1);
	assert_int_equal(figures_of(snapshot).kept_bytes, 20); /* nothing of /etc/passwd */
	snapshot_free(snapshot);
	desk_close(&desk);
}

/* For root: nothing that the workspace's owner could not read himself is kept, since a restore
 * would give it to him. */
static void test_owner(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root acts for others\n");
		skip();
	}
	desk_open(&desk, 1);
	make_file(&desk, "secret", 10, 's');
	assert_int_equal(fchmodat(desk.model.fd, "secret", 0600, 0), 0);
	make_file(&desk, "open", 10, 's');
	assert_int_equal(fchown(desk.model.fd, 65534, 65534), 0);
	tree_release(&desk.tree);
	assert_int_equal(tree_adopt(&desk.tree, dup(desk.model.fd), NULL), 0);
	snapshot = desk_take(&desk, NULL);
	assert_unprotected(snapshot, "secret unreadable\n");
	snapshot_free(snapshot);
	desk_close(&desk);
}

static void test_full_disk(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	char path[] = "/tmp/snapshot_test_XXXXXX";
	struct json *body;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can mount\n");
		skip();
	}
	desk_open(&desk, 1);
	assert_non_null(mkdtemp(path));
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", path, "tmpfs", 0, "size=256k") != 0) {
		rmdir(path);
		desk_close(&desk);
		print_message("skipped: mounting a tmpfs is not permitted\n");
		skip();
	}
	close(desk.aside);
	desk.aside = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	store_free(desk.store);
	desk.store = store_new(desk.aside, SNAPSHOT_STORE_BYTES_MAX, NULL);
	make_file(&desk, "a", 200 << 10, 'a');
	make_file(&desk, "b", 200 << 10, 'b');
	make_file(&desk, "c", 10, 'b');
	snapshot = desk_take(&desk, NULL);
	assert_unprotected(snapshot, "b no_space\n");
	body = snapshot_to_json(snapshot);
	assert_int_equal(json_get_int(body, "files", 0), 3);
	assert_int_equal(json_get_int(body, "bytes", 0), (200 << 10) + 10);
	assert_string_equal(json_get_string(json_at(json_get(body, "unprotected"), 0), "reason"),
			    "no_space");
	assert_false(json_has(body, "incomplete"));
	json_free(body);
	snapshot_free(snapshot);
	store_free(desk.store);
	desk.store = NULL;
	close(desk.aside);
	desk.aside = -1;
	assert_int_equal(umount(path), 0);
	rmdir(path);
	desk_close(&desk);
}

/* --- others at work --- */

struct writer {
	const struct desk *desk;
	atomic_bool stop;
};

static void *append_always(void *data)
{
	struct writer *writer = data;
	cleanup_fd int fd = openat(writer->desk->model.fd, "log",
				   O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	while (!atomic_load(&writer->stop)) {
		if (write(fd, "line\n", 5) != 5)
			break;
		if (lseek(fd, 0, SEEK_END) > 30 << 20 && ftruncate(fd, 20 << 20) != 0)
			break;
	}
	return NULL;
}

/* What is kept of a file that grows all the while is as it was at one moment: whole lines. When
 * that is not possible, it says so. */
static void test_growing(void **state)
{
	struct desk desk;
	struct writer writer = {.desk = &desk};
	pthread_t thread;
	unsigned kept = 0, changing = 0;

	(void)state;
	desk_open(&desk, 1);
	make_file(&desk, "log", 20 << 20, '\n');
	atomic_init(&writer.stop, false);
	assert_int_equal(pthread_create(&thread, NULL, append_always, &writer), 0);
	for (int i = 0; (kept == 0 || changing == 0) && i < 100000; i++) {
		struct snapshot *snapshot = desk_take(&desk, NULL);

		if (figures_of(snapshot).unprotected == 0) {
			kept++;
		} else {
			assert_unprotected(snapshot, "log changing\n");
			changing++;
		}
		snapshot_free(snapshot);
		if (changing > 0)
			atomic_store(&writer.stop, true);
	}
	atomic_store(&writer.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(kept > 0 && changing > 0);
	desk_close(&desk);
}

/* --- as JSON --- */

static void test_json(void **state)
{
	struct desk desk;
	struct snapshot *snapshot;
	const struct snapshot_work work = {.tree = &desk.tree, .time_us_max = SNAPSHOT_TAKE_US_MAX};
	struct changes changes = CHANGES_INIT;
	struct json *body = json_new_object(), *list;
	cleanup_buf struct buf text = BUF_INIT;

	(void)state;
	desk_open(&desk, 1);
	snapshot = desk_take(&desk, NULL);
	make_file(&desk, "\xff", 3, 'x');
	for (int i = 0; i < 190; i++) {
		cleanup_free char *name = mem_zalloc(256);

		memset(name, '\1', 200); /* six bytes each in JSON */
		snprintf(name + 200, 56, "%d", i);
		make_file(&desk, name, 1, 'x');
	}
	snapshot_diff(snapshot, &work, &changes);
	snapshot_tell_changes(&changes, body);
	list = json_get(body, "differs");
	assert_int_equal(json_length(list) + (size_t)json_get_int(body, "differs_more", 0), 191);
	assert_in_range(json_length(list), 20, 40);
	json_write(&text, body);
	assert_in_range(text.len, 0, SNAPSHOT_JSON_BYTES_MAX + 200);
	json_free(body);
	changes_release(&changes);
	for (int i = 0; i < 190; i++) {
		char name[256] = "";

		memset(name, '\1', 200);
		snprintf(name + 200, 56, "%d", i);
		assert_int_equal(unlinkat(desk.model.fd, name, 0), 0);
	}
	body = json_new_object();
	snapshot_diff(snapshot, &work, &changes);
	snapshot_tell_changes(&changes, body);
	buf_clear(&text);
	json_write(&text, body);
	assert_string_equal(buf_bytes(&text),
			    "{\"differs\":[{\"path\":\"\xef\xbf\xbd\",\"path_base64\":\"/w==\","
			    "\"change\":\"created\",\"bytes\":3}]}");
	json_free(body);
	changes_release(&changes);
	snapshot_free(snapshot);
	desk_close(&desk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),      cmocka_unit_test(test_incremental),
		cmocka_unit_test(test_read_again), cmocka_unit_test(test_young),
		cmocka_unit_test(test_caps),       cmocka_unit_test(test_store_full),
		cmocka_unit_test(test_time),       cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_deep),       cmocka_unit_test(test_special),
		cmocka_unit_test(test_owner),      cmocka_unit_test(test_growing),
		cmocka_unit_test(test_json),       cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
