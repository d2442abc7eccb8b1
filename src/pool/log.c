/*
 * The pool's log. A line is made whole before it is written, so that lines of a dying zygote, which
 * has other descriptors, can never be mixed into it. A log that cannot be written is no reason to
 * stop serving.
 */
#include "pool/log.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

void pool_log(const char *format, ...)
{
	char now[CLOCK_TEXT_SIZE];
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_buf struct buf line = BUF_INIT;
	va_list args;

	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	clock_format(clock_wall_us(), now);
	buf_printf(&line, "%s ", now);
	text_escape(&line, buf_bytes(&text), text.len, true, false);
	buf_append_char(&line, '\n');
	file_write_all(STDERR_FILENO, buf_bytes(&line), line.len, NULL);
}
