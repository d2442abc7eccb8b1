/*
 * fumehood inspect: what the thing at the end of some code is.
 */
#include <unistd.h>

#include "base/mem.h"
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/terminal.h"

static int print_text(const struct json *answer, const char *code)
{
	size_t len = 0;
	const char *text = json_string(json_get(json_get(answer, "data"), "text/plain"), &len);
	struct terminal out;
	struct err err = ERR_INIT;
	int outcome;

	if (!json_get_bool(answer, "found", false) || !text) {
		say("nothing is known of %s", code);
		return EXIT_CELL_FAILED;
	}
	terminal_init(&out, STDOUT_FILENO);
	terminal_guest(&out, text, len);
	if (len == 0 || text[len - 1] != '\n')
		terminal_own(&out, "\n", false);
	outcome = terminal_end(&out, &err);
	terminal_release(&out);
	return outcome == 0 ? 0 : say_err(&err);
}

static int command_inspect(const struct command *command, int argc, char **argv)
{
	bool json = false, with_source = false;
	uint64_t cursor = UINT64_MAX;
	const struct option table[] = {
		{"source", '\0', OPTION_FLAG, &with_source},
		{"cursor", '\0', OPTION_COUNT, &cursor},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_source struct source source = SOURCE_INIT;
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 3, argc, argv, 2, 2);

	if (status >= 0)
		return status;
	if (ask_text(&source, options.words[1], &err) != 0 ||
	    ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	status = ask_take(&ask,
			  fh_inspect(ask.session, buf_bytes(&source.code), source.code.len,
				     cursor == UINT64_MAX ? FH_CURSOR_END : (size_t)cursor,
				     with_source, &error),
			  &error, json);
	return status >= 0 ? status : print_text(ask.answer, options.words[1]);
}

const struct command COMMAND_INSPECT = {
	.name = "inspect",
	.summary = "explain a name of a session",
	.example = "fumehood inspect work df.groupby",
	.help = "Usage: fumehood inspect SESSION CODE | - [options]\n"
		"\n"
		"Prints what the name at the end of the code is (- : from stdin), or the function "
		"whose call\n"
		"the end is in: type, signature, documentation.\n"
		"\n"
		"  fumehood inspect work df.groupby\n"
		"  fumehood inspect work my_function --source\n"
		"\n"
		"Options:\n"
		"      --source         with its source\n"
		"      --cursor N       after N characters instead of at the end\n"
		"  -j, --json           the answer as in the session protocol: found, data, "
		"metadata\n"
		"\n"
		"Exit status: 0, 1 if nothing is known of it, 2 for wrong usage, 125 if Fumehood "
		"itself failed.\n",
	.run = command_inspect,
};
