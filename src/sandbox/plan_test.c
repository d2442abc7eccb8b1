/* Plan: complete, printable, in the right order; and what the plan of another host looks like. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "sandbox/kernel.h"
#include "sandbox/plan.h"
#include "sandbox/spawn.h"

struct fixture {
	char dir[64];
	struct policy policy;
	struct host host;
	struct plan plan;
};

static int set_up(void **state)
{
	struct fixture *fixture = mem_zalloc(sizeof(*fixture));
	char dir[] = "/tmp/fumehood-plan-XXXXXX";

	if (!mkdtemp(dir))
		return -1;
	memcpy(fixture->dir, dir, sizeof(dir));
	policy_init(&fixture->policy);
	fixture->policy.workspace = fixture->dir;
	host_look(&fixture->host);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	plan_release(&fixture->plan);
	rmdir(fixture->dir);
	free(fixture);
	return 0;
}

static void compile(struct fixture *fixture, enum tier tier)
{
	struct err err = ERR_INIT;

	if (plan_compile(&fixture->plan, &fixture->policy, tier, &fixture->host, &err) < 0)
		fail_msg("%s", err.text);
}

/* The index of the first step of this kind, with this target if one is given; -1 when there is
 * none. */
static long find(const struct plan *plan, enum step_kind kind, const char *target)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct step *step = &plan->steps[i];

		if (step->kind == kind &&
		    (!target || (step->target && strcmp(step->target, target) == 0)))
			return (long)i;
	}
	return -1;
}

static void test_printable(void **state)
{
	struct fixture *fixture = *state;

	compile(fixture, TIER_FULL);
	assert_true(fixture->plan.count > 40);
	for (size_t i = 0; i < fixture->plan.count; i++) {
		const struct step *step = &fixture->plan.steps[i];

		assert_true(strlen(step->what) > 3 && text_is_utf8(step->what, strlen(step->what)));
		assert_non_null(step->why);
		assert_non_null(step->needs);
		assert_true(!step->target || step->target[0] == '/');
	}
}

static void test_order(void **state)
{
	struct fixture *fixture = *state;
	const struct plan *plan = &fixture->plan;
	static const enum step_kind order[] = {STEP_ID_MAPS,      STEP_PROPAGATION,      STEP_ROOT,
					       STEP_WRITE,        STEP_BIND_ITSELF,      STEP_PIVOT,
					       STEP_IDS,          STEP_PARENT_DEATH,     STEP_CLOSE,
					       STEP_CAPABILITIES, STEP_NO_NEW_PRIVILEGES};
	long last = -1;

	compile(fixture, TIER_FULL);
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		long index = find(plan, order[i], NULL);

		assert_true(index > last);
		last = index;
	}
	/* What others lie on comes first; no mount of the new kind after the limit on namespaces.
	 */
	assert_true(find(plan, STEP_MOUNT, "/tmp") < find(plan, STEP_BIND, "/usr"));
	assert_true(find(plan, STEP_MOUNT, "/dev") < find(plan, STEP_BIND, "/dev/null"));
	for (size_t i = (size_t)find(plan, STEP_WRITE, NULL); i < plan->count; i++)
		assert_true(plan->steps[i].kind != STEP_BIND && plan->steps[i].kind != STEP_MOUNT);
}

static void test_binds_are_restricted(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t wanted = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;

	fixture->policy.workspace_mode = WORKSPACE_RO;
	compile(fixture, TIER_FULL);
	for (size_t i = 0; i < fixture->plan.count; i++) {
		const struct step *step = &fixture->plan.steps[i];

		if (step->kind != STEP_BIND)
			continue;
		assert_int_equal(step->attributes & wanted, wanted);
		if (strncmp(step->target, "/dev/", 5) != 0)
			assert_true(step->attributes & MOUNT_ATTR_NODEV);
	}
}

static void test_other_hosts(void **state)
{
	struct fixture *fixture = *state;

	fixture->host.uid = 0;
	fixture->host.box_uid = 0; /* no other there: as in a container with one id */
	compile(fixture, TIER_FULL);
	assert_true(find(&fixture->plan, STEP_READ_ONLY, "/proc") >= 0);
	plan_release(&fixture->plan);
	fixture->host.box_uid = 77; /* of a range: what lies with root is mapped */
	compile(fixture, TIER_FULL);
	assert_true(fixture->plan.steps[find(&fixture->plan, STEP_BIND, "/workspace")].mapped);
	assert_false(fixture->plan.steps[find(&fixture->plan, STEP_BIND, "/usr")].mapped);
	assert_true(find(&fixture->plan, STEP_IDS, NULL) < find(&fixture->plan, STEP_ROOT, NULL));
	plan_release(&fixture->plan);
	fixture->host.uid = 1234;
	fixture->host.box_uid = 1234;
	fixture->host.outer_uid = 1234;
	fixture->host.mount_setattr = false;
	compile(fixture, TIER_FULL);
	assert_int_equal(find(&fixture->plan, STEP_READ_ONLY, "/proc"), -1);
	assert_string_equal(
		fixture->plan.steps[find(&fixture->plan, STEP_ID_MAPS, NULL)].options[1].value,
		"1000 1234 1");
}

