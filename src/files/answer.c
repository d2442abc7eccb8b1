/*
 * Requests on files; see answer.h. The fields have been checked for their types by whoever read the
 * request (keeper/request.c), but nothing here relies on it: what is missing has a default or is
 * refused.
 */
#include "files/answer.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "sandbox/protect.h"

enum { LIST_DEFAULT = 1000, MODE_DEFAULT = 0644, KEY_BYTES_MAX = 64 };

static const char *coded_key(const char *key, char text[static KEY_BYTES_MAX])
{
	snprintf(text, KEY_BYTES_MAX, "%s_base64", key);
	return text;
}

void answer_set_name(struct json *object, const char *key, const char *bytes, size_t len)
{
	json_set(object, key, json_new_string(bytes, len));
	if (!text_is_utf8(bytes, len)) {
		cleanup_buf struct buf coded = BUF_INIT;
		char text[KEY_BYTES_MAX];

		hash_base64_encode(&coded, bytes, len);
		json_set_string(object, coded_key(key, text), buf_bytes(&coded));
	}
}

char *answer_get_name(const struct json *object, const char *key, bool *wrong)
{
	char text[KEY_BYTES_MAX];
	const struct json *coded = json_get(object, coded_key(key, text));
	const struct json *plain = json_get(object, key);
	cleanup_buf struct buf bytes = BUF_INIT;
	size_t len = 0;
	const char *string = json_string(coded ? coded : plain, &len);
	bool bad = (coded || plain) && !string;

	if (coded && string)
		bad = hash_base64_decode(&bytes, string, len) != 0;
	else if (string)
		buf_append(&bytes, string, len);
	bad = bad || memchr(buf_bytes(&bytes), '\0', bytes.len);
	if (wrong)
		*wrong = bad;
	if (bad || !string)
		return NULL;
	buf_append_char(&bytes, '\0');
	return buf_take(&bytes, NULL);
}

/* The path of a request; "" when it has none and needs none. */
static char *path_of(const struct json *request, bool needed, struct err *err)
{
	bool wrong = false;
	char *path = answer_get_name(request, "path", &wrong);

	if (path)
		return path;
	if (wrong || needed) {
		err_set(err, ERR_INVALID,
			wrong ? "\"path\" must be a text without NUL, \"path_base64\" base64 of one"
			      : "this request needs \"path\" or \"path_base64\"");
		return NULL;
	}
	return mem_string("");
}

const char *answer_kind_name(enum tree_kind kind)
{
	static const char *const names[] = {[TREE_FILE] = "file",
					    [TREE_FOLDER] = "folder",
					    [TREE_LINK] = "link",
					    [TREE_OTHER] = "other"};

	return names[kind];
}

static void set_modified(struct json *object, const struct tree_status *status)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format(status->mtime_ns / 1000, text);
	json_set_string(object, "modified", text);
}

static struct json *entry_json(const struct tree_entry *entry)
{
	struct json *item = json_new_object();

	answer_set_name(item, "name", entry->name, entry->len);
	json_set_string(item, "type", answer_kind_name(entry->status.kind));
	json_set_int(item, "bytes", (int64_t)entry->status.bytes);
	json_set_int(item, "mode", (int64_t)entry->status.mode);
	set_modified(item, &entry->status);
	return item;
}

struct json *answer_list(const struct tree *tree, const struct json *request, struct err *err)
{
	cleanup_free char *path = path_of(request, false, err);
	cleanup_free char *after = answer_get_name(request, "after", NULL);
	cleanup_listing struct tree_listing listing = TREE_LISTING_INIT;
	int64_t max = json_get_int(request, "max", LIST_DEFAULT);
	struct json *body, *entries;

	if (!path)
		return NULL;
	if (max < 1 || max > TREE_LIST_MAX) {
		err_set(err, ERR_LIMIT, "\"max\" is 1 to %d; ask for the rest with \"after\"",
			TREE_LIST_MAX);
		return NULL;
	}
	if (tree_list(tree, path, after, (size_t)max, &listing, err) != 0)
		return NULL;
	body = json_new_object();
	entries = json_new_array();
	for (size_t i = 0; i < listing.count; i++)
		json_push(entries, entry_json(&listing.entries[i]));
	json_set(body, "entries", entries);
	if (listing.more)
		json_set(body, "more", json_new_bool(true));
	if (listing.incomplete)
		json_set(body, "incomplete", json_new_bool(true));
	return body;
}

