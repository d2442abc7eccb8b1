/*
 * The answer is read to its end or to a limit; a Python that hangs is ended.
 */
#include "pool/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

enum { ANSWER_MS_MAX = 10 * 1000, ANSWER_BYTES_MAX = 1 << 20, PATHS_MAX = 1024 };

void layout_release(struct layout *layout)
{
	for (size_t i = 0; i < layout->count; i++)
		free(layout->paths[i]);
	free(layout->paths);
	*layout = (struct layout)LAYOUT_INIT;
}

int layout_parse(struct layout *layout, const char *text, size_t len, struct err *err)
{
	cleanup_json struct json *paths = json_parse(text, len, &JSON_LIMITS, err);
	size_t count = json_length(paths);

	if (!paths)
		return err_wrap(err, "layout");
	if (json_type_of(paths) != JSON_ARRAY || count > PATHS_MAX)
		return err_set(err, ERR_ENGINE, "layout: no list of at most %d paths", PATHS_MAX);
	layout->paths = mem_zalloc((count + 1) * sizeof(*layout->paths));
	for (size_t i = 0; i < count; i++) {
		size_t path_len = 0;
		const char *path = json_string(json_at(paths, i), &path_len);

		if (!path || path[0] != '/' || strlen(path) != path_len)
			return err_set(err, ERR_ENGINE, "layout: path %zu is not absolute", i);
		layout->paths[layout->count++] = mem_string(path);
	}
	return 0;
}

/* Reads to the end. -1 with errno: ETIMEDOUT, EFBIG. */
static int read_answer(int fd, struct buf *out)
{
	int64_t until_us = clock_monotonic_us() + ANSWER_MS_MAX * INT64_C(1000);

	for (;;) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		int64_t left_us = until_us - clock_monotonic_us();
		ssize_t count;

		errno = ETIMEDOUT;
		if (left_us <= 0 || poll(&poll_fd, 1, (int)(left_us / 1000) + 1) == 0)
			return -1;
		count = read(fd, buf_reserve(out, 4096), 4096);
		if (count == 0)
			return 0;
		if (count < 0 && errno != EINTR)
			return -1;
		if (count > 0)
			buf_added(out, (size_t)count);
		errno = EFBIG;
		if (out->len > ANSWER_BYTES_MAX)
			return -1;
	}
}

static char *script_beside(const char *script)
{
	const char *slash = strrchr(script, '/');

	return mem_format("%.*s/layout.py", (int)(slash ? slash - script : 0), script);
}

int layout_find(struct layout *layout, const char *python, const char *script, struct err *err)
{
	cleanup_free char *path = script_beside(script);
	const char *const argv[] = {python, "-I", "-S", "-X", "utf8", path, NULL};
	const char *const envp[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};
	cleanup_fd int in = -1, out = -1;
	cleanup_buf struct buf answer = BUF_INIT;
	struct child child;
	int ends[2], result, sys;

	if (access(path, R_OK) < 0)
		return err_set(err, ERR_NOT_FOUND, "layout: there is no %.200s", path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "layout");
	in = ends[0];
	out = ends[1];
	if (child_start(&(struct child_params){.path = python,
					       .argv = argv,
					       .envp = envp,
					       .fds = (const int[]){-1, out, -1},
					       .fd_count = 3,
					       .new_session = true,
					       .directory = "/"},
			&child, err) < 0)
		return -1;
	close(fd_take(&out));
	result = read_answer(in, &answer);
	sys = errno;
	if (result < 0)
		syscall(SYS_pidfd_send_signal, child.pidfd, SIGKILL, NULL, 0);
	if (child_wait(&child) != 0 || result < 0)
		return err_set(err, ERR_ENGINE, "layout: %.150s gave no answer%s%s", python,
			       result < 0 ? ": " : "", result < 0 ? strerror(sys) : "");
	return layout_parse(layout, buf_bytes(&answer), answer.len, err);
}
