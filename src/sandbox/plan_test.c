/* Plan: complete, printable, in the right order; and what the plan of another host looks like. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
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

	compile(fixture, TIER_PARTIAL);
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

	compile(fixture, TIER_PARTIAL);
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
	compile(fixture, TIER_PARTIAL);
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
	compile(fixture, TIER_PARTIAL);
	assert_true(find(&fixture->plan, STEP_READ_ONLY, "/proc") >= 0);
	plan_release(&fixture->plan);
	fixture->host.uid = 1234;
	fixture->host.mount_setattr = false;
	compile(fixture, TIER_PARTIAL);
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
		plan_compile(&fixture->plan, &fixture->policy, TIER_PARTIAL, &fixture->host, &err),
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

	compile(fixture, TIER_PARTIAL);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_printable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_binds_are_restricted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_hosts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_source_becomes_symlink, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_target_is_symlink, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
