/*
 * What the program prints goes into a file without a name, so that nothing has to be read while it
 * runs and nobody waits for a pipe that a grandchild holds.
 */
#include "model/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"

void tool_read(int fd, size_t bytes_max, struct buf *words)
{
	struct stat st;
	off_t at;

	if (fstat(fd, &st) != 0)
		return;
	at = st.st_size > (off_t)bytes_max ? st.st_size - (off_t)bytes_max : 0;
	while (at < st.st_size) {
		char *room = buf_reserve(words, (size_t)(st.st_size - at));
		ssize_t got = pread(fd, room, (size_t)(st.st_size - at), at);

		if (got <= 0)
			return;
		buf_added(words, (size_t)got);
		at += got;
	}
}

/* The last line that is not empty, owned by the caller. */
static char *last_line(const struct buf *words)
{
	const char *text = buf_bytes(words);
	size_t end = words->len, start;

	while (end > 0 && (unsigned char)text[end - 1] <= ' ')
		end--;
	start = end;
	while (start > 0 && text[start - 1] != '\n' && end - start < 160)
		start--;
	return mem_copy(text + start, end - start);
}

/* 0 when it has ended; -1 with *err when it has to be killed. */
static int wait_for(const struct tool *tool, const struct child *child, struct err *err)
{
	int64_t until = clock_monotonic_us() + (int64_t)tool->wait_ms * 1000;

	for (;;) {
		struct pollfd fds[] = {{.fd = child->pidfd, .events = POLLIN},
				       {.fd = tool->cancel_fd, .events = POLLIN}};
		int64_t left_ms = (until - clock_monotonic_us()) / 1000;
		int ready;

		if (tool->wait_ms >= 0 && left_ms <= 0)
			return err_set(err, ERR_TIMEOUT, "%s takes too long", tool->argv[0]);
		ready = poll(fds, 2, tool->wait_ms < 0 ? -1 : (int)left_ms);
		if (ready < 0 && errno != EINTR)
			return err_sys(err, "poll");
		if (ready > 0 && fds[0].revents)
			return 0;
		if (ready > 0 && fds[1].revents)
			return err_set(err, ERR_GONE, "interrupted");
	}
}

int tool_run(const struct tool *tool, struct buf *words, struct err *err)
{
	cleanup_fd int log = memfd_create("words", MFD_CLOEXEC);
	const int fds[] = {-1, tool->output >= 0 ? tool->output : log, log};
	const struct child_params params = {.path = tool->path ? tool->path : tool->argv[0],
					    .argv = tool->argv,
					    .envp = tool->envp,
					    .fds = fds,
					    .fd_count = 3,
					    .new_session = true};
	cleanup_free char *line = NULL;
	struct child child;
	int outcome, status;

	if (log < 0)
		return err_sys(err, "memfd_create");
	if (child_start(&params, &child, err) != 0)
		return -1;
	outcome = wait_for(tool, &child, err);
	if (outcome != 0)
		(void)kill(-child.pid, SIGKILL);
	status = child_wait(&child);
	tool_read(log, TOOL_WORDS_MAX, words);
	if (outcome != 0)
		return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	line = last_line(words);
	if (WIFSIGNALED(status))
		return err_set(err, ERR_ENGINE, "%s was killed by signal %d (%s)", tool->argv[0],
			       WTERMSIG(status), sigabbrev_np(WTERMSIG(status)));
	return err_set(err, ERR_ENGINE, "%s ended with status %d: %s", tool->argv[0],
		       WEXITSTATUS(status), line);
}
