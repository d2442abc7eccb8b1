/*
 * fumehood help: everything is said by example first.
 */
#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"

static const char START[] =
	"Usage: fumehood COMMAND [options]\n"
	"\n"
	"Runs Python written by a language model in a sandbox, keeps its variables from one cell "
	"to the\n"
	"next, and writes everything down.\n"
	"\n"
	"  fumehood run -c 'print(1 + 1)'              some code, in a session of its own\n"
	"  fumehood run report.ipynb -o done.ipynb     a notebook from top to bottom\n"
	"  fumehood run -s work -c 'x = 1'             a session that lives on, by name\n"
	"  fumehood run -s work -c 'x + 1' --text      ... its answer as a model should read it\n"
	"  fumehood export work -o work.ipynb          ... its notebook\n"
	"  fumehood stop work                          ... its end\n"
	"\n"
	"Commands:\n";

static const char END[] = "\n"
			  "fumehood help COMMAND says more; so does fumehood(1).\n";

static int print_overview(void)
{
	cleanup_buf struct buf out = BUF_INIT;

	buf_append_string(&out, START);
	for (size_t i = 0; COMMANDS[i]; i++)
		buf_printf(&out, "  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
	buf_append_string(&out, END);
	return say_out(buf_bytes(&out), out.len);
}

static int command_help(const struct command *command, int argc, char **argv)
{
	cleanup_options struct options options = {.words = NULL};
	int status = command_begin(command, &options, NULL, 0, argc, argv, 0, 1);
	const struct command *about;

	if (status >= 0)
		return status;
	if (options.word_count == 0)
		return print_overview();
	about = command_find(options.words[0]);
	if (!about)
		return say_usage(command, "there is no command %s", options.words[0]);
	return say_help(about);
}

const struct command COMMAND_HELP = {
	.name = "help",
	.summary = "explain a command",
	.example = "fumehood help",
	.help = "Usage: fumehood help [COMMAND]\n"
		"\n"
		"  fumehood help\n"
		"  fumehood help run\n",
	.run = command_help,
};
