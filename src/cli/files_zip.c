/*
 * fumehood files zip, unzip.
 *
 * fumehood-zip does what needs a library (files/zip_main.c); here its messages become files of the
 * workspace, and the other way round. What it says is believed no more than the archive: each name
 * is checked again, and what comes is counted.
 *
 * The other end is a socket, not a pipe, so that its death is an error of send(2) and no signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "base/text.h"
#include "cli/files.h"
#include "cli/say.h"
#include "files/answer.h"
#include "files/zip.h"
#include "sandbox/protect.h"

enum { DEPTH_MAX = 64, LIST_MAX = 10000, SPOOL_BYTES = 64 << 10 };

struct helper {
	struct child child;
	int fd; /* our end */
};

#define HELPER_INIT \
	{ \
		.child = {.pid = -1, .pidfd = -1}, .fd = -1 \
	}

/* `other` is its stdin when it unpacks, and its stdout when it packs. */
static int helper_start(struct helper *helper, bool packs, int other, struct err *err)
{
	cleanup_free char *path = paths_helper("fumehood-zip", err);
	const char *const argv[] = {"fumehood-zip", packs ? "pack" : "unpack", NULL};
	const char *const envp[] = {NULL};
	int pair[2];
	int fds[3];
	struct child_params params = {
		.path = path, .argv = argv, .envp = envp, .fds = fds, .fd_count = 3};
	int result;

	if (!path || socket_pair(SOCK_STREAM, pair, err) != 0)
		return -1;
	fds[0] = packs ? pair[1] : other;
	fds[1] = packs ? other : pair[1];
	fds[2] = -1;
	result = child_start(&params, &helper->child, err);
	close(pair[1]);
	helper->fd = pair[0];
	return result;
}

/* Ends it if it has not ended yet; its wait status. */
static int helper_end(struct helper *helper)
{
	if (helper->fd >= 0)
		close(helper->fd);
	helper->fd = -1;
	if (helper->child.pid <= 0)
		return 0;
	return child_wait(&helper->child);
}

static void helper_release(struct helper *helper)
{
	if (helper->child.pid > 0 && helper->child.pidfd >= 0) {
		kill(helper->child.pid, SIGKILL);
		helper_end(helper);
	}
	if (helper->fd >= 0)
		close(helper->fd);
}

#define cleanup_helper __attribute__((cleanup(helper_release)))

static int gone(struct err *err)
{
	return err_set(err, ERR_GONE, "fumehood-zip has ended before its time");
}

static int send_bytes(const struct helper *helper, const void *bytes, size_t len, struct err *err)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t sent = send(helper->fd, at, len, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return gone(err);
		at += sent;
		len -= (size_t)sent;
	}
	return 0;
}

static int send_message(const struct helper *helper, enum zip_kind kind, mode_t mode,
			const void *bytes, size_t len, struct err *err)
{
	const struct zip_head head = {.kind = kind, .mode = (uint32_t)mode, .len = len};

	if (send_bytes(helper, &head, sizeof(head), err) != 0)
		return -1;
	return send_bytes(helper, bytes, len, err);
}

