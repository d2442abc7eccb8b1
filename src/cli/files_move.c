/*
 * fumehood files ls, get, put, rm.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/files.h"
#include "cli/say.h"
#include "cli/table.h"
#include "files/answer.h"

enum { PART_BYTES = 256 << 10, LIST_MAX = 1000 };
#define GET_BYTES_MAX (UINT64_C(2) << 30)

/* --- ls --- */

static void put_entry(struct buf *out, const char *folder, const struct json *entry)
{
	cleanup_free char *name = answer_get_name(entry, "name", NULL);
	cleanup_free char *path = files_join(folder, name ? name : "?");
	const char *type = json_get_string(entry, "type");
	bool file = type && strcmp(type, "file") == 0;
	size_t start = out->len;

	if (file)
		table_size(out, json_get_int(entry, "bytes", 0));
	else
		buf_append_string(out, type ? type : "?");
	table_pad(out, start, 6);
	text_escape(out, path, strlen(path), false, false);
	buf_append_string(out, type && strcmp(type, "folder") == 0 ? "/\n" : "\n");
}

/* One answer's worth. *after becomes the last name when there is more, else NULL. */
static int list_part(struct place *place, const char *folder, char **after, bool json,
		     struct err *err)
{
	struct json *request = place_request("list_files", folder);
	cleanup_json struct json *answer = NULL;
	cleanup_buf struct buf out = BUF_INIT;
	const struct json *entries;
	size_t count;

	json_set_int(request, "max", LIST_MAX);
	if (*after)
		answer_set_name(request, "after", *after, strlen(*after));
	answer = place_ask(place, request, err);
	if (!answer)
		return -1;
	entries = json_get(answer, "entries");
	count = json_length(entries);
	for (size_t i = 0; i < count; i++) {
		if (json) {
			json_write(&out, json_at(entries, i));
			buf_append_char(&out, '\n');
		} else {
			put_entry(&out, folder, json_at(entries, i));
		}
	}
	free(*after);
	*after = json_get_bool(answer, "more", false) && count > 0
			 ? answer_get_name(json_at(entries, count - 1), "name", NULL)
			 : NULL;
	if (say_out(buf_bytes(&out), out.len) != 0)
		return err_set(err, ERR_IO, "stdout");
	if (!*after && json_get_bool(answer, "incomplete", false))
		say("there are others: not everything was looked at");
	return 0;
}

int files_ls(const struct command *command, const char *session, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_place struct place place = PLACE_INIT;
	cleanup_free char *after = NULL;
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, table, 1, argc, argv, 0, 1);
	const char *folder = "";

	if (status >= 0)
		return status;
	if (options.word_count > 0 && strcmp(options.words[0], ".") != 0)
		folder = options.words[0];
	if (place_open(&place, session, &err) != 0)
		return say_err(&err);
	do {
		if (list_part(&place, folder, &after, json, &err) != 0)
			return say_err(&err);
	} while (after);
	return 0;
}

/* --- get --- */

struct sink {
	int fd;
};

