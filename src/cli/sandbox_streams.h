/*
 * The streams of a program in a box, for `fumehood sandbox run`.
 *
 * Only pipes and the null device are handed in as they are. A terminal would let the program write
 * whatever it likes there; a file or a directory that a shell has opened for us would be a way to
 * open it again, or what lies beside it, with other rights. So between those and the program stands
 * a pipe, and this process carries: to a terminal as terminal.h shows a guest's bytes, elsewhere
 * unchanged.
 *
 * With a terminal of its own (--tty) the program gets a pseudoterminal, and nothing is looked at.
 */
#ifndef FH_CLI_SANDBOX_STREAMS_H
#define FH_CLI_SANDBOX_STREAMS_H

#include <poll.h>
#include <stdbool.h>
#include <termios.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/terminal.h"

/* One that the program writes. */
struct sandbox_output {
	int from; /* our end; -1: nothing to carry */
	struct text_decoder decoder;
	struct terminal to;
};

struct sandbox_streams {
	int given[3]; /* what the program gets; ours until streams_given() */
	bool owned[3];
	struct sandbox_output outputs[2];
	struct buf input; /* read from stdin, not taken yet */
	int into;         /* our end of its stdin; -1: nothing to carry */
	bool stdin_ended;
	/* with a terminal */
	int master;  /* -1: none */
	int resized; /* signalfd for SIGWINCH; -1: none */
	bool is_raw; /* our own terminal, which was `before` */
	struct termios before;
};

#define SANDBOX_STREAMS_INIT \
	{ \
		.given = {-1, -1, -1}, .outputs = {{.from = -1}, {.from = -1}}, .into = -1, \
		.master = -1, .resized = -1 \
	}

enum { STREAMS_POLL = 5 };

/* Makes them. The caller closes *streams also after a failure. */
int streams_open(struct sandbox_streams *streams, bool terminal, struct err *err);
void streams_close(struct sandbox_streams *streams);
#define cleanup_streams __attribute__((cleanup(streams_close)))

/* The program has its ends: ours of them are closed. */
void streams_given(struct sandbox_streams *streams);

/* Fills what is to be waited for; fd -1 for what is not. */
void streams_poll(const struct sandbox_streams *streams, struct pollfd fds[static STREAMS_POLL]);

/* Carries what can be carried now. -1 when our stdout or stderr cannot be written. */
int streams_carry(struct sandbox_streams *streams, const struct pollfd fds[static STREAMS_POLL],
		  struct err *err);

/* Everything in the box has ended: carries the rest. */
int streams_finish(struct sandbox_streams *streams, struct err *err);

#endif
