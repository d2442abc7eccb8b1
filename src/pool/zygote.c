/*
 * One zygote process on the loop. Three descriptors are watched: socket, output pipe, pidfd.
 *
 *   running ──end of socket──> leaving (2 s, then SIGKILL) ──┐
 *      │                                                     v
 *      └──────────────── pidfd readable ─────────────────> reaped: what is left in socket and pipe
 *                                                          is read, then `ended`
 *
 * The end of the socket comes before the exit status, because descriptors are closed before a
 * process is a zombie: killing at once would report every exit as signal 9. Handles of libuv are
 * closed late, hence the count of handles; the struct is freed when it is retired and the last
 * handle is closed.
 */
#include "pool/zygote.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/mem.h"
#include "base/python.h"
#include "base/socket.h"
#include "guest/protocol.h"
#include "pool/layout.h"
#include "pool/log.h"
#include "sandbox/nursery.h"

enum {
	LEAVE_MS = 2000,      /* from the end of its socket to SIGKILL */
	MESSAGES_A_TURN = 16, /* so that a talkative zygote cannot keep keepers waiting */
	READ_BYTES = 4096,
	READS_A_TURN = 16,
};

struct zygote {
	struct zygote_params params;
	struct nursery nursery; /* its child is the process, confined or not */
	int socket, pipe;       /* -1: closed */
	int pidfd;              /* borrowed from child, which child_wait() closes */
	uv_poll_t socket_poll, pipe_poll, pidfd_poll;
	uv_timer_t leave_timer;
	unsigned handles; /* not closed yet */
	bool reaped, retired, left_unread;
	struct buf words;
};

static void zygote_free_if_done(struct zygote *zygote)
{
	if (!zygote->retired || zygote->handles > 0)
		return;
	buf_release(&zygote->words);
	nursery_release(&zygote->nursery);
	free(zygote);
}

static void on_closed(uv_handle_t *handle)
{
	struct zygote *zygote = handle->data;

	zygote->handles--;
	zygote_free_if_done(zygote);
}

/* Stops watching a descriptor of ours and closes it. */
static void unwatch(uv_poll_t *poll, int *fd)
{
	if (*fd < 0)
		return;
	uv_close((uv_handle_t *)poll, on_closed);
	close(fd_take(fd));
}

static void keep_words(struct zygote *zygote, const char *bytes, size_t len)
{
	buf_append(&zygote->words, bytes, len);
	if (zygote->words.len > ZYGOTE_WORDS_BYTES_MAX)
		buf_consume(&zygote->words, zygote->words.len - ZYGOTE_WORDS_BYTES_MAX);
}

/* Reads what is in the pipe, a bounded part of it. */
static void read_words(struct zygote *zygote)
{
	char bytes[READ_BYTES];

	for (unsigned i = 0; i < READS_A_TURN && zygote->pipe >= 0; i++) {
		ssize_t count = read(zygote->pipe, bytes, sizeof(bytes));

		if (count > 0)
			keep_words(zygote, bytes, (size_t)count);
		else if (count == 0 || (errno != EAGAIN && errno != EINTR))
			unwatch(&zygote->pipe_poll, &zygote->pipe);
		else
			return;
	}
}

static void on_leave_time(uv_timer_t *timer)
{
	zygote_kill(timer->data);
}

static void await_leaving(struct zygote *zygote)
{
	if (!zygote->reaped && !uv_is_active((uv_handle_t *)&zygote->leave_timer))
		uv_timer_start(&zygote->leave_timer, on_leave_time, LEAVE_MS, 0);
}

/* Delivers messages, a bounded number of them. The event may retire the zygote, which closes the
 * socket. */
