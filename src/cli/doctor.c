/*
 * fumehood doctor: can this machine run sessions, and if not, what is to be done?
 *
 * Each check does the thing itself rather than read a setting that is said to decide it: a sandbox
 * layer is built in a child, a directory is written to, Python is run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/find.h"
#include "cli/say.h"
#include "pool/pool.h"
#include "sandbox/probe.h"

enum { PYTHON_WAIT_MS = 20000, PYTHON_ANSWER_BYTES_MAX = 4096 };
#define SPACE_BYTES_MIN ((uint64_t)1 << 30)

struct doctor {
	struct json *checks; /* array of {check, ok, detail, effect?, cure?} */
	unsigned failed;
};

/* Notes a check. `effect` and `cure` are said when it failed; they may be NULL. */
static void note(struct doctor *doctor, bool ok, const char *check, const char *detail,
		 const char *effect, const char *cure)
{
	struct json *item = json_new_object();

	json_set_string(item, "check", check);
	json_set(item, "ok", json_new_bool(ok));
	json_set(item, "detail", json_new_string(detail, strlen(detail)));
	if (!ok && effect)
		json_set_string(item, "effect", effect);
	if (!ok && cure)
		json_set_string(item, "cure", cure);
	json_push(doctor->checks, item);
	doctor->failed += !ok;
}

static void check_kernel(struct doctor *doctor)
{
	struct utsname name;
	cleanup_free char *detail = NULL;

	if (uname(&name) != 0)
		return;
	detail = mem_format("%s %s, %s, %ld CPUs", name.sysname, name.release, name.machine,
			    sysconf(_SC_NPROCESSORS_ONLN));
	note(doctor, true, "kernel", detail, NULL, NULL);
}

static void check_sandbox(struct doctor *doctor)
{
	struct probe probes[PROBES_MAX];
	size_t count = probe_run(probes);

	for (size_t i = 0; i < count; i++) {
		cleanup_free char *check = mem_format("sandbox: %s", probes[i].name);

		note(doctor, probes[i].holds, check, probes[i].detail, probes[i].effect,
		     probes[i].cure);
	}
}

static void check_program(struct doctor *doctor, const char *name)
{
	struct err err = ERR_INIT;
	cleanup_free char *path = paths_helper(name, &err);
	bool runs = path && access(path, X_OK) == 0;

	note(doctor, runs, name, path ? path : err.text, "no session can start",
	     "install Fumehood anew, or set FUMEHOOD_LIBEXEC to the folder that holds it");
}

/* Writes a file there and takes it away again. */
static void check_directory(struct doctor *doctor, const char *check, char *path,
			    const struct err *why, uint64_t space_min)
{
	cleanup_free char *owned = path;
	cleanup_free char *detail = NULL;
	cleanup_fd int dirfd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct err err = ERR_INIT;
	struct statvfs space;
	uint64_t free_bytes;

	if (!path) {
		note(doctor, false, check, why->text, "no session can start", "see the message");
		return;
	}
	if (dirfd < 0 || file_replace(dirfd, ".doctor", "", 0, 0600, &err) != 0) {
		detail = mem_format("%s: %s", path, dirfd < 0 ? strerror(errno) : err.text);
		note(doctor, false, check, detail, "no session can start",
		     "make it writable for you");
		return;
	}
	unlinkat(dirfd, ".doctor", 0);
	free_bytes = fstatvfs(dirfd, &space) == 0 ? (uint64_t)space.f_bavail * space.f_frsize : 0;
	detail = mem_format("%s, %.1f GiB free", owned, (double)free_bytes / (1 << 30));
	note(doctor, free_bytes >= space_min, check, detail, "records may not fit",
	     "fumehood gc, or make space on this file system");
}

static void check_directories(struct doctor *doctor)
{
	struct err err = ERR_INIT;
	char *path = paths_state(&err);

	check_directory(doctor, "state directory", path, &err, SPACE_BYTES_MIN);
	path = paths_runtime(&err);
	check_directory(doctor, "runtime directory", path, &err, 0);
}

/* Reads what a program prints until it ends. */
static int read_answer(int fd, struct buf *out)
{
	int64_t until = clock_monotonic_us() + PYTHON_WAIT_MS * 1000;
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	while (out->len < PYTHON_ANSWER_BYTES_MAX) {
		int64_t left = (until - clock_monotonic_us()) / 1000;
		ssize_t got;

		if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
			return -1;
		got = read(fd, buf_reserve(out, 1024), 1024);
		if (got < 0 && errno != EINTR)
			return -1;
		if (got == 0)
			return 0;
		if (got > 0)
			buf_added(out, (size_t)got);
	}
	return 0;
}

