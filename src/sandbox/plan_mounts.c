/*
 * Policy to plan: what is visible inside, and where.
 *
 * The root is an empty tmpfs, so everything that is there is named here: an allow-list. Of /etc
 * only what programs need to run at all is bound; /etc/ssl is not (its `private` is readable to a
 * keeper started by root), passwd and the like are made. Order: file systems on which others lie
 * (/tmp) come before them, and the root and /dev become read-only when all is in place. The limit
 * on mount namespaces is written when no new mount is to be made any more (a detached mount is
 * counted as a namespace), but before /proc/sys is read-only.
 *
 * /proc is the box's own, but part of it is the kernel's and not the namespace's. A process whose
 * host uid is 0 could write there even without any capability (measured), so those parts are
 * read-only or hidden; for a keeper started by root the whole of /proc is read-only in addition,
 * since such a process owns the other entries too, and its chmod(2) on one shows in every /proc
 * that is mounted later (measured).
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/kernel.h"
#include "sandbox/plan.h"
#include "sandbox/visible.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define DATA (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define DATA_NOEXEC (DATA | MOUNT_ATTR_NOEXEC)
#define DEVICE (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

static const char *const SYSTEM[] = {
	"/usr",
	"/bin",
	"/sbin",
	"/lib",
	"/lib32",
	"/lib64",
	"/libx32",
	/* the dynamic linker */
	"/etc/ld.so.cache",
	"/etc/ld.so.conf",
	"/etc/ld.so.conf.d",
	"/etc/alternatives",
	/* time, names, types, fonts */
	"/etc/localtime",
	"/etc/timezone",
	"/etc/protocols",
	"/etc/services",
	"/etc/mime.types",
	"/etc/fonts",
	"/etc/os-release",
	/* certificates, never private keys */
	"/etc/ssl/certs",
	"/etc/ssl/openssl.cnf",
	"/etc/ca-certificates/extracted",
	"/etc/pki/tls/certs",
	"/etc/pki/tls/cert.pem",
	"/etc/pki/tls/openssl.cnf",
	"/etc/pki/ca-trust/extracted",
	"/etc/crypto-policies",
	"/etc/matplotlibrc",
	NULL,
};

/* Any entry of /etc that begins so: the configuration of interpreters, which has the version in its
 * name. */
static const char *const SYSTEM_PREFIXES[] = {"python", "java-", "R", "octave", "ipython", NULL};

static const struct {
	const char *path, *content;
} MADE[] = {
	{"/etc/passwd", "user:x:1000:1000:user:/workspace:/bin/sh\n"
			"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
	{"/etc/group", "user:x:1000:\nnogroup:x:65534:\n"},
	{"/etc/hostname", "fumehood\n"},
	{"/etc/hosts", "127.0.0.1 localhost fumehood\n::1 localhost ip6-localhost ip6-loopback\n"},
	{"/etc/resolv.conf", ""},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
			       "services: files\nprotocols: files\nnetworks: files\n"},
};

static const char *const DEVICES[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
				      "/dev/urandom", "/dev/tty",  NULL};

static const char *const DEVICE_LINKS[][2] = {
	{"/dev/fd", "/proc/self/fd"},       {"/dev/stdin", "/proc/self/fd/0"},
	{"/dev/stdout", "/proc/self/fd/1"}, {"/dev/stderr", "/proc/self/fd/2"},
	{"/dev/ptmx", "pts/ptmx"},
};

static const char *const PROC_READ_ONLY[] = {"/proc/sys",  "/proc/irq",  "/proc/bus", "/proc/fs",
					     "/proc/acpi", "/proc/scsi", NULL};

static const char *const PROC_HIDDEN[] = {"/proc/sysrq-trigger", "/proc/kcore",
					  "/proc/keys",          "/proc/timer_list",
					  "/proc/sched_debug",   "/proc/latency_stats",
					  "/proc/timer_stats",   "/proc/kmsg",
					  "/proc/interrupts",    NULL};

/* Only their owner, host root, can read these. */
static const char *const PROC_ROOT_ONLY[] = {"/proc/kpagecount",
					     "/proc/kpageflags",
					     "/proc/kpagecgroup",
					     "/proc/slabinfo",
					     "/proc/vmallocinfo",
					     "/proc/pagetypeinfo",
					     NULL};

