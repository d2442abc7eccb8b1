/*
 * Making and finding environments for --with. See with.h.
 *
 * Where they lie is said in environments.h. The hash is that of the Python it is based on and of
 * the sorted requirements. The venv is made where it stays, because installed scripts name their
 * interpreter by its path. A process that dies on the way leaves a folder without made.json, which
 * the next one clears away.
 */
#include "cli/with.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fumehood.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/python.h"
#include "base/text.h"
#include "cli/environments.h"
#include "cli/say.h"
#include "cli/terminal.h"

enum { BUILD_S_MAX = 3600, REQUIREMENTS_MAX = 256, REQUIREMENT_BYTES_MAX = 1000 };

/* Runs in the session, with `target` and `packages` set before it. Its own pip is used for the new
 * environment where it can (22.3), for then the venv needs none. */
static const char CODE[] =
	"import os, subprocess, sys, venv\n"
	"python = os.path.join(target, 'bin', 'python')\n"
	"environment = {name: value for name, value in os.environ.items()\n"
	"               if name not in ('PIP_PYTHON', 'PIP_PREFIX', 'PYTHONPATH')}\n"
	"venv.EnvBuilder(symlinks=True).create(target)\n"
	"pip = [sys.executable, '-m', 'pip', '--python', python]\n"
	"if subprocess.run(pip + ['--version'], env=environment, capture_output=True).returncode:\n"
	"    venv.EnvBuilder(symlinks=True, with_pip=True).create(target)\n"
	"    pip = [python, '-m', 'pip']\n"
	"subprocess.run(pip + ['install', '--progress-bar', 'off', '--'] + packages, "
	"env=environment,\n"
	"               check=True)\n"
	"for folder, folders, files in os.walk(target):\n"
	"    for path in [folder] + [os.path.join(folder, name) for name in files]:\n"
	"        if not os.path.islink(path):\n"
	"            os.chmod(path, os.stat(path).st_mode & ~0o222)\n";

/* Of the caller's variables those that say where packages come from. */
static const char *const PASSED_ON[] = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST",
					"PIP_DEFAULT_TIMEOUT"};

struct with {
	int folder; /* <data>/environments */
	char *path;
	char hash[HASH_HEX_SIZE];
	struct json *packages; /* array of strings, sorted */
	const char *python;
};

static void with_release(struct with *with)
{
	if (with->folder >= 0)
		close(with->folder);
	free(with->path);
	json_free(with->packages);
}

/* --- what is wanted ----------------------------------------------------------------------------
 */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One requirement. What begins with a dash would be an option of pip's. */
static int add_package(char **packages, size_t *count, const char *text, size_t len,
		       struct err *err)
{
	while (len && (*text == ' ' || *text == '\t'))
		text++, len--;
	while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	if (len == 0)
		return 0;
	if (*text == '-' || len > REQUIREMENT_BYTES_MAX || !text_is_utf8(text, len) ||
	    memchr(text, '\n', len))
		return err_set(err, ERR_INVALID,
			       "--with takes packages, such as numpy or \"pandas>=2\", not %.*s",
			       (int)(len < 100 ? len : 100), text);
	if (*count == REQUIREMENTS_MAX)
		return err_set(err, ERR_LIMIT, "--with takes at most %d packages",
			       REQUIREMENTS_MAX);
	packages[(*count)++] = mem_copy(text, len);
	return 0;
}

/* Commas stand between requirements and between the versions of one ("pandas>=2,<3"): a part that
 * begins like a version goes on with the one before. */
static const char *end_of_package(const char *text)
{
	const char *end = text;
	int depth = 0;

	for (; *end; end++) {
		const char *next = end + 1 + strspn(end + 1, " ");

		if (*end == '[' || *end == '(')
			depth++;
		if (*end == ']' || *end == ')')
			depth--;
		if (*end == ',' && depth <= 0 && (!*next || !strchr("<>=!~", *next)))
			break;
	}
	return end;
}

static struct json *read_packages(const struct option_list *list, struct err *err)
{
	char *packages[REQUIREMENTS_MAX];
	struct json *array = NULL;
	size_t count = 0;
	int status = 0;

	for (size_t i = 0; i < list->count && status == 0; i++) {
		const char *text = list->items[i];

		while (*text && status == 0) {
			const char *end = end_of_package(text);

			status = add_package(packages, &count, text, (size_t)(end - text), err);
			text = *end ? end + 1 : end;
		}
	}
	if (status == 0 && count == 0)
		status = err_set(err, ERR_INVALID, "--with names no package");
	qsort(packages, count, sizeof(*packages), by_text);
	if (status == 0)
		array = json_new_array();
	for (size_t i = 0; i < count; i++) {
		if (status == 0 && (i == 0 || strcmp(packages[i], packages[i - 1]) != 0))
			json_push(array, json_new_string(packages[i], strlen(packages[i])));
	}
	for (size_t i = 0; i < count; i++)
		free(packages[i]);
	return array;
}

