/*
 * Changes; see tree.h.
 *
 * The file of an upload lies beside its place, so that rename(2) can give it its name at once. The
 * session's code can get at it there, as at everything in its workspace; so each part opens it
 * anew, and goes on only if it is a regular file with one name and of the length it should have.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "files/tree.h"

enum { UPLOAD_ID_MAX = 64 };

/* The folder `path` (its first `len` bytes), made if it is missing. */
static int open_folder(const struct tree *tree, const char *path, size_t len, bool make)
{
	cleanup_free char *part = mem_copy(path, len);
	int fd = tree_open_at(tree, part, O_RDONLY | O_DIRECTORY, 0);

	if (fd >= 0 || errno != ENOENT || !make)
		return fd;
	for (size_t i = 0; i <= len; i++) {
		const char *slash;
		cleanup_fd int above = -1;

		if (i < len && part[i] != '/')
			continue;
		part[i] = '\0';
		slash = strrchr(part, '/');
		if (slash) {
			cleanup_free char *head = mem_copy(part, (size_t)(slash - part));

			above = tree_open_at(tree, head, O_RDONLY | O_DIRECTORY, 0);
		} else {
			above = tree_open_at(tree, "", O_RDONLY | O_DIRECTORY, 0);
		}
		if (above < 0)
			return -1;
		if (mkdirat(above, slash ? slash + 1 : part, 0755) != 0 && errno != EEXIST)
			return -1;
		if (i < len)
			part[i] = '/';
	}
	return tree_open_at(tree, part, O_RDONLY | O_DIRECTORY, 0);
}

int tree_open_parent(const struct tree *tree, const char *path, bool make, const char **name,
		     struct err *err)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	int fd;

	if (tree_check_path(path, strlen(path), err) != 0)
		return -1;
	if (path[0] == '\0' || strcmp(path, ".") == 0)
		return err_set(err, ERR_INVALID,
			       "this needs the path of something in the workspace");
	*name = slash ? slash + 1 : path;
	fd = open_folder(tree, path, len, make);
	return fd < 0 ? tree_fail(path, err) : fd;
}

int tree_make_folder(const struct tree *tree, const char *path, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int fd = -1;

	if (tree_check_path(path, strlen(path), err) != 0)
		return -1;
	fd = open_folder(tree, strcmp(path, ".") == 0 ? "" : path,
			 strcmp(path, ".") == 0 ? 0 : strlen(path), true);
	return fd < 0 ? tree_fail(path, err) : 0;
}

/* --- uploads --- */

struct upload_name {
	char text[UPLOAD_ID_MAX + sizeof(".fumehood-.tmp")];
};

static int name_upload(const char *upload, struct upload_name *name, struct err *err)
{
	size_t len = strlen(upload);

	if (len == 0 || len > UPLOAD_ID_MAX ||
	    strspn(upload, "abcdefghijklmnopqrstuvwxyz0123456789") != len)
		return err_set(err, ERR_INVALID,
			       "\"upload\" must be 1 to %d of a-z and 0-9, chosen at random",
			       UPLOAD_ID_MAX);
	snprintf(name->text, sizeof(name->text), ".fumehood-%s.tmp", upload);
	return 0;
}

/* The upload's file in its folder, as it must be. */
static int open_upload(int folder, const struct upload_name *name, bool make, uint64_t offset,
		       struct err *err)
{
	cleanup_fd int fd = openat(folder, name->text,
				   O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
					   (make ? O_CREAT | O_EXCL : 0),
				   0600);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no such upload (any more); begin it again with offset 0");
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, "the file of the upload");
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return err_set(err, ERR_DENIED,
			       "the session has put something else in place of the upload");
	if ((uint64_t)st.st_size != offset)
		return err_set(err, ERR_INVALID,
			       "this upload has %llu bytes so far; the next part begins there",
			       (unsigned long long)st.st_size);
	return fd_take(&fd);
}

int tree_write(const struct tree *tree, const char *path, const char *upload, uint64_t offset,
	       const void *bytes, size_t len, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int folder = -1, fd = -1;
	struct upload_name temp;
	const char *name;

	if (name_upload(upload, &temp, err) != 0)
		return -1;
	folder = tree_open_parent(tree, path, offset == 0, &name, err);
	if (folder < 0)
		return -1;
	fd = open_upload(folder, &temp, offset == 0, offset, err);
	if (fd < 0)
		return -1;
	if (lseek(fd, 0, SEEK_END) < 0 || file_write_all(fd, bytes, len, err) != 0) {
		unlinkat(folder, temp.text, 0);
		return -1;
	}
	return 0;
}

/* Whether a file may get this name. */
static int check_place(int folder, const char *name, const char *path, struct err *err)
{
	cleanup_buf struct buf shown = BUF_INIT;
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : tree_fail(path, err);
	if (S_ISREG(st.st_mode))
		return 0;
	text_escape(&shown, path, strlen(path), false, false);
	return err_set(err, ERR_DENIED, "%.150s is %s; it is not replaced", buf_bytes(&shown),
		       S_ISLNK(st.st_mode)   ? "a symlink"
		       : S_ISDIR(st.st_mode) ? "a folder"
					     : "no file");
}

int tree_commit(const struct tree *tree, const char *path, const char *upload, mode_t mode,
		struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int folder = -1, fd = -1;
	struct upload_name temp;
	const char *name;
	struct stat st;

	if (name_upload(upload, &temp, err) != 0)
		return -1;
	folder = tree_open_parent(tree, path, false, &name, err);
	if (folder < 0)
		return -1;
	fd = openat(folder, temp.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "the file of the upload");
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return err_set(err, ERR_DENIED,
			       "the session has put something else in place of the upload");
	if (check_place(folder, name, path, err) != 0 ||
	    (fchmod(fd, mode & TREE_MODE_MASK) != 0 && tree_fail(path, err) != 0) ||
	    (renameat(folder, temp.text, folder, name) != 0 && tree_fail(path, err) != 0)) {
		unlinkat(folder, temp.text, 0);
		return -1;
	}
	return 0;
}

void tree_abandon(const struct tree *tree, const char *path, const char *upload)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int folder = -1;
	struct upload_name temp;
	const char *name;

	if (name_upload(upload, &temp, NULL) != 0)
		return;
	folder = tree_open_parent(tree, path, false, &name, NULL);
	if (folder >= 0)
		unlinkat(folder, temp.text, 0);
}

int tree_remove(const struct tree *tree, const char *path, bool whole, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int folder = -1;
	cleanup_buf struct buf shown = BUF_INIT;
	const char *name;

	folder = tree_open_parent(tree, path, false, &name, err);
	if (folder < 0)
		return -1;
	if (unlinkat(folder, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return tree_fail(path, err);
	if (whole)
		return file_remove_tree(folder, name, err);
	if (unlinkat(folder, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return tree_fail(path, err);
	text_escape(&shown, path, strlen(path), false, false);
	return err_set(
		err, ERR_DENIED,
		"the folder %.150s is not empty; to remove all of it, ask for \"whole\" (rm -r)",
		buf_bytes(&shown));
}

int tree_link(const struct tree *tree, const char *path, const char *text, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int folder = -1;
	const char *name;

	folder = tree_open_parent(tree, path, true, &name, err);
	if (folder < 0)
		return -1;
	if (symlinkat(text, folder, name) == 0)
		return 0;
	return errno == EEXIST ? err_set(err, ERR_DUPLICATE, "this name is taken")
			       : tree_fail(path, err);
}