struct json *answer_read(const struct tree *tree, const struct json *request, struct err *err)
{
	cleanup_free char *path = path_of(request, true, err);
	int64_t offset = json_get_int(request, "offset", 0);
	int64_t length = json_get_int(request, "length", TREE_PART_BYTES_MAX);
	cleanup_buf struct buf bytes = BUF_INIT, text = BUF_INIT;
	struct tree_status status;
	struct json *body;

	if (!path)
		return NULL;
	if (length < 0 || length > TREE_PART_BYTES_MAX || offset < 0) {
		err_set(err, ERR_LIMIT,
			"\"length\" is at most %d; ask for the rest with \"offset\"",
			TREE_PART_BYTES_MAX);
		return NULL;
	}
	if (tree_read(tree, path, (uint64_t)offset, (size_t)length, &bytes, &status, err) != 0)
		return NULL;
	hash_base64_encode(&text, buf_bytes(&bytes), bytes.len);
	body = json_new_object();
	json_set(body, "data", json_new_string(buf_bytes(&text), text.len));
	json_set_int(body, "offset", offset);
	json_set_int(body, "total", (int64_t)status.bytes);
	json_set_int(body, "mode", (int64_t)status.mode);
	set_modified(body, &status);
	return body;
}

/* The bytes of "data"; -1 when they are not as they should be. */
static int data_of(const struct json *request, struct buf *bytes, struct err *err)
{
	size_t len = 0;
	const char *text = json_string(json_get(request, "data"), &len);

	if (!text || hash_base64_decode(bytes, text, len) != 0)
		return err_set(err, ERR_INVALID, "\"data\" must be base64");
	if (bytes->len > TREE_PART_BYTES_MAX)
		return err_set(err, ERR_LIMIT,
			       "\"data\" has more than %d bytes; send the rest with \"offset\"",
			       TREE_PART_BYTES_MAX);
	return 0;
}

struct json *answer_write(const struct tree *tree, const struct json *request, struct err *err)
{
	cleanup_free char *path = path_of(request, true, err);
	const char *upload = json_get_string(request, "upload");
	int64_t offset = json_get_int(request, "offset", 0);
	int64_t mode = json_get_int(request, "mode", MODE_DEFAULT);
	cleanup_buf struct buf bytes = BUF_INIT;
	struct json *body;

	if (!path)
		return NULL;
	if (!upload || offset < 0 || mode < 0) {
		err_set(err, ERR_INVALID,
			"\"write_file\" needs \"upload\", and \"offset\" and \"mode\" are 0 or "
			"more");
		return NULL;
	}
	if (data_of(request, &bytes, err) != 0 ||
	    tree_write(tree, path, upload, (uint64_t)offset, buf_bytes(&bytes), bytes.len, err) !=
		    0)
		return NULL;
	if (json_get_bool(request, "done", false) &&
	    tree_commit(tree, path, upload, (mode_t)(mode & TREE_MODE_MASK), err) != 0)
		return NULL;
	body = json_new_object();
	json_set_int(body, "bytes", offset + (int64_t)bytes.len);
	return body;
}

struct json *answer_remove(const struct tree *tree, const struct json *request, struct err *err)
{
	cleanup_free char *path = path_of(request, true, err);

	if (!path || tree_remove(tree, path, json_get_bool(request, "whole", false), err) != 0)
		return NULL;
	return json_new_object();
}

struct json *answer_make_folder(const struct tree *tree, const struct json *request,
				struct err *err)
{
	cleanup_free char *path = path_of(request, true, err);

	if (!path || tree_make_folder(tree, path, err) != 0)
		return NULL;
	return json_new_object();
}

int answer_may_change(const struct json *request, bool folder, const char *const *protect,
		      struct err *err)
{
	cleanup_free char *path = answer_get_name(request, "path", NULL);

	if (!path || !protect_covers(protect, path, folder))
		return 0;
	return err_set(err, ERR_DENIED,
		       "other programs run what is there, outside of any sandbox; "
		       "change it in the folder itself");
}
