/*
 * The file that is being fetched. See part.h.
 *
 * The note is a small JSON object, replaced as a whole. Order is what keeps it true: part_begin()
 * empties the file before it notes what comes, so a death between the two leaves an empty file; a
 * piece is on the disk before it is noted, so a death between leaves bytes beyond the noted length,
 * which are cut off.
 */
#include "model/part.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

enum { NOTE_BYTES_MAX = 64 << 10, SPACE_LEFT = 16 << 20 };

static char *note_name(const struct part *part)
{
	return mem_format("%s.part.json", part->name);
}

char *part_path(const struct part *part)
{
	return mem_format("%s/%s.part", part->folder, part->name);
}

static void forget(struct part *part)
{
	free(part->url);
	free(part->etag);
	part->url = part->etag = NULL;
	part->total = part->pieces = 0;
}

static int cut_to(struct part *part, uint64_t bytes, struct err *err)
{
	if (ftruncate(part->fd, (off_t)bytes) != 0)
		return err_sys(err, "cannot cut %s.part", part->name);
	part->bytes = bytes;
	return 0;
}

/* Takes what the note says; a note that is missing or damaged says nothing. */
static int read_note(struct part *part, struct err *err)
{
	cleanup_free char *name = note_name(part);
	cleanup_buf struct buf bytes = BUF_INIT;
	cleanup_json struct json *note = NULL;
	int64_t total, pieces, in_pieces;

	if (file_read(part->dirfd, name, NOTE_BYTES_MAX, &bytes, NULL) == 0)
		note = json_parse(buf_bytes(&bytes), bytes.len, &JSON_LIMITS, NULL);
	if (!note)
		return cut_to(part, 0, err);
	total = json_get_int(note, "total", 0);
	pieces = json_get_int(note, "pieces", 0);
	in_pieces = json_get_int(note, "bytes", 0);
	part->url = mem_string(json_get_string(note, "url"));
	part->etag = mem_string(json_get_string(note, "etag"));
	part->total = total > 0 ? (uint64_t)total : 0;
	if (part->url)
		return 0;
	if (pieces < 0 || in_pieces < 0 || (uint64_t)in_pieces > part->bytes) {
		forget(part);
		return cut_to(part, 0, err);
	}
	part->pieces = (uint64_t)pieces;
	return cut_to(part, (uint64_t)in_pieces, err);
}

static int write_note(struct part *part, struct err *err)
{
	cleanup_json struct json *note = json_new_object();
	cleanup_free char *name = note_name(part);
	cleanup_buf struct buf text = BUF_INIT;

	if (part->url)
		json_set_string(note, "url", part->url);
	if (part->etag)
		json_set_string(note, "etag", part->etag);
	json_set_int(note, "total", (int64_t)part->total);
	json_set_int(note, "pieces", (int64_t)part->pieces);
	json_set_int(note, "bytes", (int64_t)part->bytes);
	json_write(&text, note);
	buf_append_char(&text, '\n');
	return file_replace(part->dirfd, name, buf_bytes(&text), text.len, 0600, err);
}

int part_open(struct part *part, const char *folder, const char *name, struct err *err)
{
	cleanup_free char *file = mem_format("%s.part", name);
	struct stat st;

	*part = (struct part){.folder = mem_string(folder),
			      .name = mem_string(name),
			      .dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			      .fd = -1};
	if (part->dirfd < 0)
		return err_sys(err, "cannot open %s", folder);
	part->fd = openat(part->dirfd, file,
			  O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (part->fd < 0 || fstat(part->fd, &st) != 0)
		return err_sys(err, "cannot open %s/%s", folder, file);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s/%s is no file: remove it", folder, file);
	part->bytes = (uint64_t)st.st_size;
	return read_note(part, err);
}

void part_release(struct part *part)
{
	forget(part);
	free(part->folder);
	free(part->name);
	if (part->dirfd >= 0)
		close(part->dirfd);
	if (part->fd >= 0)
		close(part->fd);
	*part = (struct part)PART_INIT;
}

int part_begin(struct part *part, const char *url, const char *etag, uint64_t total,
	       struct err *err)
{
	cleanup_free char *old = note_name(part);

	if (unlinkat(part->dirfd, old, 0) != 0 && errno != ENOENT)
		return err_sys(err, "cannot remove %s", old);
	if (cut_to(part, 0, err) != 0)
		return -1;
	forget(part);
	part->url = mem_string(url);
	part->etag = mem_string(etag);
	part->total = total;
	return write_note(part, err);
}

static int fail_space(const struct part *part, uint64_t missing, struct err *err)
{
	return err_set(err, ERR_NO_SPACE,
		       "no space in %.120s: %llu MiB more are needed; what is there is kept: free "
		       "some, and pull again",
		       part->folder, (unsigned long long)((missing >> 20) + 1));
}

int part_check_space(const struct part *part, uint64_t more, struct err *err)
{
	struct statvfs fs;
	uint64_t free_bytes, needed = more + SPACE_LEFT;

	if (fstatvfs(part->dirfd, &fs) != 0)
		return err_sys(err, "cannot tell the free space of %s", part->folder);
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	return free_bytes >= needed ? 0 : fail_space(part, needed - free_bytes, err);
}

int part_append(struct part *part, const void *bytes, size_t len, struct err *err)
{
	struct err why = ERR_INIT;
	struct stat st;

	if (file_write_all(part->fd, bytes, len, &why) == 0) {
		part->bytes += len;
		return 0;
	}
	if (fstat(part->fd, &st) == 0)
		part->bytes = (uint64_t)st.st_size;
	if (why.code == ERR_NO_SPACE)
		return fail_space(part, part->total > part->bytes ? part->total - part->bytes : len,
				  err);
	if (err)
		*err = why;
	return err_wrap(err, "%s.part", part->name);
}

int part_add_piece(struct part *part, struct err *err)
{
	struct stat st;

	if (fdatasync(part->fd) != 0 || fstat(part->fd, &st) != 0)
		return err_sys(err, "cannot write %s.part", part->name);
	part->bytes = (uint64_t)st.st_size;
	part->pieces++;
	return write_note(part, err);
}

int part_hash(struct part *part, char hex[static HASH_HEX_SIZE],
	      int (*told)(void *context, uint64_t bytes), void *context, struct err *err)
{
	return hash_sha256_file(part->fd, hex, told, context, err);
}

int part_finish(struct part *part, struct err *err)
{
	cleanup_free char *file = mem_format("%s.part", part->name);
	cleanup_free char *note = note_name(part);

	if (fsync(part->fd) != 0)
		return err_sys(err, "cannot write %s", file);
	if (renameat(part->dirfd, file, part->dirfd, part->name) != 0)
		return err_sys(err, "cannot rename %s", file);
	(void)unlinkat(part->dirfd, note, 0);
	if (fsync(part->dirfd) != 0)
		return err_sys(err, "cannot write %s", part->folder);
	return 0;
}

void part_discard(struct part *part)
{
	cleanup_free char *file = mem_format("%s.part", part->name);
	cleanup_free char *note = note_name(part);

	(void)unlinkat(part->dirfd, note, 0);
	(void)unlinkat(part->dirfd, file, 0);
}
