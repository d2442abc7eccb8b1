/*
 * What each layer of the sandbox costs, in microseconds.
 *
 *     bench-layers N FOLDER        -> lines "name<TAB>microseconds", N of each, in turn
 *
 * A layer is timed as what a start has to wait for: a process cloned into the namespace until it
 * has ended, less nothing (the row "a process" is the same without any); a ruleset made, filled and
 * applied in a child; a filter compiled, and applied in a child; and a whole box, from box_start()
 * until PID 1 says "ready", and its end. FOLDER becomes the workspace.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "sandbox/box.h"
#include "sandbox/filter.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"

static void say(const char *name, int64_t began_us)
{
	printf("%s\t%" PRId64 "\n", name, clock_monotonic_us() - began_us);
}

/* A process in new namespaces that runs `body` and ends. */
static void in_child(const char *name, uint64_t namespaces, void (*body)(void *), void *data)
{
	struct clone_args args = {.flags = namespaces, .exit_signal = SIGCHLD};
	int64_t began_us = clock_monotonic_us();
	pid_t pid = kernel_clone3(&args);

	if (pid == 0) {
		if (body)
			body(data);
		kernel_exit(0);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		abort();
	say(name, began_us);
}

static void apply_filter(void *data)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (filter_apply(data) < 0)
		kernel_exit(1);
}

static void apply_landlock(void *data)
{
	const char *const *paths = data;
	int ruleset = landlock_create(landlock_handled(landlock_abi()), 0);

	for (size_t i = 0; ruleset >= 0 && paths[i]; i++) {
		int path = open(paths[i], O_PATH | O_CLOEXEC);

		(void)landlock_allow(ruleset, path, LANDLOCK_READ);
		close(path);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)landlock_restrict(ruleset);
}

static int time_box(const char *workspace)
{
	struct policy policy;
	struct err err = ERR_INIT;
	int64_t began_us = clock_monotonic_us();
	struct box *box;

	policy_init(&policy);
	policy.workspace = workspace;
	box = box_start(&policy, TIER_FULL, BOX_WITHOUT_ZYGOTE, &err);
	if (!box) {
		fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	say("a whole box", began_us);
	began_us = clock_monotonic_us();
	box_free(box);
	say("end of a box", began_us);
	return 0;
}

static void time_namespaces(void)
{
	uint64_t all = 0;

	in_child("a process", 0, NULL, NULL);
	for (size_t i = 0; i < PLAN_NAMESPACES; i++) {
		char name[64];

		snprintf(name, sizeof(name), "with a %s namespace", PLAN_NAMESPACE[i].name);
		in_child(name, PLAN_NAMESPACE[i].flag | CLONE_NEWUSER, NULL, NULL);
		all |= PLAN_NAMESPACE[i].flag;
	}
	in_child("with all seven", all, NULL, NULL);
}

int main(int argc, char **argv)
{
	static const char *paths[] = {"/", "/tmp", "/dev", "/proc", "/usr", "/dev/shm", NULL};
	long count = argc == 3 ? strtol(argv[1], NULL, 10) : 0;

	if (count <= 0) {
		fprintf(stderr, "usage: bench-layers N FOLDER\n");
		return 2;
	}
	for (long i = 0; i < count; i++) {
		struct filter filter;
		int64_t began_us = clock_monotonic_us();

		filter_compile(&filter, FILTER_BOX);
		say("filter, compiled", began_us);
		time_namespaces();
		in_child("with the filter", 0, apply_filter, &filter);
		in_child("with Landlock", 0, apply_landlock, paths);
		if (time_box(argv[2]) < 0)
			return 1;
	}
	return 0;
}