static int receive(const struct helper *helper, void *bytes, size_t len, struct err *err)
{
	char *at = bytes;

	while (len > 0) {
		ssize_t got = read(helper->fd, at, len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return gone(err);
		at += got;
		len -= (size_t)got;
	}
	return 0;
}

/* --- zip --- */

struct packing {
	struct place *place;
	struct helper helper;
	size_t count, cut; /* entries; bytes of each path that are not in the archive's names */
	uint64_t left;     /* bytes that may still come */
	size_t passed_over;
};

static int take_data(void *data, const char *bytes, size_t len, struct err *err)
{
	struct packing *packing = data;

	if (len > packing->left)
		return err_set(err, ERR_LIMIT,
			       "there is more than %llu bytes in it (limit zip_bytes)",
			       (unsigned long long)ZIP_BYTES_MAX);
	packing->left -= len;
	while (len > 0) {
		size_t part = len < ZIP_DATA_MAX ? len : ZIP_DATA_MAX;

		if (send_message(&packing->helper, ZIP_DATA, 0, bytes, part, err) != 0)
			return -1;
		bytes += part;
		len -= part;
	}
	return 0;
}

static int pack_folder(struct packing *packing, const char *folder, unsigned depth,
		       struct err *err);

static int pack_entry(struct packing *packing, const char *folder, const struct json *entry,
		      unsigned depth, struct err *err)
{
	cleanup_free char *name = answer_get_name(entry, "name", NULL);
	cleanup_free char *path = name ? files_join(folder, name) : NULL;
	const char *type = json_get_string(entry, "type");
	mode_t mode = (mode_t)json_get_int(entry, "mode", 0644) & TREE_MODE_MASK;
	bool is_folder = type && strcmp(type, "folder") == 0;

	if (!path || !type)
		return err_set(err, ERR_INVALID, "the answer has no name");
	if (!is_folder && strcmp(type, "file") != 0) {
		packing->passed_over++;
		return 0;
	}
	if (++packing->count > ZIP_ENTRIES_MAX)
		return err_set(err, ERR_LIMIT, "there are more than %d entries (limit zip_entries)",
			       ZIP_ENTRIES_MAX);
	if (send_message(&packing->helper, is_folder ? ZIP_FOLDER : ZIP_FILE, mode,
			 path + packing->cut, strlen(path) - packing->cut, err) != 0)
		return -1;
	if (is_folder)
		return pack_folder(packing, path, depth + 1, err);
	return place_read(packing->place, path, packing->left, take_data, packing, NULL, err);
}

static int pack_folder(struct packing *packing, const char *folder, unsigned depth, struct err *err)
{
	cleanup_free char *after = NULL;
	bool more = true;

	if (depth > DEPTH_MAX)
		return err_set(err, ERR_LIMIT, "folders lie deeper than %d (limit zip_depth)",
			       DEPTH_MAX);
	while (more) {
		struct json *request = place_request("list_files", folder);
		cleanup_json struct json *answer = NULL;
		const struct json *entries;

		json_set_int(request, "max", LIST_MAX);
		if (after)
			answer_set_name(request, "after", after, strlen(after));
		answer = place_ask(packing->place, request, err);
		if (!answer)
			return -1;
		entries = json_get(answer, "entries");
		for (size_t i = 0; i < json_length(entries); i++)
			if (pack_entry(packing, folder, json_at(entries, i), depth, err) != 0)
				return -1;
		more = json_get_bool(answer, "more", false) && json_length(entries) > 0;
		free(after);
		after = more ? answer_get_name(json_at(entries, json_length(entries) - 1), "name",
					       NULL)
			     : NULL;
	}
	return 0;
}

static int pack_all(struct packing *packing, const char *folder, int out, struct err *err)
{
	int status;

	if (helper_start(&packing->helper, true, out, err) != 0 ||
	    pack_folder(packing, folder, 0, err) != 0 ||
	    send_message(&packing->helper, ZIP_DONE, 0, NULL, 0, err) != 0)
		return -1;
	status = helper_end(&packing->helper);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, ERR_IO, "the archive could not be written");
	return 0;
}

/* Into a file that gets its name when it is whole. */
static int pack_to_file(struct packing *packing, const char *folder, const char *to,
			struct err *err)
{
	cleanup_free char *temp = NULL;
	cleanup_fd int fd = -1;
	char id[HASH_ID_SIZE];
	int result;

	hash_random_id(id);
	temp = mem_format("%s.%s.tmp", to, id);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return err_sys(err, "%.150s", temp);
	result = pack_all(packing, folder, fd, err);
	if (result == 0 && rename(temp, to) != 0)
		result = err_sys(err, "%.150s", to);
	if (result != 0)
		unlink(temp);
	return result;
}

