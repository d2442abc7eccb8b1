/*
 * Blobs: long values as files named by their SHA-256.
 *
 * The name says what is in the file, so storing twice is storing once, and nothing is ever
 * overwritten with something else. file_replace() makes the file whole and durable before the line
 * that names it is written. A file of the right name and the wrong size is what a power cut on some
 * file systems leaves behind: it is replaced.
 *
 * Reading is done beneath blobs/, of regular files only: the hash comes from a client or a line,
 * and a link or a FIFO in a blob's place must neither lead elsewhere nor block. There is no such
 * blob, then.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "journal/journal.h"
#include "journal/store.h"

enum { PATH_BYTES = sizeof("blobs/") + 64 };

/* Opens dirfd/blobs, made if absent. */
static int open_blobs(int dirfd, struct err *err)
{
	if (mkdirat(dirfd, "blobs", 0700) != 0 && errno != EEXIST)
		return err_sys(err, "cannot make the folder blobs");
	return file_open_beneath(dirfd, "blobs", O_RDONLY | O_DIRECTORY, 0, err);
}

/* Bytes of the regular file dirfd/name; -1 when there is none. */
static int64_t size_of(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return -1;
	return st.st_size;
}

int blob_keep(struct blob_room *room, const void *bytes, size_t len, char hex[static 65],
	      struct err *err)
{
	char name[HASH_HEX_SIZE];
	cleanup_fd int blobs = open_blobs(room->dirfd, err);
	int64_t present;

	if (blobs < 0)
		return -1;
	hash_sha256(bytes, len, name);
	present = size_of(blobs, name);
	if (present != (int64_t)len) {
		uint64_t others = room->bytes - (present > 0 ? (uint64_t)present : 0);

		if (others > room->bytes_max || len > room->bytes_max - others)
			return err_set(err, ERR_LIMIT,
				       "the record is full: a value of %zu bytes does not "
				       "fit into the limit `record`",
				       len);
		if (file_replace(blobs, name, bytes, len, 0600, err) != 0)
			return err_wrap(err, "cannot store a value of %zu bytes", len);
		room->bytes = others + len;
	}
	memcpy(hex, name, sizeof(name));
	return 0;
}

int blob_put(int dirfd, const void *bytes, size_t len, char hex[static 65], struct err *err)
{
	/* This room has counted nothing, yet a damaged file of that name is taken off. */
	struct blob_room room = {.dirfd = dirfd, .bytes = INT64_MAX, .bytes_max = UINT64_MAX};

	return blob_keep(&room, bytes, len, hex, err);
}

int blob_survey(struct blob_room *room, struct err *err)
{
	int fd = open_blobs(room->dirfd, err);
	const struct dirent *entry;
	uint64_t bytes = 0;
	DIR *blobs;

	if (fd < 0)
		return -1;
	blobs = fdopendir(fd);
	if (!blobs) {
		err_sys(err, "cannot list the folder blobs");
		close(fd);
		return -1;
	}
	for (errno = 0; (entry = readdir(blobs)); errno = 0) {
		int64_t size = size_of(fd, entry->d_name);

		if (size < 0)
			continue;
		if (hash_is_hex(entry->d_name))
			bytes += (uint64_t)size;
		else
			unlinkat(fd, entry->d_name, 0);
	}
	if (errno != 0) {
		err_sys(err, "cannot list the folder blobs");
		closedir(blobs);
		return -1;
	}
	closedir(blobs);
	room->bytes = bytes;
	return 0;
}

/* Reads [offset, offset + length) of an open file; stops early where the file ends early. */
static int read_range(int fd, uint64_t offset, uint64_t length, struct buf *out, struct err *err)
{
	char *to = buf_reserve(out, (size_t)length);
	size_t done = 0;

	while (done < length) {
		ssize_t count = pread(fd, to + done, (size_t)length - done, (off_t)(offset + done));

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return err_sys(err, "cannot read a blob");
		if (count == 0)
			break;
		done += (size_t)count;
	}
	buf_added(out, done);
	return 0;
}

int blob_read(int dirfd, const char *hex, uint64_t offset, uint64_t length, struct buf *out,
	      uint64_t *total, struct err *err)
{
	cleanup_fd int fd = -1;
	char path[PATH_BYTES];
	struct err why = ERR_INIT;
	struct stat st;
	uint64_t size;

	if (!hash_is_hex(hex))
		return err_set(err, ERR_INVALID, "a blob is named by 64 lower-case hex digits");
	snprintf(path, sizeof(path), "blobs/%s", hex);
	fd = file_open_beneath(dirfd, path, O_RDONLY, 0, &why);
	if (fd < 0 && why.code != ERR_NOT_FOUND && why.code != ERR_INVALID &&
	    why.code != ERR_DENIED)
		return err_set(err, why.code, "%s", why.text);
	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, "there is no blob %s", hex);
	if (fstat(fd, &st) != 0)
		return err_sys(err, "cannot read the blob %s", hex);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_NOT_FOUND, "there is no blob %s", hex);
	size = (uint64_t)st.st_size;
	offset = offset < size ? offset : size;
	length = length < size - offset ? length : size - offset;
	if (length > 0 && read_range(fd, offset, length, out, err) != 0)
		return -1;
	if (total)
		*total = size;
	return 0;
}