/* Asks a Python for its version and which of the usual packages it has. */
static int ask_python(const char *python, struct buf *answer, struct err *err)
{
	static const char code[] =
		"import sys, importlib.util as u\n"
		"print('.'.join(map(str, sys.version_info[:3])), *[m for m in "
		"('IPython', 'numpy', 'pandas', 'matplotlib') if u.find_spec(m)])\n"
		"sys.exit(sys.version_info < (3, 9))";
	const char *argv[] = {python, "-I", "-c", code, NULL};
	int ends[2];
	int fds[3] = {-1, -1, -1};
	struct child_params params = {.path = python, .argv = argv, .fds = fds, .fd_count = 3};
	struct child child;
	int status;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_sys(err, "pipe");
	fds[1] = ends[1];
	if (child_start(&params, &child, err) != 0) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	close(ends[1]);
	if (read_answer(ends[0], answer) != 0)
		(void)syscall(SYS_pidfd_send_signal, child.pidfd, SIGKILL, NULL, 0);
	close(ends[0]);
	status = child_wait(&child);
	while (answer->len && buf_bytes(answer)[answer->len - 1] == '\n')
		buf_truncate(answer, answer->len - 1);
	if (status == 0)
		return 0;
	return err_set(err, ERR_ENGINE, "it does not run as it should, or is older than 3.9");
}

static void check_python(struct doctor *doctor)
{
	struct err err = ERR_INIT;
	cleanup_free char *python = pool_default_python(&err);
	cleanup_buf struct buf answer = BUF_INIT;
	cleanup_free char *detail = NULL;
	bool runs = python && ask_python(python, &answer, &err) == 0;

	detail = mem_format("%s%s%s%s%s", python ? python : "", python ? ": " : "",
			    buf_bytes(&answer), answer.len && !runs ? ", " : "",
			    runs ? "" : err.text);
	note(doctor, runs, "python", detail, "no session can start",
	     "install python3 (3.9 or later), or set FUMEHOOD_PYTHON");
}

static int print_checks(const struct doctor *doctor, bool json)
{
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < json_length(doctor->checks); i++) {
		const struct json *item = json_at(doctor->checks, i);
		const char *detail = json_get_string(item, "detail");
		const char *effect = json_get_string(item, "effect");
		const char *cure = json_get_string(item, "cure");

		if (json) {
			json_write(&out, item);
			buf_append_char(&out, '\n');
			continue;
		}
		buf_printf(&out, "%-7s %s", json_get_bool(item, "ok", false) ? "ok" : "MISSING",
			   json_get_string(item, "check"));
		if (detail && detail[0])
			buf_append_string(&out, ": ");
		text_escape(&out, detail ? detail : "", detail ? strlen(detail) : 0, false, false);
		buf_append_char(&out, '\n');
		if (effect)
			buf_printf(&out, "        effect: %s\n", effect);
		if (cure)
			buf_printf(&out, "        cure:   %s\n", cure);
	}
	if (!json && doctor->failed == 0)
		buf_append_string(&out, "all is well\n");
	else if (!json)
		buf_printf(&out, "%u checks failed\n", doctor->failed);
	return say_out(buf_bytes(&out), out.len);
}

static int command_doctor(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_json struct json *checks = json_new_array();
	struct doctor doctor = {.checks = checks};
	int status = command_begin(command, &options, table, 1, argc, argv, 0, 0);

	if (status >= 0)
		return status;
	check_kernel(&doctor);
	check_sandbox(&doctor);
	check_program(&doctor, "fumehood-keeper");
	check_program(&doctor, "fumehood-pool");
	check_python(&doctor);
	check_directories(&doctor);
	status = print_checks(&doctor, json);
	return status ? status : doctor.failed ? EXIT_FUMEHOOD : 0;
}

const struct command COMMAND_DOCTOR = {
	.name = "doctor",
	.summary = "check what this machine can do",
	.example = "fumehood doctor",
	.help = "Usage: fumehood doctor [--json]\n"
		"\n"
		"Checks, by doing it, whether sessions can run here: the layers of the sandbox, "
		"Python, the\n"
		"directories. What is missing is shown with its effect and its cure.\n"
		"\n"
		"  fumehood doctor\n"
		"\n"
		"Options:\n"
		"  -j, --json           one JSON object a check\n"
		"\n"
		"Exit status: 0, 125 if something is missing.\n",
	.run = command_doctor,
};
