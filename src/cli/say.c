/*
 * Messages on stderr. See say.h.
 */
#include "cli/say.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"

static void say_line(const char *start, const char *text, size_t len)
{
	cleanup_buf struct buf out = BUF_INIT;

	buf_append_string(&out, start);
	text_escape(&out, text, len, false, false);
	buf_append_char(&out, '\n');
	(void)file_write_all(STDERR_FILENO, buf_bytes(&out), out.len, NULL);
}

void say(const char *format, ...)
{
	cleanup_buf struct buf text = BUF_INIT;
	va_list args;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	say_line("fumehood: ", buf_bytes(&text), text.len);
}

int say_err(const struct err *err)
{
	say("%s", err->text);
	return err_exit_status(err->code);
}

int say_help(const struct command *command)
{
	cleanup_buf struct buf out = BUF_INIT;

	buf_printf(&out, "%s%s\nman fumehood-%s says more.\n", command->help,
		   command->help_end ? command->help_end : "", command->name);
	return say_out(buf_bytes(&out), out.len);
}

int say_take(struct err *err, const struct fh_error *error)
{
	err_set(err, (enum err_code)error->code, "%s", error->text);
	if (err)
		err->sys = error->sys;
	return -1;
}

int say_error(const struct fh_error *error)
{
	struct err err = ERR_INIT;

	say_take(&err, error);
	return say_err(&err);
}

int say_usage(const struct command *command, const char *format, ...)
{
	cleanup_buf struct buf text = BUF_INIT;
	va_list args;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	if (strcmp(command->name, "help") != 0)
		buf_printf(&text, " (fumehood help %s)", command->name);
	say_line("fumehood: ", buf_bytes(&text), text.len);
	say_line("    ", command->example, strlen(command->example));
	return EXIT_USAGE;
}

int say_out(const char *text, size_t len)
{
	struct err err = ERR_INIT;

	if (file_write_all(STDOUT_FILENO, text, len, &err) == 0)
		return 0;
	if (err.sys == EPIPE)
		raise(SIGPIPE);
	err_wrap(&err, "stdout");
	return say_err(&err);
}
