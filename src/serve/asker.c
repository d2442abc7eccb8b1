/*
 * The child behind an ask; see asker.h.
 *
 * Its end has two halves, in any order: the pidfd says that it has ended, and the end of its stdout
 * that all is read. A process that it has left behind may keep the pipe open: then what is not said
 * within a second is not waited for.
 */
#include "serve/asker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/text.h"

enum { LINGER_MS = 1000, OPTIONS_FD = 3, SYSTEM_FD = 4 };

struct asker {
	uv_pipe_t out, said_pipe;
	uv_poll_t pidfd_poll;
	uv_timer_t timer;
	const struct asker_events *events;
	void *data;
	struct child child;
	struct buf in, said;
	size_t scanned;
	char chunk[64 << 10];
	bool ended, read_all, reading, paused, giving, cancelled, too_long, closed;
	int status;
	int handles;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void handle_closed(uv_handle_t *handle)
{
	struct asker *asker = handle->data;

	if (--asker->handles > 0)
		return;
	if (asker->child.pidfd >= 0)
		(void)child_wait(&asker->child);
	buf_release(&asker->in);
	buf_release(&asker->said);
	free(asker);
}

static void close_all(struct asker *asker)
{
	asker->closed = true;
	uv_close((uv_handle_t *)&asker->out, handle_closed);
	uv_close((uv_handle_t *)&asker->said_pipe, handle_closed);
	uv_close((uv_handle_t *)&asker->pidfd_poll, handle_closed);
	uv_close((uv_handle_t *)&asker->timer, handle_closed);
}

static void send_signal(struct asker *asker, int number)
{
	if (!asker->ended)
		(void)syscall(SYS_pidfd_send_signal, asker->child.pidfd, number, NULL, 0);
}

/* The next line that begins so; NULL: none. */
static const char *find_named(const char *text, const char *prefix)
{
	const char *at = strstr(text, prefix);

	while (at && at > text && at[-1] != '\n')
		at = strstr(at + 1, prefix);
	return at;
}

/* What it has said at last, for a message: the line with its name, behind which an example may
 * stand; else the last line. */
static char *said_text(const struct asker *asker)
{
	static const char prefix[] = "fumehood: ";
	struct text_decoder decoder = TEXT_DECODER_INIT;
	cleanup_buf struct buf text = BUF_INIT;
	const char *at, *lf, *named;
	char *line;

	text_decode(&decoder, &text, buf_bytes(&asker->said), asker->said.len);
	text_decode_end(&decoder, &text);
	while (text.len > 0 && buf_bytes(&text)[text.len - 1] == '\n')
		buf_truncate(&text, text.len - 1);
	at = buf_bytes(&text);
	while ((named = find_named(at, prefix)) != NULL)
		at = named + sizeof(prefix) - 1;
	if (at == buf_bytes(&text) && (lf = strrchr(at, '\n')) != NULL)
		at = lf + 1;
	line = mem_string(at);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static void finish(struct asker *asker)
{
	cleanup_free char *said = said_text(asker);
	const struct asker_end end = {.status = asker->status,
				      .cancelled = asker->cancelled,
				      .too_long = asker->too_long,
				      .said = said};

	if (asker->closed)
		return;
	close_all(asker);
	asker->events->end(asker->data, &end);
}

static void look_for_end(struct asker *asker)
{
	if (asker->ended && asker->read_all && !asker->paused && !asker->closed)
		finish(asker);
}

static void waited(uv_timer_t *timer)
{
	struct asker *asker = timer->data;

	if (!asker->ended) {
		send_signal(asker, SIGKILL);
		return;
	}
	if (asker->paused) {
		uv_timer_start(timer, waited, LINGER_MS, 0);
		return;
	}
	asker->read_all = true;
	look_for_end(asker);
}

static void child_ended(uv_poll_t *poll, int status, int events)
{
	struct asker *asker = poll->data;
	int how;

	(void)status;
	(void)events;
	uv_poll_stop(poll);
	how = child_wait(&asker->child);
	asker->child.pidfd = -1;
	asker->ended = true;
	asker->status = how >= 0 && WIFEXITED(how) ? WEXITSTATUS(how) : -1;
	if (!asker->read_all)
		uv_timer_start(&asker->timer, waited, LINGER_MS, 0);
	look_for_end(asker);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void read_as_wanted(struct asker *asker);

/* Gives the whole lines that are there, as long as they are wanted. */
static void give_lines(struct asker *asker)
{
	size_t used = 0;

	if (asker->giving)
		return;
	asker->giving = true;
	while (!asker->closed && !asker->paused) {
		const char *bytes = buf_bytes(&asker->in) + used;
		size_t left = asker->in.len - used;
		const char *lf = memchr(bytes + asker->scanned, '\n', left - asker->scanned);

		if (!lf) {
			asker->scanned = left;
			break;
		}
		asker->scanned = 0;
		used += (size_t)(lf - bytes) + 1;
		if (!asker->too_long)
			asker->events->line(asker->data, bytes, (size_t)(lf - bytes));
	}
	asker->giving = false;
	buf_consume(&asker->in, used);
	if (asker->scanned > ASKER_LINE_BYTES_MAX) {
		asker->too_long = true;
		buf_clear(&asker->in);
		asker->scanned = 0;
		send_signal(asker, SIGKILL);
	}
}

static void read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
	struct asker *asker = handle->data;

	(void)suggested;
	*room = uv_buf_init(asker->chunk, sizeof(asker->chunk));
}

static void out_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
	struct asker *asker = stream->data;

	if (got > 0) {
		buf_append(&asker->in, room->base, (size_t)got);
		give_lines(asker);
	} else if (got < 0) {
		asker->read_all = true;
	}
	if (asker->closed)
		return;
	read_as_wanted(asker);
	look_for_end(asker);
}

/* Only the last of it is kept. */
static void said_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
	struct asker *asker = stream->data;