static int with_open(struct with *with, const struct with_options *options, const char *python,
		     struct err *err)
{
	cleanup_buf struct buf key = BUF_INIT;

	with->python = python;
	with->packages = read_packages(&options->packages, err);
	if (!with->packages)
		return -1;
	buf_append_string(&key, python);
	buf_append_char(&key, '\n');
	json_write(&key, with->packages);
	hash_sha256(buf_bytes(&key), key.len, with->hash);
	with->folder = environments_open(&with->path, err);
	return with->folder < 0 ? -1 : 0;
}

/* --- making it ---------------------------------------------------------------------------------
 */

static void add_rules(struct json *rules, const struct option_list *list)
{
	static const char *const usual[] = {"pypi.org", "files.pythonhosted.org"};

	for (size_t i = 0; i < list->count; i++) {
		const char *text = list->items[i];

		while (*text) {
			size_t len = strcspn(text, ",");

			if (len)
				json_push(rules, json_new_string(text, len));
			text += len + (text[len] == ',');
		}
	}
	for (size_t i = 0; list->count == 0 && i < sizeof(usual) / sizeof(*usual); i++)
		json_push(rules, json_new_string(usual[i], strlen(usual[i])));
}

static void write_policy(const struct with_options *options, const char *target, struct buf *out)
{
	cleanup_json struct json *policy = json_new_object();
	struct json *rules = json_new_array(), *paths = json_new_array(), *env = json_new_object();

	add_rules(rules, &options->index);
	json_push(paths, json_new_string(target, strlen(target)));
	for (size_t i = 0; i < sizeof(PASSED_ON) / sizeof(*PASSED_ON); i++) {
		if (getenv(PASSED_ON[i]))
			json_set(env, PASSED_ON[i], NULL);
	}
	json_set(policy, "net", rules);
	json_set(policy, "write", paths);
	json_set(policy, "env", env);
	json_write(out, policy);
}

static int post_build(struct fh_session *session, const struct json *packages, const char *target,
		      struct fh_error *error)
{
	cleanup_json struct json *request = json_new_object();
	cleanup_buf struct buf code = BUF_INIT, line = BUF_INIT;

	/* A JSON string is a Python string, and an array a list. */
	buf_append_string(&code, "target = ");
	json_write_string(&code, target, strlen(target));
	buf_append_string(&code, "\npackages = ");
	json_write(&code, packages);
	buf_append_char(&code, '\n');
	buf_append_string(&code, CODE);
	json_set_string(request, "op", "run");
	json_set(request, "code", json_new_string(buf_bytes(&code), code.len));
	json_write(&line, request);
	return fh_events(session, fh_hello_seq(session), error) == 0 &&
			       fh_post(session, buf_bytes(&line), line.len, error) == 0
		       ? 0
		       : -1;
}

/* Takes what pip says. 1: the cell has ended, *ok says how. */
static int take_event(const char *text, size_t len, struct buf *said, bool *ok)
{
	cleanup_json struct json *event = json_parse(text, len, &JSON_LIMITS, NULL);
	const char *type = json_get_string(event, "type");
	const char *status = json_get_string(event, "status");

	if (type && strcmp(type, "stream") == 0) {
		size_t bytes = 0;
		const char *words = json_string(json_get(event, "text"), &bytes);

		if (words)
			buf_append(said, words, bytes);
	} else if (type && strcmp(type, "network") == 0 && json_get_string(event, "message")) {
		buf_printf(said, "network: %s\n", json_get_string(event, "message"));
	}
	if (!type || strcmp(type, "finished") != 0)
		return 0;
	*ok = status && strcmp(status, "ok") == 0;
	return 1;
}

/* Waits for the end of the cell, or for the descriptor. */
static int wait_build(struct fh_session *session, int cancel_fd, struct buf *said, bool *ok,
		      struct err *err)
{
	struct fh_error error = FH_ERROR_INIT;
	struct pollfd fds[2] = {{.fd = fh_fd(session), .events = POLLIN},
				{.fd = cancel_fd, .events = POLLIN}};

	for (;;) {
		const char *event;
		size_t len;
		int got = fh_next(session, 0, &event, &len, &error);

		if (got < 0)
			return say_take(err, &error);
		if (got > 0 && take_event(event, len, said, ok))
			return 0;
		if (got > 0)
			continue;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_sys(err, "poll");
		if (fds[1].revents)
			return err_set(err, ERR_GONE, "making the environment was interrupted");
	}
}

