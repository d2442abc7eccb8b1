/*
 * Policy to plan: the order of the whole, and all that is no mount (those: plan_mounts.c).
 *
 * The order matters:
 *   - ids first, since without a mapped id nothing can be created;
 *   - mounts while capable; the limits on namespaces and inotify need the new /proc before it is
 * masked;
 *   - the old root is left before the ids change, so that no host path can be met after it;
 *   - PDEATHSIG after the ids (a change of credentials clears it, prctl(2)); then all descriptors
 * are closed but the socket, and only then does end-of-file on it mean that the parent is gone;
 *   - capabilities last, since everything above needs some.
 */
#include "sandbox/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/visible.h"

/* The first with scopes. Below it code could signal the user's processes. */
enum { DEGRADED_ABI_MIN = LANDLOCK_ABI_SCOPES };

const struct plan_namespace PLAN_NAMESPACE[PLAN_NAMESPACES] = {
	{"user", CLONE_NEWUSER},     {"mnt", CLONE_NEWNS},  {"pid", CLONE_NEWPID},
	{"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS},
	{"cgroup", CLONE_NEWCGROUP},
};

/* What each kind of step needs. All capabilities are those inside the new user namespace. */
static const char *const NEEDS[STEP_KIND_COUNT] = {
	[STEP_FORGET] = "nothing",
	[STEP_ID_MAPS] = "a user namespace, and /proc",
	[STEP_LOOPBACK] = "CAP_NET_ADMIN, a network namespace",
	[STEP_HOSTNAME] = "CAP_SYS_ADMIN, a uts namespace",
	[STEP_PROPAGATION] = "CAP_SYS_ADMIN, a mount namespace",
	[STEP_ROOT] = "CAP_SYS_ADMIN, fsopen(2) (Linux 5.2)",
	[STEP_DIRECTORY] = "the new root",
	[STEP_FILE] = "the new root",
	[STEP_LINK] = "the new root",
	[STEP_BIND] = "CAP_SYS_ADMIN, openat2(2) (Linux 5.6), mount_setattr(2) (5.12) or remounts",
	[STEP_BIND_PROCESS] = "CAP_SYS_ADMIN, the host's /proc",
	[STEP_BIND_INSIDE] = "CAP_SYS_ADMIN",
	[STEP_BIND_ITSELF] = "CAP_SYS_ADMIN",
	[STEP_MOUNT] = "CAP_SYS_ADMIN, fsopen(2) (Linux 5.2)",
	[STEP_OVERLAY] = "overlayfs in a user namespace (Linux 5.11), over id-mapped layers 5.19",
	[STEP_UNMOUNT] = "CAP_SYS_ADMIN",
	[STEP_READ_ONLY] = "CAP_SYS_ADMIN",
	[STEP_WRITE] = "CAP_SYS_RESOURCE, the new /proc",
	[STEP_PIVOT] = "CAP_SYS_ADMIN; a root that is no initramfs",
	[STEP_NEW_SESSION] = "nothing",
	[STEP_SUBREAPER] = "nothing",
	[STEP_IDS] = "the id maps",
	[STEP_PARENT_DEATH] = "nothing",
	[STEP_CLOSE] = "nothing",
	[STEP_SECUREBITS] = "CAP_SETPCAP",
	[STEP_CAPABILITIES] = "CAP_SETPCAP",
	[STEP_NO_NEW_PRIVILEGES] = "nothing",
	[STEP_PROVE_NO_NESTING] = "the limits written before",
	[STEP_LANDLOCK] = "Landlock (Linux 5.13)",
	[STEP_LANDLOCK_ALLOW] = "Landlock (Linux 5.13)",
};

char *plan_own(struct plan *plan, char *string)
{
	plan->owned = mem_resize(plan->owned, plan->owned_count + 1, sizeof(*plan->owned));
	plan->owned[plan->owned_count++] = string;
	return string;
}

struct step *plan_add(struct plan *plan, enum step_kind kind, const char *why, const char *what,
		      ...)
{
	cleanup_buf struct buf raw = BUF_INIT;
	struct buf shown = BUF_INIT;
	struct step *step;
	va_list args;

	va_start(args, what);
	buf_vprintf(&raw, what, args);
	va_end(args);
	text_escape(&shown, buf_bytes(&raw), raw.len, false, false);
	plan->steps = mem_resize(plan->steps, plan->count + 1, sizeof(*plan->steps));
	step = &plan->steps[plan->count++];
	*step = (struct step){
		.kind = kind,
		.what = plan_own(plan, buf_take(&shown, NULL)),
		.why = why,
		.needs = NEEDS[kind],
		.mount = -1,
	};
	return step;
}

bool plan_has_own_ids(const struct plan *plan)
{
	return plan->host.box_uid != plan->host.uid;
}

void plan_release(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		if (plan->steps[i].mount >= 0)
			close(plan->steps[i].mount);
	}
	for (size_t i = 0; i < plan->owned_count; i++)
		free(plan->owned[i]);
	free(plan->owned);
	free(plan->steps);
	free(plan->workspace);
	protect_list_release(&plan->protect);
	*plan = (struct plan)PLAN_INIT;
}

