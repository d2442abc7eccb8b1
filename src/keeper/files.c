/*
 * Changes as JSON; see files.h.
 */
#include "keeper/files.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "keeper/mime.h"
#include "sandbox/protect.h"

static int64_t monotonic_us(void *data)
{
	(void)data;
	return clock_monotonic_us();
}

static struct watch *watch_root_at(int fd, const char *path)
{
	struct watch_params params = {
		.root = openat(fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC),
		.entries_max = MANIFEST_ENTRIES_MAX,
		.folders_max = WATCH_FOLDERS_MAX,
		.first_us = WATCH_FIRST_US,
		.clock_us = monotonic_us,
	};

	return params.root < 0 ? NULL : watch_open(&params);
}

struct watch *files_watch(const char *workspace)
{
	return watch_root_at(AT_FDCWD, workspace);
}

struct watch *files_watch_at(int fd)
{
	return watch_root_at(fd, ".");
}

/* Opening neither follows a symlink nor waits; a file that has gone meanwhile is as good as an
 * unknown one. */
static const char *mime_of_content(int root, const char *path)
{
	cleanup_fd int fd = file_open_beneath(root, path, O_RDONLY, 0, NULL);
	char head[MIME_HEAD_BYTES];
	ssize_t len = fd < 0 ? 0 : pread(fd, head, sizeof(head), 0);

	return mime_of_head(head, len < 0 ? 0 : (size_t)len);
}

/* freedesktop.org's shared-mime-info has inode/ types for what is no file. */
static const char *mime_of(const struct watch *watch, const struct change *change)
{
	const char *slash = memrchr(change->path, '/', change->path_len);
	const char *name = slash ? slash + 1 : change->path;
	const char *mime;

	if (change->entry == ENTRY_LINK)
		return "inode/symlink";
	if (change->entry == ENTRY_OTHER)
		return "inode/special";
	mime = mime_of_name(name, change->path_len - (size_t)(name - change->path));
	if (mime || change->kind == CHANGE_DELETED)
		return mime ? mime : "application/octet-stream";
	return mime_of_content(watch_root(watch), change->path);
}

static struct json *item_of(const struct watch *watch, const struct change *change,
			    const char *const *protect)
{
	static const char *const kinds[] = {[CHANGE_CREATED] = "created",
					    [CHANGE_CHANGED] = "changed",
					    [CHANGE_DELETED] = "deleted"};
	struct json *item = json_new_object();

	json_set(item, "path", json_new_string(change->path, change->path_len));
	if (!text_is_utf8(change->path, change->path_len)) {
		cleanup_buf struct buf base64 = BUF_INIT;

		hash_base64_encode(&base64, change->path, change->path_len);
		json_set_string(item, "path_base64", buf_bytes(&base64));
	}
	json_set_string(item, "change", kinds[change->kind]);
	json_set_int(item, "bytes", change->bytes > INT64_MAX ? INT64_MAX : (int64_t)change->bytes);
	json_set_string(item, "mime", mime_of(watch, change));
	if (change->background)
		json_set_string(item, "origin", "background");
	if (change->kind != CHANGE_DELETED && protect_covers(protect, change->path, false))
		json_set(item, "executes_later", json_new_bool(true));
	return item;
}

void files_tell(const struct watch *watch, const struct changes *changes,
		const char *const *protect, struct json *body)
{
	struct json *files = json_new_array();
	cleanup_buf struct buf text = BUF_INIT;
	uint64_t more = changes->more;
	const char *stop = manifest_stop_name(changes->stop);

	for (size_t i = 0; i < changes->count; i++) {
		struct json *item = item_of(watch, &changes->list[i], protect);

		json_write(&text, item);
		if (text.len > FILES_BYTES_MAX) {
			json_free(item);
			more += changes->count - i;
			break;
		}
		json_push(files, item);
	}
	json_set(body, "files", files);
	if (more > 0)
		json_set_int(body, "files_more", (int64_t)more);
	if (stop)
		json_set_string(body, "files_incomplete", stop);
}
