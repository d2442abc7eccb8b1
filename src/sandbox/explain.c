/*
 * The plan as data. See explain.h.
 *
 * Root's boxes get a uid of their own when they start; here the first of the range stands for it,
 * since none is taken.
 */
#include "sandbox/explain.h"

#include "base/buf.h"
#include "base/text.h"
#include "sandbox/host.h"
#include "sandbox/plan.h"
#include "sandbox/uids.h"

static void add(struct json *steps, const char *by, const char *what, const char *why,
		const char *needs)
{
	struct json *step = json_new_object();

	json_set_string(step, "by", by);
	json_set_string(step, "what", what);
	json_set_string(step, "why", why);
	json_set_string(step, "needs", needs);
	json_push(steps, step);
}

static void __attribute__((format(printf, 5, 6)))
add_program(struct json *steps, uint64_t value, const char *why, const char *needs,
	    const char *what, ...)
{
	cleanup_buf struct buf text = BUF_INIT;
	va_list args;

	if (value == 0)
		return;
	va_start(args, what);
	buf_vprintf(&text, what, args);
	va_end(args);
	add(steps, "program", buf_bytes(&text), why, needs);
}

static void add_limits(struct json *steps, const struct policy *policy)
{
	static const char group[] = "a control group (fumehood doctor says whether it can be had); "
				    "memory is watched from outside where there is none";
	static const char nothing[] = "nothing";

	add_program(steps, policy->memory_bytes_max, "the machine's memory is for others too",
		    group, "all together: at most %llu bytes of memory%s",
		    (unsigned long long)policy->memory_bytes_max,
		    policy->swap ? "; more is swapped out" : "");
	add_program(steps, policy->cpus > 0, "and so are its processors", group,
		    "all together: at most %g processors at a time", policy->cpus);
	add_program(steps, policy->processes_max, "a fork bomb ends at its walls", nothing,
		    "at most %llu processes and threads",
		    (unsigned long long)policy->processes_max);
	add_program(steps, policy->files_max, "descriptors are memory of the kernel", nothing,
		    "at most %llu open files in each process",
		    (unsigned long long)policy->files_max);
	add_program(steps, policy->file_bytes_max, "one file must not fill the disk", nothing,
		    "at most %llu bytes in a file that is written",
		    (unsigned long long)policy->file_bytes_max);
	add_program(steps, 1, "it would hold everything the program knows", nothing,
		    "no core file");
}

/* What init.c does between fork and execve. */
static void add_start(struct json *steps, const struct plan *plan, const struct policy *policy,
		      enum tier tier, const char *program)
{
	cleanup_buf struct buf shown = BUF_INIT;

	add_program(steps, (uint64_t)plan->host.landlock_abi && tier != TIER_NONE,
		    "what was allowed above holds for it and all it starts",
		    "Landlock (Linux 5.13)", "Landlock: restrict itself by the ruleset");
	add_program(steps, 1, "a leaked descriptor is a way out", "nothing",
		    "close every descriptor but its own");
	add_program(steps, 1, "no terminal, and no Ctrl-C from it", "nothing", "new session");
	add_limits(steps, policy);
	add_program(steps, plan->filter.count,
		    "what is not needed of the kernel cannot be attacked", "seccomp(2)",
		    "system call filter: %u instructions", (unsigned)plan->filter.count);
	if (!program)
		return;
	text_escape(&shown, program, strlen(program), false, false);
	add_program(steps, 1, "asked for", "that it is visible", "execute %s", buf_bytes(&shown));
}

static void choose_ids(struct host *host)
{
	uint32_t first, count;

	if (host->uid != 0 || uids_of(UID_OF_SESSION, &first, &count, NULL) < 0)
		return;
	host->box_uid = host->box_gid = host->outer_uid = host->outer_gid = first;
}

struct json *explain_policy(const struct policy *policy, enum tier tier, const char *program,
			    struct err *err)
{
	struct plan plan = PLAN_INIT;
	struct json *steps = NULL;
	struct host host;

	host_look(&host);
	host.without_zygote = true;
	if (tier == TIER_FULL)
		choose_ids(&host);
	if (plan_compile(&plan, policy, tier, &host, err) == 0) {
		steps = json_new_array();
		for (size_t i = 0; i < plan.count; i++)
			add(steps, "box", plan.steps[i].what, plan.steps[i].why,
			    plan.steps[i].needs);
		add_start(steps, &plan, policy, tier, program);
	}
	plan_release(&plan);
	return steps;
}