static void add_forget(struct plan *plan)
{
	if (plan->host.arg_end > plan->host.arg_start)
		plan_add(plan, STEP_FORGET,
			 "PID 1 is a copy of the keeper and anyone inside can read "
			 "/proc/1/cmdline",
			 "wipe the copied command line and environment");
}

static void add_ids(struct plan *plan)
{
	plan_add(plan, STEP_IDS, "real, effective and saved ids are one",
		 "become uid and gid 1000");
}

static void add_id_maps(struct plan *plan)
{
	struct step *step = plan_add(plan, STEP_ID_MAPS,
				     "the caller is uid 1000 inside and nobody else is "
				     "there, root least of all",
				     "user namespace: map 1000 to %u, and "
				     "group 1000 to %u",
				     plan->host.box_uid, plan->host.box_gid);

	step->options[0] = (struct step_option){"/proc/self/setgroups", "deny"};
	step->options[1] = (struct step_option){
		"/proc/self/uid_map",
		plan_own(plan, mem_format("%d %u 1", KERNEL_ID, plan->host.outer_uid))};
	step->options[2] = (struct step_option){
		"/proc/self/gid_map",
		plan_own(plan, mem_format("%d %u 1", KERNEL_ID, plan->host.outer_gid))};
	/* At once: what is made in the new root must belong to somebody who exists there. */
	if (plan_has_own_ids(plan))
		add_ids(plan);
}

static void add_loopback(struct plan *plan)
{
	plan_add(plan, STEP_LOOPBACK,
		 "programs talk to themselves over 127.0.0.1; nothing else is reachable",
		 "network namespace: bring up lo");
}

static void add_hostname(struct plan *plan)
{
	plan_add(plan, STEP_HOSTNAME, "the name of the machine is nobody's business inside",
		 "uts namespace: host name fumehood")
		->source = "fumehood";
}

static void add_propagation(struct plan *plan)
{
	plan_add(plan, STEP_PROPAGATION, "no mount made here may appear outside",
		 "mount namespace: make / a slave of the host's");
}

static void add_pivot(struct plan *plan)
{
	plan_add(plan, STEP_PIVOT, "the host's tree is not hidden but gone: no path leads to it",
		 "make the new root / and detach the old one");
}

static void add_lifetime(struct plan *plan, int number)
{
	plan_add(plan, STEP_NEW_SESSION, "no terminal, and no Ctrl-C from it", "new session");
	if (plan->namespaces && !plan_has_own_ids(plan))
		add_ids(plan);
	plan_add(plan, STEP_PARENT_DEATH, "a dead keeper must not leave a box behind",
		 "die with the keeper")
		->value = number;
	plan_add(plan, STEP_CLOSE, "a leaked descriptor is a way out",
		 "close every descriptor but the socket");
}

static void add_privileges(struct plan *plan)
{
	plan_add(plan, STEP_SECUREBITS, "uid 0 gives nothing, and nothing brings capabilities back",
		 "lock the secure bits");
	plan_add(plan, STEP_CAPABILITIES, "none is needed any more",
		 "drop all capabilities: bounding, ambient, inheritable, permitted, effective");
	plan_add(plan, STEP_NO_NEW_PRIVILEGES, "setuid programs and file capabilities give nothing",
		 "no new privileges");
	plan_add(plan, STEP_PROVE_NO_NESTING,
		 "a nested user namespace opens much of the kernel to attack",
		 "prove that no user namespace can be made");
}

static void allow(struct plan *plan, const char *path, uint64_t rights, const char *why)
{
	struct step *step;

	if (access(path, F_OK) < 0)
		return;
	step = plan_add(plan, STEP_LANDLOCK_ALLOW, why, "Landlock: allow to %s %s",
			rights & ~(uint64_t)LANDLOCK_READ ? "write" : "read", path);
	step->target = plan_own(plan, mem_string(path));
	step->attributes = rights & landlock_handled(plan->host.landlock_abi);
}

/* Inside, the root holds nothing but what the mounts have put there, so all of it may be read; what
 * this adds is that nothing beneath another root may be. */
