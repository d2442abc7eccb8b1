/*
 * fumehood-ask, the program behind `fumehood ask` and `fumehood model` (it is told by argv[0]).
 *
 * It is a program of its own for what it is linked with, the client for models' servers and its
 * libraries: `fumehood` itself starts without them.
 */
#include <stddef.h>
#include <string.h>

#include "cli/ask_verb.h"
#include "cli/command.h"
#include "cli/model_verb.h"
#include "cli/say.h"
#include "model/launch.h"
#include "model/owner.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} VERBS[] = {
	{"ask", ask_verb},
	{"model", model_verb},
	{OWNER_NAME, owner_run}, /* a model's server: these two start each other */
	{LAUNCH_NAME, launch_run},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 0 && i < sizeof(VERBS) / sizeof(VERBS[0]); i++)
		if (strcmp(VERBS[i].name, argv[0]) == 0)
			return VERBS[i].run(argc, argv);
	say("this program is started by fumehood ask and fumehood model");
	return EXIT_USAGE;
}