static void read_messages(struct zygote *zygote)
{
	static_assert(SOCKET_FDS_MAX >= 1, "room for a stray descriptor");
	char *bytes = mem_zalloc(GUEST_MESSAGE_BYTES_MAX);

	for (unsigned i = 0; i < MESSAGES_A_TURN && zygote->socket >= 0; i++) {
		int fds[SOCKET_FDS_MAX];
		size_t fd_count = SOCKET_FDS_MAX;
		bool truncated = false;
		ssize_t len = socket_receive(zygote->socket, bytes, GUEST_MESSAGE_BYTES_MAX, fds,
					     &fd_count, &truncated, MSG_DONTWAIT);

		if (len < 0 && errno == EAGAIN)
			break;
		if (len < 0 && errno == ECONNRESET) {
			/* unix(7) does not say it, but the kernel does it for this reason alone:
			 * the other end was closed while data were waiting there
			 * (unix_release_sock()). */
			zygote->left_unread = true;
			continue;
		}
		if (len <= 0) {
			unwatch(&zygote->socket_poll, &zygote->socket);
			await_leaving(zygote);
			break;
		}
		/* A zygote has no descriptors to give. */
		for (size_t k = 0; k < fd_count; k++)
			close(fds[k]);
		if (!truncated && !zygote->retired)
			zygote->params.message(zygote->params.data, bytes, (size_t)len);
	}
	free(bytes);
}

