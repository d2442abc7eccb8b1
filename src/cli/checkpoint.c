/*
 * fumehood checkpoint: keeps the state of a session under a name.
 */
#include "base/text.h"
#include "cli/say.h"
#include "cli/went_back.h"

static int print_made(const struct json *made)
{
	const char *name = json_get_string(made, "name");
	const char *cell = json_get_string(made, "cell");
	const char *files = json_get_string(made, "files");
	cleanup_buf struct buf line = BUF_INIT;

	buf_printf(&line, "checkpoint %s: the state %s%s", name ? name : "?",
		   cell ? "after cell " : "before the first cell", cell ? cell : "");
	if (files && strcmp(files, "held") == 0)
		buf_append_string(&line, ", with files");
	if (files && strcmp(files, "part") == 0)
		buf_append_string(&line, ", with some of the files (others are too large)");
	buf_append_char(&line, '\n');
	return say_out(buf_bytes(&line), line.len);
}

static int command_checkpoint(const struct command *command, int argc, char **argv)
{
	cleanup_ask struct ask ask = ASK_INIT;
	int status = went_back_call(command, argc, argv, 2, fh_checkpoint, &ask);

	return status >= 0 ? status : print_made(ask.answer);
}

const struct command COMMAND_CHECKPOINT = {
	.name = "checkpoint",
	.summary = "keep the state of a session under a name",
	.example = "fumehood checkpoint work clean",
	.help = "Usage: fumehood checkpoint SESSION NAME [options]\n"
		"\n"
		"Keeps the variables of a running session as they are now, as a sleeping copy of "
		"its\n"
		"interpreter, so that fumehood rollback SESSION NAME returns to them. A session "
		"has "
		"at most 8\n"
		"of these; they live as long as its interpreter's box, also through a reset. NAME: "
		"1 to 64 of\n"
		"A-Z a-z 0-9 . _ -, not beginning with -, not only digits.\n"
		"\n"
		"  fumehood checkpoint work clean\n"
		"  fumehood rollback work clean\n"
		"  fumehood checkpoints work --drop clean\n"
		"\n"
		"Options:\n"
		"      --files yes|no   keep what it takes to bring the files of the workspace "
		"back, too\n"
		"                       (default: yes in a private workspace)\n"
		"  -j, --json           print what was made as in the session protocol: number, "
		"name,\n"
		"                       cell, ...\n",
	.run = command_checkpoint,
};
