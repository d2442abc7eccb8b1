/*
 * fumehood version.
 */
#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"

static int command_version(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_free char *text = NULL;
	int status = command_begin(command, &options, table, 1, argc, argv, 0, 0);

	if (status >= 0)
		return status;
	text = json ? mem_format("{\"version\":\"%s\",\"protocol\":1}\n", fh_version())
		    : mem_format("fumehood %s\n", fh_version());
	return say_out(text, strlen(text));
}

const struct command COMMAND_VERSION = {
	.name = "version",
	.summary = "print the version",
	.example = "fumehood version",
	.help = "Usage: fumehood version [--json]\n"
		"\n"
		"  fumehood version\n"
		"  fumehood --version\n"
		"\n"
		"Options:\n"
		"  -j, --json           as a JSON object, with the version of the session "
		"protocol\n",
	.run = command_version,
};
