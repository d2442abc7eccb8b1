/*
 * One file or symlink back into its place; see snapshot.h.
 *
 * `name` is looked up in an open folder and never followed. What is made has another name until it
 * is whole. Whether it has then got its name is looked at: somebody may have put another thing in
 * its place before. The two files are exchanged and the old one is removed then, instead of
 * renaming over it: ext4 takes that for a careful program's save and writes the file out at once,
 * which takes three times as long (ext4(5), auto_da_alloc), and a restore need not outlive the
 * machine.
 *
 * Whether somebody has a file open is asked by a lease for writing (fcntl(2)), which the kernel
 * only grants to one who is alone with it. It is given back at once; should somebody open the file
 * just then, the kernel sends SIGURG, which nobody notices, and not SIGIO, which kills. Where there
 * are no leases, the file is taken for open.
 *
 * Modes are set by descriptors alone: a keeper may not do it by names (sandbox/filter_rules.c). A
 * file that may not be opened for that is made anew. Times and other names of a file are given by
 * its path in /proc/self/fd, which leads to what the descriptor is open for and to nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "files/snapshot_impl.h"

struct proc_path {
	char text[sizeof("/proc/self/fd/-2147483648")];
};

struct temp_name {
	char text[HASH_ID_SIZE + sizeof(".fumehood-.tmp")];
};

static void proc_path(int fd, struct proc_path *path)
{
	snprintf(path->text, sizeof(path->text), "/proc/self/fd/%d", fd);
}

static void temp_name(struct temp_name *name)
{
	char id[HASH_ID_SIZE];

	hash_random_id(id);
	snprintf(name->text, sizeof(name->text), ".fumehood-%s.tmp", id);
}

static void times_of(int64_t mtime_ns, struct timespec times[static 2])
{
	int64_t rest = mtime_ns % 1000000000;

	rest += rest < 0 ? 1000000000 : 0;
	times[0] = (struct timespec){.tv_sec = 0, .tv_nsec = UTIME_OMIT};
	times[1] = (struct timespec){.tv_sec = (mtime_ns - rest) / 1000000000, .tv_nsec = rest};
}

/* A keeper may change modes by descriptor only (FILTER_KEEPER), which needs one that is open for
 * something. What the user may not open even so keeps its mode there: EPERM. */
int set_mtime(int fd, int64_t mtime_ns)
{
	struct timespec times[2];
	struct proc_path path;

	times_of(mtime_ns, times);
	proc_path(fd, &path);
	return utimensat(AT_FDCWD, path.text, times, 0);
}

static int set_attributes(int fd, const struct manifest_entry *entry)
{
	return fchmod(fd, entry->mode & TREE_MODE_MASK) == 0 && set_mtime(fd, entry->mtime_ns) == 0
		       ? 0
		       : -1;
}

/* A regular file by O_PATH; -1 with errno. */
static int open_path(int folder, const char *name, struct stat *st)
{
	cleanup_fd int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) != 0)
		return -1;
	if (!S_ISREG(st->st_mode)) {
		errno = ESTALE;
		return -1;
	}
	return fd_take(&fd);
}

static enum snapshot_why failed(int *sys)
{
	*sys = errno;
	return why_of_errno(errno);
}

/* Exchanges the two and removes what had the name, which must be no folder. */
static int exchange(int folder, const char *temp, const char *name)
{
	if (renameat2(folder, temp, folder, name, RENAME_EXCHANGE) != 0)
		return -1;
	if (unlinkat(folder, temp, 0) == 0)
		return 0;
	renameat2(folder, temp, folder, name, RENAME_EXCHANGE);
	errno = ESTALE;
	return -1;
}

/* Gives the temporary file its name, and looks whether it has got it. */
static int give_name(int folder, const char *temp, const char *name, ino_t inode)
{
	int result = exchange(folder, temp, name);
	struct stat st;

	if (result != 0 && (errno == ENOENT || errno == EINVAL || errno == ENOSYS))
		result = renameat(folder, temp, folder, name);
	if (result != 0 || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return -1;
	if (st.st_ino == inode)
		return 0;
	errno = ESTALE;
	return -1;
}

/* --- in place --- */

/* A regular file for reading and writing, which its owner gets the right to; -1 with errno. */
static int open_to_write(int folder, const char *name, struct stat *st)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	cleanup_fd int read = open_to_read(folder, name, st);
	cleanup_fd int fd = -1;

	if (read < 0)
		return -1;
	fd = openat(folder, name, flags);
	if (fd < 0 && errno == EACCES &&
	    fchmod(read, (st->st_mode & TREE_MODE_MASK) | S_IRUSR | S_IWUSR) == 0)
		fd = openat(folder, name, flags);
	if (fd < 0 || fstat(fd, st) != 0)
		return -1;
	if (!S_ISREG(st->st_mode)) {
		errno = ESTALE;
		return -1;
	}
	return fd_take(&fd);
}