static int take_to_fd(void *data, const char *bytes, size_t len, struct err *err)
{
	const struct sink *sink = data;

	return file_write_all(sink->fd, bytes, len, err);
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A file beside the place, which gets the name when it is whole. */
static int get_to_file(struct place *place, const char *path, const char *to, uint64_t max,
		       bool force, struct err *err)
{
	char id[HASH_ID_SIZE];
	cleanup_free char *temp = NULL;
	cleanup_fd int fd = -1;
	struct sink sink;
	int result;

	hash_random_id(id);
	temp = mem_format("%.*s.fumehood-%s.tmp", (int)(last_name(to) - to), to, id);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return err_sys(err, "%.150s", temp);
	sink.fd = fd;
	result = place_read(place, path, max, take_to_fd, &sink, NULL, err);
	if (result == 0 && !force && link(temp, to) != 0)
		result = errno == EEXIST
				 ? err_set(err, ERR_DUPLICATE,
					   "%.150s is there already; --force replaces it", to)
				 : err_sys(err, "%.150s", to);
	if (result == 0 && force && rename(temp, to) != 0)
		result = err_sys(err, "%.150s", to);
	unlink(temp);
	return result;
}

int files_get(const struct command *command, const char *session, int argc, char **argv)
{
	bool force = false;
	uint64_t max = GET_BYTES_MAX;
	const struct option table[] = {
		{"force", 'f', OPTION_FLAG, &force},
		{"max", '\0', OPTION_SIZE, &max},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_place struct place place = PLACE_INIT;
	cleanup_free char *to = NULL;
	struct err err = ERR_INIT;
	struct stat st;
	int status = files_begin(command, &options, table, 2, argc, argv, 1, 2);

	if (status >= 0)
		return status;
	to = mem_string(options.words[options.word_count - 1]);
	if (options.word_count == 1 || (stat(to, &st) == 0 && S_ISDIR(st.st_mode))) {
		const char *folder = options.word_count == 1 ? "." : options.words[1];
		char *joined = mem_format("%s/%s", folder, last_name(options.words[0]));

		free(to);
		to = joined;
	}
	if (place_open(&place, session, &err) != 0)
		return say_err(&err);
	if (options.word_count == 2 && strcmp(options.words[1], "-") == 0) {
		struct sink sink = {.fd = STDOUT_FILENO};

		status = place_read(&place, options.words[0], max, take_to_fd, &sink, NULL, &err);
	} else {
		status = get_to_file(&place, options.words[0], to, max, force, &err);
	}
	return status == 0 ? 0 : say_err(&err);
}

/* --- put --- */

static int put_fd(struct place *place, int fd, const char *path, mode_t mode, struct err *err)
{
	cleanup_place_file struct place_file file;
	cleanup_free char *part = mem_resize(NULL, 1, PART_BYTES);

	place_begin(&file, place, path);
	for (;;) {
		ssize_t got = read(fd, part, PART_BYTES);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "reading");
		if (got == 0)
			return place_commit(&file, mode, err);
		if (place_write(&file, part, (size_t)got, err) != 0)
			return -1;
	}
}

static int put_one(struct place *place, const char *from, const char *path, struct err *err)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (strcmp(from, "-") == 0)
		return put_fd(place, STDIN_FILENO, path, 0644, err);
	fd = open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, "%.150s", from);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%.150s is no file", from);
	return put_fd(place, fd, path, st.st_mode, err);
}

int files_put(const struct command *command, const char *session, int argc, char **argv)
{
	const char *to = NULL;
	bool unzip = false;
	const struct option table[] = {
		{"to", '\0', OPTION_TEXT, &to},
		{"unzip", '\0', OPTION_FLAG, &unzip},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_place struct place place = PLACE_INIT;
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, table, 2, argc, argv, 1, 10000);
	bool into_folder;

	if (status >= 0)
		return status;
	if (unzip) {
		char *words[] = {argv[0], (char *)(uintptr_t)options.words[0],
				 (char *)(uintptr_t)(to ? to : "."), NULL};

		if (options.word_count > 1)
			return say_usage(command, "put --unzip takes one archive");
		return files_unzip(command, session, 3, words);
	}
	into_folder = !to || options.word_count > 1 || (to[0] && to[strlen(to) - 1] == '/');
	if (place_open(&place, session, &err) != 0)
		return say_err(&err);
	for (size_t i = 0; i < options.word_count; i++) {
		const char *from = options.words[i];
		cleanup_free char *folder = mem_string(to ? to : "");
		cleanup_free char *path = NULL;
		size_t len = strlen(folder);

		if (strcmp(from, "-") == 0 && into_folder)
			return say_usage(command, "put - needs --to PATH");
		while (len > 0 && folder[len - 1] == '/')
			folder[--len] = '\0';
		path = into_folder ? files_join(folder, last_name(from)) : mem_string(folder);
		if (put_one(&place, from, path, &err) != 0)
			return say_err(&err);
	}
	return 0;
}

/* --- rm --- */

int files_rm(const struct command *command, const char *session, int argc, char **argv)
{
	bool whole = false;
	const struct option table[] = {{"recursive", 'r', OPTION_FLAG, &whole}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_place struct place place = PLACE_INIT;
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, table, 1, argc, argv, 1, 10000);

	if (status >= 0)
		return status;
	if (place_open(&place, session, &err) != 0)
		return say_err(&err);
	for (size_t i = 0; i < options.word_count; i++) {
		struct json *request = place_request("remove_file", options.words[i]);
		cleanup_json struct json *answer = NULL;

		if (whole)
			json_set(request, "whole", json_new_bool(true));
		answer = place_ask(&place, request, &err);
		if (!answer)
			return say_err(&err);
	}
	return 0;
}
