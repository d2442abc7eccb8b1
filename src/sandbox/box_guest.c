/*
 * A guest and its numbers. It sends its own pidfd, which can name a process of its own namespace
 * only; what the kernel says of that descriptor is believed, and nothing that the guest says.
 *
 * The pidfd comes by way of a process that may have been taken over, so it is also asked whether it
 * is of this box: of its pid namespace, or where there is none, whether it descends from the init.
 * Else any process of the user's could be put into the group of the box, and die with it. While the
 * pidfd is no end, its number is no other's: so that is looked at last.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "sandbox/box_elsewhere.h"
#include "sandbox/members.h"

enum { INFO_BYTES_MAX = 1024, NAMESPACE_PID = 2 /* box_namespaces() */ };
enum { LOOKS_MAX = 20, LOOK_AGAIN_NS = 500 * 1000 };

static int read_info(int pidfd, char text[static INFO_BYTES_MAX], struct err *err)
{
	char path[64];
	cleanup_fd int fd = -1;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, "reading %s", path);
	got = read(fd, text, INFO_BYTES_MAX - 1);
	text[got > 0 ? got : 0] = '\0';
	return 0;
}

/* "Pid:" and the last number of "NSpid:", proc_pid_fdinfo(5). */
static int read_pids(int pidfd, struct box_guest *guest, struct err *err)
{
	char text[INFO_BYTES_MAX];
	const char *line, *end;

	if (read_info(pidfd, text, err) < 0)
		return -1;
	line = strstr(text, "\nPid:");
	guest->host_pid = line ? (pid_t)strtol(line + strlen("\nPid:"), NULL, 10) : -1;
	line = strstr(text, "\nNSpid:");
	if (!line || guest->host_pid <= 0)
		return err_set(err, ERR_ENGINE,
			       "the guest sent something that is no pidfd of a living process");
	line += strlen("\nNSpid:");
	end = strchr(line, '\n');
	guest->pid = 0;
	while (!end || line < end) {
		char *after;
		long pid = strtol(line, &after, 10);

		if (after == line || (end && after > end))
			break;
		guest->pid = (pid_t)pid;
		line = after;
	}
	return guest->pid > 0 ? 0
			      : err_set(err, ERR_ENGINE,
					"the guest's pidfd names no process of the box");
}

static bool is_of_namespace(int namespace_fd, pid_t pid)
{
	char path[64];
	struct stat ours, its;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return fstat(namespace_fd, &ours) == 0 && stat(path, &its) == 0 &&
	       ours.st_ino == its.st_ino && ours.st_dev == its.st_dev;
}

static bool is_member(pid_t init, pid_t pid)
{
	cleanup_members struct members members = MEMBERS_INIT;

	members_find(&members, &init, 1);
	for (size_t i = 0; i < members.count; i++)
		if (members.pids[i] == pid)
			return true;
	return false;
}

/* A copy says hello while the step that has made it ends (guest/copy.c): it can change its parent
 * between two lists that are read, and be in neither. */
static bool descends(pid_t init, pid_t pid)
{
	const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};

	for (int look = 0; look < LOOKS_MAX; look++) {
		if (is_member(init, pid))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool is_of_box(const struct box *box, pid_t pid)
{
	const int *namespaces = box_namespaces(box);

	return namespaces ? is_of_namespace(namespaces[NAMESPACE_PID], pid)
			  : descends(box_pid(box), pid);
}

static bool has_ended(int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};

	return poll(&end, 1, 0) != 0;
}

int box_guest_meet(struct box *box, int pidfd, struct box_guest *guest, struct err *err)
{
	char path[64];
	bool ours;

	*guest = (struct box_guest){.status = -1};
	if (read_pids(pidfd, guest, err) < 0)
		return -1;
	ours = is_of_box(box, guest->host_pid);
	if (has_ended(pidfd))
		return err_set(err, ERR_GONE, "the guest ended while it started");
	if (!ours)
		return err_set(err, ERR_ENGINE, "the guest's pidfd is of a process elsewhere");
	if (box_adopt(box, guest->host_pid, err) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)guest->host_pid);
	guest->status = open(path, O_RDONLY | O_CLOEXEC);
	return 0;
}