int files_zip(const struct command *command, const char *session, int argc, char **argv)
{
	const char *output = NULL;
	const struct option table[] = {{"output", 'o', OPTION_TEXT, &output}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_place struct place place = PLACE_INIT;
	struct packing packing = {.place = &place, .helper = HELPER_INIT, .left = ZIP_BYTES_MAX};
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, table, 1, argc, argv, 0, 1);
	const char *folder = "";

	if (status >= 0)
		return status;
	if (options.word_count > 0 && strcmp(options.words[0], ".") != 0)
		folder = options.words[0];
	if (!output && isatty(STDOUT_FILENO))
		return say_usage(command, "zip writes no archive to a terminal: use -o FILE");
	packing.cut = folder[0] ? strlen(folder) + 1 : 0;
	if (place_open(&place, session, &err) != 0)
		return say_err(&err);
	status = output && strcmp(output, "-") != 0
			 ? pack_to_file(&packing, folder, output, &err)
			 : pack_all(&packing, folder, STDOUT_FILENO, &err);
	helper_release(&packing.helper);
	if (status != 0)
		return say_err(&err);
	if (packing.passed_over > 0)
		say("%zu symlinks and other things that are no files are not in it",
		    packing.passed_over);
	return 0;
}

/* --- unzip --- */

struct unpacking {
	struct place *place;
	struct helper helper;
	const char *folder;
	size_t count;
	uint64_t left;
};

/* The path in the workspace of the name that comes behind the head. */
static int receive_name(struct unpacking *unpacking, const struct zip_head *head, char **path,
			struct err *err)
{
	cleanup_free char *text = NULL;

	if (head->len == 0 || head->len > TREE_PATH_BYTES_MAX)
		return err_set(err, ERR_INVALID, "the archive is refused: a name is too long");
	text = mem_zalloc((size_t)head->len + 1);
	if (receive(&unpacking->helper, text, (size_t)head->len, err) != 0 ||
	    zip_check_name(text, (size_t)head->len, err) != 0)
		return -1;
	if (++unpacking->count > ZIP_ENTRIES_MAX)
		return err_set(err, ERR_LIMIT, "the archive is refused: too many entries");
	*path = files_join(unpacking->folder, text);
	return 0;
}

/* The bytes of a file, until a message of another kind, which is left in *head. */
static int unpack_file(struct unpacking *unpacking, const char *path, mode_t mode,
		       struct zip_head *head, struct err *err)
{
	cleanup_place_file struct place_file file;
	char part[SPOOL_BYTES];

	place_begin(&file, unpacking->place, path);
	for (;;) {
		if (receive(&unpacking->helper, head, sizeof(*head), err) != 0)
			return -1;
		if (head->kind != ZIP_DATA)
			return place_commit(&file, mode, err);
		if (head->len > sizeof(part) || head->len > unpacking->left)
			return err_set(err, ERR_LIMIT, "the archive is refused: too many bytes");
		unpacking->left -= head->len;
		if (receive(&unpacking->helper, part, (size_t)head->len, err) != 0 ||
		    place_write(&file, part, (size_t)head->len, err) != 0)
			return -1;
	}
}

static int unpack_folder(struct unpacking *unpacking, const char *path, struct zip_head *head,
			 struct err *err)
{
	cleanup_json struct json *answer =
		place_ask(unpacking->place, place_request("make_folder", path), err);

	return answer ? receive(&unpacking->helper, head, sizeof(*head), err) : -1;
}

static int take_fault(const struct unpacking *unpacking, const struct zip_head *head,
		      struct err *err)
{
	char text[256] = "";
	size_t len = head->len < sizeof(text) ? (size_t)head->len : sizeof(text) - 1;