static int run_build(struct fh_session *session, const struct with *with, const char *target,
		     int cancel_fd, struct err *err)
{
	__attribute__((cleanup(terminal_release))) struct terminal out = {.fd = -1};
	struct fh_error error = FH_ERROR_INIT;
	cleanup_buf struct buf said = BUF_INIT;
	bool ok = false;

	if (post_build(session, with->packages, target, &error) != 0)
		return say_take(err, &error);
	if (wait_build(session, cancel_fd, &said, &ok, err) != 0)
		return -1;
	if (ok)
		return 0;
	terminal_init(&out, STDERR_FILENO);
	terminal_guest(&out, buf_bytes(&said), said.len);
	(void)terminal_end(&out, NULL);
	return err_set(err, ERR_ENGINE,
		       "the packages of --with could not be installed; pip's "
		       "words are above");
}

/* Builds the venv at `target`, which is an empty folder. */
static int build(const struct with *with, const struct with_options *options, const char *target,
		 int cancel_fd, struct err *err)
{
	struct fh_error error = FH_ERROR_INIT;
	cleanup_buf struct buf policy = BUF_INIT;
	struct fh_start_params params;
	struct fh_session *session;
	char id[HASH_ID_SIZE];
	int status;

	write_policy(options, target, &policy);
	fh_start_params_init(&params);
	params.python = with->python;
	params.policy_json = buf_bytes(&policy);
	params.wall_s_max = BUILD_S_MAX;
	params.ends_with_client = true;
	params.cancel_fd = cancel_fd;
	session = fh_start(&params, &error);
	if (!session)
		return say_take(err, &error);
	memcpy(id, fh_id(session), sizeof(id));
	status = run_build(session, with, target, cancel_fd, err);
	(void)fh_stop(session, false, NULL);
	fh_close(session);
	(void)fh_remove(id, NULL);
	return status;
}

/* Says that it is whole, in words for people. */
static int write_made(const struct with *with, int dirfd, struct err *err)
{
	cleanup_json struct json *made = json_new_object();
	cleanup_buf struct buf text = BUF_INIT;

	json_set_string(made, "python", with->python);
	json_set(made, "packages", json_copy(with->packages));
	json_write_indented(&text, made);
	return file_replace(dirfd, PYTHON_MADE, buf_bytes(&text), text.len, 0644, err);
}

static int make(const struct with *with, const struct with_options *options, int cancel_fd,
		struct err *err)
{
	cleanup_free char *target = mem_format("%s/%s/env", with->path, with->hash);
	cleanup_free char *names = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_fd int dirfd = -1;

	json_write(&text, with->packages);
	names = mem_string(buf_bytes(&text));
	say("making an environment with %s ...", names);
	if (file_remove_tree(with->folder, with->hash, err) != 0)
		return -1;
	if (file_make_dirs(target, 0755, err) != 0)
		return -1;
	dirfd = openat(with->folder, with->hash, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dirfd < 0)
		return err_sys(err, "cannot open %s", target);
	if (build(with, options, target, cancel_fd, err) != 0 ||
	    write_made(with, dirfd, err) != 0) {
		(void)file_remove_tree(with->folder, with->hash, NULL);
		return -1;
	}
	return 0;
}

static bool is_made(const struct with *with)
{
	cleanup_free char *name = mem_format("%s/" PYTHON_MADE, with->hash);

	return faccessat(with->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

char *with_path(const struct with_options *options, const char *python, struct err *err)
{
	__attribute__((cleanup(with_release))) struct with with = {.folder = -1};

	if (with_open(&with, options, python, err) != 0)
		return NULL;
	return mem_format("%s/%s/env/bin/python", with.path, with.hash);
}

/* From now on it counts as wanted at this moment. Where that cannot be, it only seems older. */
static void note_use(const struct with *with)
{
	cleanup_free char *name = mem_format("%s/" PYTHON_MADE, with->hash);

	(void)utimensat(with->folder, name, NULL, AT_SYMLINK_NOFOLLOW);
}

/* Whoever holds the lock alone makes it if nobody has meanwhile; with the shared one it stays. */
static int find_or_make(const struct with *with, const struct with_options *options, int cancel_fd,
			struct err *err)
{
	for (;;) {
		cleanup_fd int held = environments_lock(with->folder, with->hash, LOCK_SH, err);

		if (held < 0)
			return -1;
		if (is_made(with)) {
			note_use(with);
			return fd_take(&held);
		}
		close(fd_take(&held));
		held = environments_lock(with->folder, with->hash, LOCK_EX, err);
		if (held < 0 || (!is_made(with) && make(with, options, cancel_fd, err) != 0))
			return -1;
	}
}

char *with_python(const struct with_options *options, const char *python, int cancel_fd, int *held,
		  struct err *err)
{
	__attribute__((cleanup(with_release))) struct with with = {.folder = -1};

	*held = -1;
	if (with_open(&with, options, python, err) != 0)
		return NULL;
	*held = find_or_make(&with, options, cancel_fd, err);
	return *held < 0 ? NULL : mem_format("%s/%s/env/bin/python", with.path, with.hash);
}
