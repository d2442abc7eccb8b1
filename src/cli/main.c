/*
 * fumehood: the command line. Finds the verb and gives it the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "cli/command.h"
#include "cli/say.h"

const struct command *const COMMANDS[] = {
	&COMMAND_RUN,         &COMMAND_REPL,     &COMMAND_PIPE,
	&COMMAND_ASK,         &COMMAND_MODEL,    &COMMAND_LS,
	&COMMAND_LOG,         &COMMAND_TEXT,
	&COMMAND_EXPORT,      &COMMAND_COMPLETE, &COMMAND_INSPECT,
	&COMMAND_VARIABLES,   &COMMAND_FILES,    &COMMAND_IMAGES,
	&COMMAND_SECTION,     &COMMAND_NOTE,     &COMMAND_CHECKPOINT,
	&COMMAND_CHECKPOINTS, &COMMAND_ROLLBACK, &COMMAND_RESET,
	&COMMAND_FORK,        &COMMAND_LIMITS,   &COMMAND_INTERRUPT,
	&COMMAND_RESTART,     &COMMAND_STOP,     &COMMAND_GC,
	&COMMAND_SANDBOX,     &COMMAND_POOL,     &COMMAND_SERVE,
	&COMMAND_SLM,         &COMMAND_TOKEN,    &COMMAND_CONFIG,
	&COMMAND_DOCTOR,      &COMMAND_VERSION,  &COMMAND_HELP,
	NULL,
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; COMMANDS[i]; i++)
		if (strcmp(COMMANDS[i]->name, name) == 0)
			return COMMANDS[i];
	return NULL;
}

/* A descriptor 0, 1 or 2 that is closed would be given to the next file that is opened, and output
 * would go there. */
static int fill_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
			return -1;
	return 0;
}

/* Another program of ours takes the place of this one. */
static int become(const char *name, char **argv)
{
	struct err err = ERR_INIT;
	cleanup_free char *program = paths_helper(name, &err);

	if (!program)
		return say_err(&err);
	execv(program, argv);
	err_sys(&err, "cannot start %s", program);
	return say_err(&err);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "help";
	const struct command *command;

	if (fill_standard_fds() != 0)
		return EXIT_FUMEHOOD;
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	command = command_find(name);
	if (!command)
		return say_usage(&COMMAND_HELP, "there is no command %s", name);
	argv += argc > 1;
	argc -= argc > 1;
	return command->run ? command->run(command, argc, argv) : become(command->program, argv);
}
