/*
 * Saving where someone else may be writing too; see save.h.
 *
 * The new bytes are written to an unnamed file (O_TMPFILE; a named one where the file system has
 * none), synced, and linked under a name of their own only for the moment of the exchange. A
 * writer that is killed before that moment leaves nothing, and one killed within it leaves two
 * whole files.
 *
 *   at `name` is             what happens
 *   nothing                  rename, not over anything
 *   what this writer put     exchange, and a look at the displaced file: still ours, it goes; no
 *                            longer ours, exchange back, then as below
 *   anything else            rename to `<stem>-<n>.ipynb`, which is `name` from now on
 *
 * What this writer put there is known by device, inode, size and mtime. The mtime of a new file
 * is set to the nanosecond of a fine clock: the kernel's own times have the grain of a timer
 * tick, within which a foreign edit of the same size would go unseen. When only the times differ
 * the content decides.
 */
#include "notebook/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "notebook/document.h"

enum { LINKS_MAX = 40 };       /* as the kernel's limit for one path */
enum { TRIES_MAX = 64 };       /* times that someone may get in between */
enum { STEM_BYTES_MAX = 230 }; /* leaves room for "-<n>.ipynb" within NAME_MAX */
enum { NUMBER_MAX = 100000 };  /* of `<stem>-<n>.ipynb` */

/* How a file is known again. */
struct mark {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
	char hex[HASH_HEX_SIZE]; /* SHA-256 of the content */
};

struct save {
	int dirfd;
	bool dirfd_owned; /* a symlink led to another directory */
	char *name;
	char *stem; /* of the first name */
	bool known; /* `mark` is set: a file of ours is, or was, at `name` */
	struct mark mark;
};

enum look { LOOK_NOTHING, LOOK_OURS, LOOK_FOREIGN };
enum placed { PLACED_DONE, PLACED_ASIDE, PLACED_AGAIN };

/* A new file on its way to its name. */
struct draft {
	int fd;
	char name[48]; /* "" while it has none */
};

static void draft_drop(const struct save *save, struct draft *draft)
{
	if (draft->name[0] != '\0')
		unlinkat(save->dirfd, draft->name, 0);
	if (draft->fd >= 0)
		close(draft->fd);
	draft->fd = -1;
}

/* --- knowing a file again --------------------------------------------------------------------- */

static void mark_stat(struct mark *mark, const struct stat *st)
{
	mark->dev = st->st_dev;
	mark->ino = st->st_ino;
	mark->size = st->st_size;
	mark->mtime = st->st_mtim;
}

static bool mark_matches(const struct mark *mark, const struct stat *st)
{
	return mark->dev == st->st_dev && mark->ino == st->st_ino && mark->size == st->st_size &&
	       mark->mtime.tv_sec == st->st_mtim.tv_sec &&
	       mark->mtime.tv_nsec == st->st_mtim.tv_nsec;
}

/* SHA-256 of dirfd/name, never through a symlink. Marks it in `mark`, whose stat is that of the
 * open file. */
static int mark_content(int dirfd, const char *name, struct mark *mark, struct err *err)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	cleanup_buf struct buf bytes = BUF_INIT;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, "cannot read %s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is no regular file", name);
	if (st.st_size > DOCUMENT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "%s is larger than a notebook may be", name);
	for (;;) {
		ssize_t got = read(fd, buf_reserve(&bytes, 1 << 16), 1 << 16);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "cannot read %s", name);
		if (got == 0)
			break;
		buf_added(&bytes, (size_t)got);
		if (bytes.len > DOCUMENT_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "%s grows while it is read", name);
	}
	hash_sha256(buf_bytes(&bytes), bytes.len, mark->hex);
	mark_stat(mark, &st);
	return 0;
}

/* What is at dirfd/name. An unreadable file counts as someone else's. */
static int save_look(const struct save *save, const char *name, enum look *look, struct stat *st,
		     struct err *err)
{
	struct mark present;

