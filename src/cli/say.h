/*
 * What Fumehood itself says, always on stderr and always escaped: a message may quote a path or a
 * name that holds anything.
 */
#ifndef FH_CLI_SAY_H
#define FH_CLI_SAY_H

#include <fumehood.h>

#include "base/err.h"
#include "cli/command.h"

/* "fumehood: text" on stderr. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says the error and returns the exit status that belongs to it. */
int say_err(const struct err *err);

/* The same for an error of the client library. */
int say_error(const struct fh_error *error);

/* Says in one line what is wrong with the usage and shows the command's example. Returns
 * EXIT_USAGE. */
int say_usage(const struct command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Writes the command's help to stdout, and the name of its manual page. As say_out(). */
int say_help(const struct command *command);

/* Writes text to stdout; 0, or EXIT_FUMEHOOD after saying why it could not be written. */
int say_out(const char *text, size_t len);

/* Copies an error of the client library; `err` may be NULL. Returns -1. */
int say_take(struct err *err, const struct fh_error *error);

#endif
