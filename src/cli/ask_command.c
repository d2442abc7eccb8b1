/*
 * fumehood ask: by a program of its own (ask_main.c), which takes this one's place. Its help is
 * here, so that both have it.
 */
#include "cli/begin.h"
#include "cli/command.h"

const struct command COMMAND_ASK = {
	.name = "ask",
	.summary = "let a model write and correct a program",
	.example = "fumehood ask \"how many lines do the files here have?\"",
	.help = "Usage: fumehood ask [options] INSTRUCTION | -\n"
		"\n"
		"Gives the instruction to a model, runs the programs that it writes, each in a "
		"sandbox of its\n"
		"own, compares and corrects them, and prints what the chosen one printed. That is "
		"then run\n"
		"in the session, and its files are in the workspace.\n"
		"\n"
		"  fumehood ask \"which month of sales.csv had the highest revenue?\"\n"
		"  fumehood ask --url http://127.0.0.1:8080/v1 \"...\"   by a server that is "
		"there\n"
		"  fumehood ask -s work \"...\"                          in a session, whose "
		"variables it\n"
		"                                                    sees, and which lives on\n"
		"  fumehood ask --effort high --expect '/^[0-9]+$/' \"...\"\n"
		"\n"
		"Options:\n"
		"  -j, --json           print what happens, one JSON object a line, the result "
		"last\n"
		"  -q, --quiet          print the answer only\n"
		"  -m, --model NAME|FILE.gguf\n"
		"                       a model of this machine (fumehood model list); with --url "
		"the\n"
		"                       server's name of it\n"
		"      --url BASE       an OpenAI-compatible endpoint: http://127.0.0.1:8080/v1\n"
		"      --key-env NAME   variable that has its key (default OPENAI_API_KEY)\n"
		"      --script FILE    answers from a file, one JSON object a line: for tests\n"
		"      --effort low|medium|high\n"
		"                       at most 1 program and its repair, 3, or 5 (default "
		"medium)\n"
		"      --programs N     programs in all\n"
		"      --tokens N       tokens that the model may write in all\n"
		"      --time TIME      wall time of all\n"
		"      --expect TEXT|/REGEX/\n"
		"                       what the output must be; may be given again\n"
		"      --assert CODE    what must hold after the program; may be given again\n"
		"      --input TEXT     what the program reads with input() or from stdin\n"
		"      --system TEXT|@FILE\n"
		"                       another system prompt\n"
		"      --template FILE  another set of prompts (fumehood-ask(1))\n",
	.help_end =
		"      --temperature T  of the first program, 0 to 2 (default 0)\n"
		"      --seed N         of the first program (default 1)\n"
		"      --attempts show|hide\n"
		"                       keep the attempts in the notebook, collapsed (default "
		"hide)\n"
		"      --private        a new workspace of its own instead of the current "
		"directory\n"
		"      --options FILE   more options, from a file: --NAME=VALUE words, each "
		"ended by NUL\n" BEGIN_OPTION_HELP "\n" POLICY_OPTION_HELP "\n"
		"--timeout is the time of one program (default 10 s). The session is kept in any "
		"case.\n"
		"Exit status: 0 with an answer; 1 without; 2 wrong usage; 125 a fault of Fumehood "
		"or of\n"
		"the model's server; 130 after Ctrl-C.\n",
	.program = "fumehood-ask",
};