static void test_none(void **state)
{
	struct fixture *fixture = *state;

	compile(fixture, TIER_NONE);
	assert_int_equal(fixture->plan.namespaces, 0);
	assert_int_equal(find(&fixture->plan, STEP_ID_MAPS, NULL), -1);
	assert_true(find(&fixture->plan, STEP_SUBREAPER, NULL) >= 0);
	assert_int_equal(fixture->plan.steps[find(&fixture->plan, STEP_PARENT_DEATH, NULL)].value,
			 SIGTERM);
}

static void refused(struct fixture *fixture, enum err_code code)
{
	struct err err = ERR_INIT;

	assert_int_equal(
		plan_compile(&fixture->plan, &fixture->policy, TIER_FULL, &fixture->host, &err),
		-1);
	assert_int_equal(err.code, code);
	plan_release(&fixture->plan);
}

static void test_refused(void **state)
{
	struct fixture *fixture = *state;

	fixture->policy.workspace = "/no/such";
	refused(fixture, ERR_NOT_FOUND);
	fixture->policy.workspace = "/etc/passwd";
	refused(fixture, ERR_INVALID);
	fixture->policy.workspace = "tmp";
	refused(fixture, ERR_INVALID);
	fixture->policy.workspace = fixture->dir;
	fixture->policy.read = (const char *const[]){"/", NULL};
	refused(fixture, ERR_DENIED);
}

/* Layers come and go, and only then the workspace is shown a second time. */
static void test_overlay(void **state)
{
	struct fixture *fixture = *state;
	const struct plan *plan = &fixture->plan;
	struct err err = ERR_INIT;
	long overlay;

	fixture->policy.workspace_mode = WORKSPACE_OVERLAY;
	fixture->policy.overlay = "/no/such/overlay";
	compile(fixture, TIER_FULL);
	overlay = find(plan, STEP_OVERLAY, "/workspace");
	assert_true(overlay > find(plan, STEP_BIND, "/lower"));
	assert_true(overlay > find(plan, STEP_BIND, "/layers"));
	assert_true(plan->steps[find(plan, STEP_BIND, "/lower")].attributes & MOUNT_ATTR_RDONLY);
	assert_true(find(plan, STEP_UNMOUNT, "/layers") > overlay);
	assert_true(find(plan, STEP_UNMOUNT, "/lower") > overlay);
	assert_true(find(plan, STEP_BIND_INSIDE, "/mnt/data") > overlay);
	assert_int_equal(find(plan, STEP_BIND, "/workspace"), -1);
	plan_release(&fixture->plan);
	assert_int_equal(
		plan_compile(&fixture->plan, &fixture->policy, TIER_NONE, &fixture->host, &err),
		-1);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
}

/* What is protected is read-only, and what it lies in cannot be moved away. */
static void test_protected(void **state)
{
	static const char *const folders[] = {"sub", "sub/.git", "sub/.git/hooks"};
	struct fixture *fixture = *state;
	const struct plan *plan = &fixture->plan;
	long last = find(plan, STEP_BIND, "/workspace");

	for (size_t i = 0; i < 3; i++) {
		cleanup_free char *path = mem_format("%s/%s", fixture->dir, folders[i]);

		assert_int_equal(mkdir(path, 0755), 0);
	}
	compile(fixture, TIER_FULL);
	for (size_t i = 0; i < 3; i++) {
		cleanup_free char *target = mem_format("/workspace/%s", folders[i]);
		long at = find(plan, STEP_BIND_ITSELF, target);

		assert_true(at > last);
		assert_int_equal((plan->steps[at].attributes & MOUNT_ATTR_RDONLY) != 0, i == 2);
		last = at;
	}
	assert_true(find(plan, STEP_BIND_INSIDE, "/mnt/data") > last);
	plan_release(&fixture->plan);
	fixture->policy.workspace_private = true;
	compile(fixture, TIER_FULL);
	assert_int_equal(find(plan, STEP_BIND_ITSELF, "/workspace/sub"), -1);
	for (size_t i = 3; i > 0; i--) {
		cleanup_free char *path = mem_format("%s/%s", fixture->dir, folders[i - 1]);

		assert_int_equal(rmdir(path), 0);
	}
}

