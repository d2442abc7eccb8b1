/*
 * The workspace of a branch. See replay.h.
 *
 * Files go through the two keepers (files.h), as those of `fumehood files` do: they alone know who
 * owns what in a workspace, and see an overlay as the session does. What a cell will make again is
 * not copied, because it may insist on making it; the rest must be there for the cells to read. Of
 * folders nobody knows who made them: before the run there are those that hold a file.
 * Afterwards the parent's files win: variables are what was asked to be made again, and files that
 * a cell appended to would have twice what they should have.
 *
 * Symlinks and what is no file are not copied; what is too large is not; all of it is named.
 */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/files.h"
#include "cli/replay.h"
#include "files/answer.h"

enum { LIST_MAX = 1000, NAMED_MAX = 1000 };

void replay_files_release(struct replay_files *files)
{
	json_free(files->skipped);
	json_free(files->differ);
	json_free(files->folders);
}

/* A walk through the parent's workspace. */
struct walk {
	struct place *parent, *branch;
	struct replay_files *files;
	const struct json *without; /* object: paths that are passed over */
};

static void name_file(struct json **list, const char *path, const char *key, const char *word)
{
	struct json *item;

	if (!*list)
		*list = json_new_array();
	if (json_length(*list) >= NAMED_MAX)
		return;
	item = json_new_object();
	answer_set_name(item, "path", path, strlen(path));
	json_set_string(item, key, word);
	json_push(*list, item);
}

static int take_to_file(void *data, const char *bytes, size_t len, struct err *err)
{
	return place_write(data, bytes, len, err);
}

static int copy_file(struct place *from, struct place *to, const char *path, struct err *err)
{
	cleanup_place_file struct place_file file;
	mode_t mode = 0644;

	place_begin(&file, to, path);
	if (place_read(from, path, REPLAY_FILE_BYTES_MAX, take_to_file, &file, &mode, err) != 0)
		return -1;
	return place_commit(&file, mode, err);
}

/* Why a file is not copied; NULL: it is. */
static const char *reason_not_to(const struct walk *walk, const char *type, uint64_t bytes)
{
	if (!type || strcmp(type, "link") == 0)
		return "a symlink";
	if (strcmp(type, "file") != 0)
		return "no file";
	if (bytes > REPLAY_FILE_BYTES_MAX)
		return "larger than 256 MiB";
	if (walk->files->count >= REPLAY_FILES_MAX)
		return "more than 20,000 files";
	if (bytes > REPLAY_BYTES_MAX - walk->files->bytes)
		return "more than 1 GiB in all";
	return NULL;
}

static int take_entry(struct walk *walk, const char *path, const struct json *entry,
		      struct err *err)
{
	uint64_t bytes = (uint64_t)json_get_int(entry, "bytes", 0);
	const char *reason = reason_not_to(walk, json_get_string(entry, "type"), bytes);
	struct err why = ERR_INIT;

	if (json_has(walk->without, path))
		return 0;
	if (!reason && copy_file(walk->parent, walk->branch, path, &why) != 0) {
		/* It is being changed, or may not be read: one file is no reason to give up. */
		if (why.code == ERR_GONE || why.code == ERR_NO_SPACE || why.code == ERR_TIMEOUT) {
			*err = why;
			return err_wrap(err, "copying %.100s", path);
		}
		reason = why.text;
	}
	if (reason) {
		name_file(&walk->files->skipped, path, "reason", reason);
		return 0;
	}
	walk->files->count++;
	walk->files->bytes += bytes;
	return 0;
}

static int take_folder(struct walk *walk, const char *folder, unsigned depth, struct err *err);

static int take_entries(struct walk *walk, const char *folder, const struct json *entries,
			unsigned depth, struct err *err)
{
	for (size_t i = 0; i < json_length(entries); i++) {
		const struct json *entry = json_at(entries, i);
		const char *type = json_get_string(entry, "type");
		cleanup_free char *name = answer_get_name(entry, "name", NULL);
		cleanup_free char *path = files_join(folder, name ? name : "?");
		int result = type && strcmp(type, "folder") == 0
				     ? take_folder(walk, path, depth + 1, err)
				     : take_entry(walk, path, entry, err);

		if (result != 0)
			return -1;
	}
	return 0;
}

