/*
 * Descriptions of workspace and variables. See describe.h.
 *
 * Names and beginnings of files are foreign: control characters in names are escaped, and a file
 * that is not text to its first kilobyte's end has no beginning that is shown.
 */
#include "agent/describe.h"

#include <string.h>

#include "base/text.h"

enum { KILO = 1000, NAME_CHARS = 100, REPR_CHARS = 80 };

static void write_size(struct buf *out, uint64_t bytes)
{
	static const char *const units[] = {"KB", "MB", "GB", "TB"};
	double size = (double)bytes;
	size_t unit = 0;

	if (bytes < KILO) {
		buf_printf(out, "%u bytes", (unsigned)bytes);
		return;
	}
	for (size /= KILO; size >= KILO && unit < 3; unit++)
		size /= KILO;
	buf_printf(out, size < 10 ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

/* How much of the beginning is text: whole code points, without NUL and other controls. */
static bool is_text(const char *head, size_t *len)
{
	size_t end = *len;

	for (size_t i = 0; i < end; i++)
		if ((unsigned char)head[i] < ' ' && (!head[i] || !strchr("\t\r\n\f", head[i])))
			return false;
	for (unsigned cut = 0; cut < 4 && end > 0; cut++, end--)
		if (text_is_utf8(head, end)) {
			*len = end;
			return true;
		}
	return end == 0;
}

static void write_head(struct buf *out, const struct describe_file *file)
{
	const char *at = file->head;
	size_t len = file->head_len;
	const char *end;

	if (!at || !len || !is_text(at, &len))
		return;
	end = at + len;
	for (unsigned i = 0; i < DESCRIBE_LINES_MAX && at < end; i++) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		size_t line = (size_t)((lf ? lf : end) - at), shown;

		while (line > 0 && at[line - 1] == '\r')
			line--;
		shown = text_prefix(at, line, DESCRIBE_LINE_CHARS);
		buf_append_string(out, "    ");
		buf_append(out, at, shown);
		buf_append_string(out, shown < line ? "...\n" : "\n");
		at = lf ? lf + 1 : end;
	}
	if (at < end || file->head_len < file->bytes)
		buf_append_string(out, "    ...\n");
}

static void write_name(struct buf *out, const char *name)
{
	text_escape(out, name, text_prefix(name, strlen(name), NAME_CHARS), false, false);
}

static void write_file(struct buf *out, const struct describe_file *file, bool head)
{
	size_t before;

	buf_append_string(out, "- ");
	write_name(out, file->name);
	if (file->folder) {
		buf_append_string(out, "/\n");
		return;
	}
	buf_append_string(out, " (");
	write_size(out, file->bytes);
	buf_append_string(out, ")");
	before = out->len;
	buf_append_string(out, ":\n");
	if (head)
		write_head(out, file);
	if (out->len == before + 2) {
		buf_truncate(out, before);
		buf_append_char(out, '\n');
	}
}

void describe_files(struct buf *out, const struct describe_file *files, size_t count, size_t more,
		    size_t bytes_max)
{
	size_t begin = out->len;

	if (count == 0)
		return;
	buf_append_string(out, "Files in the current folder:\n");
	for (size_t i = 0; i < count; i++) {
		size_t before = out->len;

		write_file(out, &files[i], true);
		if (out->len - begin <= bytes_max)
			continue;
		buf_truncate(out, before);
		write_file(out, &files[i], false);
		if (out->len - begin <= bytes_max)
			continue;
		buf_truncate(out, before);
		more += count - i;
		break;
	}
	if (more)
		buf_printf(out, "- and %zu more\n", more);
	buf_append_char(out, '\n');
}

void describe_names(struct buf *out, const struct describe_file *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (i)
			buf_append_string(out, ", ");
		write_name(out, files[i].name);
	}
}

/* "(5, 3)" of a data frame, "12" of a list; from the answer's own member. */
static void write_extent(struct buf *out, const struct json *variable)
{
	const struct json *shape = json_get(variable, "shape");

	if (shape) {
		buf_append_char(out, ' ');
		json_write(out, shape);
	} else if (json_has(variable, "length")) {
		buf_printf(out, " of %lld", (long long)json_get_int(variable, "length", 0));
	}
}

void describe_variables(struct buf *out, const struct json *answer, size_t bytes_max)
{
	const struct json *variables = json_get(answer, "variables");
	size_t begin = out->len;

	if (json_length(variables) == 0)
		return;
	buf_append_string(out, "Variables that exist already and can be used:\n");
	for (size_t i = 0; i < json_length(variables); i++) {
		const struct json *one = json_at(variables, i);
		const char *name = json_get_string(one, "name");
		const char *type = json_get_string(one, "type");
		const char *repr = json_get_string(one, "repr");
		size_t before = out->len, shown = 0;

		if (!name || !type)
			continue;
		buf_printf(out, "- %s: %s", name, type);
		write_extent(out, one);
		if (repr && !strchr(repr, '\n')) {
			shown = text_prefix(repr, strlen(repr), REPR_CHARS);
			buf_append_string(out, " = ");
			buf_append(out, repr, shown);
			if (repr[shown])
				buf_append_string(out, "...");
		}
		buf_append_char(out, '\n');
		if (out->len - begin > bytes_max) {
			buf_truncate(out, before);
			buf_append_string(out, "- and others\n");
			break;
		}
	}
	buf_append_char(out, '\n');
}
