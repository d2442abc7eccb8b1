/*
 * A command's end is known by two things that need no sleeping: end-of-file on its output, and the
 * report of the init.
 */
#include "sandbox/box_kit.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { WAIT_MS_MAX = 20000 };

static const char *const ENVIRONMENT[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp",
	"LC_ALL=C", NULL};

void kit_init(struct kit *kit)
{
	*kit = (struct kit){.dir = "/tmp/fumehood-box-XXXXXX", .tier = TIER_FULL};
	assert_non_null(mkdtemp(kit->dir));
	policy_init(&kit->policy);
	kit->policy.workspace = kit->dir;
	host_look(&kit->host);
}

void kit_start(struct kit *kit)
{
	struct err err = ERR_INIT;
	if (kit->policy.floor == TIER_NONE)
		kit->tier = TIER_NONE;
	kit->box = box_start_on(&kit->host, &kit->policy, kit->tier, &err);
	if (!kit->box)
		fail_msg("%s", err.text);
}

void kit_release(struct kit *kit)
{
	struct err err = ERR_INIT;

	box_free(kit->box);
	buf_release(&kit->out);
	if (file_remove_tree(AT_FDCWD, kit->dir, &err) < 0)
		fail_msg("%s", err.text);
}

static pid_t run_shell(struct kit *kit, const char *script, const int *fds, size_t count)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	struct err err = ERR_INIT;
	pid_t pid;

	if (box_exec(kit->box, argv, ENVIRONMENT, fds, count, &pid, &err) < 0)
		fail_msg("%s", err.text);
	return pid;
}

static void read_all(int fd, struct buf *out)
{
	ssize_t size;

	while ((size = read(fd, buf_reserve(out, 65536), 65536)) > 0)
		buf_added(out, (size_t)size);
	buf_append_char(out, '\0');
	buf_truncate(out, out->len - 1);
}

int kit_run(struct kit *kit, const char *script)
{
	int pair[2];
	pid_t pid;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = run_shell(kit, script, (int[]){-1, pair[1], pair[1]}, 3);
	close(pair[1]);
	buf_clear(&kit->out);
	read_all(pair[0], &kit->out);
	close(pair[0]);
	return kit_wait(kit, pid);
}

const char *kit_output(struct kit *kit, const char *script)
{
	int status = kit_run(kit, script);

	if (status != 0)
		fail_msg("status %d of: %s\n%s", status, script, buf_bytes(&kit->out));
	return buf_bytes(&kit->out);
}

pid_t kit_spawn(struct kit *kit, const char *script, int fd)
{
	return run_shell(kit, script, (int[]){-1, -1, -1, fd}, fd < 0 ? 3 : 4);
}

int kit_wait(struct kit *kit, pid_t pid)
{
	struct pollfd fd = {.fd = box_socket(kit->box), .events = POLLIN};

	for (;;) {
		struct err err = ERR_INIT;
		int status;
		pid_t got;
		int result = box_next_exit(kit->box, &got, &status, &err);

		if (result < 0)
			fail_msg("%s", err.text);
		if (result > 0 && got == pid)
			return status;
		if (result == 0 && poll(&fd, 1, WAIT_MS_MAX) <= 0)
			fail_msg("pid %d did not end", (int)pid);
	}
}

void kit_in_child(int (*body)(void))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		status = body();
		fflush(NULL);
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int result = fd < 0 ? -1 : file_write_all(fd, text, strlen(text), NULL);

	if (fd >= 0)
		close(fd);
	return result;
}

int kit_enter_namespaces(int flags)
{
	cleanup_free char *uids = mem_format("%u %u 1", geteuid(), geteuid());
	cleanup_free char *gids = mem_format("%u %u 1", getegid(), getegid());

	if (unshare(CLONE_NEWUSER | flags) < 0)
		return -1;
	if (write_file("/proc/self/setgroups", "deny") < 0 ||
	    write_file("/proc/self/uid_map", uids) < 0)
		return -1;
	return write_file("/proc/self/gid_map", gids);
}

bool kit_closes(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&poll_fd, 1, 10000) == 1 && read(fd, &byte, 1) == 0;
}
