/*
 * Doctor: the directories, and what their file systems can do.
 *
 * A state directory is tried out with what the keeper does in one: files are made, locked,
 * exchanged, given space ahead and brought to the disk, symlinks are made. Only what cannot be
 * tried, whether the file system outlives a reboot or a power cut, is told from its type. In the
 * runtime directory a socket is listened at and connected to, so a path that is too long for a
 * socket's name shows as a failure only if it is one.
 *
 * All of it happens in files named .doctor-PID-*, which are removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "cli/doctor.h"

enum { AHEAD_BYTES = 1 << 20 /* as the journal takes it */, CLOCK_SKEW_US_MAX = 5000000 };

/* --- the type of a file system ---------------------------------------------------------------- */

enum lasting { LASTS, REBOOT_ENDS_IT, CONTAINER_ENDS_IT, ELSEWHERE };

static const struct file_system {
	uint32_t magic;
	enum lasting lasting;
	const char *name;
} FILE_SYSTEMS[] = {
	{EXT4_SUPER_MAGIC, LASTS, "ext4"},
	{XFS_SUPER_MAGIC, LASTS, "xfs"},
	{BTRFS_SUPER_MAGIC, LASTS, "btrfs"},
	{F2FS_SUPER_MAGIC, LASTS, "f2fs"},
	{0x2fc12fc1, LASTS, "zfs"},
	{MSDOS_SUPER_MAGIC, LASTS, "vfat"},
	{TMPFS_MAGIC, REBOOT_ENDS_IT, "tmpfs"},
	{RAMFS_MAGIC, REBOOT_ENDS_IT, "ramfs"},
	{OVERLAYFS_SUPER_MAGIC, CONTAINER_ENDS_IT, "overlay"},
	{NFS_SUPER_MAGIC, ELSEWHERE, "nfs"},
	{CIFS_SUPER_MAGIC, ELSEWHERE, "cifs"},
	{SMB2_SUPER_MAGIC, ELSEWHERE, "smb2"},
	{V9FS_MAGIC, ELSEWHERE, "9p"},
	{FUSE_SUPER_MAGIC, ELSEWHERE, "fuse"},
	{CEPH_SUPER_MAGIC, ELSEWHERE, "ceph"},
	{AFS_SUPER_MAGIC, ELSEWHERE, "afs"},
};

static struct file_system file_system_of(int dirfd, char unknown[static 24])
{
	struct file_system found = {.lasting = LASTS, .name = unknown};
	struct statfs fs;

	snprintf(unknown, 24, "unknown type");
	if (fstatfs(dirfd, &fs) != 0)
		return found;
	found.magic = (uint32_t)fs.f_type;
	snprintf(unknown, 24, "type %#" PRIx32, found.magic);
	for (size_t i = 0; i < sizeof(FILE_SYSTEMS) / sizeof(FILE_SYSTEMS[0]); i++)
		if (FILE_SYSTEMS[i].magic == found.magic)
			return FILE_SYSTEMS[i];
	return found;
}

/* --- trying a directory out ------------------------------------------------------------------- */

struct trial {
	int dirfd;
	char names[3][32]; /* two files and a symlink */
	int fds[2];
	struct buf lost;  /* sentences: what is lost without what does not work */
	struct buf works; /* words */
	bool unfit;       /* sessions cannot be kept here at all */
};

static void trial_result(struct trial *trial, bool works, const char *what, const char *lost)
{
	if (works)
		buf_printf(&trial->works, ", %s", what);
	else
		buf_printf(&trial->lost, "%sno %s: %s", trial->lost.len ? "; " : "", what, lost);
}