static int take_folder(struct walk *walk, const char *folder, unsigned depth, struct err *err)
{
	cleanup_free char *after = NULL;

	if (depth > REPLAY_DEPTH_MAX) {
		name_file(&walk->files->skipped, folder, "reason", "deeper than 64 folders");
		return 0;
	}
	if (folder[0])
		json_push(walk->files->folders, json_new_string(folder, strlen(folder)));
	do {
		struct json *request = place_request("list_files", folder);
		cleanup_json struct json *answer = NULL;
		const struct json *entries;
		size_t count;

		json_set_int(request, "max", LIST_MAX);
		if (after)
			answer_set_name(request, "after", after, strlen(after));
		answer = place_ask(walk->parent, request, err);
		if (!answer)
			return -1;
		entries = json_get(answer, "entries");
		count = json_length(entries);
		if (take_entries(walk, folder, entries, depth, err) != 0)
			return -1;
		free(after);
		after = json_get_bool(answer, "more", false) && count > 0
				? answer_get_name(json_at(entries, count - 1), "name", NULL)
				: NULL;
		if (!after && json_get_bool(answer, "incomplete", false))
			name_file(&walk->files->skipped, folder, "reason",
				  "more than 100,000 names: some were not looked at");
	} while (after);
	return 0;
}

int replay_copy_files(const struct replay *replay, const char *parent, const char *branch,
		      struct replay_files *files, struct err *err)
{
	cleanup_place struct place from = PLACE_INIT, to = PLACE_INIT;
	struct walk walk = {.parent = &from, .branch = &to, .files = files};

	walk.without = replay->made;
	files->folders = json_new_array();
	if (place_open(&from, parent, err) != 0 || place_open(&to, branch, err) != 0)
		return -1;
	return take_folder(&walk, "", 0, err);
}

/* --- afterwards ------------------------------------------------------------------------------- */

static int take_to_buf(void *data, const char *bytes, size_t len, struct err *err)
{
	(void)err;
	buf_append(data, bytes, len);
	return 0;
}

/* Reads a file: 1; 0: there is none that could be read. */
static int read_file(struct place *place, const char *path, struct buf *bytes, struct err *err)
{
	struct err why = ERR_INIT;

	if (place_read(place, path, REPLAY_FILE_BYTES_MAX, take_to_buf, bytes, NULL, &why) == 0)
		return 1;
	if (why.code != ERR_GONE && why.code != ERR_TIMEOUT)
		return 0;
	*err = why;
	return -1;
}

/* Makes the branch have what the parent has at this path. */
static int settle(struct walk *walk, const char *path, struct err *err)
{
	cleanup_buf struct buf ours = BUF_INIT, theirs = BUF_INIT;
	int had = read_file(walk->parent, path, &theirs, err);
	int has = had < 0 ? -1 : read_file(walk->branch, path, &ours, err);
	const char *change = "changed";

	if (had < 0 || has < 0)
		return -1;
	if (!had) {
		if (has)
			name_file(&walk->files->differ, path, "change", "new");
		return 0;
	}
	if (!has)
		change = "missing";
	else if (ours.len == theirs.len &&
		 memcmp(buf_bytes(&ours), buf_bytes(&theirs), ours.len) == 0)
		return 0;
	name_file(&walk->files->differ, path, "change", change);
	if (copy_file(walk->parent, walk->branch, path, err) != 0)
		return err_wrap(err, "copying %.100s", path);
	return 0;
}

static int make_folders(struct place *branch, const struct json *folders, struct err *err)
{
	for (size_t i = 0; i < json_length(folders); i++) {
		const char *path = json_string(json_at(folders, i), NULL);
		cleanup_json struct json *made =
			place_ask(branch, place_request("make_folder", path), err);

		if (!made)
			return -1;
	}
	return 0;
}

struct settling {
	struct walk *walk;
	const struct json *done; /* paths that were settled before */
	struct err *err;
};

static int settle_path(const char *path, size_t len, struct json *value, void *data)
{
	struct settling *settling = data;

	(void)value;
	if (strlen(path) != len || json_has(settling->done, path))
		return 0;
	return settle(settling->walk, path, settling->err);
}

int replay_settle_files(const struct replay *replay, const char *parent, const char *branch,
			struct replay_files *files, struct err *err)
{
	cleanup_place struct place from = PLACE_INIT, to = PLACE_INIT;
	struct walk walk = {.parent = &from, .branch = &to, .files = files};
	struct settling settling = {.walk = &walk, .done = NULL, .err = err};

	if (json_length(replay->made) + json_length(replay->touched) +
		    json_length(files->folders) ==
	    0)
		return 0;
	if (place_open(&from, parent, err) != 0 || place_open(&to, branch, err) != 0 ||
	    make_folders(&to, files->folders, err) != 0)
		return -1;
	if (json_each(replay->made, settle_path, &settling) != 0)
		return -1;
	settling.done = replay->made;
	return json_each(replay->touched, settle_path, &settling) == 0 ? 0 : -1;
}