static void add_landlock(struct plan *plan, const struct policy *policy)
{
	static const struct {
		const char *path, *why;
		uint64_t rights;
	} rules[] = {
		{"/", "the box and nothing outside it", LANDLOCK_READ},
		{"/tmp", "private", LANDLOCK_CHANGE},
		{"/dev", "devices are written to and asked things", LANDLOCK_DEVICE},
		{"/dev/shm", "private", LANDLOCK_CHANGE},
		{"/proc", "a process has files of its own there", LANDLOCK_WRITE_FILE},
		{"/workspace", "where the session works", LANDLOCK_CHANGE},
	};
	uint64_t handled = landlock_handled(plan->host.landlock_abi);
	size_t count = sizeof(rules) / sizeof(rules[0]);

	if (!plan->host.landlock_abi)
		return;
	plan_add(plan, STEP_LANDLOCK, "a second wall round the files, which no mount can open",
		 "Landlock: a ruleset of ABI %d", plan->host.landlock_abi)
		->attributes = handled;
	if (policy->workspace_mode == WORKSPACE_RO)
		count--;
	for (size_t i = 0; i < count; i++) {
		struct step *step = plan_add(
			plan, STEP_LANDLOCK_ALLOW, rules[i].why, "Landlock: allow to %s %s",
			rules[i].rights == LANDLOCK_READ ? "read" : "write beneath", rules[i].path);

		step->target = rules[i].path;
		step->attributes = rules[i].rights & handled;
	}
	for (size_t i = 0, bound = plan->count; i < bound; i++) {
		const char *target = plan->steps[i].target;

		if (plan->steps[i].written)
			allow(plan, target, LANDLOCK_CHANGE, "asked for by the policy");
	}
}

static int find_workspace(struct plan *plan, const struct policy *policy, struct err *err)
{
	cleanup_buf struct buf shown = BUF_INIT;
	struct stat st;

	text_escape(&shown, policy->workspace, strlen(policy->workspace), false, false);
	if (policy->workspace[0] != '/')
		return err_set(err, ERR_INVALID,
			       "sandbox: the workspace %.150s is no absolute path",
			       buf_bytes(&shown));
	plan->workspace = realpath(policy->workspace, NULL);
	if (!plan->workspace)
		return err_sys(err, "sandbox: workspace %.150s", buf_bytes(&shown));
	if (stat(plan->workspace, &st) < 0)
		return err_sys(err, "sandbox: workspace %.150s", buf_bytes(&shown));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID, "sandbox: the workspace %.150s is no directory",
			       buf_bytes(&shown));
	return 0;
}

static void compile_none(struct plan *plan)
{
	plan_add(plan, STEP_SUBREAPER, "orphans come to the init instead of leaving it",
		 "adopt orphans");
	/* SIGTERM, not SIGKILL: without a pid namespace the init has to kill what descends from it.
	 */
	add_lifetime(plan, SIGTERM);
}

/* Without namespaces the paths are the host's, and only Landlock and the filter stand before them.
 */
static int add_landlock_degraded(struct plan *plan, const struct policy *policy, struct err *err)
{
	static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
					      "/dev/urandom"};
	struct visible visible = VISIBLE_INIT, written = VISIBLE_INIT;
	uint64_t workspace = LANDLOCK_READ;
	size_t system_binds;
	struct step *step;
	int result = plan_find_visible(&visible, &system_binds, policy, err);

	if (result == 0)
		result = plan_find_written(&written, policy, err);

	step = plan_add(plan, STEP_LANDLOCK, "files, signals and abstract sockets of others",
			"Landlock: a ruleset of ABI %d", plan->host.landlock_abi);
	step->attributes = landlock_handled(plan->host.landlock_abi);
	step->value = LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT;
	for (size_t i = 0; result == 0 && i < visible.bind_count; i++)
		allow(plan, visible.binds[i], LANDLOCK_READ,
		      i < system_binds
			      ? "programs and libraries"
			      : "asked for by the policy: the interpreter and its packages");
	for (size_t i = 0; result == 0 && i < written.bind_count; i++)
		allow(plan, written.binds[i], LANDLOCK_READ | LANDLOCK_CHANGE,
		      "asked for by the policy: may be written");
	visible_release(&visible);
	visible_release(&written);
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		allow(plan, devices[i], LANDLOCK_READ_FILE | LANDLOCK_DEVICE,
		      "harmless, and programs need it");
	if (policy->workspace_mode != WORKSPACE_RO)
		workspace |= LANDLOCK_CHANGE;
	allow(plan, plan->workspace, workspace, "where the session works");
	if (policy->tmp)
		allow(plan, policy->tmp, LANDLOCK_READ | LANDLOCK_CHANGE, "private");
	return result;
}

