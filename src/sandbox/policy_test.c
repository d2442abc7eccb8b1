/* Policy: tier names, defaults, refused workspaces. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/policy.h"

static void test_names(void **state)
{
	static const enum tier tiers[] = {TIER_NONE, TIER_DEGRADED, TIER_FULL};
	enum tier tier;

	(void)state;
	for (size_t i = 0; i < sizeof(tiers) / sizeof(*tiers); i++) {
		assert_int_equal(tier_from_name(tier_name(tiers[i]), &tier), 0);
		assert_int_equal(tier, tiers[i]);
	}
	assert_string_equal(tier_name(TIER_FULL), "full");
	assert_int_equal(tier_from_name("Full", &tier), -1);
	assert_int_equal(tier_from_name("", &tier), -1);
	assert_int_equal(tier, TIER_FULL);
}

static void test_defaults(void **state)
{
	struct policy policy;

	(void)state;
	policy_init(&policy);
	assert_int_equal(policy.floor, TIER_DEGRADED);
	assert_int_equal(policy.workspace_mode, WORKSPACE_RW);
	assert_null(policy.workspace);
	assert_null(policy.read);
	assert_int_equal(policy.tmp_bytes_max, 1 << 30);
	assert_int_equal(policy.tmp_inodes_max, 100000);
	assert_int_equal(policy.files_max, 1024);
	assert_int_equal(policy.file_bytes_max, 256 << 20);
	assert_int_equal(policy.processes_max, 512 + 4 * sysconf(_SC_NPROCESSORS_ONLN));
}

static void refused(const char *path, enum err_code code)
{
	struct err err = ERR_INIT;

	assert_int_equal(policy_check_workspace(path, false, &err), -1);
	if (err.code != code)
		fail_msg("%s: %s", path, err.text);
}

static void test_refused(void **state)
{
	(void)state;
	refused("/", ERR_DENIED);
	refused("//./", ERR_DENIED);
	refused("/usr", ERR_DENIED);
	refused("/usr/share", ERR_DENIED);
	refused("/etc", ERR_DENIED);
	refused("/tmp", ERR_DENIED);
	refused("/tmp/../tmp/.", ERR_DENIED);
	refused("/home", ERR_DENIED);
	refused("/proc/self", ERR_DENIED);
	refused("/no/such/folder", ERR_NOT_FOUND);
	refused("/etc/passwd", ERR_NOT_FOUND);
	refused("/etc/passwd/x", ERR_NOT_FOUND);
	refused("", ERR_NOT_FOUND);
}

/* The home directory by another name, and a folder in it. */
static void test_home(void **state)
{
	char home[] = "/tmp/fumehood-home-XXXXXX";
	cleanup_free char *link = NULL;
	cleanup_free char *folder = NULL;
	cleanup_free char *old = mem_string(getenv("HOME"));

	(void)state;
	assert_non_null(mkdtemp(home));
	link = mem_format("%s-link", home);
	folder = mem_format("%s/project-XXXXXX", home);
	assert_int_equal(symlink(home, link), 0);
	assert_int_equal(policy_check_workspace(home, false, NULL), 0);
	setenv("HOME", home, 1);
	refused(home, ERR_DENIED);
	refused(link, ERR_DENIED);
	assert_int_equal(policy_check_workspace(home, true, NULL), 0);
	assert_non_null(mkdtemp(folder));
	assert_int_equal(policy_check_workspace(folder, false, NULL), 0);
	if (old)
		setenv("HOME", old, 1);
	else
		unsetenv("HOME");
	rmdir(folder);
	rmdir(home);
	unlink(link);
}

static void test_named(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(policy_check_workspace("/usr", true, &err), 0);
	assert_int_equal(err.code, ERR_OK);
	assert_int_equal(policy_check_workspace("/no/such", true, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void paths_refused(const char *read, const char *write, enum err_code code)
{
	const char *const reads[] = {read, NULL}, *const writes[] = {write, NULL};
	struct err err = ERR_INIT;

	assert_int_equal(policy_check_paths(reads, writes, &err), -1);
	if (err.code != code)
		fail_msg("%s %s: %s", read ? read : "", write ? write : "", err.text);
}

static void test_paths(void **state)
{
	char folder[] = "/tmp/fumehood-paths-XXXXXX";
	cleanup_free char *own = NULL;
	cleanup_free char *beside = NULL;
	cleanup_free char *old = mem_string(getenv("XDG_STATE_HOME"));
	const char *shown[] = {"/etc/passwd", "/usr", folder, NULL};
	const char *written[] = {folder, NULL};

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(policy_check_paths(shown, written, NULL), 0);
	assert_int_equal(policy_check_paths(NULL, NULL, NULL), 0);
	paths_refused("/no/such", NULL, ERR_NOT_FOUND);
	paths_refused("/dev/null", NULL, ERR_DENIED);
	paths_refused(NULL, "/no/such", ERR_NOT_FOUND);
	paths_refused(NULL, "/etc/passwd", ERR_DENIED);
	paths_refused(NULL, "/usr/share", ERR_DENIED);
	paths_refused(NULL, "/", ERR_DENIED);
	/* Where sessions are recorded, what is in it, and what it is in; not what is beside it. */
	setenv("XDG_STATE_HOME", folder, 1);
	own = mem_format("%s/fumehood", folder);
	beside = mem_format("%s/fumehood2", folder);
	assert_int_equal(mkdir(own, 0700), 0);
	assert_int_equal(mkdir(beside, 0700), 0);
	paths_refused(NULL, own, ERR_DENIED);
	paths_refused(NULL, folder, ERR_DENIED);
	written[0] = beside;
	assert_int_equal(policy_check_paths(NULL, written, NULL), 0);
	if (old)
		setenv("XDG_STATE_HOME", old, 1);
	else
		unsetenv("XDG_STATE_HOME");
	rmdir(beside);
	rmdir(own);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),   cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_home),
		cmocka_unit_test(test_named),   cmocka_unit_test(test_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
