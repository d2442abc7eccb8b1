/* What leads to a branch: made, taken away, and not for words that no keeper of ours says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "journal/branches.h"
#include "keeper/kit.h"
#include "keeper/spawner_protocol.h"

struct world {
	struct kit kit;
	struct spawner_branches branches;
	char *sessions;
	int root; /* the session's directory */
};

static struct world world;

static int open_world(void **state)
{
	cleanup_free char *home = NULL, *root = NULL;
	char id[HASH_ID_SIZE];

	(void)state;
	memset(&world, 0, sizeof(world));
	kit_open(&world.kit, "spawner_branches_test");
	setenv("XDG_RUNTIME_DIR", world.kit.path, 1);
	setenv("XDG_STATE_HOME", world.kit.path, 1);
	home = paths_state(NULL);
	assert_non_null(home);
	hash_random_id(id);
	world.sessions = mem_format("%s/sessions", home);
	root = mem_format("%s/%s/" BRANCHES_FOLDER, world.sessions, id);
	assert_int_equal(file_make_dirs(root, 0700, NULL), 0);
	*strrchr(root, '/') = '\0';
	world.root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(world.root >= 0);
	return 0;
}

static int close_world(void **state)
{
	(void)state;
	close(world.root);
	free(world.sessions);
	kit_close(&world.kit);
	return 0;
}

/* An order for a branch whose directory is there. */
static struct spawner_order order_for(const char *name)
{
	struct spawner_order order = {.op = SPAWNER_BRANCH};
	cleanup_free char *path = NULL;

	hash_random_id(order.id);
	snprintf(order.name, sizeof(order.name), "%s", name);
	path = mem_format(BRANCHES_FOLDER "/%s", order.id);
	assert_int_equal(mkdirat(world.root, path, 0700), 0);
	return order;
}

/* 'l' a link, 'd' a directory, '-' nothing. */
static char kind_of(const char *id)
{
	cleanup_free char *path = mem_format("%s/%s", world.sessions, id);
	struct stat st;

	if (lstat(path, &st) != 0)
		return '-';
	return S_ISLNK(st.st_mode) ? 'l' : 'd';
}

static bool has_socket(const char *id)
{
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *path = mem_format("%s/%s.sock", runtime, id);

	return access(path, F_OK) == 0;
}

static bool has_name(const char *name)
{
	cleanup_free char *path = mem_format("%s/../by-name/%s", world.sessions, name);
	struct stat st;

	return lstat(path, &st) == 0;
}

static int begin(const struct spawner_order *order, struct err *err)
{
	return spawner_branch_begin(&world.branches, world.root, order, err);
}

static void test_made_and_ended(void **state)
{
	struct spawner_order order = order_for("b");
	cleanup_fd int listener = begin(&order, NULL);
	int accepts = 0;
	socklen_t size = sizeof(accepts);

	(void)state;
	assert_true(listener >= 0);
	assert_int_equal(getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size), 0);
	assert_int_equal(accepts, 1);
	assert_int_equal(kind_of(order.id), 'l');
	assert_true(has_socket(order.id) && has_name("b"));
	assert_int_equal(begin(&order, NULL), -1); /* it is there already */
	assert_int_equal(spawner_branch_end(&world.branches, &order, NULL), 0);
	assert_int_equal(kind_of(order.id), 'd');
	assert_false(has_socket(order.id));
	assert_true(has_name("b"));
	assert_int_equal(spawner_branch_end(&world.branches, &order, NULL), -1);
}

static void test_never_born(void **state)
{
	struct spawner_order order = order_for("b");
	cleanup_fd int listener = begin(&order, NULL);

	(void)state;
	assert_true(listener >= 0);
	order.unborn = true;
	assert_int_equal(spawner_branch_end(&world.branches, &order, NULL), 0);
	assert_int_equal(kind_of(order.id), '-');
	assert_false(has_socket(order.id) || has_name("b"));
}

/* Without the keeper. */
static void test_what_is_left(void **state)
{
	struct spawner_order one = order_for(""), other = order_for("");
	cleanup_fd int first = begin(&one, NULL), second = begin(&other, NULL);

	(void)state;
	assert_true(first >= 0 && second >= 0);
	spawner_branches_end(&world.branches);
	assert_int_equal(kind_of(one.id), 'd');
	assert_int_equal(kind_of(other.id), 'd');
	assert_false(has_socket(one.id) || has_socket(other.id));
}

static void refuse(const struct spawner_order *order, enum err_code code)
{
	struct err err = ERR_INIT;

	assert_int_equal(begin(order, &err), -1);
	assert_int_equal(err.code, code);
}

static void test_refused(void **state)
{
	struct spawner_order taken = order_for("b"), order = order_for("b"), wrong;
	cleanup_fd int listener = begin(&taken, NULL);
	struct err err = ERR_INIT;

	(void)state;
	assert_true(listener >= 0);
	refuse(&order, ERR_DUPLICATE);
	assert_int_equal(kind_of(order.id), '-');
	wrong = order;
	snprintf(wrong.name, sizeof(wrong.name), "../b");
	refuse(&wrong, ERR_INVALID);
	wrong = order_for("");
	snprintf(wrong.id, sizeof(wrong.id), "../%.22s", order.id);
	refuse(&wrong, ERR_INVALID);
	memset(wrong.id, 'a', sizeof(wrong.id)); /* no NUL */
	refuse(&wrong, ERR_INVALID);
	wrong = order_for("");
	memset(wrong.name, 'a', sizeof(wrong.name));
	refuse(&wrong, ERR_INVALID);
	/* A session whose directory is elsewhere. */
	wrong = order_for("");
	assert_int_equal(spawner_branch_begin(&world.branches, world.kit.fd, &wrong, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(kind_of(wrong.id), '-');
	assert_int_equal(spawner_branch_end(&world.branches, &order, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_made_and_ended, open_world, close_world),
		cmocka_unit_test_setup_teardown(test_never_born, open_world, close_world),
		cmocka_unit_test_setup_teardown(test_what_is_left, open_world, close_world),
		cmocka_unit_test_setup_teardown(test_refused, open_world, close_world),
	};

	return cmocka_run_group_tests_name("spawner_branches", tests, NULL, NULL);
}