/* The init has no namespace to be first in; it is the subreaper of what it starts. */
static int compile_degraded(struct plan *plan, const struct policy *policy, struct err *err)
{
	if (plan->host.landlock_abi < DEGRADED_ABI_MIN)
		return err_set(
			err, ERR_SANDBOX,
			"sandbox: tier degraded needs Landlock ABI %d (Linux 6.12), and here "
			"is ABI %d: signals and sockets could not be kept apart; allow user "
			"namespaces, or run with --tier none",
			DEGRADED_ABI_MIN, plan->host.landlock_abi);
	if (plan->host.uid == 0 && plan->host.other_uids)
		return err_set(err, ERR_SANDBOX,
			       "sandbox: tier degraded cannot contain root; start Fumehood as an "
			       "ordinary user, or allow user namespaces here");
	compile_none(plan);
	if (plan->host.uid == 0)
		plan_add(plan, STEP_CAPABILITIES, "none is needed any more",
			 "drop all capabilities: bounding, ambient, inheritable, permitted, "
			 "effective");
	plan_add(plan, STEP_NO_NEW_PRIVILEGES, "setuid programs and file capabilities give nothing",
		 "no new privileges");
	if (add_landlock_degraded(plan, policy, err) < 0)
		return -1;
	filter_compile(&plan->filter, FILTER_DEGRADED);
	return 0;
}

int plan_compile(struct plan *plan, const struct policy *policy, enum tier tier,
		 const struct host *host, struct err *err)
{
	plan->host = *host;
	if (find_workspace(plan, policy, err) < 0)
		return -1;
	if (policy->workspace_mode == WORKSPACE_OVERLAY && tier != TIER_FULL)
		return err_set(
			err, ERR_UNSUPPORTED,
			"sandbox: a workspace with :overlay needs tier full; use :ro or a copy");
	if (tier == TIER_NONE) {
		compile_none(plan);
		return 0;
	}
	if (tier == TIER_DEGRADED)
		return compile_degraded(plan, policy, err);
	for (size_t i = 0; i < PLAN_NAMESPACES; i++)
		plan->namespaces |= PLAN_NAMESPACE[i].flag;
	add_forget(plan);
	add_id_maps(plan);
	add_loopback(plan);
	add_hostname(plan);
	add_propagation(plan);
	plan_add_root(plan);
	if (plan_add_mounts(plan, policy, err) < 0)
		return -1;
	add_pivot(plan);
	add_lifetime(plan, SIGKILL);
	add_privileges(plan);
	add_landlock(plan, policy);
	filter_compile(&plan->filter, FILTER_BOX);
	return 0;
}

int plan_compile_nursery(struct plan *plan, const struct policy *policy, const struct host *host,
			 struct err *err)
{
	plan->host = *host;
	for (size_t i = 0; i < PLAN_NAMESPACES; i++)
		plan->namespaces |= PLAN_NAMESPACE[i].flag;
	plan->namespaces &= ~(uint64_t)CLONE_NEWPID;
	add_id_maps(plan);
	add_loopback(plan);
	add_hostname(plan);
	add_propagation(plan);
	plan_add_root(plan);
	if (plan_add_nursery_mounts(plan, policy, err) < 0)
		return -1;
	add_pivot(plan);
	plan_add(plan, STEP_NEW_SESSION, "no terminal, and no Ctrl-C from it", "new session");
	if (!plan_has_own_ids(plan))
		add_ids(plan);
	plan_add(plan, STEP_SECUREBITS, "uid 0 gives nothing, and nothing brings capabilities back",
		 "lock the secure bits");
	plan_add(plan, STEP_CAPABILITIES, "none is needed any more",
		 "drop all capabilities: bounding, ambient, inheritable, permitted, effective");
	plan_add(plan, STEP_NO_NEW_PRIVILEGES, "setuid programs and file capabilities give nothing",
		 "no new privileges");
	filter_compile(&plan->filter, FILTER_ZYGOTE);
	return 0;
}

void plan_compile_proof(struct plan *plan, uint64_t namespaces, const struct host *host)
{
	plan->host = *host;
	plan->namespaces = namespaces | CLONE_NEWUSER;
	add_id_maps(plan);
	if (namespaces & CLONE_NEWNET)
		add_loopback(plan);
	if (namespaces & CLONE_NEWUTS)
		add_hostname(plan);
	if (namespaces & CLONE_NEWNS) {
		add_propagation(plan);
		plan_add_root(plan);
		if (namespaces & CLONE_NEWPID) {
			plan_add_proc(plan);
			plan_add_limits(plan);
		}
		add_pivot(plan);
		if (namespaces & CLONE_NEWPID)
			add_privileges(plan);
	}
}
