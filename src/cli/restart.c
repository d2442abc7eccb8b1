/*
 * fumehood restart: a new interpreter in the same session.
 */
#include "cli/find.h"
#include "cli/say.h"

static int command_restart(const struct command *command, int argc, char **argv)
{
	cleanup_options struct options options = {.words = NULL};
	struct fh_error error = FH_ERROR_INIT;
	struct fh_session *session;
	int status = command_begin(command, &options, NULL, 0, argc, argv, 1, 1);
	int outcome;

	if (status >= 0)
		return status;
	session = fh_open(options.words[0], NULL, &error);
	if (!session)
		return say_error(&error);
	outcome = fh_restart(session, &error);
	fh_close(session);
	return outcome == 0 ? 0 : say_error(&error);
}

const struct command COMMAND_RESTART = {
	.name = "restart",
	.summary = "give a session a new interpreter",
	.example = "fumehood restart work",
	.help = "Usage: fumehood restart SESSION\n"
		"\n"
		"Ends the session's interpreter and starts a new one. Variables are lost, queued "
		"cells are\n"
		"cancelled; files, journal and notebook stay. A session that is not running is "
		"started.\n"
		"\n"
		"  fumehood restart work\n",
	.run = command_restart,
};
