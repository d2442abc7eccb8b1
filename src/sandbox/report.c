/*
 * Causes are found by looking when something has failed, never before: a sysctl that forbids user
 * namespaces is read only to name it in the cure. The clone3 call says "no" for seven namespaces at
 * once, so report_refusal() asks again for each.
 */
#include "sandbox/report.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"

const struct report_layer REPORT_LAYER[LAYER_COUNT] = {
	[LAYER_USER] = {"user namespace", "code has the rights and the groups of your account",
			"allow unprivileged user namespaces"},
	[LAYER_MOUNT] = {"mount namespace with own root",
			 "code reads and writes all files of your account",
			 "allow unprivileged user namespaces"},
	[LAYER_PID] = {"pid namespace with own /proc",
		       "code sees and signals your other processes, and what "
		       "it starts can outlive the session",
		       "use a host or container that allows to mount "
		       "/proc"},
	[LAYER_NETWORK] = {"network namespace", "code reaches the network and every local service",
			   "allow unprivileged user namespaces"},
	[LAYER_IPC] = {"ipc namespace",
		       "shared memory and queues of others are reachable and are left behind",
		       "allow unprivileged user namespaces"},
	[LAYER_UTS] = {"uts namespace", "code learns the name of the machine",
		       "allow unprivileged user namespaces"},
	[LAYER_CGROUP] = {"cgroup namespace", "code learns its place among the machine's services",
			  "allow unprivileged user namespaces"},
	[LAYER_PRIVILEGES] = {"no capabilities, no new privileges",
			      "setuid programs such as sudo work", "start without --tier none"},
	[LAYER_NESTING] = {"no nested namespaces",
			   "code reaches parts of the kernel that only a namespace's "
			   "owner can",
			   "start without --tier none"},
	[LAYER_LIMITS] = {"limits on processes, files and file size",
			  "code can use up what your account has", "set them in the policy"},
	[LAYER_LANDLOCK] = {"Landlock", "the mounts are the only wall round the files",
			    "use Linux 5.13 with \"landlock\" among its security modules (lsm=)"},
	[LAYER_SECCOMP] = {"system call filter",
			   "code can use every system call of an ordinary process",
			   "use a kernel with CONFIG_SECCOMP_FILTER"},
	[LAYER_MEMORY] = {"memory limit", "code can use up the memory of the machine",
			  "start Fumehood in a group with a limit: systemd-run --user --scope -p "
			  "MemoryMax=4G"},
	[LAYER_NURSERY] = {"confined zygote",
			   "what packages do while they are imported can read your files and reach "
			   "the network",
			   "see the log of the pool (fumehood pool): it says what is missing"},
	[LAYER_OWN_UID] = {"uid of its own",
			   "the host uid behind the session is root's: what root may read "
			   "and is made visible can be read",
			   "start Fumehood as an ordinary user"},
};

struct json *report_layers(uint32_t held, uid_t uid, const char *memory)
{
	struct json *array = json_new_array();

	for (int i = 0; i < LAYER_COUNT; i++) {
		const struct report_layer *layer = &REPORT_LAYER[i];
		bool holds = i == LAYER_MEMORY ? memory != NULL : (held & REPORT_BIT(i)) != 0;
		struct json *object;

		/* Of no concern where the host uid is none of root's. */
		if (i == LAYER_OWN_UID && uid != 0)
			continue;
		object = json_new_object();
		json_set_string(object, "layer", layer->name);
		json_set(object, "holds", json_new_bool(holds));
		if (i == LAYER_MEMORY && memory)
			json_set_string(object, "how", memory);
		if (i == LAYER_NURSERY && holds && uid != 0 && landlock_abi() < LANDLOCK_ABI_SCOPES)
			json_set_string(object, "how", "all but signals: those need Linux 6.12");
		if (!holds) {
			json_set_string(object, "effect", layer->effect);
			json_set_string(object, "cure", layer->cure);
		}
		json_push(array, object);
	}
	return array;
}

static bool reads(const char *path, char expected)
{
	cleanup_buf struct buf text = BUF_INIT;

	return file_read(AT_FDCWD, path, 64, &text, NULL) == 0 && buf_bytes(&text)[0] == expected;
}

/* Whether a text file holds `word`. */
static bool mentions(const char *path, const char *word)
{
	cleanup_buf struct buf text = BUF_INIT;

	return file_read(AT_FDCWD, path, 4096, &text, NULL) == 0 &&
	       memmem(buf_bytes(&text), text.len, word, strlen(word));
}

