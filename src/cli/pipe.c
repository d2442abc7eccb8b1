/*
 * fumehood pipe: the session protocol on stdin and stdout.
 *
 * Lines are relayed both ways as they are. Of our own there is a subscription to all events at the
 * start, and at the end of stdin a `stop` that finishes the queue first (for a session that lives
 * on: a wait until it is idle). Their answers are kept back by the filter in relay.c.
 *
 * Backpressure: each direction holds at most about 64 KiB and reads only when that is written, so a
 * client that stops reading stops nothing but itself: the keeper goes on into its journal. Neither
 * direction waits in a blocking call while the other could move.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/relay.h"
#include "cli/say.h"
#include "cli/signals.h"

enum { CHUNK_BYTES = 64 << 10 };

struct pipe {
	int keeper_fd;
	int signal_fd;
	bool lives_on;
	size_t write_max; /* what stdout takes without blocking when poll says it is ready */
	struct buf up;    /* stdin to keeper */
	struct buf down;  /* keeper to stdout */
	struct relay relay;
	bool line_open; /* the last byte from stdin was no LF */
	bool stdin_ended;
	bool asked; /* the last own request was sent */
	bool keeper_ended;
	int signal;
};

static void pipe_release(struct pipe *pipe)
{
	buf_release(&pipe->up);
	buf_release(&pipe->down);
	relay_release(&pipe->relay);
}

/* A pipe that polls as writable has room for PIPE_BUF bytes; a write of more could block. */
static size_t write_max(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) ? PIPE_BUF : CHUNK_BYTES;
}

static void read_stdin(struct pipe *pipe)
{
	char *room = buf_reserve(&pipe->up, CHUNK_BYTES);
	ssize_t got = read(STDIN_FILENO, room, CHUNK_BYTES);

	if (got > 0) {
		pipe->line_open = room[got - 1] != '\n';
		buf_added(&pipe->up, (size_t)got);
		return;
	}
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	pipe->stdin_ended = true;
	if (pipe->line_open)
		buf_append_char(&pipe->up, '\n');
}

/*
 * After the end of stdin: finish, then stop; or wait until a session that lives on has nothing to
 * do. Nobody is left to answer prompts, so each gets the end of file (refused, and kept back, when
 * none waits any more).
 */
static void ask_for_end(struct pipe *pipe)
{
	if (!pipe->stdin_ended)
		return;
	if (pipe->relay.prompted) {
		pipe->relay.prompted = false;
		buf_append_string(&pipe->up,
				  "{\"op\":\"input\",\"id\":\"" RELAY_ID "input\",\"eof\":true}\n");
	}
	if (pipe->asked)
		return;
	pipe->asked = true;
	pipe->relay.finished = false;
	buf_append_string(&pipe->up, pipe->lives_on ? "{\"op\":\"status\",\"id\":\"" RELAY_ID
						      "status\"}\n"
						    : "{\"op\":\"stop\",\"id\":\"" RELAY_ID
						      "stop\",\"mode\":\"drain\"}\n");
}

static int read_keeper(struct pipe *pipe, struct err *err)
{
	char chunk[CHUNK_BYTES];
	ssize_t got = recv(pipe->keeper_fd, chunk, sizeof(chunk), MSG_DONTWAIT);

	if (got > 0) {
		relay_feed(&pipe->relay, chunk, (size_t)got, &pipe->down);
		return 0;
	}
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < 0 && errno != ECONNRESET)
		return err_sys(err, "cannot read from the keeper");
	pipe->keeper_ended = true;
	return 0;
}

static int write_keeper(struct pipe *pipe, struct err *err)
{
	ssize_t sent = send(pipe->keeper_fd, buf_bytes(&pipe->up), pipe->up.len,
			    MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0) {
		buf_consume(&pipe->up, (size_t)sent);
		return 0;
	}
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	if (errno != EPIPE && errno != ECONNRESET)
		return err_sys(err, "cannot send to the keeper");
	buf_clear(&pipe->up); /* its end is seen, and said, by reading */
	pipe->stdin_ended = true;
	pipe->asked = true;
	return 0;
}

static int write_stdout(struct pipe *pipe, struct err *err)
{
	size_t len = pipe->down.len < pipe->write_max ? pipe->down.len : pipe->write_max;
	ssize_t put = write(STDOUT_FILENO, buf_bytes(&pipe->down), len);

	if (put >= 0) {
		buf_consume(&pipe->down, (size_t)put);
		return 0;
	}
	return errno == EAGAIN || errno == EINTR ? 0 : err_sys(err, "stdout");
}

/* One turn: waits, then moves what can be moved. */
static int turn(struct pipe *pipe, struct err *err)
{
	bool want_stdin = !pipe->stdin_ended && pipe->up.len == 0;
	bool want_keeper = !pipe->keeper_ended && pipe->down.len < CHUNK_BYTES;
	struct pollfd fds[4] = {
		{.fd = want_stdin ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = pipe->keeper_ended ? -1 : pipe->keeper_fd,
		 .events = (short)((want_keeper ? POLLIN : 0) | (pipe->up.len ? POLLOUT : 0))},
		{.fd = pipe->down.len ? STDOUT_FILENO : -1, .events = POLLOUT},
		{.fd = pipe->signal_fd, .events = POLLIN},
	};

	if (!want_keeper && !pipe->up.len)
		fds[1].fd = -1; /* a hang-up would be told again and again */
	if (poll(fds, 4, -1) < 0)
		return errno == EINTR ? 0 : err_sys(err, "poll");
	if (fds[3].revents)
		pipe->signal = signals_next(pipe->signal_fd);
	if (fds[0].revents)
		read_stdin(pipe);
	if (fds[1].revents && want_keeper && read_keeper(pipe, err) != 0)
		return -1;
	ask_for_end(pipe);
	if (pipe->up.len && !pipe->keeper_ended && write_keeper(pipe, err) != 0)
		return -1;
	if (fds[2].revents && write_stdout(pipe, err) != 0)
		return -1;
	return 0;
}

