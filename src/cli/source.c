/*
 * Reading what is to be run. See source.h.
 *
 * Python reads a source file as UTF-8 unless it says otherwise; a cell's code is text already, so a
 * file in another encoding is refused with the line where that shows, rather than guessed at.
 */
#include "cli/source.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/say.h"

static const char BOM[] = "\xef\xbb\xbf";
enum { READ_BYTES = 64 << 10 };

void source_release(struct source *source)
{
	buf_release(&source->code);
	if (source->is_notebook)
		document_release(&source->document);
	free(source->directory);
	free(source->path);
	*source = (struct source)SOURCE_INIT;
}

static int read_stdin(struct buf *out, struct err *err)
{
	for (;;) {
		char *room = buf_reserve(out, READ_BYTES);
		ssize_t got = read(STDIN_FILENO, room, READ_BYTES);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "cannot read stdin");
		if (got == 0)
			return 0;
		buf_added(out, (size_t)got);
		if (out->len > SOURCE_CODE_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "the code has more than 16 MiB");
	}
}

/* Takes the BOM away and checks the rest. */
static int check_code(struct buf *code, const char *from, struct err *err)
{
	const char *bytes, *at, *end;
	size_t line = 1;

	if (code->len >= sizeof(BOM) - 1 && memcmp(buf_bytes(code), BOM, sizeof(BOM) - 1) == 0)
		buf_consume(code, sizeof(BOM) - 1);
	bytes = buf_bytes(code);
	if (text_is_utf8(bytes, code->len))
		return 0;
	for (at = bytes; (end = memchr(at, '\n', code->len - (size_t)(at - bytes))); at = end + 1) {
		if (!text_is_utf8(at, (size_t)(end - at)))
			break;
		line++;
	}
	return err_set(err, ERR_INVALID,
		       "%s is not UTF-8 (line %zu); convert it, for example with "
		       "iconv -t UTF-8",
		       from, line);
}

/* The folder a file lies in. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return mem_string(".");
	return slash == path ? mem_string("/") : mem_copy(path, (size_t)(slash - path));
}

static bool has_ending(const char *path, const char *ending)
{
	size_t len = strlen(path), ending_len = strlen(ending);

	return len > ending_len && strcasecmp(path + len - ending_len, ending) == 0;
}

bool source_is_notebook(const char *path)
{
	return has_ending(path, ".ipynb");
}

static void say_repairs(const char *path, const struct document_repairs *repairs)
{
	size_t shown =
		repairs->count < DOCUMENT_REPAIRS_SHOWN ? repairs->count : DOCUMENT_REPAIRS_SHOWN;

	if (repairs->count == 0)
		return;
	say("%s was repaired (%zu):", path, repairs->count);
	for (size_t i = 0; i < shown; i++)
		say("  %s", repairs->first[i]);
	if (repairs->count > shown)
		say("  and %zu more", repairs->count - shown);
}

static int read_document(const char *path, struct document *document, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	if (file_read(AT_FDCWD, path, DOCUMENT_BYTES_MAX, &bytes, err) != 0)
		return -1;
	if (document_read(buf_bytes(&bytes), bytes.len, document, err) != 0)
		return err_wrap(err, "%s", path);
	return 0;
}

/* Jupyter's server copies a notebook to .~NAME, overwrites it in place, and removes the copy: a
 * broken file with a copy beside it is a save that was killed. */
static int read_notebook(struct source *source, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	int folder_len = slash ? (int)(slash + 1 - path) : 0;
	cleanup_free char *copy = mem_format("%.*s.~%s", folder_len, path, path + folder_len);
	struct err why = ERR_INIT;

	if (read_document(path, &source->document, &why) != 0) {
		if (why.code != ERR_INVALID || read_document(copy, &source->document, NULL) != 0) {
			*err = why;
			return -1;
		}
		say("%s", why.text);
		say("Jupyter has left a whole copy, which is taken instead: %s", copy);
	}
	source->is_notebook = true;
	say_repairs(path, &source->document.repairs);
	return 0;
}

/* The file's folder is resolved, as that of a workspace is; the file itself may be a link. NULL:
 * the folder has gone meanwhile. */
static char *absolute(const char *directory, const char *path)
{
	cleanup_free char *folder = realpath(directory, NULL);
	const char *slash = strrchr(path, '/');

	if (!folder)
		return NULL;
	return mem_format("%s/%s", strcmp(folder, "/") == 0 ? "" : folder,
			  slash ? slash + 1 : path);
}

int source_read(struct source *source, const char *code, const char *path, struct err *err)
{
	if (code) {
		buf_append(&source->code, code, strlen(code));
		return check_code(&source->code, "the code of -c", err);
	}
	if (strcmp(path, "-") == 0) {
		source->is_stdin = true;
		return read_stdin(&source->code, err) == 0 ? check_code(&source->code, "stdin", err)
							   : -1;
	}
	source->directory = folder_of(path);
	if (source_is_notebook(path))
		return read_notebook(source, path, err);
	if (file_read(AT_FDCWD, path, SOURCE_CODE_BYTES_MAX, &source->code, err) != 0)
		return -1;
	source->path = absolute(source->directory, path);
	return check_code(&source->code, path, err);
}

bool source_skips(const struct document_cell *cell, const char *skip_tag)
{
	size_t blank = strspn(cell->source, " \t\r\n\f\v");

	return (blank == strlen(cell->source) && blank == cell->source_len) ||
	       document_has_tag(cell, skip_tag);
}
