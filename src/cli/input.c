/*
 * Lines of stdin as answers. See input.h.
 *
 * A line longer than a mebibyte is given in pieces: whoever sends that is no person at a prompt.
 */
#include "cli/input.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

enum { READ_BYTES = 4096 };

void input_init(struct input *input, int fd)
{
	*input = (struct input){
		.fd = fd, .tty = isatty(fd) == 1, .held = BUF_INIT, .answer = BUF_INIT};
}

static void show_typing(struct input *input)
{
	if (input->hidden)
		tcsetattr(input->fd, TCSADRAIN, &input->echo);
	input->hidden = false;
}

void input_release(struct input *input)
{
	show_typing(input);
	buf_release(&input->held);
	buf_release(&input->answer);
}

void input_ask(struct input *input, bool password)
{
	struct termios silent;

	input->waiting = true;
	if (!password || !input->tty || input->hidden || tcgetattr(input->fd, &input->echo) != 0)
		return;
	silent = input->echo;
	silent.c_lflag &= ~(tcflag_t)ECHO;
	silent.c_lflag |= ECHONL; /* the cursor goes on to the next line all the same */
	if (tcsetattr(input->fd, TCSAFLUSH, &silent) == 0)
		input->hidden = true;
}

void input_done(struct input *input)
{
	input->waiting = false;
	show_typing(input);
}

bool input_wants(const struct input *input)
{
	return input->waiting && !input->ended;
}

void input_read(struct input *input)
{
	char *room = buf_reserve(&input->held, READ_BYTES);
	ssize_t got = read(input->fd, room, READ_BYTES);

	if (got > 0)
		buf_added(&input->held, (size_t)got);
	else if (got == 0 || (errno != EINTR && errno != EAGAIN))
		input->ended = true;
}

enum input_step input_next(struct input *input)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	const char *bytes = buf_bytes(&input->held);
	const char *end = memchr(bytes, '\n', input->held.len);
	size_t len, used;

	if (!input->waiting)
		return INPUT_NONE;
	if (!end && input->held.len == 0 && input->ended) {
		/* On a terminal Ctrl-D ends one answer, not the terminal. */
		input->ended = !input->tty;
		return INPUT_END;
	}
	if (!end && !input->ended && input->held.len < INPUT_LINE_BYTES_MAX)
		return INPUT_NONE;
	len = end ? (size_t)(end - bytes) : input->held.len;
	used = end ? len + 1 : len;
	if (end && len && bytes[len - 1] == '\r')
		len--;
	buf_clear(&input->answer);
	text_decode(&decoder, &input->answer, bytes, len);
	text_decode_end(&decoder, &input->answer);
	buf_consume(&input->held, used);
	return INPUT_LINE;
}
