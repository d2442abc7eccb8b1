/*
 * Doctor: asking a program, and a few figures. See doctor.h.
 *
 * A program that is asked may hang (a Python on a network that is gone), so its time is bounded; it
 * leads a session of its own, so that what it has started is killed with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"

/* Reads until the program ends or has said too much; false when the time is over. */
static bool read_answer(int fd, int64_t until_us, struct buf *answer)
{
	while (answer->len < DOCTOR_ANSWER_BYTES_MAX) {
		int64_t left_ms = (until_us - clock_monotonic_us() + 999) / 1000;
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (left_ms <= 0)
			return false;
		if (poll(&ready, 1, (int)left_ms) <= 0)
			continue;
		got = read(fd, buf_reserve(answer, 4096), 4096);
		if (got == 0)
			return true;
		if (got > 0)
			buf_added(answer, (size_t)got);
		else if (errno != EINTR)
			return false;
	}
	return true;
}

static const char *last_line(const struct buf *answer)
{
	const char *feed = strrchr(buf_bytes(answer), '\n');

	return feed ? feed + 1 : buf_bytes(answer);
}

int doctor_ask(const char *path, const char *const *argv, int wait_ms, struct buf *answer,
	       struct err *err)
{
	int ends[2];
	cleanup_fd int in = -1;
	struct child child;
	bool in_time;
	int failed, status;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_sys(err, "pipe");
	in = ends[0];
	{
		const int fds[] = {-1, ends[1], ends[1]};
		const struct child_params params = {
			.path = path, .argv = argv, .fds = fds, .fd_count = 3, .new_session = true};

		failed = child_start(&params, &child, err);
	}
	close(ends[1]);
	if (failed)
		return -1;
	in_time = read_answer(in, clock_monotonic_us() + wait_ms * INT64_C(1000), answer);
	if (!in_time || answer->len >= DOCTOR_ANSWER_BYTES_MAX)
		kill(-child.pid, SIGKILL);
	status = child_wait(&child);
	while (answer->len && buf_bytes(answer)[answer->len - 1] == '\n')
		buf_truncate(answer, answer->len - 1);
	if (!in_time)
		return err_set(err, ERR_TIMEOUT, "it did not answer within %d s", wait_ms / 1000);
	if (status == 0)
		return 0;
	return err_set(err, ERR_ENGINE, "%s", answer->len ? last_line(answer) : "it fails");
}

char *doctor_dangling(const char *path)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t len;

	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		cleanup_free char *python = mem_format("%s/bin/python", path);

		return doctor_dangling(python);
	}
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0 || stat(path, &st) == 0 || errno != ENOENT)
		return NULL;
	target[len] = '\0';
	return mem_format("%s points to %s, which is not there", path, target);
}

int64_t doctor_number(const char *path, int64_t otherwise)
{
	cleanup_buf struct buf text = BUF_INIT;
	char *end;
	long long number;

	if (file_read(AT_FDCWD, path, 256, &text, NULL) != 0)
		return otherwise;
	number = strtoll(buf_bytes(&text), &end, 10);
	return end == buf_bytes(&text) ? otherwise : number;
}

void doctor_put_size(struct buf *out, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double size = (double)bytes;
	size_t unit = 0;

	while (size >= 1024 && unit < 4) {
		size /= 1024;
		unit++;
	}
	buf_printf(out, size < 100 && unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}
