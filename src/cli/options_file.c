/*
 * Options from a file. See options_file.h.
 *
 * Only long options with their values behind '=' are taken: then no word of the file can be meant
 * for something else, such as the instruction, whatever a value is.
 */
#include "cli/options_file.h"

#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

void options_file_release(struct options_file *file)
{
	free(file->bytes);
	free(file->argv);
	*file = (struct options_file)OPTIONS_FILE_INIT;
}

static int check_word(const char *word, size_t number, struct err *err)
{
	if (strncmp(word, "--", 2) != 0 || word[2] == '\0' || word[2] == '=')
		return err_set(err, ERR_USAGE,
			       "word %zu of the file of --options is no long option: write "
			       "--name=value, and a NUL byte behind it",
			       number);
	return 0;
}

int options_file_split(struct options_file *file, const char *bytes, size_t len, int argc,
		       char **argv, struct err *err)
{
	size_t count = 0, at = 0;
	int begin = argc > 0;

	*file = (struct options_file)OPTIONS_FILE_INIT;
	if (len > 0 && bytes[len - 1] != '\0')
		return err_set(err, ERR_USAGE,
			       "the file of --options does not end with a NUL byte: each word has "
			       "one behind it");
	for (size_t i = 0; i < len; i++)
		count += bytes[i] == '\0';
	if (count > OPTIONS_FILE_WORDS_MAX)
		return err_set(err, ERR_USAGE, "the file of --options has more than %d words",
			       OPTIONS_FILE_WORDS_MAX);
	file->bytes = mem_copy(bytes, len);
	file->argv = mem_zalloc(((size_t)argc + count + 1) * sizeof(*file->argv));
	if (begin)
		file->argv[file->argc++] = argv[0];
	for (size_t i = 0; i < count; i++, at += strlen(file->bytes + at) + 1) {
		if (check_word(file->bytes + at, i + 1, err) != 0)
			return -1;
		file->argv[file->argc++] = file->bytes + at;
	}
	for (int i = begin; i < argc; i++)
		file->argv[file->argc++] = argv[i];
	return 0;
}

int options_file_read(struct options_file *file, const char *path, int argc, char **argv,
		      struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	*file = (struct options_file)OPTIONS_FILE_INIT;
	if (file_read(AT_FDCWD, path, OPTIONS_FILE_BYTES_MAX, &bytes, err) != 0)
		return err_wrap(err, "--options");
	return options_file_split(file, buf_bytes(&bytes), bytes.len, argc, argv, err);
}