static bool is_open_elsewhere(int fd)
{
	if (fcntl(fd, F_SETSIG, SIGURG) != 0 || fcntl(fd, F_SETLEASE, F_WRLCK) != 0)
		return true;
	return fcntl(fd, F_SETLEASE, F_UNLCK) != 0;
}

static enum snapshot_why write_over(const struct snapshot *snapshot, uint32_t entry, int fd,
				    int *sys)
{
	struct err err = ERR_INIT;

	if (store_object_write_over(snapshot->store, snapshot->kept[entry].object, fd, &err) != 0) {
		*sys = err.sys;
		return why_of_errno(err.sys);
	}
	return set_attributes(fd, &snapshot->manifest->entries[entry]) != 0 ? failed(sys)
									    : WHY_NOTHING;
}

/* --- by another file --- */

static int fill(const struct snapshot *snapshot, uint32_t entry, int fd, struct stat *st)
{
	struct err err = ERR_INIT;

	if (store_object_copy(snapshot->store, snapshot->kept[entry].object, fd, &err) != 0) {
		errno = err.sys ? err.sys : EIO;
		return -1;
	}
	return set_attributes(fd, &snapshot->manifest->entries[entry]) == 0 ? fstat(fd, st) : -1;
}

static enum snapshot_why replace(const struct snapshot *snapshot, uint32_t entry, int folder,
				 const char *name, int *sys)
{
	struct temp_name temp;
	cleanup_fd int fd = -1;
	struct stat st;

	temp_name(&temp);
	fd = openat(folder, temp.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(sys);
	if (fill(snapshot, entry, fd, &st) == 0 &&
	    give_name(folder, temp.text, name, st.st_ino) == 0)
		return WHY_NOTHING;
	*sys = errno;
	unlinkat(folder, temp.text, 0);
	return why_of_errno(*sys);
}

enum snapshot_why put_file(const struct snapshot *snapshot, uint32_t entry, int folder,
			   const char *name, int *sys)
{
	struct stat st;
	cleanup_fd int fd = open_to_write(folder, name, &st);
	bool same = fd >= 0 && st.st_ino == snapshot->manifest->entries[entry].inode;
	enum snapshot_why why;

	if (same && (st.st_nlink > 1 || is_open_elsewhere(fd)))
		return write_over(snapshot, entry, fd, sys);
	why = replace(snapshot, entry, folder, name, sys);
	if (why == WHY_NO_SPACE && same)
		why = write_over(snapshot, entry, fd, sys);
	return why;
}

enum snapshot_why put_attributes(const struct snapshot *snapshot, uint32_t entry, int folder,
				 const char *name, int *sys)
{
	const struct manifest_entry *then = &snapshot->manifest->entries[entry];
	cleanup_fd int fd = -1;
	struct timespec times[2];
	struct stat st;

	times_of(then->mtime_ns, times);
	if (then->kind == ENTRY_LINK)
		return utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW) != 0 ? failed(sys)
										: WHY_NOTHING;
	fd = open_to_read(folder, name, &st);
	if (fd < 0 && errno == EACCES && snapshot->kept[entry].object)
		return replace(snapshot, entry, folder, name, sys);
	return fd < 0 || set_attributes(fd, then) != 0 ? failed(sys) : WHY_NOTHING;
}

enum snapshot_why put_link(const struct snapshot *snapshot, uint32_t entry, int folder,
			   const char *name, int *sys)
{
	const struct kept *kept = &snapshot->kept[entry];
	cleanup_free char *text =
		mem_copy(buf_bytes(&snapshot->links) + kept->link, kept->link_len);
	struct temp_name temp;
	struct timespec times[2];
	struct stat st;

	temp_name(&temp);
	times_of(snapshot->manifest->entries[entry].mtime_ns, times);
	if (symlinkat(text, folder, temp.text) != 0)
		return failed(sys);
	if (utimensat(folder, temp.text, times, AT_SYMLINK_NOFOLLOW) == 0 &&
	    fstatat(folder, temp.text, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    give_name(folder, temp.text, name, st.st_ino) == 0)
		return WHY_NOTHING;
	*sys = errno;
	unlinkat(folder, temp.text, 0);
	return why_of_errno(*sys);
}

enum snapshot_why put_peer(int peer_folder, const char *peer_name, int folder, const char *name,
			   int *sys)
{
	struct stat st;
	cleanup_fd int fd = open_path(peer_folder, peer_name, &st);
	struct proc_path path;
	struct temp_name temp;

	if (fd < 0)
		return failed(sys);
	proc_path(fd, &path);
	temp_name(&temp);
	if (linkat(AT_FDCWD, path.text, folder, temp.text, AT_SYMLINK_FOLLOW) != 0)
		return failed(sys);
	if (give_name(folder, temp.text, name, st.st_ino) == 0) {
		/* Between two names of one file, rename(2) does nothing. */
		unlinkat(folder, temp.text, 0);
		return WHY_NOTHING;
	}
	*sys = errno;
	unlinkat(folder, temp.text, 0);
	return why_of_errno(*sys);
}
