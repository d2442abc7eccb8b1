/*
 * The llama.cpp server as a child of the owner: starting, asking for its health, ending, and saying
 * how it ended. See owner.h.
 *
 * Why it ended is guessed from what is left: the wait status, the kernel's count of processes that
 * it killed for memory, the last lines of the log.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "model/launch.h"
#include "model/owner.h"

enum { STOP_MS = 3000, HEALTH_S = 1, LOG_TAIL_BYTES = 16 << 10, LINE_BYTES_MAX = 110 };

/* How many processes the kernel has killed for memory, on the whole machine; -1: not told. */
static int64_t count_oom_kills(void)
{
	cleanup_buf struct buf text = BUF_INIT;
	long long count = -1;
	const char *at;

	if (file_read(AT_FDCWD, "/proc/vmstat", 1 << 20, &text, NULL) != 0)
		return -1;
	at = strstr(buf_bytes(&text), "\noom_kill ");
	return at && sscanf(at, "\noom_kill %lld", &count) == 1 ? count : -1;
}

int owner_server_start(struct owner_server *server, const struct json *argv, struct err *err)
{
	cleanup_fd int log = openat(server->dirfd, OWNER_LOG,
				    O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	struct child child;

	if (log < 0)
		return err_sys(err, "cannot write %s/" OWNER_LOG, server->folder);
	free(server->program);
	server->program = mem_string(json_string(json_at(argv, 0), NULL));
	server->oom_kills = count_oom_kills();
	if (launch(argv, server->folder, log, &child, err) != 0)
		return -1;
	server->pid = child.pid;
	server->pidfd = child.pidfd;
	return 0;
}

bool owner_server_healthy(const struct owner_server *server)
{
	static const char request[] =
		"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	cleanup_fd int fd = socket_connect(server->folder, OWNER_SERVER_SOCKET, SOCK_STREAM, NULL);
	const struct timeval limit = {.tv_sec = HEALTH_S};
	char answer[16] = "";
	ssize_t got;

	if (fd < 0)
		return false;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
		return false;
	got = recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
	return got >= 12 && memcmp(answer, "HTTP/1.", 7) == 0 && memcmp(answer + 9, "200", 3) == 0;
}

static int reap(struct owner_server *server)
{
	struct child child = {.pid = server->pid, .pidfd = server->pidfd};
	int status = child_wait(&child);

	server->pidfd = server->pid = -1;
	return status;
}

void owner_server_stop(struct owner_server *server)
{
	struct pollfd fd = {.fd = server->pidfd, .events = POLLIN};

	if (server->pidfd < 0)
		return;
	(void)kill(server->pid, SIGTERM);
	if (poll(&fd, 1, STOP_MS) <= 0)
		(void)kill(server->pid, SIGKILL);
	(void)reap(server);
}

/* --- how it ended ----------------------------------------------------------------------------- */

static void read_tail(const struct owner_server *server, struct buf *tail)
{
	cleanup_fd int log = openat(server->dirfd, OWNER_LOG, O_RDONLY | O_CLOEXEC);
	off_t size = log < 0 ? 0 : lseek(log, 0, SEEK_END);
	off_t at = size > LOG_TAIL_BYTES ? size - LOG_TAIL_BYTES : 0;
	ssize_t got =
		log < 0 ? 0 : pread(log, buf_reserve(tail, LOG_TAIL_BYTES), LOG_TAIL_BYTES, at);

	if (got > 0)
		buf_added(tail, (size_t)got);
}

static bool speaks_of_memory(const char *tail)
{
	static const char *const words[] = {"failed to allocate", "unable to allocate",
					    "out of memory",      "Cannot allocate memory",
					    "bad_alloc",          "MemoryError"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(tail, words[i]))
			return true;
	return false;
}

/* The last line with a word in it, cut; owned by the caller. */
static char *last_line(const struct buf *tail)
{
	const char *text = buf_bytes(tail);
	size_t end = tail->len, start;

	while (end > 0 && (unsigned char)text[end - 1] <= ' ')
		end--;
	start = end;
	while (start > 0 && text[start - 1] != '\n')
		start--;
	if (end - start > LINE_BYTES_MAX)
		end = start + LINE_BYTES_MAX;
	return mem_copy(text + start, end - start);
}

static const char OF_MEMORY[] =
	"the model's server ran out of memory: take a smaller model or llama.context, or close "
	"other programs";

static void say_signal(const struct owner_server *server, int signal, const char *tail,
		       struct err *err)
{
	int64_t kills = count_oom_kills();

	if (signal == SIGILL)
		err_set(err, ERR_ENGINE,
			"the model's server was built for another CPU (SIGILL): %.120s; install "
			"one "
			"that fits",
			server->program);
	else if (signal == SIGKILL && kills > server->oom_kills && server->oom_kills >= 0)
		err_set(err, ERR_ENGINE, "%s", OF_MEMORY);
	else if (signal == SIGABRT && speaks_of_memory(tail))
		err_set(err, ERR_ENGINE, "%s", OF_MEMORY);
	else
		err_set(err, ERR_ENGINE,
			"the model's server was killed by signal %d (%s); its log: "
			"%.120s/" OWNER_LOG,
			signal, sigabbrev_np(signal), server->folder);
}

void owner_server_reap(struct owner_server *server, struct err *err)
{
	int status = reap(server);
	cleanup_buf struct buf tail = BUF_INIT;
	cleanup_free char *line = NULL;

	read_tail(server, &tail);
	if (WIFSIGNALED(status)) {
		say_signal(server, WTERMSIG(status), buf_bytes(&tail), err);
		return;
	}
	if (speaks_of_memory(buf_bytes(&tail))) {
		err_set(err, ERR_ENGINE, "%s", OF_MEMORY);
		return;
	}
	line = last_line(&tail);
	err_set(err, ERR_ENGINE,
		"the model's server ended with status %d: %s (log: %.90s/" OWNER_LOG ")",
		WEXITSTATUS(status), line, server->folder);
}
