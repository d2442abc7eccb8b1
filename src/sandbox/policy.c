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
#include "base/text.h"

static const char *const TIERS[] = {
	[TIER_NONE] = "none",
	[TIER_DEGRADED] = "degraded",
	[TIER_PARTIAL] = "partial",
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

void policy_init(struct policy *policy)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*policy = (struct policy){
		.floor = TIER_PARTIAL,
		.workspace_mode = WORKSPACE_RW,
		.tmp_bytes_max = 1ULL << 30,
		.tmp_inodes_max = 100000,
		.processes_max = 512 + 4 * (uint64_t)(cpus > 0 ? cpus : 1),
		.files_max = 1024,
		.file_bytes_max = 256ULL << 20,
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