/* Namespaces: none. inotify: the box's own share, so that it cannot use up the user's. */
static const char *const LIMITS[][2] = {
	{"max_user_namespaces", "0"},    {"max_mnt_namespaces", "0"},
	{"max_pid_namespaces", "0"},     {"max_net_namespaces", "0"},
	{"max_ipc_namespaces", "0"},     {"max_uts_namespaces", "0"},
	{"max_cgroup_namespaces", "0"},  {"max_time_namespaces", "0"},
	{"max_inotify_instances", "64"}, {"max_inotify_watches", "16384"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char WHY_SYSTEM[] = "programs and libraries, which nothing inside may change";
static const char WHY_ENVIRONMENT[] = "asked for by the policy: the interpreter and its packages";
static const char WHY_PROC[] = "belongs to the machine, not to the box";

static const char *number(struct plan *plan, uint64_t value)
{
	return plan_own(plan, mem_format("%llu", (unsigned long long)value));
}

void plan_add_root(struct plan *plan)
{
	struct step *step = plan_add(plan, STEP_ROOT, "what is not put into it is not there",
				     "own root: an empty file system in memory");

	step->options[0] = (struct step_option){"size", "1m"};
	step->options[1] = (struct step_option){"nr_inodes", "4096"};
	step->options[2] = (struct step_option){"mode", "0755"};
	step->attributes = DATA;
}

static struct step *add_directory(struct plan *plan, const char *path, const char *why)
{
	struct step *step = plan_add(plan, STEP_DIRECTORY, why, "directory %s", path);

	step->target = path;
	step->mode = 0755;
	return step;
}

static void add_link(struct plan *plan, const char *path, const char *text, const char *why)
{
	struct step *step = plan_add(plan, STEP_LINK, why, "link %s to %s", path, text);

	step->target = path;
	step->source = text;
}

static struct step *add_bind(struct plan *plan, const char *source, const char *target,
			     uint64_t attributes, const char *why)
{
	const char *how = attributes & MOUNT_ATTR_RDONLY ? "read-only" : "read-write";
	struct step *step;

	if (strcmp(source, target) == 0)
		step = plan_add(plan, STEP_BIND, why, "bind %s %s", target, how);
	else
		step = plan_add(plan, STEP_BIND, why, "bind %s at %s %s", source, target, how);
	step->source = source;
	step->target = target;
	step->attributes = attributes;
	if (!plan->host.mount_setattr) {
		step->submounts = host_submounts(source);
		plan_own(plan, (char *)step->submounts);
	}
	return step;
}

static struct step *add_mapped(struct plan *plan, const char *source, const char *target,
			       uint64_t attributes, bool own, const char *why)
{
	struct step *step = add_bind(plan, source, target, attributes, why);

	step->mapped = plan_has_own_ids(plan);
	step->strict = true;
	step->own = own;
	return step;
}

static struct step *add_mount(struct plan *plan, const char *type, const char *target,
			      uint64_t attributes, const char *why)
{
	struct step *step = plan_add(plan, STEP_MOUNT, why, "mount a new %s at %s", type, target);

	step->source = type;
	step->target = target;
	step->attributes = attributes;
	return step;
}

static void add_memory(struct plan *plan, const char *target, const struct policy *policy,
		       uint64_t attributes)
{
	struct step *step =
		add_mount(plan, "tmpfs", target, attributes, "private, bounded, in memory");

	step->options[0] = (struct step_option){"size", number(plan, policy->tmp_bytes_max)};
	step->options[1] = (struct step_option){"nr_inodes", number(plan, policy->tmp_inodes_max)};
	step->options[2] = (struct step_option){"mode", "1777"};
}

/* The interpreters' own folders in /etc. */
static void find_prefixed(struct visible *visible)
{
	DIR *dir = opendir("/etc");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		for (size_t i = 0; SYSTEM_PREFIXES[i]; i++) {
			const char *prefix = SYSTEM_PREFIXES[i];
			cleanup_free char *path = NULL;

			if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
				continue;
			path = mem_format("/etc/%s", entry->d_name);
			visible_add(visible, path);
		}
	}
	if (dir)
		closedir(dir);
}

/* Binds what is read-only, as far as it lies within one of `written`, or does not. */
static void add_read_binds(struct plan *plan, const struct visible *visible, size_t system_binds,
			   const struct visible *written, bool within)
{
	for (size_t i = 0; i < visible->bind_count; i++) {
		bool system = i < system_binds;
		const char *path;

		if (visible_covers(written, visible->binds[i]) != within)
			continue;
		path = plan_own(plan, mem_string(visible->binds[i]));
		add_bind(plan, path, path, READ_ONLY, system ? WHY_SYSTEM : WHY_ENVIRONMENT)
			->mapped = !system && plan_has_own_ids(plan);
	}
}

/* Those links of `visible` that `other` does not bring: by itself, or by what it binds. */
static void add_links(struct plan *plan, const struct visible *visible, const struct visible *other,
		      bool again)
{
	for (size_t i = 0; i < visible->link_count; i++) {
		const struct visible_link *link = &visible->links[i];
		const char *path, *text;

		if (visible_covers(other, link->path) ||
		    (!again && visible_links(other, link->path)))
			continue;
		path = plan_own(plan, mem_string(link->path));
		text = plan_own(plan, mem_string(link->text));
		add_link(plan, path, text, "as on the host");
	}
}

/* The innermost wish holds: what is read-only in a folder that is written is bound after it. */
static void add_visible(struct plan *plan, const struct visible *visible, size_t system_binds,
			const struct visible *written)
{
	add_read_binds(plan, visible, system_binds, written, false);
	add_links(plan, visible, written, true);
	for (size_t i = 0; i < written->bind_count; i++) {
		const char *path = plan_own(plan, mem_string(written->binds[i]));

		add_mapped(plan, path, path, DATA, false, "asked for by the policy: may be written")
			->written = true;
	}
	add_links(plan, written, visible, false);
	add_read_binds(plan, visible, system_binds, written, true);
}

int plan_find_visible(struct visible *visible, size_t *system_binds, const struct policy *policy,
		      struct err *err)
{
	for (size_t i = 0; SYSTEM[i]; i++)
		visible_add(visible, SYSTEM[i]);
	find_prefixed(visible);
	visible_settle(visible);
	*system_binds = visible->bind_count;
	for (size_t i = 0; policy->read && policy->read[i]; i++) {
		if (visible_add_checked(visible, policy->read[i], err) < 0)
			return -1;
	}
	visible_settle(visible);
	return 0;
}

int plan_find_written(struct visible *written, const struct policy *policy, struct err *err)
{
	if (policy_check_paths(NULL, policy->write, err) < 0)
		return -1;
	for (size_t i = 0; policy->write && policy->write[i]; i++) {
		if (visible_add_checked(written, policy->write[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; policy->own && policy->own[i]; i++) {
		if (visible_add_checked(written, policy->own[i], err) < 0)
			return -1;
	}
	visible_settle(written);
	return 0;
}

static int add_host_files(struct plan *plan, const struct policy *policy, struct err *err)
{
	struct visible visible = VISIBLE_INIT, written = VISIBLE_INIT;
	size_t system_binds;
	int result = -1;

	if (plan_find_visible(&visible, &system_binds, policy, err) == 0 &&
	    plan_find_written(&written, policy, err) == 0) {
		add_visible(plan, &visible, system_binds, &written);
		result = 0;
	}
	visible_release(&visible);
	visible_release(&written);
	return result;
}

static void add_made_files(struct plan *plan)
{
	for (size_t i = 0; i < COUNT(MADE); i++) {
		struct step *step = plan_add(plan, STEP_FILE, "says nothing about the host",
					     "make %s", MADE[i].path);

		step->target = MADE[i].path;
		step->source = MADE[i].content;
		step->mode = 0644;
	}
	add_directory(plan, "/sys", "empty: hardware and kernel are not shown")->mode = 0555;
	add_directory(plan, "/run", "expected by programs; holds no socket of the host");
	add_directory(plan, "/home", "expected by programs");
}

/* Unless something of the policy lies there. */
static void add_var_tmp(struct plan *plan)
{
	static const char path[] = "/var/tmp";

	for (size_t i = 0; i < plan->count; i++) {
		if (plan->steps[i].target &&
		    strncmp(plan->steps[i].target, path, strlen(path)) == 0)
			return;
	}
	add_link(plan, path, "/tmp", "one private place for temporary files");
}

static void add_devices(struct plan *plan, const struct policy *policy)
{
	struct step *step = add_mount(plan, "tmpfs", "/dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
				      "only the devices named below");

	step->options[0] = (struct step_option){"size", "64k"};
	step->options[1] = (struct step_option){"mode", "0755"};
	for (size_t i = 0; DEVICES[i]; i++) {
		if (access(DEVICES[i], F_OK) == 0)
			add_bind(plan, DEVICES[i], DEVICES[i], DEVICE,
				 "harmless, and programs need it");
	}
	step = add_mount(plan, "devpts", "/dev/pts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
			 "terminals of its own, none of the host's");
	step->options[0] = (struct step_option){"ptmxmode", "0666"};
	step->options[1] = (struct step_option){"mode", "0620"};
	step->options[2] = (struct step_option){"max", "256"}; /* the machine has 4,096 */
	add_memory(plan, "/dev/shm", policy, DATA_NOEXEC);
	for (size_t i = 0; i < COUNT(DEVICE_LINKS); i++)
		add_link(plan, DEVICE_LINKS[i][0], DEVICE_LINKS[i][1], "expected by programs");
	plan_add(plan, STEP_READ_ONLY, "no device and no link can be replaced",
		 "make /dev read-only")
		->target = "/dev";
}

void plan_add_proc(struct plan *plan)
{
	add_mount(plan, "proc", "/proc", DATA_NOEXEC,
		  "shows the processes of the box and no others");
}

void plan_add_limits(struct plan *plan)
{
	for (size_t i = 0; i < COUNT(LIMITS); i++) {
		char *path = plan_own(plan, mem_format("/proc/sys/user/%s", LIMITS[i][0]));
		struct step *step;

		if (access(path, F_OK) < 0)
			continue;
		step = plan_add(plan, STEP_WRITE, "counted in this user namespace alone",
				"limit %s to %s", LIMITS[i][0], LIMITS[i][1]);
		step->target = path;
		step->source = LIMITS[i][1];
	}
}

/* With `nodev` the null device cannot even be opened, so nothing can be written to it either. */
static void add_proc_hidden(struct plan *plan, const char *const *paths)
{
	for (size_t i = 0; paths[i]; i++) {
		if (access(paths[i], F_OK) == 0)
			add_bind(plan, "/dev/null", paths[i], READ_ONLY | MOUNT_ATTR_NOEXEC,
				 WHY_PROC);
	}
}

static void add_proc_read_only(struct plan *plan)
{
	for (size_t i = 0; PROC_READ_ONLY[i]; i++) {
		struct step *step;

		if (access(PROC_READ_ONLY[i], F_OK) < 0)
			continue;
		step = plan_add(plan, STEP_BIND_ITSELF, WHY_PROC, "make %s read-only",
				PROC_READ_ONLY[i]);
		step->target = PROC_READ_ONLY[i];
		step->attributes = READ_ONLY | MOUNT_ATTR_NOEXEC;
	}
	if (plan->host.box_uid == 0)
		plan_add(plan, STEP_READ_ONLY,
			 "a process inside has root's uid outside and owns what is left "
			 "of it",
			 "make /proc read-only")
			->target = "/proc";
}

/* The layers get their places in the new root, because overlayfs takes nothing but paths on all
 * kernels; it keeps what it needs of them, and they go again. */
static void add_overlay(struct plan *plan, const struct policy *policy)
{
	static const char why[] = "a layer of the workspace, for a moment";
	struct step *step;

	add_mapped(plan, plan->workspace, "/lower", READ_ONLY, false, why);
	add_mapped(plan, policy->overlay, "/layers", DATA, true, why);
	step = plan_add(plan, STEP_OVERLAY, "what is changed is kept aside, in the session",
			"mount %s with changes kept in %s at /workspace", plan->workspace,
			policy->overlay);
	step->target = "/workspace";
	step->attributes = DATA;
	step->options[0] = (struct step_option){"lowerdir", "lower"};
	step->options[1] = (struct step_option){"upperdir", "layers/upper"};
	step->options[2] = (struct step_option){"workdir", "layers/work"};
	step->options[3] = (struct step_option){"userxattr", NULL};
	plan_add(plan, STEP_UNMOUNT, "nobody changes it but through the workspace",
		 "unmount /layers")
		->target = "/layers";
	plan_add(plan, STEP_UNMOUNT, "it is seen through the workspace", "unmount /lower")->target =
		"/lower";
}

/* Whether the place has been made a mount of its own already: it is then the last but for what is
 * in it. */
static bool is_mounted(const struct plan *plan, const char *target)
{
	for (size_t i = plan->count; i > 0; i--) {
		const struct step *step = &plan->steps[i - 1];

		if (step->kind == STEP_BIND_ITSELF && strcmp(step->target, target) == 0)
			return true;
	}
	return false;
}

static void add_protected(struct plan *plan, const char *path, uint64_t attributes)
{
	char *target = plan_own(plan, mem_format("/workspace/%s", path));
	struct step *step;

	if (is_mounted(plan, target))
		return;
	if (attributes & MOUNT_ATTR_RDONLY)
		step = plan_add(plan, STEP_BIND_ITSELF,
				"other programs run it later, outside of any box",
				"make %s read-only", target);
	else
		step = plan_add(plan, STEP_BIND_ITSELF,
				"what is read-only in it must not be moved away with it",
				"make %s a mount", target);
	step->target = target;
	step->attributes = attributes;
}

static int add_protection(struct plan *plan, const struct policy *policy, struct err *err)
{
	cleanup_fd int root =
		kernel_open(AT_FDCWD, plan->workspace, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);

	if (root < 0)
		return err_sys(err, "sandbox: the workspace");
	protect_find(root, policy->protect, PROTECT_NAMES_MAX, &plan->protect);
	if (plan->protect.count > PROTECT_MOUNTS_MAX)
		plan->protect.incomplete = true;
	for (size_t i = 0; i < plan->protect.count && i < PROTECT_MOUNTS_MAX; i++) {
		const struct protect_item *item = &plan->protect.items[i];

		for (const char *slash = strchr(item->path, '/'); slash;
		     slash = strchr(slash + 1, '/')) {
			cleanup_free char *above =
				mem_copy(item->path, (size_t)(slash - item->path));

			add_protected(plan, above, DATA);
		}
		if (!item->link)
			add_protected(plan, item->path, READ_ONLY);
	}
	return 0;
}

static int add_workspace(struct plan *plan, const struct policy *policy, struct err *err)
{
	struct step *step;

	switch (policy->workspace_mode) {
	case WORKSPACE_OVERLAY:
		add_overlay(plan, policy);
		break;
	case WORKSPACE_RO:
		add_mapped(plan, plan->workspace, "/workspace", READ_ONLY,
			   policy->workspace_private, "where the session works");
		break;
	case WORKSPACE_MODES:
		break;
	case WORKSPACE_RW:
		add_mapped(plan, plan->workspace, "/workspace", DATA, policy->workspace_private,
			   "where the session works");
		if (!policy->workspace_private && add_protection(plan, policy, err) != 0)
			return -1;
		break;
	}
	step = plan_add(plan, STEP_BIND_INSIDE, "the same, where models expect it",
			"bind /workspace at /mnt/data");
	step->source = "/workspace";
	step->target = "/mnt/data";
	return 0;
}

int plan_add_nursery_mounts(struct plan *plan, const struct policy *policy, struct err *err)
{
	/* What libraries read when they are loaded. */
	static const char *const proc[] = {"/proc/cpuinfo",     "/proc/meminfo", "/proc/stat",
					   "/proc/filesystems", "/proc/version", NULL};

	add_memory(plan, "/tmp", policy, DATA);
	add_made_files(plan);
	if (add_host_files(plan, policy, err) < 0)
		return -1;
	add_devices(plan, policy);
	for (size_t i = 0; proc[i]; i++) {
		if (access(proc[i], R_OK) == 0)
			add_bind(plan, proc[i], proc[i], READ_ONLY | MOUNT_ATTR_NOEXEC, WHY_PROC);
	}
	plan_add(plan, STEP_BIND_PROCESS, "its own directory and no other's", "bind /proc/self")
		->target = "/proc/self";
	plan_add(plan, STEP_READ_ONLY, "nothing can be added to it", "make / read-only")->target =
		"/";
	return 0;
}

int plan_add_mounts(struct plan *plan, const struct policy *policy, struct err *err)
{
	add_memory(plan, "/tmp", policy, DATA);
	add_made_files(plan);
	if (add_host_files(plan, policy, err) < 0)
		return -1;
	add_var_tmp(plan);
	add_devices(plan, policy);
	if (add_workspace(plan, policy, err) < 0)
		return -1;
	plan_add_proc(plan);
	add_proc_hidden(plan, PROC_HIDDEN);
	if (plan->host.box_uid == 0)
		add_proc_hidden(plan, PROC_ROOT_ONLY);
	plan_add_limits(plan);
	add_proc_read_only(plan);
	plan_add(plan, STEP_READ_ONLY, "nothing can be added to it", "make / read-only")->target =
		"/";
	return 0;
}
