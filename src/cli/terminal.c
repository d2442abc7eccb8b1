/*
 * A guest's bytes on a terminal. See terminal.h.
 *
 * Escaping is base/text's; here is what needs memory between two pieces of output: a sequence that
 * was cut in two (stream events hold at most 64 KiB), whether a colour is on, and where the cursor
 * is.
 */
#include "cli/terminal.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

enum { SEQUENCE_BYTES_MAX = 32 };

static const char RESET[] = "\033[0m";

void terminal_init(struct terminal *terminal, int fd)
{
	const char *term = getenv("TERM");

	*terminal =
		(struct terminal){.fd = fd, .line_start = true, .out = BUF_INIT, .held = BUF_INIT};
	terminal->tty = isatty(fd) == 1;
	terminal->colour = terminal->tty && term && strcmp(term, "dumb") != 0;
}

void terminal_release(struct terminal *terminal)
{
	buf_release(&terminal->out);
	buf_release(&terminal->held);
}

size_t terminal_unfinished(const char *text, size_t len)
{
	const char *esc = memrchr(text, '\033', len);
	size_t tail, at = 1;

	if (!esc)
		return 0;
	tail = len - (size_t)(esc - text);
	if (tail > SEQUENCE_BYTES_MAX)
		return 0;
	if (at < tail && esc[at++] != '[')
		return 0;
	while (at < tail && ((esc[at] >= '0' && esc[at] <= '9') || esc[at] == ';'))
		at++;
	return at == tail ? tail : 0;
}

static void note_position(struct terminal *terminal, const char *text, size_t len)
{
	if (len)
		terminal->line_start = text[len - 1] == '\n';
}

void terminal_guest(struct terminal *terminal, const char *text, size_t len)
{
	size_t held;

	if (!terminal->tty) {
		buf_append(&terminal->out, text, len);
		note_position(terminal, text, len);
		return;
	}
	buf_append(&terminal->held, text, len);
	held = terminal->colour
		       ? terminal_unfinished(buf_bytes(&terminal->held), terminal->held.len)
		       : 0;
	len = terminal->held.len - held;
	if (memchr(buf_bytes(&terminal->held), '\033', len))
		terminal->styled = terminal->colour;
	text_escape(&terminal->out, buf_bytes(&terminal->held), len, true, terminal->colour);
	note_position(terminal, buf_bytes(&terminal->held), len);
	buf_consume(&terminal->held, len);
}

/* The guest's turn is over. */
static void settle(struct terminal *terminal)
{
	if (terminal->held.len) {
		text_escape(&terminal->out, buf_bytes(&terminal->held), terminal->held.len, true,
			    false);
		terminal->line_start = false;
		buf_clear(&terminal->held);
	}
	if (terminal->styled)
		buf_append_string(&terminal->out, RESET);
	terminal->styled = false;
}

void terminal_own(struct terminal *terminal, const char *text, bool own_line)
{
	settle(terminal);
	if (own_line && !terminal->line_start)
		buf_append_char(&terminal->out, '\n');
	buf_append_string(&terminal->out, text);
	if (own_line)
		terminal->line_start = true;
	note_position(terminal, text, strlen(text));
}

int terminal_flush(struct terminal *terminal, struct err *err)
{
	int outcome;

	if (terminal->out.len == 0)
		return 0;
	outcome = file_write_all(terminal->fd, buf_bytes(&terminal->out), terminal->out.len, err);
	buf_clear(&terminal->out);
	return outcome;
}

int terminal_end(struct terminal *terminal, struct err *err)
{
	settle(terminal);
	return terminal_flush(terminal, err);
}
