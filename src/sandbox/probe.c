/*
 * Each probe is a small plan, run by the same code that builds a box, in a process that ends when
 * it has done it. So a probe cannot hold where the box would fail for lack of the same thing.
 */
#include "sandbox/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "sandbox/report.h"
#include "sandbox/spawn.h"

static const struct {
	enum report_layer_id layer;
	uint64_t namespaces;
} PROBES[] = {
	{LAYER_USER, CLONE_NEWUSER},
	{LAYER_MOUNT, CLONE_NEWNS},
	{LAYER_PID, CLONE_NEWNS | CLONE_NEWPID},
	{LAYER_NETWORK, CLONE_NEWNET},
	{LAYER_IPC, CLONE_NEWIPC},
	{LAYER_UTS, CLONE_NEWUTS},
	{LAYER_CGROUP, CLONE_NEWCGROUP},
};

enum { PROBE_COUNT = sizeof(PROBES) / sizeof(PROBES[0]) };

static void fail(struct probe *probe, const char *what, int sys, const char *cure)
{
	probe->holds = false;
	probe->cure = cure;
	snprintf(probe->detail, sizeof(probe->detail), "%.100s: %s", what, strerror(sys));
}

static void run(struct probe *probe, uint64_t namespaces, const struct host *host)
{
	struct spawned spawned = SPAWNED_INIT;
	struct plan plan = PLAN_INIT;
	struct init_report report;

	plan_compile_proof(&plan, namespaces, host);
	probe->holds = true;
	if (spawn_plan(&plan, NULL, &spawned) < 0) {
		fail(probe, "clone3", errno, report_namespace_cure(namespaces, errno));
	} else if (spawn_wait(&spawned, &report) < 0) {
		fail(probe, "no answer", errno, "try again");
	} else if (report.type != INIT_READY) {
		const struct step *step = &plan.steps[report.count];

		fail(probe, step->what, report.sys, report_cure(step, report.sys));
	}
	spawn_end(&spawned);
	plan_release(&plan);
}

/* In a child: 0 when what Landlock forbids cannot be done any more, else an errno. */
static int __attribute__((noreturn)) shut_out(int abi)
{
	int ruleset = landlock_create(landlock_handled(abi), 0);

	if (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ruleset < 0 ||
	    landlock_restrict(ruleset) != 0)
		_exit(errno);
	_exit(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : EBADE);
}

bool probe_landlock(struct probe_landlock *found)
{
	int status = 0;
	pid_t pid;

	*found = (struct probe_landlock){.abi = landlock_abi(), .errata = landlock_errata()};
	if (!found->abi) {
		snprintf(found->detail, sizeof(found->detail),
			 "the kernel has none, or it was not switched on at its start");
		return false;
	}
	pid = fork();
	if (pid == 0)
		shut_out(found->abi);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = errno << 8;
	if (status == 0)
		return true;
	snprintf(found->detail, sizeof(found->detail), "ABI %d, but it does not hold: %s",
		 found->abi, strerror(WEXITSTATUS(status)));
	return false;
}

size_t probe_run(struct probe probes[static PROBES_MAX])
{
	struct host host;

	host_look(&host);
	for (size_t i = 0; i < PROBE_COUNT; i++) {
		const struct report_layer *layer = &REPORT_LAYER[PROBES[i].layer];

		probes[i] = (struct probe){
			.name = layer->name, .effect = layer->effect, .cure = layer->cure};
		run(&probes[i], PROBES[i].namespaces, &host);
	}
	return PROBE_COUNT;
}