static int trial_open(struct trial *trial, int dirfd, struct err *err)
{
	*trial = (struct trial){
		.dirfd = dirfd, .fds = {-1, -1}, .lost = BUF_INIT, .works = BUF_INIT};
	for (int i = 0; i < 3; i++)
		snprintf(trial->names[i], sizeof(trial->names[i]), ".doctor-%d-%d", (int)getpid(),
			 i);
	for (int i = 0; i < 2; i++) {
		trial->fds[i] =
			openat(dirfd, trial->names[i], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (trial->fds[i] < 0)
			return err_sys(err, "a file cannot be made");
	}
	return file_write_all(trial->fds[0], "doctor\n", 7, err);
}

static void trial_release(struct trial *trial)
{
	for (int i = 0; i < 3; i++) {
		if (i < 2 && trial->fds[i] >= 0)
			close(trial->fds[i]);
		unlinkat(trial->dirfd, trial->names[i], 0);
	}
	buf_release(&trial->lost);
	buf_release(&trial->works);
}

/* A second holder must be refused. */
static bool locks_exclude(const struct trial *trial)
{
	struct err first = ERR_INIT, second = ERR_INIT;
	cleanup_fd int one = file_lock(trial->dirfd, trial->names[1], &first);
	cleanup_fd int two = one < 0 ? -1 : file_lock(trial->dirfd, trial->names[1], &second);

	return one >= 0 && two < 0 && second.code == ERR_BUSY;
}

static void trial_run(struct trial *trial)
{
	bool locks = locks_exclude(trial);
	bool links = symlinkat("nowhere", trial->dirfd, trial->names[2]) == 0;
	bool exchange = renameat2(trial->dirfd, trial->names[0], trial->dirfd, trial->names[1],
				  RENAME_EXCHANGE) == 0;
	int ahead = fallocate(trial->fds[0], FALLOC_FL_KEEP_SIZE, 0, AHEAD_BYTES);
	bool full = ahead != 0 && (errno == ENOSPC || errno == EDQUOT);
	int64_t start_us = clock_monotonic_us();
	bool synced = fdatasync(trial->fds[0]) == 0;
	struct stat st;

	trial_result(trial, locks, "locks", "two keepers can take one session");
	trial_result(trial, links, "symlinks", "sessions cannot have names");
	trial_result(trial, exchange, "exchange",
		     "a notebook that someone else saves at the same moment is overwritten");
	if (full)
		buf_printf(&trial->lost, "%sthere is no mebibyte left for a journal",
			   trial->lost.len ? "; " : "");
	else
		trial_result(trial, ahead == 0, "space ahead",
			     "on a full disk the end of a cell may not be recorded");
	trial_result(trial, synced, "sync", "a power cut loses what was recorded");
	if (synced)
		buf_printf(&trial->works, " in %.1f ms",
			   (double)(clock_monotonic_us() - start_us) / 1e3);
	if (fstat(trial->fds[0], &st) == 0) {
		int64_t skew_us = clock_wall_us() - ((int64_t)st.st_mtim.tv_sec * 1000000 +
						     st.st_mtim.tv_nsec / 1000);

		if (skew_us > CLOCK_SKEW_US_MAX || skew_us < -CLOCK_SKEW_US_MAX)
			buf_printf(&trial->lost, "%sits clock differs from ours by %.0f s",
				   trial->lost.len ? "; " : "", (double)-skew_us / 1e6);
	}
	trial->unfit = !locks || !links || full;
}

static const char *lasting_effect(enum lasting lasting)
{
	switch (lasting) {
	case REBOOT_ENDS_IT:
		return "records and notebooks are gone at the next reboot";
	case CONTAINER_ENDS_IT:
		return "records and notebooks are gone with the container";
	case ELSEWHERE:
		return "a power cut may lose more than the last 200 ms of the record, and locks "
		       "may not hold between machines";
	case LASTS:
		break;
	}
	return NULL;
}

static void check_file_system(struct doctor *doctor, int dirfd)
{
	static const char cure[] = "set XDG_STATE_HOME to a directory on a local disk";
	char unknown[24];
	struct file_system type = file_system_of(dirfd, unknown);
	const char *effect = lasting_effect(type.lasting);
	cleanup_free char *detail = NULL, *both = NULL;
	struct err err = ERR_INIT;
	struct trial trial;
	struct statvfs mount;

	if (trial_open(&trial, dirfd, &err) != 0) {
		detail = mem_format("%s: %s", type.name, err.text);
		doctor_note(doctor, DOCTOR_FAILED, "state file system", detail,
			    "no session can be kept",
			    err.sys == ENOSPC || err.sys == EDQUOT
				    ? "fumehood gc, or make space there"
				    : cure);
		trial_release(&trial);
		return;
	}
	trial_run(&trial);
	if (fstatvfs(dirfd, &mount) == 0 && (mount.f_flag & ST_NOEXEC))
		buf_append_string(&trial.works,
				  ", noexec (compiled code in a private workspace does not run)");
	detail = mem_format("%s%s", type.name, buf_bytes(&trial.works));
	both = mem_format("%s%s%s", buf_bytes(&trial.lost), trial.lost.len && effect ? "; " : "",
			  effect ? effect : "");
	doctor_note(doctor,
		    trial.unfit ? DOCTOR_FAILED
		    : *both     ? DOCTOR_WARNING
				: DOCTOR_OK,
		    "state file system", detail, both, cure);
	trial_release(&trial);
}

/* --- the directories -------------------------------------------------------------------------- */

/* What is wrong with whose it is: owned by the caller, or NULL. */
static char *ownership_fault(int dirfd)
{
	struct stat st;

	if (fstat(dirfd, &st) != 0)
		return NULL;
	if (st.st_uid != geteuid())
		return mem_format("it belongs to uid %u", (unsigned)st.st_uid);
	if (st.st_mode & 0022)
		return mem_format("its mode is %04o", (unsigned)(st.st_mode & 07777));
	return NULL;
}

static void note_unusable(struct doctor *doctor, const char *check, const char *path,
			  const char *why, const char *variable)
{
	cleanup_free char *detail = path ? mem_format("%s: %s", path, why) : mem_string(why);
	cleanup_free char *cure =
		mem_format("make it yours and writable, or set %s to a directory that is; on a "
			   "read-only file system only the latter helps",
			   variable);

	doctor_note(doctor, DOCTOR_FAILED, check, detail, "no session can start", cure);
}

static void check_state(struct doctor *doctor)
{
	struct err err = ERR_INIT;
	cleanup_free char *path = paths_state(&err);
	cleanup_fd int dirfd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cleanup_free char *fault = NULL, *detail = NULL, *cure = NULL;

	if (dirfd < 0 || faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0) {
		note_unusable(doctor, "state directory", path, path ? strerror(errno) : err.text,
			      "XDG_STATE_HOME");
		return;
	}
	fault = ownership_fault(dirfd);
	detail = mem_format("%s%s%s", path, fault ? ": " : "", fault ? fault : "");
	cure = mem_format("chown %u '%s'; chmod go-w '%s'", (unsigned)geteuid(), path, path);
	doctor_note(doctor, fault ? DOCTOR_WARNING : DOCTOR_OK, "state directory", detail,
		    "others can rename and remove records", cure);
	check_file_system(doctor, dirfd);
}

/* Listens in the directory and connects to itself. */
static int try_socket(const char *directory, struct err *err)
{
	cleanup_free char *name = mem_format(".doctor-%d.sock", (int)getpid());
	cleanup_free char *path = mem_format("%s/%s", directory, name);
	cleanup_fd int listener = socket_listen(directory, name, SOCK_SEQPACKET, err);
	cleanup_fd int client = -1;

	if (listener < 0)
		return -1;
	client = socket_connect(directory, name, SOCK_SEQPACKET, err);
	unlink(path);
	return client < 0 ? -1 : 0;
}

static void check_runtime(struct doctor *doctor)
{
	enum { NAME_BYTES_MAX = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1 };
	static const size_t added = sizeof("/.sock") - 1 + 26; /* "/<id>.sock" */
	struct err err = ERR_INIT;
	cleanup_free char *path = paths_runtime(&err);
	cleanup_free char *detail = NULL;
	size_t len;

	if (!path || try_socket(path, &err) != 0) {
		note_unusable(doctor, "runtime directory", path, err.text, "XDG_RUNTIME_DIR");
		return;
	}
	len = strlen(path) + added;
	if (len > NAME_BYTES_MAX)
		detail = mem_format("%s: sockets work, through /proc/self/fd, for their paths have "
				    "%zu bytes, of at most %d",
				    path, len, NAME_BYTES_MAX);
	else
		detail = mem_format("%s: sockets work", path);
	doctor_note(doctor, DOCTOR_OK, "runtime directory", detail, NULL, NULL);
}

/* The variable outlives the directory where a login left it behind. */
static void check_runtime_variable(struct doctor *doctor)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	cleanup_free char *detail = NULL;
	struct stat st;

	if (!base || !*base || (base[0] == '/' && stat(base, &st) == 0 && S_ISDIR(st.st_mode)))
		return;
	detail = mem_format("%s: %s", base, base[0] == '/' ? "no such directory" : "not absolute");
	doctor_note(doctor, DOCTOR_WARNING, "XDG_RUNTIME_DIR", detail,
		    "it is passed over for /tmp/fumehood-UID: shells where it is right do not see "
		    "these sessions run",
		    "unset XDG_RUNTIME_DIR, or log in anew");
}

void doctor_directories(struct doctor *doctor)
{
	check_state(doctor);
	check_runtime_variable(doctor);
	check_runtime(doctor);
}
