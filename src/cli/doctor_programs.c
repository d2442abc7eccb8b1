/*
 * Doctor: are the programs there, and are they, those on the disk and those that run, of one make?
 *
 * A file's version is asked of the program itself. What runs is another build when its executable
 * (/proc/PID/exe) is another file than the one that would be started now: after an update in place
 * the old file is gone and the processes go on with it. A running keeper is found by its socket, as
 * everywhere; the kernel names the process that listens there.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "cli/doctor.h"
#include "client/store.h"
#include "pool/pool.h"

enum { VERSION_WAIT_MS = 5000 };

static void check_program(struct doctor *doctor, const char *name)
{
	static const char effect[] = "no session can start";
	static const char cure[] =
		"install Fumehood anew, or set FUMEHOOD_LIBEXEC to the folder that holds it";
	struct err err = ERR_INIT;
	cleanup_free char *path = paths_helper(name, &err);
	const char *const argv[] = {name, "--version", NULL};
	cleanup_free char *wanted = mem_format("%s " FH_VERSION, name);
	cleanup_free char *detail = NULL;
	cleanup_buf struct buf answer = BUF_INIT;

	if (!path) {
		doctor_note(doctor, DOCTOR_FAILED, name, err.text, effect, cure);
		return;
	}
	if (doctor_ask(path, argv, VERSION_WAIT_MS, &answer, &err) != 0) {
		detail = mem_format("%s: %s", path, err.text);
		doctor_note(doctor, DOCTOR_FAILED, name, detail, effect, cure);
		return;
	}
	if (strcmp(buf_bytes(&answer), wanted) != 0) {
		detail = mem_format("%s says \"%s\", but this is fumehood " FH_VERSION, path,
				    buf_bytes(&answer));
		doctor_note(doctor, DOCTOR_FAILED, name, detail,
			    "programs of two versions do not understand each other", cure);
		return;
	}
	detail = mem_format("%s, " FH_VERSION, path);
	doctor_note(doctor, DOCTOR_OK, name, detail, NULL, NULL);
}

/* --- what runs -------------------------------------------------------------------------------- */

struct running {
	unsigned current, other;
	struct buf names; /* of the other builds */
};

/* The file that `name` would be started from; false when there is none. */
static bool look_at_program(const char *name, struct stat *st)
{
	cleanup_free char *path = paths_helper(name, NULL);

	return path && stat(path, st) == 0;
}

static void count(struct running *running, long long pid, const struct stat *program,
		  const char *what, const char *name)
{
	cleanup_free char *exe = mem_format("/proc/%lld/exe", pid);
	struct stat st;

	if (stat(exe, &st) != 0)
		return; /* it has just ended, or is not ours to see */
	if (st.st_dev == program->st_dev && st.st_ino == program->st_ino) {
		running->current++;
		return;
	}
	buf_printf(&running->names, "%s%s %s (pid %lld)", running->other ? ", " : "", what, name,
		   pid);
	running->other++;
}

/* The process that listens for the session, 0: none. */
static pid_t listener(const char *runtime, const char *id)
{
	cleanup_free char *name = mem_format("%s.sock", id);
	cleanup_fd int fd = socket_connect(runtime, name, SOCK_STREAM, NULL);
	struct ucred peer = {.pid = 0};
	socklen_t len = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		return 0;
	return peer.pid;
}

static void count_sessions(struct running *running)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_list struct store_list list = STORE_LIST_INIT;
	cleanup_free char *runtime = paths_runtime(NULL);
	struct stat program;

	if (!runtime || !look_at_program("fumehood-keeper", &program) ||
	    store_open(&store, NULL) != 0 || store_list(&store, &list, NULL) != 0)
		return;
	for (size_t i = 0; i < list.count; i++) {
		const struct config *config = &list.entries[i].config;
		pid_t pid = listener(runtime, config->id);

		if (pid > 0)
			count(running, pid, &program, "session",
			      config->name ? config->name : config->id);
	}
}

static void count_pools(struct running *running)
{
	cleanup_json struct json *pools = pool_list(NULL);
	struct stat program;

	if (!pools || !look_at_program("fumehood-pool", &program))
		return;
	for (size_t i = 0; i < json_length(pools); i++) {
		const struct json *pool = json_at(pools, i);
		const char *python = json_get_string(pool, "python");

		count(running, json_get_int(pool, "pid", 0), &program, "the pool of",
		      python ? python : "?");
	}
}

static void check_running(struct doctor *doctor)
{
	struct running running = {.names = BUF_INIT};
	cleanup_free char *detail = NULL;

	count_pools(&running);
	count_sessions(&running);
	if (running.other)
		detail = mem_format("%u of this build, %u of another: %s", running.current,
				    running.other, buf_bytes(&running.names));
	else
		detail = mem_format("%u keepers and pools, all of this build", running.current);
	buf_release(&running.names);
	doctor_note(doctor, running.other ? DOCTOR_WARNING : DOCTOR_OK, "running", detail,
		    "what an update has mended is not in them, and this program may ask for what "
		    "they cannot do",
		    "fumehood pool stop; fumehood stop those sessions: the next use starts them "
		    "anew, without their variables");
}

/* Optional: whether it is there depends on what Fumehood was built with. */
static void check_sixel(struct doctor *doctor)
{
	static const char name[] = "fumehood-sixel";
	cleanup_free char *path = paths_helper(name, NULL);
	const char *const argv[] = {name, "--version", NULL};
	cleanup_buf struct buf answer = BUF_INIT;
	struct err err = ERR_INIT;

	if (!path)
		doctor_note(doctor, DOCTOR_OK, name,
			    "not there: in terminals that have only sixels, images are paths "
			    "(optional; built where libsixel-dev and libpng-dev are installed)",
			    NULL, NULL);
	else if (doctor_ask(path, argv, VERSION_WAIT_MS, &answer, &err) != 0)
		doctor_note(doctor, DOCTOR_WARNING, name, err.text,
			    "in terminals that have only sixels, images are paths",
			    "install libsixel1 and libpng16-16, or install Fumehood anew");
	else
		doctor_note(doctor, DOCTOR_OK, name, path, NULL, NULL);
}

void doctor_programs(struct doctor *doctor)
{
	check_program(doctor, "fumehood-keeper");
	check_program(doctor, "fumehood-pool");
	check_sixel(doctor);
	check_running(doctor);
}