	if (fstatat(save->dirfd, name, st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return err_sys(err, "cannot look at %s", name);
		*look = LOOK_NOTHING;
		return 0;
	}
	*look = LOOK_FOREIGN;
	if (!save->known || !S_ISREG(st->st_mode) || st->st_size != save->mark.size)
		return 0;
	/* A time of whole seconds comes from a file system with a coarse clock and proves
	 * nothing. */
	if (mark_matches(&save->mark, st) && st->st_mtim.tv_nsec != 0)
		*look = LOOK_OURS;
	else if (mark_content(save->dirfd, name, &present, NULL) == 0 &&
		 strcmp(present.hex, save->mark.hex) == 0)
		*look = LOOK_OURS;
	return 0;
}

/* --- making ----------------------------------------------------------------------------------- */

/* Follows symlinks at `name` to the directory and name of the file they mean. */
static int save_resolve(struct save *save, struct err *err)
{
	for (int i = 0; i < LINKS_MAX; i++) {
		char target[4096];
		ssize_t len = readlinkat(save->dirfd, save->name, target, sizeof(target) - 1);
		char *slash;
		int dirfd;

		if (len < 0) /* no symlink, or nothing there */
			return errno == EINVAL || errno == ENOENT
				       ? 0
				       : err_sys(err, "cannot look at %s", save->name);
		target[len] = '\0';
		slash = strrchr(target, '/');
		if (slash != NULL) {
			*slash = '\0';
			dirfd = openat(save->dirfd, slash == target ? "/" : target,
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (dirfd < 0)
				return err_sys(err, "cannot open the directory %s links to",
					       save->name);
			if (save->dirfd_owned)
				close(save->dirfd);
			save->dirfd = dirfd;
			save->dirfd_owned = true;
		}
		free(save->name);
		save->name = mem_string(slash != NULL ? slash + 1 : target);
		if (save->name[0] == '\0')
			return err_set(err, ERR_INVALID, "the symlink leads to a directory");
	}
	return err_set(err, ERR_INVALID, "%s: too many symlinks", save->name);
}

/* The name without ".ipynb", cut so that a number fits behind it. */
static char *stem_of(const char *name)
{
	size_t len = strlen(name);

	if (len > 6 && strcmp(name + len - 6, ".ipynb") == 0)
		len -= 6;
	if (len > STEM_BYTES_MAX) {
		len = STEM_BYTES_MAX;
		while (len > 0 &&
		       ((unsigned char)name[len] & 0xc0) == 0x80) /* not inside a character */
			len--;
	}
	return mem_copy(name, len);
}

static int save_adopt(struct save *save, struct err *err)
{
	struct stat st;

	if (fstatat(save->dirfd, save->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(err, "cannot look at %s", save->name);
	if (mark_content(save->dirfd, save->name, &save->mark, err) < 0)
		return -1;
	save->known = true;
	return 0;
}

struct save *save_new(int dirfd, const char *name, bool adopt, struct err *err)
{
	struct save *save;

	if (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0) {
		err_set(err, ERR_INVALID, "\"%.80s\" is no file name", name);
		return NULL;
	}
	save = mem_zalloc(sizeof(*save));
	save->dirfd = dirfd;
	save->name = mem_string(name);
	if (save_resolve(save, err) < 0 || (adopt && save_adopt(save, err) < 0)) {
		save_free(save);
		return NULL;
	}
	save->stem = stem_of(save->name);
	return save;
}

void save_free(struct save *save)
{
	if (save == NULL)
		return;
	if (save->dirfd_owned)
		close(save->dirfd);
	free(save->name);
	free(save->stem);
	free(save);
}

const char *save_name(const struct save *save)
{
	return save->name;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void draft_name(struct draft *draft)
{
	char id[HASH_ID_SIZE];

	hash_random_id(id);
	snprintf(draft->name, sizeof(draft->name), ".fumehood-%s.tmp", id);
}

static int draft_open(const struct save *save, struct draft *draft, struct err *err)
{
	draft->name[0] = '\0';
	draft->fd = -1;
	/* Without /proc an unnamed file could not be given a name. */
	if (faccessat(AT_FDCWD, "/proc/self/fd", F_OK, 0) == 0)
		draft->fd = openat(save->dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	if (draft->fd >= 0)
		return 0;
	draft_name(draft);
	draft->fd = openat(save->dirfd, draft->name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
	if (draft->fd >= 0)
		return 0;
	draft->name[0] = '\0';
	return err_sys(err, "cannot make a file beside %s", save->name);
}

/* The mode and owner of the file that is there; the owner as far as this process may. */
static int draft_dress(const struct save *save, const struct draft *draft, struct err *err)
{
	struct stat st, own;
	struct timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}};

	if (fstat(draft->fd, &own) < 0)
		return err_sys(err, "cannot look at the new file");
	if (fstatat(save->dirfd, save->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode)) {
		if (st.st_uid != own.st_uid || st.st_gid != own.st_gid)
			if (fchown(draft->fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
				return err_sys(err, "cannot set the owner of %s", save->name);
		if (fchmod(draft->fd, st.st_mode & 0777) < 0)
			return err_sys(err, "cannot set the mode of %s", save->name);
	}
	clock_gettime(CLOCK_REALTIME, &times[1]);
	if (times[1].tv_nsec == 0)
		times[1].tv_nsec = 1;
	if (futimens(draft->fd, times) < 0)
		return err_sys(err, "cannot set the time of %s", save->name);
	return 0;
}

/* Writes, syncs and names the new file; *mark knows it again. */
static int draft_make(const struct save *save, struct draft *draft, const void *bytes, size_t len,
		      struct mark *mark, struct err *err)
{
	char path[32];
	struct stat st;

	if (draft_open(save, draft, err) < 0)
		return -1;
	if (file_write_all(draft->fd, bytes, len, err) < 0 || draft_dress(save, draft, err) < 0)
		return -1;
	if (fsync(draft->fd) < 0)
		return err_sys(err, "cannot sync %s", save->name);
	if (draft->name[0] == '\0') {
		draft_name(draft);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", draft->fd);
		if (linkat(AT_FDCWD, path, save->dirfd, draft->name, AT_SYMLINK_FOLLOW) < 0) {
			err_sys(err, "cannot name the new file beside %s", save->name);
			draft->name[0] = '\0';
			return -1;
		}
	}
	if (fstat(draft->fd, &st) < 0)
		return err_sys(err, "cannot look at the new file");
	mark_stat(mark, &st);
	return 0;
}

/* rename(2) that replaces nothing; by link(2) where the file system has no RENAME_NOREPLACE. */
static int rename_new(int dirfd, const char *from, const char *to)
{
	if (renameat2(dirfd, from, dirfd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (linkat(dirfd, from, dirfd, to, 0) < 0)
		return -1;
	return unlinkat(dirfd, from, 0);
}

/* Gives the draft's file the first free `<stem>-<n>.ipynb`. The new name is the caller's. */
static char *move_aside(const struct save *save, struct draft *draft, struct err *err)
{
	for (unsigned n = 1; n <= NUMBER_MAX; n++) {
		cleanup_free char *name = mem_format("%s-%u.ipynb", save->stem, n);

		if (rename_new(save->dirfd, draft->name, name) == 0) {
			draft->name[0] = '\0';
			return mem_take(name);
		}
		if (errno != EEXIST) {
			err_sys(err, "cannot save as %s", name);
			return NULL;
		}
	}
	err_set(err, ERR_LIMIT, "all names from %s-1.ipynb on are taken", save->stem);
	return NULL;
}

/* After an exchange: what was displaced is now under the draft's name. */
static int judge_displaced(struct save *save, struct draft *draft, const struct mark *mark,
			   enum placed *placed, struct err *err)
{
	enum look look;
	struct stat st;

	*placed = PLACED_DONE;
	if (save_look(save, draft->name, &look, &st, err) < 0) {
		draft->name[0] = '\0'; /* it may be theirs: it stays where it is */
		return -1;
	}
	if (look != LOOK_FOREIGN)
		return 0; /* the draft's name is unlinked when the draft is dropped */
	*placed = PLACED_ASIDE;
	if (renameat2(save->dirfd, draft->name, save->dirfd, save->name, RENAME_EXCHANGE) < 0) {
		/* Their file must not be dropped with the draft. `name` may be gone: then it goes
		 * there. */
		int failed =
			errno == ENOENT ? rename_new(save->dirfd, draft->name, save->name) : -1;

		draft->name[0] = '\0';
		*placed = PLACED_AGAIN;
		return failed < 0 ? err_sys(err, "cannot put %s back", save->name) : 0;
	}
	if (fstatat(save->dirfd, draft->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !mark_matches(mark, &st)) {
		/* Between the two exchanges someone wrote again: that is kept too, under a
		 * number. */
		free(move_aside(save, draft, err));
		if (draft->name[0] != '\0') {
			draft->name[0] = '\0';
			return -1;
		}
		*placed = PLACED_AGAIN;
	}
	return 0;
}

static int place(struct save *save, struct draft *draft, const struct mark *mark,
		 enum placed *placed, struct err *err)
{
	enum look look;
	struct stat st;
	int failed;

	*placed = PLACED_DONE;
	if (save_look(save, save->name, &look, &st, err) < 0)
		return -1;
	switch (look) {
	case LOOK_NOTHING:
		if (rename_new(save->dirfd, draft->name, save->name) == 0) {
			draft->name[0] = '\0';
			return 0;
		}
		*placed = PLACED_AGAIN;
		return errno == EEXIST ? 0 : err_sys(err, "cannot save %s", save->name);
	case LOOK_OURS:
		failed = renameat2(save->dirfd, draft->name, save->dirfd, save->name,
				   RENAME_EXCHANGE);
		if (failed == 0)
			return judge_displaced(save, draft, mark, placed, err);
		*placed = PLACED_AGAIN;
		if (errno == ENOENT) /* removed just now */
			return 0;
		if (errno != EINVAL && errno != ENOSYS)
			return err_sys(err, "cannot save %s", save->name);
		if (renameat(save->dirfd, draft->name, save->dirfd, save->name) < 0)
			return err_sys(err, "cannot save %s", save->name);
		draft->name[0] = '\0';
		*placed = PLACED_DONE;
		return 0;
	case LOOK_FOREIGN:
		*placed = PLACED_ASIDE;
		return 0;
	}
	return 0;
}

static int sync_directory(const struct save *save, struct err *err)
{
	cleanup_fd int fd = openat(save->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* Some file systems cannot sync a directory, and some directories cannot be read. */
	if (fd < 0)
		return errno == EACCES
			       ? 0
			       : err_sys(err, "cannot open the directory of %s", save->name);
	if (fsync(fd) < 0 && errno != EINVAL)
		return err_sys(err, "cannot sync the directory of %s", save->name);
	return 0;
}

/* One attempt. *again: someone got in between; nothing was saved and nothing of theirs is lost. */
static int save_once(struct save *save, const void *bytes, size_t len, bool *again, bool *moved,
		     struct err *err)
{
	struct draft draft = {.fd = -1};
	struct mark mark = {.size = 0};
	enum placed placed = PLACED_AGAIN;
	char *name = NULL;
	int result = draft_make(save, &draft, bytes, len, &mark, err);

	if (result == 0)
		result = place(save, &draft, &mark, &placed, err);
	if (result == 0 && placed == PLACED_ASIDE) {
		name = move_aside(save, &draft, err);
		result = name == NULL ? -1 : 0;
	}
	*again = result == 0 && placed == PLACED_AGAIN;
	if (result == 0 && placed != PLACED_AGAIN) {
		hash_sha256(bytes, len, mark.hex);
		save->mark = mark;
		save->known = true;
		if (name != NULL) {
			free(save->name);
			save->name = name;
			*moved = true;
		}
	}
	draft_drop(save, &draft);
	return result;
}

int save_write(struct save *save, const void *bytes, size_t len, bool *moved, struct err *err)
{
	bool aside = false;
	bool again = true;

	if (moved != NULL)
		*moved = false;
	for (int i = 0; i < TRIES_MAX && again; i++)
		if (save_once(save, bytes, len, &again, &aside, err) < 0)
			return -1;
	if (again)
		return err_set(err, ERR_BUSY,
			       "%s is being replaced by someone else again and again", save->name);
	if (moved != NULL)
		*moved = aside;
	return sync_directory(save, err);
}
