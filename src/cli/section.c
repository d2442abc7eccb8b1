/*
 * fumehood section: a heading in the notebook of a session.
 */
#include "base/mem.h"
#include "cli/ask.h"
#include "cli/say.h"

static int command_section(const struct command *command, int argc, char **argv)
{
	bool json = false;
	uint64_t level = 2;
	const struct option table[] = {
		{"level", '\0', OPTION_COUNT, &level},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 2, 2);

	if (status >= 0)
		return status;
	if (level < 1 || level > 6)
		return say_usage(command, "--level is 1 to 6");
	if (ask_open(&ask, options.words[0], true, &err) != 0)
		return say_err(&err);
	if (fh_section(ask.session, options.words[1], (int)level, &error) != 0)
		return say_error(&error);
	return json ? say_out("{}\n", 3) : 0;
}

const struct command COMMAND_SECTION = {
	.name = "section",
	.summary = "begin a section in a session's notebook",
	.example = "fumehood section work 'Cleaning the data'",
	.help = "Usage: fumehood section SESSION TITLE [--level N]\n"
		"\n"
		"Puts a heading into the notebook. The cells that run from now on belong to this "
		"section, and\n"
		"their images can be asked for by its title. A session that is not running is "
		"started.\n"
		"\n"
		"  fumehood section work 'Cleaning the data'\n"
		"  fumehood section work Results --level 1\n"
		"\n"
		"Options:\n"
		"      --level N        1 to 6 (default 2)\n"
		"  -j, --json           print {}\n",
	.run = command_section,
};