/* Relays until the keeper has closed, or a session that lives on is idle, and all of it is
 * written. */
static int relay_all(struct pipe *pipe, struct err *err)
{
	for (;;) {
		bool done = pipe->keeper_ended || pipe->relay.idle;

		if (pipe->signal || (done && pipe->down.len == 0))
			return 0;
		/* Still busy: ask again when the next cell has finished. */
		if (pipe->relay.busy && pipe->relay.finished) {
			pipe->relay.busy = false;
			pipe->asked = false;
			ask_for_end(pipe);
		}
		if (turn(pipe, err) != 0)
			return -1;
	}
}

/* The keeper's hello to stdout, our subscription to the keeper. */
static void prepare(struct pipe *pipe, const struct begin *begin, int signal_fd)
{
	uint64_t since = begin->created ? 0 : fh_hello_seq(begin->session);

	*pipe = (struct pipe){.keeper_fd = fh_fd(begin->session),
			      .signal_fd = signal_fd,
			      .lives_on = begin->end == BEGIN_LEAVE_RUNNING,
			      .write_max = write_max(STDOUT_FILENO),
			      .up = BUF_INIT,
			      .down = BUF_INIT,
			      .relay = RELAY_INIT};
	buf_append_string(&pipe->down, fh_hello(begin->session));
	buf_append_char(&pipe->down, '\n');
	buf_printf(&pipe->up,
		   "{\"op\":\"events\",\"id\":\"" RELAY_ID
		   "events\",\"since\":%llu,\"follow\":true}\n",
		   (unsigned long long)since);
}

/* A session that could not begin is refused on stdout too: that is where the client listens. */
static int refuse(const struct err *err)
{
	cleanup_json struct json *line = json_new_object();
	cleanup_buf struct buf text = BUF_INIT;

	json_set_string(line, "type", "refused");
	json_set(line, "id", NULL);
	json_set_string(line, "code", err_name(err->code));
	json_set(line, "message", json_new_string(err->text, strlen(err->text)));
	json_write(&text, line);
	buf_append_char(&text, '\n');
	say_out(buf_bytes(&text), text.len);
	return say_err(err);
}

static int run_pipe(const struct begin_options *begin_options)
{
	__attribute__((cleanup(pipe_release))) struct pipe pipe = {
		.up = BUF_INIT, .down = BUF_INIT, .relay = RELAY_INIT};
	struct begin begin = BEGIN_INIT;
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	int outcome;

	if (signal_fd < 0)
		return say_err(&err);
	if (begin_session(&begin, begin_options, ".", NULL, signal_fd, &err) != 0) {
		int signal_number = err.code == ERR_GONE ? signals_next(signal_fd) : 0;

		if (signal_number)
			signals_die(signal_number);
		return refuse(&err);
	}
	begin_say_tier(&begin, begin_options);
	prepare(&pipe, &begin, signal_fd);
	outcome = relay_all(&pipe, &err);
	begin_finish(&begin, pipe.keeper_ended);
	if (outcome != 0 && err.sys == EPIPE)
		signals_die(SIGPIPE);
	if (outcome != 0)
		return say_err(&err);
	if (pipe.signal)
		signals_die(pipe.signal);
	if (pipe.keeper_ended && !pipe.relay.stopped) {
		say("the keeper ended without a word; fumehood doctor may know why");
		return EXIT_FUMEHOOD;
	}
	return 0;
}

static int command_pipe(const struct command *command, int argc, char **argv)
{
	struct begin_options begin_options = {.timeout_is_limit = true,
					      .policy = POLICY_OPTIONS_INIT};
	const struct option table[] = {BEGIN_OPTION_ROWS(begin_options)};
	cleanup_options struct options options = {.words = NULL};
	struct err err = ERR_INIT;

	if (options_read(&options, table, sizeof(table) / sizeof(table[0]), argc, argv, &err) != 0)
		return say_usage(command, "%s", err.text);
	if (options.help)
		return say_help(command);
	if (options.word_count)
		return say_usage(command, "pipe takes no arguments: requests come on stdin");
	return run_pipe(&begin_options);
}

const struct command COMMAND_PIPE = {
	.name = "pipe",
	.summary = "speak the session protocol on stdin and stdout",
	.example = "echo '{\"op\":\"run\",\"code\":\"1 + 1\"}' | fumehood pipe",
	.help = "Usage: fumehood pipe [options]\n"
		"\n"
		"Starts a session that works in the current directory, takes requests on stdin and "
		"prints\n"
		"answers and events on stdout: one JSON object a line, as doc/protocol.md "
		"describes.\n"
		"At the end of stdin the queue is finished and the session stopped and removed.\n"
		"\n"
		"  echo '{\"op\":\"run\",\"code\":\"1 + 1\"}' | fumehood pipe\n"
		"  fumehood pipe -w /srv/data:ro -t 60          a folder to read, a minute a cell\n"
		"  fumehood pipe -s work                        a session that lives on\n"
		"\n"
		"Options:\n" BEGIN_OPTION_HELP "\n" POLICY_OPTION_HELP "\n",
	.help_end = "Events are subscribed to by itself. Ids that begin with \"" RELAY_ID
		    "\" are reserved.\n"
		    "\n"
		    "Exit status: 0, 2 for wrong usage, 125 if Fumehood itself failed.\n",
	.run = command_pipe,
};
