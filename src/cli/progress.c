/*
 * The progress line. See progress.h.
 */
#include "cli/progress.h"

#include "base/clock.h"
#include "base/file.h"

enum { BAR_WIDTH = 24 };

void progress_init(struct progress *progress, struct terminal *to, size_t count)
{
	*progress = (struct progress){.to = to && to->colour ? to : NULL, .count = count};
}

void progress_begin(struct progress *progress, size_t index)
{
	progress->done = index;
	progress->since_us = clock_monotonic_us();
	progress_draw(progress);
}

void progress_text(size_t done, size_t count, int64_t cell_us, struct buf *out)
{
	size_t filled = count > 0 ? BAR_WIDTH * done / count : 0;

	buf_append_char(out, '[');
	for (size_t i = 0; i < BAR_WIDTH; i++)
		buf_append_char(out, i < filled ? '=' : i == filled ? '>' : ' ');
	buf_printf(out, "] cell %zu of %zu, %.1f s", done + 1, count, (double)cell_us / 1e6);
}

/* Past the terminal's buffer, which is empty at a draw, and to which what is gathered after it is
 * to come behind an erase. */
static void put(const struct progress *progress, const struct buf *text)
{
	/* A failure shows when output is written. */
	(void)file_write_all(progress->to->fd, buf_bytes(text), text->len, NULL);
}

void progress_draw(struct progress *progress)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (!progress->to || !progress->to->line_start || progress->to->out.len > 0)
		return;
	buf_append_string(&text, "\r\033[K");
	progress_text(progress->done, progress->count, clock_monotonic_us() - progress->since_us,
		      &text);
	put(progress, &text);
	progress->shown = true;
}

void progress_erase(struct progress *progress)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (!progress->shown)
		return;
	buf_append_string(&text, "\r\033[K");
	put(progress, &text);
	progress->shown = false;
}
