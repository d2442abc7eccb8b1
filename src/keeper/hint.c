/*
 * The kernel tells the code itself, by an errno, when a process has too many files or a file
 * becomes too large. Python prints it as "[Errno 24]". EAGAIN has other meanings, too; it counts
 * only where the traceback shows that something was to be started.
 */
#include "keeper/hint.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *message;
	const char *traceback; /* must be in it too; NULL: need not */
	const char *limit;
} HINTS[] = {
	{"[Errno 27]", NULL, "file_bytes"},   {"[Errno 24]", NULL, "files"},
	{"[Errno 28]", NULL, "tmp_bytes"},    {"can't start new thread", NULL, "processes"},
	{"[Errno 11]", "fork", "processes"},  {"[Errno 11]", "spawn", "processes"},
	{"[Errno 11]", "Popen", "processes"},
};

static bool traceback_has(const struct json *error, const char *word)
{
	const struct json *lines = json_get(error, "traceback");

	for (size_t i = 0; i < json_length(lines); i++) {
		const char *line = json_string(json_at(lines, i), NULL);

		if (line && strstr(line, word))
			return true;
	}
	return false;
}

const char *hint_of_error(const struct json *error)
{
	const char *message = json_get_string(error, "evalue");

	for (size_t i = 0; message && i < sizeof(HINTS) / sizeof(*HINTS); i++)
		if (strstr(message, HINTS[i].message) &&
		    (!HINTS[i].traceback || traceback_has(error, HINTS[i].traceback)))
			return HINTS[i].limit;
	return NULL;
}
