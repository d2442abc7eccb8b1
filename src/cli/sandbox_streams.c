/*
 * Carrying bytes between descriptors. See sandbox_streams.h.
 *
 * Writes to our own stdout and stderr may block: what is slow there is a pipe, and those the
 * program has itself.
 */
#include "cli/sandbox_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { CARRY_BYTES = 64 << 10 };
enum { AT_STDIN, AT_INTO, AT_OUT, AT_ERR, AT_RESIZED };

/* --- making --------------------------------------------------------------------------------- */

static bool is_harmless(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)));
}

static int open_pipe(int ends[2], int ours, struct err *err)
{
	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_sys(err, "pipe");
	if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) != 0)
		return err_sys(err, "pipe");
	return 0;
}

static int open_pipes(struct sandbox_streams *streams, struct err *err)
{
	int ends[2];

	for (int fd = 0; fd < 3; fd++) {
		int ours = fd == STDIN_FILENO ? 1 : 0;

		streams->given[fd] = fd;
		if (is_harmless(fd))
			continue;
		if (open_pipe(ends, ours, err) != 0)
			return -1;
		if (fd == STDIN_FILENO)
			streams->into = ends[ours];
		else
			streams->outputs[fd - 1].from = ends[ours];
		streams->given[fd] = ends[!ours];
		streams->owned[fd] = true;
	}
	return 0;
}

/* The size of our own terminal, if we have one. */
static void copy_size(const struct sandbox_streams *streams)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		(void)ioctl(streams->master, TIOCSWINSZ, &size);
}

static int watch_size(struct sandbox_streams *streams, struct err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return err_sys(err, "cannot block signals");
	streams->resized = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return streams->resized < 0 ? err_sys(err, "cannot read signals") : 0;
}

static int open_terminal(struct sandbox_streams *streams, struct err *err)
{
	struct termios raw;
	char name[64];

	streams->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (streams->master < 0 || grantpt(streams->master) != 0 ||
	    unlockpt(streams->master) != 0 || ptsname_r(streams->master, name, sizeof(name)) != 0)
		return err_sys(err, "a terminal for the program");
	streams->given[0] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (streams->given[0] < 0)
		return err_sys(err, "a terminal for the program");
	streams->owned[0] = true;
	streams->given[1] = streams->given[2] = streams->given[0];
	copy_size(streams);
	if (tcgetattr(STDIN_FILENO, &streams->before) != 0)
		return 0; /* ours is none */
	raw = streams->before;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
		return err_sys(err, "the terminal");
	streams->is_raw = true;
	return watch_size(streams, err);
}

int streams_open(struct sandbox_streams *streams, bool terminal, struct err *err)
{
	*streams = (struct sandbox_streams)SANDBOX_STREAMS_INIT;
	for (int i = 0; i < 2; i++)
		terminal_init(&streams->outputs[i].to, i + 1);
	return terminal ? open_terminal(streams, err) : open_pipes(streams, err);
}

void streams_given(struct sandbox_streams *streams)
{
	for (int i = 0; i < 3; i++) {
		if (streams->owned[i])
			close(streams->given[i]);
		streams->owned[i] = false;
	}
}

static void end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void streams_close(struct sandbox_streams *streams)
{
	streams_given(streams);
	if (streams->is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &streams->before);
	end(&streams->into);
	end(&streams->master);
	end(&streams->resized);
	for (int i = 0; i < 2; i++) {
		end(&streams->outputs[i].from);
		terminal_release(&streams->outputs[i].to);
	}
	buf_release(&streams->input);
}

/* --- carrying ------------------------------------------------------------------------------- */

/* Where its stdin is written to. */
static int into(const struct sandbox_streams *streams)
{
	return streams->master >= 0 ? streams->master : streams->into;
}

