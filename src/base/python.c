/*
 * Which Python: from what a person types to the one absolute path that names an environment.
 *
 * The path is the environment's identity (the pool's name is made from it), so equal environments
 * should get equal paths: directories are resolved, and so is a link to the interpreter, except
 * inside a venv. There the link itself is what makes Python find pyvenv.cfg, so python, python3 and
 * python3.11 of a venv all become its bin/python.
 *
 * pyenv, asdf and mise put a "shim" on PATH, which chooses a version by the current directory and
 * by files above it. Only the shim knows its rules, so it is run and asked for sys.executable.
 * Whatever is a script, or lies in a folder called "shims", counts as one; but one in the workspace
 * is refused before (python_check_workspace). Nothing is remembered between calls: those files may
 * change at any time.
 */
#include "base/python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/paths.h"

enum {
	SHIM_WAIT_MS = 10 * 1000, /* pyenv needs 50 ms; a cold network home may need seconds */
	SHIM_ANSWER_BYTES_MAX = 8192,
	SHIMS_LEN = 6,
};

static const char SHIMS[] = "/shims"; /* the end of the folder's path */

static bool is_executable_file(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool is_directory(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The first executable file `name` in the folders of PATH; NULL when there is none. An empty part
 * means the current directory, as in the shell. */
static char *find_on_path(const char *name)
{
	const char *at = getenv("PATH");

	while (at) {
		size_t len = strcspn(at, ":");
		cleanup_free char *path =
			len ? mem_format("%.*s/%s", (int)len, at, name) : mem_format("./%s", name);

		if (is_executable_file(path))
			return mem_take(path);
		at = at[len] ? at + len + 1 : NULL;
	}
	return NULL;
}

/* The interpreter of a venv or conda directory; NULL when it has none. */
static char *find_in_directory(const char *directory)
{
	static const char *const names[] = {"python", "python3"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cleanup_free char *path = mem_format("%s/bin/%s", directory, names[i]);

		if (is_executable_file(path))
			return mem_take(path);
	}
	return NULL;
}

static bool is_shim(const char *path)
{
	const char *slash = strrchr(path, '/');
	cleanup_fd int fd = -1;
	char start[2] = {0, 0};

	if (slash && slash - path >= SHIMS_LEN && strncmp(slash - SHIMS_LEN, SHIMS, SHIMS_LEN) == 0)
		return true;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && pread(fd, start, sizeof(start), 0) == 2 && start[0] == '#' &&
	       start[1] == '!';
}

/* Reads `fd` to its end within the time; false when the time is over or there is too much. */
static bool read_answer(int fd, int64_t until_us, struct buf *answer)
{
	for (;;) {
		int64_t left_ms = (until_us - clock_monotonic_us()) / 1000;
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t count;

		if (left_ms <= 0 || answer->len > SHIM_ANSWER_BYTES_MAX)
			return false;
		if (poll(&wait, 1, (int)left_ms) <= 0)
			continue;
		count = read(fd, buf_reserve(answer, 1024), 1024);
		if (count == 0)
			return true;
		if (count > 0)
			buf_added(answer, (size_t)count);
		else if (errno != EINTR)
			return false;
	}
}

/* The last line that is not empty, cut out in place; "" when there is none. A version manager may
 * talk before it. */
static char *last_line(char *text)
{
	size_t len = strlen(text);
	char *start;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		text[--len] = '\0';
	start = strrchr(text, '\n');
	return start ? start + 1 : text;
}

/* Runs the shim and returns what it calls sys.executable. Its own words (both streams are read)
 * explain a failure. */
static char *ask_shim(const char *shim, struct err *err)
{
	const char *argv[] = {shim, "-I", "-c", "import sys; print(sys.executable)", NULL};
	int ends[2];
	cleanup_fd int in = -1, out = -1;
	cleanup_buf struct buf answer = BUF_INIT;
	cleanup_free char *text = NULL;
	struct child child;
	bool complete;
	char *line;
	int status;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_sys(err, "a pipe to the Python %s cannot be made", shim);
		return NULL;
	}
	in = ends[0];
	out = ends[1];
	{
		const int fds[] = {-1, out, out};
		const struct child_params params = {
			.path = shim,
			.argv = argv,
			.fds = fds,
			.fd_count = 3,
			.new_session = true,
		};

		if (child_start(&params, &child, err) < 0) {
			err_wrap(err, "the Python %s cannot be run", shim);
			return NULL;
		}
	}
	close(fd_take(&out));
	complete = read_answer(in, clock_monotonic_us() + SHIM_WAIT_MS * INT64_C(1000), &answer);
	/* It leads a session of its own, so this reaches what it started too; if it has ended,
	 * nothing. */
	if (!complete)
		kill(-child.pid, SIGKILL);
	status = child_wait(&child);
	text = mem_copy(buf_bytes(&answer), answer.len);
	line = last_line(text);
	if (!complete) {
		err_set(err, ERR_TIMEOUT,
			"the Python %s was asked for sys.executable and gave no answer "
			"within %d s",
			shim, SHIM_WAIT_MS / 1000);
		return NULL;
	}
	if (status != 0 || line[0] != '/' || !is_executable_file(line)) {
		err_set(err, ERR_ENGINE, "the Python %s does not work: %s", shim,
			*line ? line : "it said nothing");
		return NULL;
	}
	return mem_string(line);
}

/* One path for all names of the same interpreter; see the head of this file. */
static char *canonical(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *parent = mem_copy(path, slash ? (size_t)(slash - path) : 0);
	cleanup_free char *directory = realpath(!slash ? "." : *parent ? parent : "/", NULL);
	cleanup_free char *config = NULL, *config_beside = NULL, *plain = NULL, *real = NULL,
			  *real_plain = NULL;

	real = realpath(path, NULL);
	if (!directory || !real) {
		err_sys(err, "the Python %s cannot be resolved", path);
		return NULL;
	}
	config = mem_format("%s/../pyvenv.cfg", directory);
	config_beside = mem_format("%s/pyvenv.cfg", directory);
	if (access(config, F_OK) < 0 && access(config_beside, F_OK) < 0)
		return mem_take(real);
	plain = mem_format("%s/python", directory);
	real_plain = realpath(plain, NULL);
	if (real_plain && strcmp(real_plain, real) == 0)
		return mem_take(plain);
	return mem_format("%s/%s", directory, slash ? slash + 1 : path);
}

/* `path` is an executable file. */
static char *resolve_file(const char *path, struct err *err)
{
	cleanup_free char *asked = NULL;

	if (is_shim(path)) {
		asked = ask_shim(path, err);
		if (!asked)
			return NULL;
		path = asked;
	}
	return canonical(path, err);
}

/* The executable that `name` stands for, not resolved yet. PATH comes before a directory of the
 * same name, because a folder called python3 in the current directory must not change what python3
 * means. */
static char *find_executable(const char *name, struct err *err)
{
	bool bare = !strchr(name, '/');
	char *path = bare ? find_on_path(name) : NULL;

	if (path)
		return path;
	if (is_directory(name)) {
		path = find_in_directory(name);
		if (!path)
			err_set(err, ERR_NOT_FOUND,
				"%s has no bin/python: it is no Python environment", name);
		return path;
	}
	if (bare) {
		err_set(err, ERR_NOT_FOUND,
			"no Python called %s is on PATH, and no environment of this name "
			"is in the current directory",
			name);
		return NULL;
	}
	if (access(name, F_OK) < 0) {
		err_sys(err, "the Python %s cannot be used", name);
		return NULL;
	}
	if (!is_executable_file(name)) {
		err_set(err, ERR_INVALID, "%s is no executable file", name);
		return NULL;
	}
	return mem_string(name);
}

char *python_resolve(const char *name, struct err *err)
{
	cleanup_free char *path = NULL;

	if (!*name) {
		err_set(err, ERR_NOT_FOUND, "the name of the Python is empty");
		return NULL;
	}
	path = find_executable(name, err);
	return path ? resolve_file(path, err) : NULL;
}

int python_check_workspace(const char *name, const char *workspace, struct err *err)
{
	cleanup_free char *path = *name ? find_executable(name, NULL) : NULL;
	cleanup_free char *real = path && is_shim(path) ? realpath(path, NULL) : NULL;
	cleanup_free char *top = realpath(workspace, NULL);
	size_t len = top ? strlen(top) : 0;

	if (!real || !top || strncmp(real, top, len) != 0 || (len > 1 && real[len] != '/'))
		return 0;
	return err_set(err, ERR_DENIED,
		       "the Python %s is a script in the workspace, which a session may have "
		       "written: it is not run. Name the interpreter that it starts",
		       path);
}

bool python_is(const char *python, const char *name)
{
	cleanup_free char *inside = is_directory(name) ? find_in_directory(name) : NULL;
	cleanup_free char *path = canonical(inside ? inside : name, NULL);

	return path && strcmp(path, python) == 0;
}

char *python_default(struct err *err)
{
	const char *chosen = getenv("FUMEHOOD_PYTHON");
	cleanup_free char *data = NULL, *path = NULL;

	if (chosen && *chosen) {
		path = python_resolve(chosen, err);
		if (!path)
			err_wrap(err, "FUMEHOOD_PYTHON");
		return mem_take(path);
	}
	/* Without a home there is no default environment either: that is no error. */
	data = paths_data(NULL);
	if (data) {
		path = mem_format("%s/venv/bin/python", data);
		if (is_executable_file(path))
			return resolve_file(path, err);
		free(mem_take(path));
	}
	path = find_on_path("python3");
	if (path)
		return resolve_file(path, err);
	if (is_executable_file("/usr/bin/python3"))
		return resolve_file("/usr/bin/python3", err);
	err_set(err, ERR_NOT_FOUND,
		"no Python was found: install python3, or name one by --python or "
		"FUMEHOOD_PYTHON");
	return NULL;
}

bool python_is_made(const char *python)
{
	static const char inside[] = "/env/bin/python";
	size_t len = strlen(python), tail = sizeof(inside) - 1;
	cleanup_free char *made = NULL;

	if (len <= tail || strcmp(python + len - tail, inside) != 0)
		return false;
	made = mem_format("%.*s/" PYTHON_MADE, (int)(len - tail), python);
	return access(made, F_OK) == 0;
}
