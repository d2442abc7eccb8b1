/*
 * fumehood reset: the empty session, with its checkpoints.
 */
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/went_back.h"

enum { TIMEOUT_MS = 60000 };

static int command_reset(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 1, argc, argv, 1, 1);

	if (status >= 0)
		return status;
	if (ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	fh_set_timeout(ask.session, TIMEOUT_MS);
	status = ask_take(&ask, fh_reset(ask.session, &error), &error, json);
	return status >= 0 ? status : went_back_print(ask.answer, "the session is empty");
}

const struct command COMMAND_RESET = {
	.name = "reset",
	.summary = "empty a session; checkpoints stay",
	.example = "fumehood reset work",
	.help = "Usage: fumehood reset SESSION [--json]\n"
		"\n"
		"Gives a running session an empty interpreter that is ready at once: all variables "
		"are gone\n"
		"and the count of cells begins at 1. Files, journal and checkpoints stay, so "
		"fumehood rollback\n"
		"SESSION NAME leads back. A session whose interpreter does not answer is for "
		"fumehood restart.\n"
		"\n"
		"  fumehood reset work\n"
		"\n"
		"Options:\n"
		"  -j, --json           print the answer as in the session protocol: "
		"rolled_back\n",
	.run = command_reset,
};
