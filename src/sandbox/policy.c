/*
 * Policy: defaults, tier names, and which directories are no workspaces.
 *
 * The check of a workspace is a courtesy, not a wall: it keeps a slip of the hand (`fumehood run`
 * in the home directory) from giving a session everything. Directories are compared by device and
 * inode as well as by name, so a symlink or a bind mount of the home directory is still the home
 * directory.
 */
#include "sandbox/policy.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/text.h"
#include "sandbox/protect.h"

static const char *const TIERS[] = {
	[TIER_NONE] = "none",
	[TIER_DEGRADED] = "degraded",
	[TIER_FULL] = "full",
};

enum { TIER_COUNT = sizeof(TIERS) / sizeof(TIERS[0]) };

/* Refused themselves; what lies in them is fine. */
static const char *const EXACTLY[] = {"/",        "/home",    "/root",    "/var",   "/tmp",
				      "/opt",     "/srv",     "/mnt",     "/media", "/run",
				      "/var/tmp", "/var/lib", "/dev/shm", NULL};

/* Refused with all that lies in them. */
static const char *const WITHIN[] = {"/usr",   "/etc",   "/bin",    "/sbin", "/lib",
				     "/lib32", "/lib64", "/libx32", "/boot", "/proc",
				     "/sys",   "/dev",   NULL};

const char *tier_name(enum tier tier)
{
	return TIERS[tier];
}

int tier_from_name(const char *name, enum tier *tier)
{
	for (int i = 0; i < TIER_COUNT; i++) {
		if (strcmp(name, TIERS[i]) != 0)
			continue;
		*tier = (enum tier)i;
		return 0;
	}
	return -1;
}

static const char *const MODES[WORKSPACE_MODES] = {
	[WORKSPACE_RW] = "rw",
	[WORKSPACE_RO] = "ro",
	[WORKSPACE_OVERLAY] = "overlay",
};

const char *workspace_mode_name(enum workspace_mode mode)
{
	return MODES[mode];
}

int workspace_mode_from_name(const char *name, enum workspace_mode *mode)
{
	for (int i = 0; i < WORKSPACE_MODES; i++) {
		if (strcmp(name, MODES[i]) != 0)
			continue;
		*mode = (enum workspace_mode)i;
		return 0;
	}
	return -1;
}

void policy_init(struct policy *policy)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*policy = (struct policy){
		.floor = TIER_DEGRADED,
		.workspace_mode = WORKSPACE_RW,
		.protect = PROTECT_DEFAULT,
		.tmp_bytes_max = 1ULL << 30,
		.tmp_inodes_max = 100000,
		.processes_max = 512 + 4 * (uint64_t)(cpus > 0 ? cpus : 1),
		.files_max = 1024,
		.file_bytes_max = 256ULL << 20,
		.memory_bytes_max = 2ULL << 30,
		.disk_bytes_max = 1ULL << 30,
		.disk_inodes_max = 200000,
	};
}

static bool same_directory(const struct stat *st, const char *other)
{
	struct stat seen;

	return other && stat(other, &seen) == 0 && seen.st_dev == st->st_dev &&
	       seen.st_ino == st->st_ino;
}

static bool is_home(const char *real, const struct stat *st)
{
	const struct passwd *entry;

	if (strncmp(real, "/home/", 6) == 0 && !strchr(real + 6, '/'))
		return true;
	if (same_directory(st, getenv("HOME")))
		return true;
	entry = getpwuid(geteuid());
	return entry && same_directory(st, entry->pw_dir);
}

static bool is_system(const char *real, const struct stat *st)
{
	for (size_t i = 0; EXACTLY[i]; i++) {
		if (same_directory(st, EXACTLY[i]))
			return true;
	}
	if (strncmp(real, "/dev/shm/", 9) == 0)
		return false;
	for (size_t i = 0; WITHIN[i]; i++) {
		size_t len = strlen(WITHIN[i]);

		if (strncmp(real, WITHIN[i], len) == 0 && (real[len] == '/' || real[len] == '\0'))
			return true;
	}
	return false;
}

