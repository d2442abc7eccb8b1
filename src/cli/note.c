/*
 * fumehood note: a cell in the notebook of a session that is not run.
 */
#include "base/mem.h"
#include "cli/ask.h"
#include "cli/say.h"

static bool is_type(const char *type)
{
	return strcmp(type, "markdown") == 0 || strcmp(type, "raw") == 0 ||
	       strcmp(type, "code") == 0;
}

static int print_id(const char *id)
{
	cleanup_buf struct buf line = BUF_INIT;

	buf_append_string(&line, "{\"note\":");
	json_write_string(&line, id, strlen(id));
	buf_append_string(&line, "}\n");
	return say_out(buf_bytes(&line), line.len);
}

static int command_note(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const char *type = "markdown";
	const struct option table[] = {
		{"type", '\0', OPTION_TEXT, &type},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_source struct source source = SOURCE_INIT;
	cleanup_ask struct ask ask = ASK_INIT;
	cleanup_free char *id = NULL;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 2, 2);

	if (status >= 0)
		return status;
	if (!is_type(type))
		return say_usage(command, "--type is markdown, raw or code, not %s", type);
	if (ask_text(&source, options.words[1], &err) != 0 ||
	    ask_open(&ask, options.words[0], true, &err) != 0)
		return say_err(&err);
	id = fh_note(ask.session, buf_bytes(&source.code), source.code.len, type, &error);
	if (!id)
		return say_error(&error);
	return json ? print_id(id) : 0;
}

const struct command COMMAND_NOTE = {
	.name = "note",
	.summary = "put a text into a session's notebook",
	.example = "fumehood note work 'The first run was without weights.'",
	.help = "Usage: fumehood note SESSION TEXT | - [--type TYPE]\n"
		"\n"
		"Puts a cell into the notebook that is not run: Markdown, unless another type is "
		"given. - takes\n"
		"the text from stdin. A session that is not running is started.\n"
		"\n"
		"  fumehood note work 'The first run was **without** weights.'\n"
		"  fumehood note work - < remarks.md\n"
		"\n"
		"Options:\n"
		"      --type TYPE      markdown (default), raw, or code (kept, not run)\n"
		"  -j, --json           print the note's id: {\"note\":\"n1\"}\n",
	.run = command_note,
};