	if (receive(&unpacking->helper, text, len, err) != 0)
		return -1;
	text[len] = '\0';
	return err_set(err, head->mode == ERR_LIMIT ? ERR_LIMIT : ERR_INVALID, "%s", text);
}

/* All names, before anything is written: none may be of a place that is not written so. *head is
 * the message behind them. */
static int check_names(struct unpacking *unpacking, struct zip_head *head, struct err *err)
{
	bool private = unpacking->place->found.entry.config.workspace_private;

	for (;;) {
		cleanup_free char *path = NULL;
		cleanup_json struct json *request = NULL;

		if (receive(&unpacking->helper, head, sizeof(*head), err) != 0)
			return -1;
		if (head->kind != ZIP_NAME && head->kind != ZIP_NAME_FOLDER)
			break;
		if (receive_name(unpacking, head, &path, err) != 0)
			return -1;
		request = place_request("write_file", path);
		if (!private && answer_may_change(request, head->kind == ZIP_NAME_FOLDER,
						  PROTECT_DEFAULT, err) != 0) {
			cleanup_buf struct buf shown = BUF_INIT;

			text_escape(&shown, path, strlen(path), false, false);
			return err_wrap(err, "%.100s", buf_bytes(&shown));
		}
	}
	unpacking->count = 0;
	return 0;
}

static int unpack_all(struct unpacking *unpacking, struct err *err)
{
	struct zip_head head;

	if (check_names(unpacking, &head, err) != 0)
		return -1;
	while (head.kind != ZIP_DONE) {
		cleanup_free char *path = NULL;
		mode_t mode = head.mode & TREE_MODE_MASK;
		bool is_file = head.kind == ZIP_FILE;

		if (head.kind == ZIP_FAULT)
			return take_fault(unpacking, &head, err);
		if (!is_file && head.kind != ZIP_FOLDER)
			return gone(err);
		if (receive_name(unpacking, &head, &path, err) != 0)
			return -1;
		if ((is_file ? unpack_file(unpacking, path, mode, &head, err)
			     : unpack_folder(unpacking, path, &head, err)) != 0)
			return -1;
	}
	return 0;
}

/* The archive as a regular file: stdin may be a pipe. */
static int open_archive(const char *path, struct err *err)
{
	cleanup_fd int fd =
		strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	cleanup_fd int copy = -1;
	char part[SPOOL_BYTES];
	uint64_t total = 0;
	struct stat st;
	ssize_t got;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, "%.150s", path);
	if (S_ISREG(st.st_mode))
		return fd_take(&fd);
	copy = memfd_create("archive", MFD_CLOEXEC);
	if (copy < 0)
		return err_sys(err, "memfd");
	while ((got = read(fd, part, sizeof(part))) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "%.150s", path);
		total += (uint64_t)got;
		if (total > ZIP_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "the archive has more than %llu bytes",
				       (unsigned long long)ZIP_BYTES_MAX);
		if (file_write_all(copy, part, (size_t)got, err) != 0)
			return -1;
	}
	return fd_take(&copy);
}

int files_unzip(const struct command *command, const char *session, int argc, char **argv)
{
	cleanup_options struct options options = {.words = NULL};
	cleanup_place struct place place = PLACE_INIT;
	struct unpacking unpacking = {
		.place = &place, .helper = HELPER_INIT, .folder = "", .left = ZIP_BYTES_MAX};
	cleanup_fd int archive = -1;
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, NULL, 0, argc, argv, 1, 2);

	if (status >= 0)
		return status;
	if (options.word_count > 1)
		unpacking.folder = options.words[1];
	archive = open_archive(options.words[0], &err);
	if (archive < 0 || place_open(&place, session, &err) != 0)
		return say_err(&err);
	status = helper_start(&unpacking.helper, false, archive, &err) == 0 &&
				 unpack_all(&unpacking, &err) == 0
			 ? 0
			 : -1;
	helper_release(&unpacking.helper);
	return status == 0 ? 0 : say_err(&err);
}