int policy_check_workspace(const char *path, bool named, struct err *err)
{
	cleanup_buf struct buf shown = BUF_INIT;
	cleanup_free char *real = NULL;
	struct stat st;

	text_escape(&shown, path, strlen(path), false, false);
	if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(err, ERR_NOT_FOUND, "no directory %.150s; make it first",
			       buf_bytes(&shown));
	real = realpath(path, NULL);
	if (!real)
		return err_sys(err, "workspace %.150s", buf_bytes(&shown));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_NOT_FOUND,
			       "%.150s is no directory; name one with --workspace",
			       buf_bytes(&shown));
	if (named)
		return 0;
	if (is_home(real, &st))
		return err_set(err, ERR_DENIED,
			       "%.120s is a home directory: use a folder in it, or insist with "
			       "--workspace",
			       buf_bytes(&shown));
	if (is_system(real, &st))
		return err_set(
			err, ERR_DENIED,
			"%.120s is a system directory: use another, or insist with --workspace",
			buf_bytes(&shown));
	return 0;
}

/* --- paths to be shown --- */

static int check_path(const char *path, bool writable, struct err *err)
{
	cleanup_buf struct buf shown = BUF_INIT;
	cleanup_free char *real = NULL;
	struct stat st;

	text_escape(&shown, path, strlen(path), false, false);
	if (stat(path, &st) < 0)
		return err_sys(err, "policy: %.150s", buf_bytes(&shown));
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(err, ERR_DENIED,
			       "policy: %.120s is neither a directory nor a regular file: only "
			       "those can be shown",
			       buf_bytes(&shown));
	if (!writable)
		return 0;
	real = realpath(path, NULL);
	if (!real)
		return err_sys(err, "policy: %.150s", buf_bytes(&shown));
	if (is_home(real, &st))
		return err_set(err, ERR_DENIED,
			       "policy: %.120s is a home directory: name a folder in it",
			       buf_bytes(&shown));
	if (is_system(real, &st))
		return err_set(err, ERR_DENIED,
			       "policy: %.120s belongs to the system: a session may not write it",
			       buf_bytes(&shown));
	return 0;
}

static bool lies_in(const char *path, const char *top)
{
	size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* `own` is a folder of Fumehood's. The environments of `--with` in it may be written by whoever
 * makes them: their sessions run in boxes, whatever they have become. */
static int check_apart(const char *const *write, const char *own, struct err *err)
{
	cleanup_free char *real_own = realpath(own, NULL);
	cleanup_free char *made = mem_format("%s/environments/", real_own ? real_own : "");

	for (size_t i = 0; real_own && write && write[i]; i++) {
		cleanup_buf struct buf shown = BUF_INIT;
		cleanup_free char *real = realpath(write[i], NULL);

		if (!real || (!lies_in(real, real_own) && !lies_in(real_own, real)) ||
		    strncmp(real, made, strlen(made)) == 0)
			continue;
		text_escape(&shown, write[i], strlen(write[i]), false, false);
		return err_set(err, ERR_DENIED,
			       "policy: %.100s may not be written: Fumehood has its own files "
			       "there, by which a session could reach others",
			       buf_bytes(&shown));
	}
	return 0;
}

/* What Fumehood runs, records and is told by. */
static int check_own(const char *const *write, struct err *err)
{
	char *own[] = {paths_state(NULL), paths_runtime(NULL), paths_data(NULL), paths_config(NULL),
		       paths_helper("python", NULL)};
	int result = 0;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (own[i] && result == 0)
			result = check_apart(write, own[i], err);
		free(own[i]);
	}
	return result;
}

int policy_check_paths(const char *const *read, const char *const *write, struct err *err)
{
	for (size_t i = 0; read && read[i]; i++) {
		if (check_path(read[i], false, err) < 0)
			return -1;
	}
	for (size_t i = 0; write && write[i]; i++) {
		if (check_path(write[i], true, err) < 0)
			return -1;
	}
	return write && write[0] ? check_own(write, err) : 0;
}