	if (got < 0) {
		uv_read_stop(stream);
		return;
	}
	buf_append(&asker->said, room->base, (size_t)got);
	if (asker->said.len > ASKER_SAID_BYTES_MAX)
		buf_consume(&asker->said, asker->said.len - ASKER_SAID_BYTES_MAX);
}

static void read_as_wanted(struct asker *asker)
{
	bool want = !asker->paused && !asker->read_all;

	if (asker->closed || want == asker->reading)
		return;
	asker->reading = want;
	if (!want)
		uv_read_stop((uv_stream_t *)&asker->out);
	else if (uv_read_start((uv_stream_t *)&asker->out, read_alloc, out_read) != 0)
		asker->read_all = true;
}

void asker_pause(struct asker *asker)
{
	asker->paused = true;
	read_as_wanted(asker);
}

void asker_resume(struct asker *asker)
{
	if (!asker->paused || asker->closed)
		return;
	asker->paused = false;
	if (asker->giving)
		return;
	give_lines(asker);
	if (asker->closed)
		return;
	read_as_wanted(asker);
	if (asker->ended) /* its end is told by the loop, not behind the caller's call */
		uv_timer_start(&asker->timer, waited, asker->read_all ? 0 : LINGER_MS, 0);
}

/* --- beginning -------------------------------------------------------------------------------- */

/* A file in memory with these bytes, to be read from its beginning. */
static int memory_file(const char *bytes, size_t len, struct err *err)
{
	cleanup_fd int fd = memfd_create("fumehood-ask", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "cannot hand the instruction over");
	if (file_write_all(fd, bytes, len, err) != 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(err, "cannot hand the instruction over");
	return fd_take(&fd);
}

/* The options, as --options takes them: each ended by a NUL byte. */
static int options_file(const char *const *words, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	for (; *words; words++)
		buf_append(&bytes, *words, strlen(*words) + 1);
	return memory_file(buf_bytes(&bytes), bytes.len, err);
}

static int start_child(struct asker *asker, const struct asker_params *params, int out, int said,
		       struct err *err)
{
	cleanup_free char *program = paths_helper("fumehood-ask", err);
	cleanup_fd int instruction = -1, options = -1, system = -1;
	const char *argv[] = {"ask", "--json", "--options=/proc/self/fd/3", "-", NULL, NULL};
	int fds[SYSTEM_FD + 1] = {-1, out, said, -1, -1};
	struct child_params child = {
		.path = program, .argv = argv, .fds = fds, .fd_count = 4, .new_session = true};

	if (!program)
		return -1;
	instruction = memory_file(params->instruction, params->instruction_len, err);
	options = instruction < 0 ? -1 : options_file(params->words, err);
	if (options < 0)
		return -1;
	fds[0] = instruction;
	fds[OPTIONS_FD] = options;
	if (params->system) {
		system = memory_file(params->system, params->system_len, err);
		if (system < 0)
			return -1;
		fds[SYSTEM_FD] = system;
		child.fd_count = SYSTEM_FD + 1;
		argv[3] = "--system=@/proc/self/fd/4";
		argv[4] = "-";
	}
	return child_start(&child, &asker->child, err);
}

static int open_pipes(int out[2], int said[2], struct err *err)
{
	if (pipe2(out, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0)
		return err_sys(err, "cannot make a pipe");
	return 0;
}

static void init_handles(struct asker *asker, uv_loop_t *loop, int *out, int *said)
{
	uv_pipe_init(loop, &asker->out, 0);
	uv_pipe_init(loop, &asker->said_pipe, 0);
	uv_timer_init(loop, &asker->timer);
	(void)uv_poll_init(loop, &asker->pidfd_poll, asker->child.pidfd);
	asker->out.data = asker->said_pipe.data = asker->timer.data = asker->pidfd_poll.data =
		asker;
	asker->handles = 4;
	(void)uv_pipe_open(&asker->out, fd_take(out));
	(void)uv_pipe_open(&asker->said_pipe, fd_take(said));
	uv_poll_start(&asker->pidfd_poll, UV_READABLE, child_ended);
	(void)uv_read_start((uv_stream_t *)&asker->said_pipe, read_alloc, said_read);
	read_as_wanted(asker);
}

struct asker *asker_start(uv_loop_t *loop, const struct asker_params *params,
			  const struct asker_events *events, void *data, struct err *err)
{
	struct asker *asker = mem_zalloc(sizeof(*asker));
	int out[2] = {-1, -1}, said[2] = {-1, -1};
	bool started;

	asker->events = events;
	asker->data = data;
	asker->child.pidfd = -1;
	started = open_pipes(out, said, err) == 0 &&
		  start_child(asker, params, out[1], said[1], err) == 0;
	if (started)
		init_handles(asker, loop, &out[0], &said[0]);
	for (size_t i = 0; i < 2; i++) {
		if (out[i] >= 0)
			close(out[i]);
		if (said[i] >= 0)
			close(said[i]);
	}
	if (started)
		return asker;
	free(asker);
	return NULL;
}

void asker_cancel(struct asker *asker)
{
	if (asker->cancelled || asker->closed)
		return;
	asker->cancelled = true;
	send_signal(asker, SIGTERM);
	if (!asker->ended)
		uv_timer_start(&asker->timer, waited, ASKER_KILL_MS, 0);
}

void asker_drop(struct asker *asker)
{
	if (!asker || asker->closed)
		return;
	send_signal(asker, SIGKILL);
	close_all(asker);
}