/* What a wait status means, in words. */
static void describe_end(int status, char *text, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(text, size, "the zygote was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(text, size, "the zygote ended with exit status %d", WEXITSTATUS(status));
}

static void on_process_end(uv_poll_t *poll, int status, int events)
{
	struct zygote *zygote = poll->data;
	char reason[96];

	(void)status;
	(void)events;
	uv_close((uv_handle_t *)&zygote->pidfd_poll, on_closed);
	uv_timer_stop(&zygote->leave_timer);
	uv_close((uv_handle_t *)&zygote->leave_timer, on_closed);
	zygote->reaped = true;
	describe_end(child_wait(&zygote->nursery.child), reason, sizeof(reason));
	/* Its last words, then its last messages: a ZYGOTE_FAILED among them wants the words. */
	read_words(zygote);
	read_messages(zygote);
	unwatch(&zygote->pipe_poll, &zygote->pipe);
	unwatch(&zygote->socket_poll, &zygote->socket);
	if (!zygote->retired)
		zygote->params.ended(zygote->params.data, reason);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
	(void)status; /* an error is met again by the read */
	(void)events;
	read_messages(poll->data);
}

static void on_pipe(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	read_words(poll->data);
}

static void watch(struct zygote *zygote, uv_poll_t *poll, int fd, uv_poll_cb event)
{
	int failed = uv_poll_init(zygote->params.loop, poll, fd);

	/* Only a descriptor that is watched already, or none, is refused: a mistake of ours. */
	assert(!failed);
	poll->data = zygote;
	zygote->handles++;
	failed = uv_poll_start(poll, UV_READABLE, event);
	assert(!failed);
	(void)failed;
}

/* In a nursery; where none can be built, outside of one, which the log and every session say. */
static int launch(struct zygote *zygote, const struct nursery_params *params, struct err *err)
{
	const struct child_params unconfined = {
		.path = params->path,
		.argv = params->argv,
		.envp = params->envp,
		.fds = params->fds,
		.fd_count = params->fd_count,
		.new_session = true,
		.directory = "/",
	};
	struct err why = ERR_INIT;

	if (params->read && nursery_start(&zygote->nursery, params, &why) == 0)
		return 0;
	if (params->read && why.code != ERR_SANDBOX && why.code != ERR_DENIED) {
		if (err)
			*err = why;
		return -1;
	}
	if (python_is_made(params->path))
		return err_set(err, ERR_SANDBOX,
			       "an environment that was made from packages runs in a sandbox only, "
			       "and there can be none: %s",
			       why.text);
	if (params->read)
		pool_log("the zygote is not confined: %s", why.text);
	return child_start(&unconfined, &zygote->nursery.child, err);
}

/* Runs the interpreter; `socket` and `out` become its 3 and its 1 and 2. */
static int run_python(struct zygote *zygote, int socket, int out, struct err *err)
{
	const struct zygote_params *params = &zygote->params;
	const char *slash = strrchr(params->python, '/');
	cleanup_free char *options = mem_format("{\"protocol\":%d%s%s}", GUEST_PROTOCOL,
						params->modules ? ",\"modules\":" : "",
						params->modules ? params->modules : "");
	cleanup_free char *path = mem_format("PATH=%.*s:/usr/local/bin:/usr/bin:/bin",
					     (int)(slash - params->python), params->python);
	const char *const argv[] = {params->python, "-I",           "-X",    "utf8",
				    "-u",           params->script, options, NULL};
	/* One thread each: OpenBLAS, OpenMP, and pyarrow's jemalloc, which starts one when it is
	 * loaded. A zygote with threads cannot be forked safely. */
	const char *const envp[] = {
		path,
		"LANG=C.UTF-8",
		"OPENBLAS_NUM_THREADS=1",
		"OMP_NUM_THREADS=1",
		"JE_ARROW_MALLOC_CONF=background_thread:false",
		NULL,
	};
	const int fds[] = {-1, out, out, socket};
	cleanup_layout struct layout layout = LAYOUT_INIT;
	struct nursery_params nursery = {
		.path = params->python, .argv = argv, .envp = envp, .fds = fds, .fd_count = 4};
	struct err why = ERR_INIT;
	struct rlimit files;

	if (layout_find(&layout, params->python, params->script, &why) == 0)
		nursery.read = (const char *const *)layout.paths;
	else
		pool_log("the zygote is not confined: %s", why.text);
	if (launch(zygote, &nursery, err) < 0)
		return -1;
	/* A guest whose policy leaves this limit alone must get the user's, not the pool's. */
	if (prlimit(zygote->nursery.child.pid, RLIMIT_NOFILE, NULL, &files) == 0) {
		files.rlim_cur =
			params->files_soft < files.rlim_max ? params->files_soft : files.rlim_max;
		prlimit(zygote->nursery.child.pid, RLIMIT_NOFILE, &files, NULL);
	}
	return 0;
}

struct zygote *zygote_start(const struct zygote_params *params, struct err *err)
{
	cleanup_fd int ours = -1, theirs = -1, in = -1, out = -1;
	struct zygote *zygote;
	int sockets[2], pipes[2];

	assert(params->python[0] == '/');
	if (socket_pair(SOCK_SEQPACKET, sockets, err) < 0)
		return NULL;
	ours = sockets[0];
	theirs = sockets[1];
	if (pipe2(pipes, O_CLOEXEC) < 0) {
		err_sys(err, "a pipe for the zygote cannot be made");
		return NULL;
	}
	in = pipes[0];
	out = pipes[1];
	/* Only the read end: the two ends of a pipe have file descriptions of their own. */
	if (fcntl(in, F_SETFL, O_NONBLOCK) < 0) {
		err_sys(err, "the zygote's pipe cannot be made non-blocking");
		return NULL;
	}
	zygote = mem_zalloc(sizeof(*zygote));
	zygote->params = *params;
	zygote->nursery = (struct nursery)NURSERY_INIT;
	if (run_python(zygote, theirs, out, err) < 0) {
		free(zygote);
		return NULL;
	}
	zygote->pidfd = zygote->nursery.child.pidfd;
	zygote->socket = fd_take(&ours);
	zygote->pipe = fd_take(&in);
	watch(zygote, &zygote->socket_poll, zygote->socket, on_socket);
	watch(zygote, &zygote->pipe_poll, zygote->pipe, on_pipe);
	watch(zygote, &zygote->pidfd_poll, zygote->pidfd, on_process_end);
	uv_timer_init(params->loop, &zygote->leave_timer);
	zygote->leave_timer.data = zygote;
	zygote->handles++;
	return zygote;
}

pid_t zygote_pid(const struct zygote *zygote)
{
	return zygote->nursery.child.pid;
}

int zygote_family(const struct zygote *zygote)
{
	return zygote->nursery.user_ns;
}

const struct buf *zygote_words(const struct zygote *zygote)
{
	return &zygote->words;
}

bool zygote_left_unread(const struct zygote *zygote)
{
	return zygote->left_unread;
}

int zygote_send(struct zygote *zygote, const void *bytes, size_t len, const int *fds,
		size_t fd_count)
{
	if (zygote->socket < 0) {
		errno = EPIPE;
		return -1;
	}
	return socket_send(zygote->socket, bytes, len, fds, fd_count);
}

void zygote_kill(struct zygote *zygote)
{
	if (!zygote->reaped)
		syscall(SYS_pidfd_send_signal, zygote->pidfd, SIGKILL, NULL, 0);
}

void zygote_retire(struct zygote *zygote)
{
	assert(!zygote->retired);
	zygote->retired = true;
	unwatch(&zygote->socket_poll, &zygote->socket);
	unwatch(&zygote->pipe_poll, &zygote->pipe);
	await_leaving(zygote);
	zygote_free_if_done(zygote);
}
