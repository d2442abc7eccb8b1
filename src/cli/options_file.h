/*
 * Options from a file: words each ended by a NUL byte, as `printf '--expect=%s\0' 42` writes them.
 *
 * What stands on a command line can be read by every user of the machine (/proc/PID/cmdline). Who
 * starts a program for somebody else hands it the words in a file without a name (memfd_create(2))
 * instead, as --options=/proc/self/fd/3. NUL, because no word can have one: paths are bytes, which
 * JSON could not carry.
 */
#ifndef FH_CLI_OPTIONS_FILE_H
#define FH_CLI_OPTIONS_FILE_H

#include <stddef.h>

#include "base/err.h"

enum {
	OPTIONS_FILE_BYTES_MAX = 16 << 20,
	OPTIONS_FILE_WORDS_MAX = 256,
};

/* A command line with the words of a file in it. */
struct options_file {
	char *bytes; /* what argv points into; owned */
	char **argv; /* NULL-terminated; the array is owned */
	int argc;
};

#define OPTIONS_FILE_INIT \
	{ \
		.bytes = NULL, .argv = NULL, .argc = 0 \
	}

/*
 * The command line argv[0..argc-1] (borrowed as long as *file) with the words of `bytes` between
 * argv[0] and the rest. Each word is a long option: "--name=value" or "--name". ERR_USAGE
 * otherwise, and when the last word is not ended or there are too many. Pure. The caller releases
 * *file, also after failure.
 */
int options_file_split(struct options_file *file, const char *bytes, size_t len, int argc,
		       char **argv, struct err *err);

/* The same of the file at `path`; also the errors of file_read(). */
int options_file_read(struct options_file *file, const char *path, int argc, char **argv,
		      struct err *err);

void options_file_release(struct options_file *file);
#define cleanup_options_file __attribute__((cleanup(options_file_release)))

#endif
