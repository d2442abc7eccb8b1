/*
 * Verbs: one file each, listed in main.c.
 */
#ifndef FH_CLI_COMMAND_H
#define FH_CLI_COMMAND_H

#include "base/err.h"

/* Exit statuses beside those of err_exit_status(). */
enum { EXIT_CELL_FAILED = 1, EXIT_USAGE = 2, EXIT_FUMEHOOD = 125 };

struct command {
	const char *name;
	const char *summary;  /* one line, for `fumehood help` */
	const char *help;     /* synopsis, examples, options: whole text */
	const char *help_end; /* its rest, where one string would be too long (C99: 4,095); NULL */
	const char *example;  /* shown when the usage is wrong */
	/* argv[0] is the verb; exit status. NULL: `program` does it */
	int (*run)(const struct command *command, int argc, char **argv);
	const char *program; /* that takes this one's place, such as "fumehood-serve"; NULL */
};

extern const struct command COMMAND_RUN, COMMAND_REPL, COMMAND_PIPE, COMMAND_LS, COMMAND_LOG,
	COMMAND_TEXT, COMMAND_EXPORT, COMMAND_INTERRUPT, COMMAND_RESTART, COMMAND_STOP, COMMAND_GC,
	COMMAND_POOL, COMMAND_DOCTOR, COMMAND_VERSION, COMMAND_HELP, COMMAND_COMPLETE,
	COMMAND_INSPECT, COMMAND_VARIABLES, COMMAND_FILES, COMMAND_IMAGES, COMMAND_SECTION,
	COMMAND_NOTE, COMMAND_CHECKPOINT, COMMAND_CHECKPOINTS, COMMAND_ROLLBACK, COMMAND_RESET,
	COMMAND_FORK, COMMAND_LIMITS, COMMAND_SANDBOX, COMMAND_CONFIG, COMMAND_SERVE, COMMAND_SLM,
	COMMAND_ASK, COMMAND_MODEL, COMMAND_TOKEN;

/* NULL-terminated, in the order of `fumehood help`. */
extern const struct command *const COMMANDS[];

/* NULL when there is no such verb. */
const struct command *command_find(const char *name);

#endif
