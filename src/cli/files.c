/*
 * fumehood files: what the cells of a session have done to its workspace.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/table.h"

static void put_row(struct buf *out, const struct json *file)
{
	const char *change = json_get_string(file, "change");
	const char *cell = json_get_string(file, "cell");
	const char *path = json_get_string(file, "path");
	size_t start;

	table_cell(out, change ? change : "?", 7);
	table_cell(out, cell ? cell : "-", 8);
	start = out->len;
	if (json_get(file, "bytes"))
		table_size(out, json_get_int(file, "bytes", 0));
	table_pad(out, start, 5);
	text_escape(out, path ? path : "?", path ? strlen(path) : 1, false, false);
	buf_append_char(out, '\n');
}

static int print_table(const struct json *answer)
{
	const struct json *files = json_get(answer, "files");
	const char *incomplete = json_get_string(answer, "files_incomplete");
	int64_t more = json_get_int(answer, "files_more", 0);
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < json_length(files); i++)
		put_row(&out, json_at(files, i));
	if (say_out(buf_bytes(&out), out.len) != 0)
		return EXIT_FUMEHOOD;
	if (more > 0)
		say("%lld more", (long long)more);
	if (incomplete)
		say("there may be others: not everything was looked at (%s)", incomplete);
	return 0;
}

static int command_files(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const char *cell = NULL;
	uint64_t since = 0;
	const struct option table[] = {
		{"cell", '\0', OPTION_TEXT, &cell},
		{"since", '\0', OPTION_COUNT, &since},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 3, argc, argv, 1, 1);

	if (status >= 0)
		return status;
	if (cell && since)
		return say_usage(command, "--cell and --since exclude each other");
	if (ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	status = ask_take(&ask, fh_files(ask.session, cell, since, &error), &error, json);
	return status >= 0 ? status : print_table(ask.answer);
}

const struct command COMMAND_FILES = {
	.name = "files",
	.summary = "list the files that a session has changed",
	.example = "fumehood files work",
	.help = "Usage: fumehood files SESSION [options]\n"
		"\n"
		"Lists what has been created, changed or deleted in the workspace, with the cell "
		"that "
		"was last\n"
		"at it, its size and its path.\n"
		"\n"
		"  fumehood files work\n"
		"  fumehood files work --cell c7\n"
		"  fumehood files work --json | jq -r '.files[].path'\n"
		"\n"
		"Options:\n"
		"      --cell CELL      only what this cell did\n"
		"      --since N        only what is different since event N (last_seq of the "
		"answer "
		"before)\n"
		"  -j, --json           the answer as in the session protocol: files, last_seq\n",
	.run = command_files,
};
