/* The store: making, finding, naming, removing and sweeping sessions, in a state directory of its
 * own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "client/store.h"

struct place {
	char path[64];
	struct store store;
};

static int set_up(void **state)
{
	struct place *place = mem_zalloc(sizeof(*place));

	snprintf(place->path, sizeof(place->path), "/tmp/fh-store-XXXXXX");
	assert_non_null(mkdtemp(place->path));
	setenv("XDG_STATE_HOME", place->path, 1);
	assert_int_equal(store_open(&place->store, NULL), 0);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	store_release(&place->store);
	assert_int_equal(file_remove_tree(AT_FDCWD, place->path, NULL), 0);
	free(place);
	return 0;
}

static void create(struct store *store, const char *name, struct store_entry *entry)
{
	cleanup_config struct config config = CONFIG_INIT;
	struct err err = ERR_INIT;

	config.name = mem_string(name);
	config.python = mem_string("/usr/bin/python3");
	assert_int_equal(store_create(store, &config, entry, &err), 0);
}

static void test_create_and_find(void **state)
{
	struct place *place = *state;
	cleanup_entry struct store_entry made = STORE_ENTRY_INIT, found = STORE_ENTRY_INIT;
	cleanup_entry struct store_entry by_prefix = STORE_ENTRY_INIT, none = STORE_ENTRY_INIT;
	cleanup_free char *workspace = NULL;
	struct err err = ERR_INIT;
	char prefix[8];
	struct stat st;

	create(&place->store, "my work", &made);
	workspace = mem_format("%s/workspace", made.directory);
	assert_string_equal(made.config.workspace, workspace);
	assert_int_equal(stat(workspace, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(store_find(&place->store, "my work", &found, &err), 0);
	assert_string_equal(found.config.id, made.config.id);
	assert_string_equal(found.config.name, "my work");
	assert_true(found.config.workspace_private);
	assert_false(found.damaged);
	snprintf(prefix, sizeof(prefix), "%.4s", made.config.id);
	assert_int_equal(store_find(&place->store, prefix, &by_prefix, &err), 0);
	assert_string_equal(by_prefix.config.id, made.config.id);
	prefix[3] = '\0';
	assert_int_equal(store_find(&place->store, prefix, &none, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(store_find(&place->store, "../sessions", &none, &err), -1);
	assert_int_equal(store_find(&place->store, "", &none, &err), -1);
}

static void test_several_with_one_beginning(void **state)
{
	struct place *place = *state;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(mkdirat(place->store.sessions_fd, "aaaaaaaaaaaaaaaaaaaaaaaaaa", 0700), 0);
	assert_int_equal(mkdirat(place->store.sessions_fd, "aaaaaaaaaaaaaaaaaaaaaaaaab", 0700), 0);
	assert_int_equal(store_find(&place->store, "aaaa", &entry, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	/* A directory without session.json can be found, as damaged. */
	assert_int_equal(store_find(&place->store, "aaaaaaaaaaaaaaaaaaaaaaaaab", &entry, &err), 0);
	assert_true(entry.damaged);
}

static void test_names(void **state)
{
	static const char *const bad[] = {"",
					  ".",
					  "..",
					  "-x",
					  ".x",
					  "a/b",
					  "a\nb",
					  "\x7f",
					  "\xff",
					  "\xc2\x85",
					  "abcdefghijklmnopqrstuvwxyz"};
	static const char *const good[] = {"a", "a b", "\"'$(x)", "\xc3\xa4", "a.b", "a-b", "*"};
	cleanup_free char *longest = mem_zalloc(STORE_NAME_BYTES_MAX + 2);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(store_check_name(bad[i], NULL), -1);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(store_check_name(good[i], NULL), 0);
	memset(longest, 'x', STORE_NAME_BYTES_MAX);
	assert_int_equal(store_check_name(longest, NULL), 0);
	longest[STORE_NAME_BYTES_MAX] = 'x';
	assert_int_equal(store_check_name(longest, NULL), -1);
}

static unsigned count_sessions(struct store *store)
{
	cleanup_list struct store_list list = STORE_LIST_INIT;

	assert_int_equal(store_list(store, &list, NULL), 0);
	return (unsigned)list.count;
}

