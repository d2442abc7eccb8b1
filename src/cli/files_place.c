/*
 * Reaching a session's files. See files.h.
 */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cli/files.h"
#include "cli/say.h"
#include "files/answer.h"
#include "sandbox/protect.h"

enum { TIMEOUT_MS = 60000 };

static int open_session(struct place *place, bool start, struct err *err)
{
	struct fh_open_params params;
	struct fh_error error = FH_ERROR_INIT;

	fh_open_params_init(&params);
	params.running_only = !start;
	place->session = fh_open(place->found.entry.config.id, &params, &error);
	if (!place->session)
		return say_take(err, &error);
	fh_set_timeout(place->session, TIMEOUT_MS);
	return 0;
}

int place_open(struct place *place, const char *session, struct err *err)
{
	const struct config *config = &place->found.entry.config;
	struct err why = ERR_INIT;

	if (found_open(&place->found, session, err) != 0)
		return -1;
	if (open_session(place, false, &why) == 0)
		return 0;
	if (why.code != ERR_NOT_FOUND) {
		*err = why;
		return -1;
	}
	if (config->workspace_overlay)
		return open_session(place, true, err);
	if (place->found.entry.damaged || !config->workspace)
		return err_set(err, ERR_CORRUPT, "session.json of this session is damaged");
	place->lock = file_lock(place->found.dirfd, "lock", err);
	if (place->lock < 0)
		return err_wrap(err, "the session starts just now");
	return tree_open(&place->tree, config->workspace, err);
}

void place_release(struct place *place)
{
	fh_close(place->session);
	tree_release(&place->tree);
	if (place->lock >= 0)
		close(place->lock);
	found_release(&place->found);
}

struct json *place_request(const char *op, const char *path)
{
	struct json *request = json_new_object();

	json_set_string(request, "op", op);
	answer_set_name(request, "path", path, strlen(path));
	return request;
}

/* What the keeper would answer. */
static struct json *answer_here(const struct place *place, const struct json *request,
				struct err *err)
{
	static const struct {
		const char *op;
		struct json *(*function)(const struct tree *tree, const struct json *request,
					 struct err *err);
		bool changes;
	} ops[] = {
		{"list_files", answer_list, false},        {"read_file", answer_read, false},
		{"write_file", answer_write, true},        {"remove_file", answer_remove, true},
		{"make_folder", answer_make_folder, true},
	};
	const struct config *config = &place->found.entry.config;
	const char *op = json_get_string(request, "op");

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (strcmp(ops[i].op, op) != 0)
			continue;
		if (ops[i].changes && config->workspace_read_only) {
			err_set(err, ERR_DENIED, "the workspace is read-only");
			return NULL;
		}
		if (ops[i].changes && !config->workspace_private &&
		    answer_may_change(request, ops[i].function == answer_make_folder,
				      PROTECT_DEFAULT, err) != 0)
			return NULL;
		return ops[i].function(&place->tree, request, err);
	}
	err_set(err, ERR_INTERNAL, "no such op");
	return NULL;
}

struct json *place_ask(struct place *place, struct json *request, struct err *err)
{
	cleanup_json struct json *taken = request;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *reply = NULL;
	struct fh_error error = FH_ERROR_INIT;

	if (!place->session)
		return answer_here(place, taken, err);
	json_write(&text, taken);
	if (fh_call(place->session, buf_bytes(&text), text.len, &reply, &error) != 0) {
		say_take(err, &error);
		return NULL;
	}
	return json_parse(reply, strlen(reply), &JSON_LIMITS, err);
}

int place_read(struct place *place, const char *path, uint64_t bytes_max,
	       int (*take)(void *data, const char *bytes, size_t len, struct err *err), void *data,
	       mode_t *mode, struct err *err)
{
	uint64_t at = 0;

	for (;;) {
		struct json *request = place_request("read_file", path);
		cleanup_json struct json *answer = NULL;
		cleanup_buf struct buf bytes = BUF_INIT;
		const char *text;

		json_set_int(request, "offset", (int64_t)at);
		answer = place_ask(place, request, err);
		if (!answer)
			return -1;
		text = json_get_string(answer, "data");
		if (!text || hash_base64_decode(&bytes, text, strlen(text)) != 0)
			return err_set(err, ERR_INVALID, "the answer has no data");
		if (mode)
			*mode = (mode_t)json_get_int(answer, "mode", 0) & TREE_MODE_MASK;
		if (bytes.len == 0)
			return 0;
		at += bytes.len;
		if (at > bytes_max ||
		    json_get_int(answer, "total", 0) > (int64_t)(bytes_max & INT64_MAX))
			return err_set(err, ERR_LIMIT,
				       "it has more than %llu bytes; --max allows more",
				       (unsigned long long)bytes_max);
		if (take(data, buf_bytes(&bytes), bytes.len, err) != 0)
			return -1;
		if (bytes.len < TREE_PART_BYTES_MAX)
			return 0;
	}
}

/* --- writing --- */

void place_begin(struct place_file *file, struct place *place, const char *path)
{
	*file = (struct place_file){.place = place, .path = path};
	file->part = mem_resize(NULL, 1, TREE_PART_BYTES_MAX);
	hash_random_id(file->upload);
}

static int send_part(struct place_file *file, bool done, mode_t mode, struct err *err)
{
	struct json *request = place_request("write_file", file->path);
	cleanup_json struct json *answer = NULL;
	cleanup_buf struct buf text = BUF_INIT;

	hash_base64_encode(&text, file->part, file->len);
	json_set_string(request, "upload", file->upload);
	json_set_int(request, "offset", (int64_t)file->at);
	json_set(request, "data", json_new_string(buf_bytes(&text), text.len));
	if (done) {
		json_set(request, "done", json_new_bool(true));
		json_set_int(request, "mode", (int64_t)(mode & TREE_MODE_MASK));
	}
	answer = place_ask(file->place, request, err);
	file->at += file->len;
	file->len = 0;
	return answer ? 0 : -1;
}

int place_write(struct place_file *file, const void *bytes, size_t len, struct err *err)
{
	const char *from = bytes;

	while (len > 0) {
		size_t room = TREE_PART_BYTES_MAX - file->len;
		size_t count = len < room ? len : room;

		/* The last part is sent by place_commit(), with the end. */
		if (room == 0) {
			if (send_part(file, false, 0, err) != 0)
				return -1;
			continue;
		}
		memcpy(file->part + file->len, from, count);
		file->len += count;
		from += count;
		len -= count;
	}
	return 0;
}

int place_commit(struct place_file *file, mode_t mode, struct err *err)
{
	file->committed = send_part(file, true, mode, err) == 0;
	return file->committed ? 0 : -1;
}

void place_end(struct place_file *file)
{
	if (file->at > 0 && !file->committed) {
		const char *slash = strrchr(file->path, '/');
		int folder = slash ? (int)(slash + 1 - file->path) : 0;
		cleanup_free char *temp =
			mem_format("%.*s.fumehood-%s.tmp", folder, file->path, file->upload);

		json_free(place_ask(file->place, place_request("remove_file", temp), NULL));
	}
	free(file->part);
}