static const char *user_cure(int sys)
{
	if (sys == ENOSPC || sys == EUSERS)
		return "raise it with \"sysctl user.max_user_namespaces=10000\"";
	if (mentions("/proc/version", "Microsoft")) /* WSL 2 writes "microsoft" */
		return "WSL 1 has no namespaces: convert the distribution with \"wsl --set-version "
		       "NAME 2\"";
	if (access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0)
		return "start the container with --security-opt seccomp=unconfined --security-opt "
		       "systempaths=unconfined";
	if (sys == ENOSYS || sys == EINVAL)
		return "it needs Linux 5.6 with user namespaces, and a container that lets clone3 "
		       "through";
	if (reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'))
		return "install the AppArmor profile packaging/apparmor/fumehood (SECURITY.md), or "
		       "\"sysctl kernel.apparmor_restrict_unprivileged_userns=0\"";
	if (reads("/proc/sys/kernel/unprivileged_userns_clone", '1'))
		return "a container or a chroot forbids it: allow user namespaces there";
	return "enable it with \"sysctl kernel.unprivileged_userns_clone=1\" (in a container: "
	       "allow user "
	       "namespaces)";
}

int report_no_tier(const struct err *full, struct err *err)
{
	static const char prefix[] = "sandbox: ";
	cleanup_free char *second = mem_string(err ? err->text : "");
	const char *begin = second;

	if (strncmp(begin, prefix, strlen(prefix)) == 0)
		begin += strlen(prefix);
	return err_set(err, full->code, "%.*s; %.*s",
		       (int)text_prefix(full->text, strlen(full->text), 160), full->text,
		       (int)strcspn(begin, ",;"), begin);
}

const char *report_namespace_cure(uint64_t flag, int sys)
{
	if (flag == CLONE_NEWUSER || sys == ENOSYS || sys == EPERM)
		return user_cure(sys);
	if (sys == ENOSPC)
		return "raise its limit under /proc/sys/user";
	return "it needs a kernel with that namespace";
}

const char *report_cure(const struct step *step, int sys)
{
	if (sys == ENOSYS)
		return "it needs Linux 5.6, and a container that lets the mount calls through";
	switch ((int)step->kind) {
	case STEP_ID_MAPS:
	case STEP_LOOPBACK:
	case STEP_PROPAGATION:
	case STEP_ROOT:
		return user_cure(sys == EACCES ? EPERM : sys);
	case STEP_MOUNT:
		if (strcmp(step->source, "proc") == 0)
			return "a container with a masked /proc forbids it: start that with "
			       "--security-opt systempaths=unconfined";
		return user_cure(sys);
	case STEP_PIVOT:
		return "the root must not be an initramfs";
	case STEP_OVERLAY:
		return "the session's directory must be on ext4, xfs or btrfs, and nothing may be "
		       "mounted in the workspace; or use :ro or a copy";
	case STEP_BIND:
		if (sys == ELOOP)
			return "a symlink came into its place meanwhile";
		return "make sure that it is there and that you may enter it";
	default:
		return "this kernel or container does not allow it";
	}
}

static int fill(struct err *err, const char *what, int sys, const char *cure)
{
	err_set(err, ERR_SANDBOX, "sandbox: %.100s: %s; %s, or run with --tier none", what,
		strerror(sys), cure);
	if (err)
		err->sys = sys;
	return -1;
}

int report_failure(const struct plan *plan, size_t step, int sys, struct err *err)
{
	if (step >= plan->count)
		return fill(err, "init", sys, "this kernel or container does not allow it");
	return fill(err, plan->steps[step].what, sys, report_cure(&plan->steps[step], sys));
}

/* The errno with which clone3 refuses these flags, 0 when it grants them. */
static int refusal(uint64_t flags)
{
	struct clone_args args = {.flags = flags | CLONE_NEWUSER};
	int pid = kernel_clone3(&args);

	if (pid == 0)
		kernel_exit(0);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, __WALL);
	return 0;
}

int report_refusal(uint64_t namespaces, int sys, struct err *err)
{
	static const enum report_layer_id layers[PLAN_NAMESPACES] = {
		LAYER_USER, LAYER_MOUNT, LAYER_PID,   LAYER_NETWORK,
		LAYER_IPC,  LAYER_UTS,   LAYER_CGROUP};

	for (size_t i = 0; i < PLAN_NAMESPACES; i++) {
		uint64_t flag = PLAN_NAMESPACE[i].flag;
		int refused = namespaces & flag ? refusal(flag) : 0;

		if (refused)
			return fill(err, REPORT_LAYER[layers[i]].name, refused,
				    report_namespace_cure(flag, refused));
	}
	return fill(err, "a new process", sys, "try again when the machine has room for it");
}