static void test_name_is_exclusive(void **state)
{
	struct place *place = *state;
	cleanup_entry struct store_entry first = STORE_ENTRY_INIT, second = STORE_ENTRY_INIT;
	cleanup_config struct config config = CONFIG_INIT;
	struct err err = ERR_INIT;

	create(&place->store, "one", &first);
	config.name = mem_string("one");
	assert_int_equal(store_create(&place->store, &config, &second, &err), -1);
	assert_int_equal(err.code, ERR_DUPLICATE);
	assert_int_equal(count_sessions(&place->store), 1); /* nothing is left of the second */
	/* A name whose session has gone is free again. */
	assert_int_equal(file_remove_tree(place->store.sessions_fd, first.config.id, NULL), 0);
	assert_int_equal(store_create(&place->store, &config, &second, &err), 0);
}

static void test_remove(void **state)
{
	struct place *place = *state;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT, none = STORE_ENTRY_INIT;
	cleanup_fd int dirfd = -1;
	struct err err = ERR_INIT;
	int lock;

	create(&place->store, "gone", &entry);
	dirfd = store_open_directory(&place->store, entry.config.id, &err);
	lock = file_lock(dirfd, "lock", &err);
	assert_true(lock >= 0);
	assert_int_equal(store_remove(&place->store, entry.config.id, 0, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	assert_int_equal(count_sessions(&place->store), 1);
	close(lock);
	assert_true(store_bytes(&place->store, entry.config.id) > 0);
	assert_int_equal(store_remove(&place->store, entry.config.id, 0, &err), 0);
	assert_int_equal(count_sessions(&place->store), 0);
	assert_int_equal(store_find(&place->store, "gone", &none, &err), -1);
	assert_int_equal(faccessat(place->store.names_fd, "gone", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void count_removed(void *data, const struct store_entry *entry, uint64_t bytes,
			  const char *why)
{
	unsigned *count = data;

	(void)entry;
	(void)bytes;
	assert_non_null(why);
	(*count)++;
}

static void test_sweep(void **state)
{
	struct place *place = *state;
	cleanup_entry struct store_entry a = STORE_ENTRY_INIT, b = STORE_ENTRY_INIT;
	struct store_sweep sweep = {
		.age_us_max = -1, .bytes_max = UINT64_MAX, .removed = count_removed};
	unsigned count = 0;

	create(&place->store, "a", &a);
	create(&place->store, "b", &b);
	sweep.data = &count;
	assert_int_equal(store_sweep(&place->store, &sweep, NULL), 0);
	assert_int_equal(count, 0);
	/* Everything is larger than nothing. */
	sweep.bytes_max = 0;
	sweep.dry_run = true;
	assert_int_equal(store_sweep(&place->store, &sweep, NULL), 0);
	assert_int_equal(count, 2);
	assert_int_equal(count_sessions(&place->store), 2);
	sweep.dry_run = false;
	assert_int_equal(store_sweep(&place->store, &sweep, NULL), 0);
	assert_int_equal(count_sessions(&place->store), 0);
}

static void test_sweep_halves(void **state)
{
	struct place *place = *state;
	struct store_sweep sweep = {.age_us_max = -1, .bytes_max = UINT64_MAX};
	static const char half[] = ".removing-abcdefghijklmnopqrstuvwxyz";

	assert_int_equal(mkdirat(place->store.sessions_fd, half, 0700), 0);
	assert_int_equal(
		symlinkat("../sessions/abcdefghijklmnopqrstuvwxyz", place->store.names_fd, "x"), 0);
	assert_int_equal(store_sweep(&place->store, &sweep, NULL), 0);
	assert_int_equal(faccessat(place->store.sessions_fd, half, F_OK, 0), -1);
	assert_int_equal(faccessat(place->store.names_fd, "x", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_age(void **state)
{
	struct place *place = *state;
	cleanup_entry struct store_entry kept = STORE_ENTRY_INIT, old = STORE_ENTRY_INIT;
	struct store_sweep sweep = {.age_us_max = (int64_t)86400 * 1000000,
				    .bytes_max = UINT64_MAX};
	const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	cleanup_fd int dirfd = -1;
	int journal;

	create(&place->store, "kept", &kept);
	create(&place->store, "old", &old);
	dirfd = store_open_directory(&place->store, old.config.id, NULL);
	journal = openat(dirfd, "journal.ndjson", O_WRONLY | O_CREAT, 0600);
	assert_int_equal(futimens(journal, long_ago), 0);
	close(journal);
	assert_int_equal(store_sweep(&place->store, &sweep, NULL), 0);
	assert_int_equal(count_sessions(&place->store), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_create_and_find, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_several_with_one_beginning, set_up, tear_down),
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_name_is_exclusive, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_remove, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sweep, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sweep_halves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_age, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