/* Runs the plan; returns the errno of the step that fails and its index, 0 when none does. */
static int run(const struct plan *plan, size_t *step)
{
	struct spawned spawned = SPAWNED_INIT;
	struct init_report report;

	assert_int_equal(spawn_plan(plan, NULL, &spawned), 0);
	assert_int_equal(spawn_wait(&spawned, &report), 0);
	spawn_end(&spawned);
	*step = report.count;
	return report.type == INIT_READY ? 0 : report.sys;
}

/* A workspace that becomes a symlink between compile and mount is not followed. */
static void test_source_becomes_symlink(void **state)
{
	struct fixture *fixture = *state;
	cleanup_free char *aside = mem_format("%s-aside", fixture->dir);
	size_t step;
	int sys;

	compile(fixture, TIER_FULL);
	assert_int_equal(run(&fixture->plan, &step), 0);
	assert_int_equal(rename(fixture->dir, aside), 0);
	assert_int_equal(symlink("/root", fixture->dir), 0);
	sys = run(&fixture->plan, &step);
	unlink(fixture->dir);
	rename(aside, fixture->dir);
	assert_int_equal(sys, ELOOP);
	assert_int_equal(fixture->plan.steps[step].kind, STEP_BIND);
	assert_string_equal(fixture->plan.steps[step].target, "/workspace");
}

/* A destination with a symlink in its path, or that is one, is refused. */
static void test_target_is_symlink(void **state)
{
	struct fixture *fixture = *state;
	static const char *const targets[][2] = {
		{"/link/below", "/etc"}, {"/link", "/etc"}, {"/file", "/etc/passwd"}};
	struct plan *plan = &fixture->plan;

	plan_compile_proof(plan, CLONE_NEWNS, &fixture->host);
	for (size_t i = 0; i < 3; i++) {
		size_t pivot = (size_t)find(plan, STEP_PIVOT, NULL);
		struct step *step;
		size_t failed;

		plan->count = pivot;
		step = plan_add(plan, STEP_LINK, "test", "link");
		step->target = i == 2 ? "/file" : "/link";
		step->source = targets[i][1];
		step = plan_add(plan, STEP_BIND, "test", "bind");
		step->source = i == 2 ? "/etc/group" : "/usr";
		step->target = targets[i][0];
		assert_true(run(plan, &failed) != 0);
		assert_int_equal(failed, pivot + 1);
		plan->count = pivot;
		plan_add(plan, STEP_PIVOT, "test", "pivot");
		assert_int_equal(run(plan, &failed), 0);
	}
}

/* The innermost wish holds, so it is bound last; Landlock lets write what is bound so, no more. */
static void test_written(void **state)
{
	struct fixture *fixture = *state;
	cleanup_free char *out = mem_format("%s/out", fixture->dir);
	cleanup_free char *out_in = mem_format("%s/out/in", fixture->dir);
	cleanup_free char *in = mem_format("%s/in", fixture->dir);
	cleanup_free char *in_out = mem_format("%s/in/out", fixture->dir);
	cleanup_free char *link = mem_format("%s/link", fixture->dir);
	cleanup_free char *by_link = mem_format("%s/link/out", fixture->dir);
	const char *const folders[] = {out, out_in, in, in_out};
	const char *const read[] = {out_in, in, NULL}, *const write[] = {by_link, out, NULL};
	const struct plan *plan = &fixture->plan;

	for (size_t i = 0; i < 4; i++)
		assert_int_equal(mkdir(folders[i], 0700), 0);
	assert_int_equal(symlink(in, link), 0);
	fixture->policy.read = read;
	fixture->policy.write = write;
	compile(fixture, TIER_FULL);
	assert_true(find(plan, STEP_BIND, out) < find(plan, STEP_BIND, out_in));
	assert_true(find(plan, STEP_BIND, in) < find(plan, STEP_BIND, in_out));
	assert_true(find(plan, STEP_LINK, link) >= 0);
	for (size_t i = 0; i < 4; i++) {
		const struct step *step = &plan->steps[find(plan, STEP_BIND, folders[i])];
		bool written = folders[i] == out || folders[i] == in_out;

		assert_int_equal(step->written, written);
		assert_int_equal(!(step->attributes & MOUNT_ATTR_RDONLY), written);
		assert_int_equal(find(plan, STEP_LANDLOCK_ALLOW, folders[i]) >= 0,
				 written && fixture->host.landlock_abi);
	}
	unlink(link);
	for (size_t i = 4; i > 0; i--)
		rmdir(folders[i - 1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_printable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_binds_are_restricted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_hosts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_overlay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_protected, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_source_becomes_symlink, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_target_is_symlink, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
