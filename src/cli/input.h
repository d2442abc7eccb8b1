/*
 * Answers to input() and getpass(): lines of our own stdin.
 *
 * Stdin is read only while a prompt waits. On a terminal the prompt is shown and a password is
 * typed without echo; elsewhere each prompt takes the next line.
 */
#ifndef FH_CLI_INPUT_H
#define FH_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/buf.h"

enum { INPUT_LINE_BYTES_MAX = 1 << 20 };

struct input {
	int fd;
	bool tty;
	bool waiting; /* a prompt waits */
	bool hidden;  /* echo is off, `echo` has the old settings */
	bool ended;
	struct termios echo;
	struct buf held; /* read, not yet used */
	struct buf answer;
};

enum input_step { INPUT_NONE, INPUT_LINE, INPUT_END };

void input_init(struct input *input, int fd);
void input_release(struct input *input); /* also restores the echo */

/* A prompt begins; a password turns the echo off. */
void input_ask(struct input *input, bool password);

/* The prompt is over: answered here or by another client, or the cell has ended. */
void input_done(struct input *input);

/* Whether input_read() should be called when `fd` is readable. */
bool input_wants(const struct input *input);

/* Reads once; call it when `fd` is readable. */
void input_read(struct input *input);

/* The answer for the waiting prompt, if there is one: valid UTF-8 in input->answer, without its
 * LF. */
enum input_step input_next(struct input *input);

#endif
