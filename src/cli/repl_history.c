/*
 * The file of the history. See repl_history.h.
 *
 * A line is appended by one write(2) to a file opened with O_APPEND: two repls never mix within a
 * line, and a torn line is at most the last one, which the next reader leaves out.
 */
#include "cli/repl_history.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

void repl_history_release(struct repl_history *history)
{
	if (history->fd >= 0)
		close(history->fd);
	for (size_t i = 0; i < history->count; i++)
		free(history->entries[i]);
	free(history->entries);
	*history = (struct repl_history)REPL_HISTORY_INIT;
}

/* The text is taken. */
static void keep(struct repl_history *history, char *text)
{
	history->entries =
		mem_resize(history->entries, history->count + 1, sizeof(*history->entries));
	history->entries[history->count++] = text;
}

static void forget(struct repl_history *history, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(history->entries[i]);
	history->count -= count;
	memmove(history->entries, history->entries + count,
		history->count * sizeof(*history->entries));
}

static void read_line(struct repl_history *history, const char *line, size_t len)
{
	cleanup_json struct json *entry = json_parse(line, len, &JSON_LIMITS, NULL);
	size_t text_len = 0;
	const char *text = json_string(entry, &text_len);

	if (text && text_len && !memchr(text, '\0', text_len))
		keep(history, mem_copy(text, text_len));
}

/* Returns how many lines there were. */
static size_t read_lines(struct repl_history *history, const struct buf *bytes)
{
	const char *at = buf_bytes(bytes), *end = at + bytes->len;
	size_t lines = 0;

	while (at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));

		if (!lf)
			lf = end;
		read_line(history, at, (size_t)(lf - at));
		lines++;
		at = lf < end ? lf + 1 : end;
	}
	return lines;
}

static void write_entry(struct buf *out, const char *text)
{
	json_write_string(out, text, strlen(text));
	buf_append_char(out, '\n');
}

int repl_history_open(struct repl_history *history, int dirfd, const char *name, struct err *err)
{
	static const int flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	cleanup_buf struct buf bytes = BUF_INIT;
	cleanup_fd int fd = openat(dirfd, name, flags, 0600);
	size_t lines;

	*history = (struct repl_history)REPL_HISTORY_INIT;
	if (fd < 0)
		return err_sys(err, "cannot open the history %s", name);
	if (file_read(dirfd, name, HISTORY_FILE_BYTES_MAX, &bytes, err) != 0)
		return err_wrap(err, "the history");
	lines = read_lines(history, &bytes);
	if (history->count > HISTORY_ENTRIES_MAX)
		forget(history, history->count - HISTORY_ENTRIES_MAX);
	if (lines > 2 * HISTORY_ENTRIES_MAX || bytes.len > HISTORY_FILE_BYTES_MAX / 2) {
		buf_clear(&bytes);
		for (size_t i = 0; i < history->count; i++)
			write_entry(&bytes, history->entries[i]);
		if (file_replace(dirfd, name, buf_bytes(&bytes), bytes.len, 0600, err) != 0)
			return err_wrap(err, "the history");
		close(fd);
		fd = openat(dirfd, name, flags, 0600);
		if (fd < 0)
			return err_sys(err, "cannot open the history %s", name);
	}
	history->fd = fd_take(&fd);
	return 0;
}

int repl_history_add(struct repl_history *history, const char *text, size_t len, struct err *err)
{
	cleanup_buf struct buf line = BUF_INIT;
	cleanup_free char *entry = NULL;

	while (len && text[len - 1] == '\n')
		len--;
	if (len == 0 || len > HISTORY_ENTRY_BYTES_MAX || memchr(text, '\0', len))
		return 0;
	entry = mem_copy(text, len);
	if (history->count && strcmp(history->entries[history->count - 1], entry) == 0)
		return 0;
	write_entry(&line, entry);
	keep(history, mem_take(entry));
	if (history->count > HISTORY_ENTRIES_MAX)
		forget(history, 1);
	if (history->fd < 0 || file_write_all(history->fd, buf_bytes(&line), line.len, err) == 0)
		return 1;
	return err_wrap(err, "the history");
}