void streams_poll(const struct sandbox_streams *streams, struct pollfd fds[static STREAMS_POLL])
{
	bool full = streams->input.len > 0;
	bool taken = into(streams) >= 0;

	for (int i = 0; i < STREAMS_POLL; i++)
		fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	if (taken && !full && !streams->stdin_ended)
		fds[AT_STDIN].fd = STDIN_FILENO;
	if (taken && full)
		fds[AT_INTO] = (struct pollfd){.fd = into(streams), .events = POLLOUT};
	fds[AT_OUT].fd = streams->master >= 0 ? streams->master : streams->outputs[0].from;
	fds[AT_ERR].fd = streams->outputs[1].from;
	fds[AT_RESIZED].fd = streams->resized;
}

static void read_input(struct sandbox_streams *streams)
{
	ssize_t size = read(STDIN_FILENO, buf_reserve(&streams->input, CARRY_BYTES), CARRY_BYTES);

	if (size > 0)
		buf_added(&streams->input, (size_t)size);
	else if (size == 0 || (errno != EAGAIN && errno != EINTR))
		streams->stdin_ended = true;
}

static void write_input(struct sandbox_streams *streams)
{
	ssize_t size = write(into(streams), buf_bytes(&streams->input), streams->input.len);

	if (size > 0) {
		buf_consume(&streams->input, (size_t)size);
	} else if (errno != EAGAIN && errno != EINTR) {
		/* Nobody reads it any more. */
		buf_clear(&streams->input);
		streams->stdin_ended = true;
	}
}

static int show(struct sandbox_output *output, const char *bytes, size_t len, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (!output->to.tty)
		return file_write_all(output->to.fd, bytes, len, err);
	text_decode(&output->decoder, &text, bytes, len);
	terminal_guest(&output->to, buf_bytes(&text), text.len);
	return terminal_flush(&output->to, err);
}

/* One piece: 1, or 0 when there is none now, or ever. */
static int carry_output(struct sandbox_output *output, struct err *err)
{
	char bytes[CARRY_BYTES];
	ssize_t size = read(output->from, bytes, sizeof(bytes));

	if (size > 0)
		return show(output, bytes, (size_t)size, err) == 0 ? 1 : -1;
	if (size == 0 || (errno != EAGAIN && errno != EINTR))
		end(&output->from);
	return 0;
}

static int carry_terminal(struct sandbox_streams *streams, struct err *err)
{
	char bytes[CARRY_BYTES];
	ssize_t size = read(streams->master, bytes, sizeof(bytes));

	if (size > 0)
		return file_write_all(STDOUT_FILENO, bytes, (size_t)size, err) == 0 ? 1 : -1;
	/* EIO: nobody has the other end any more. */
	if (size == 0 || (errno != EAGAIN && errno != EINTR))
		end(&streams->master);
	return 0;
}

static void take_size(const struct sandbox_streams *streams)
{
	struct signalfd_siginfo info;

	while (read(streams->resized, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	copy_size(streams);
}

int streams_carry(struct sandbox_streams *streams, const struct pollfd fds[static STREAMS_POLL],
		  struct err *err)
{
	if (fds[AT_STDIN].revents)
		read_input(streams);
	if (fds[AT_INTO].revents)
		write_input(streams);
	if (fds[AT_RESIZED].revents)
		take_size(streams);
	if (streams->stdin_ended && streams->input.len == 0)
		end(&streams->into);
	if (fds[AT_OUT].revents &&
	    (streams->master >= 0 ? carry_terminal(streams, err)
				  : carry_output(&streams->outputs[0], err)) < 0)
		return -1;
	return fds[AT_ERR].revents && carry_output(&streams->outputs[1], err) < 0 ? -1 : 0;
}

int streams_finish(struct sandbox_streams *streams, struct err *err)
{
	int more = 1;

	while (streams->master >= 0 && more > 0)
		more = carry_terminal(streams, err);
	for (int i = 0; i < 2 && more >= 0; i++) {
		struct sandbox_output *output = &streams->outputs[i];
		cleanup_buf struct buf rest = BUF_INIT;

		more = 1;
		while (output->from >= 0 && more > 0)
			more = carry_output(output, err);
		if (more < 0)
			break;
		text_decode_end(&output->decoder, &rest);
		terminal_guest(&output->to, buf_bytes(&rest), rest.len);
		more = terminal_end(&output->to, err);
	}
	return more < 0 ? -1 : 0;
}
