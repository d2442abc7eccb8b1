/*
 * fumehood rollback: a session as it was.
 */
#include "cli/say.h"
#include "cli/went_back.h"

static int command_rollback(const struct command *command, int argc, char **argv)
{
	cleanup_ask struct ask ask = ASK_INIT;
	int status = went_back_call(command, argc, argv, 1, fh_rollback, &ask);

	return status >= 0 ? status
			   : went_back_print(ask.answer, "the state is that before the first cell");
}

const struct command COMMAND_ROLLBACK = {
	.name = "rollback",
	.summary = "return a session to an earlier state",
	.example = "fumehood rollback work",
	.help = "Usage: fumehood rollback SESSION [NAME | CELL] [options]\n"
		"\n"
		"Undoes what cells did to the variables of a running session: without more words "
		"the last\n"
		"cell, with the id of a cell that one and all after it, with the NAME of a "
		"checkpoint all after\n"
		"that (or, if it was made in a future that was rolled back, it brings that "
		"back). The\n"
		"states before the last three cells are held by themselves; fumehood checkpoint "
		"keeps others.\n"
		"\n"
		"  fumehood rollback work                      as before the last cell\n"
		"  fumehood rollback work c7                   as before cell c7\n"
		"  fumehood rollback work clean                as at the checkpoint clean\n"
		"\n"
		"Says which cells were rolled back, what could not be restored (threads, "
		"connections, processes),\n"
		"and which files were restored or are not as they were then. The cells stay in "
		"the journal; the\n"
		"notebook leaves them out (--rolled-back keep of run keeps them).\n"
		"\n"
		"Options:\n"
		"      --files yes|no   files of the workspace go back, too, where the checkpoint "
		"holds "
		"them\n"
		"                       (default: yes in a private workspace)\n"
		"  -j, --json           print the answer as in the session protocol: cell, "
		"rolled_back,\n"
		"                       lost, files\n"
		"\n"
		"Exit status: 0; 125 also if no checkpoint leads there, or a cell runs.\n",
	.run = command_rollback,
};
