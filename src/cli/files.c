/*
 * fumehood files: what the cells of a session have done to its workspace, and the way to its files.
 *
 * `fumehood files SESSION` lists changes; a word behind it names an action (files.h).
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/files.h"
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

char *files_join(const char *folder, const char *name)
{
	return folder[0] && strcmp(folder, ".") != 0 ? mem_format("%s/%s", folder, name)
						     : mem_string(name);
}

int files_begin(const struct command *command, struct options *options, const struct option *table,
		size_t count, int argc, char **argv, size_t words_min, size_t words_max)
{
	struct err err = ERR_INIT;

	if (options_read(options, table, count, argc, argv, &err) != 0)
		return say_usage(command, "%s: %s", argv[0], err.text);
	if (options->help)
		return say_help(command);
	if (options->word_count < words_min)
		return say_usage(command, "%s needs more: of which file?", argv[0]);
	if (options->word_count > words_max)
		return say_usage(command, "%s does not know what to do with %s", argv[0],
				 options->words[words_max]);
	return -1;
}

static const struct files_action ACTIONS[] = {
	{"ls", files_ls},     {"get", files_get},     {"put", files_put},
	{"rm", files_rm},     {"zip", files_zip},     {"unzip", files_unzip},
	{"diff", files_diff}, {"apply", files_apply}, {"discard", files_discard},
};

/* The action that the command line names; NULL: none. */
static const struct files_action *find_action(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && argv[1][0] != '-' && i < sizeof(ACTIONS) / sizeof(*ACTIONS);
	     i++)
		if (strcmp(argv[2], ACTIONS[i].name) == 0)
			return &ACTIONS[i];
	return NULL;
}

/* The options of all actions: known so that `fumehood files --help` can be asked with any of
 * them, and that one without its action is told what it lacks. */
struct stray {
	bool force, unzip, recursive, patch, raw;
	uint64_t max;
	const char *to, *output;
};

static bool is_stray(const struct stray *stray)
{
	return stray->force || stray->unzip || stray->recursive || stray->patch || stray->raw ||
	       stray->max || stray->to || stray->output;
}

static int command_files(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const char *cell = NULL;
	uint64_t since = 0;
	struct stray stray = {.force = false};
	const struct option table[] = {
		{"cell", '\0', OPTION_TEXT, &cell},
		{"since", '\0', OPTION_COUNT, &since},
		{"json", 'j', OPTION_FLAG, &json},
		{"force", 'f', OPTION_FLAG, &stray.force},
		{"max", '\0', OPTION_SIZE, &stray.max},
		{"to", '\0', OPTION_TEXT, &stray.to},
		{"unzip", '\0', OPTION_FLAG, &stray.unzip},
		{"recursive", 'r', OPTION_FLAG, &stray.recursive},
		{"output", 'o', OPTION_TEXT, &stray.output},
		{"patch", 'p', OPTION_FLAG, &stray.patch},
		{"raw", '\0', OPTION_FLAG, &stray.raw},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	const struct files_action *action = find_action(argc, argv);
	int status;

	if (action)
		return action->run(command, argv[1], argc - 2, argv + 2);
	status = command_begin(command, &options, table, sizeof(table) / sizeof(*table), argc, argv,
			       1, 1);
	if (status >= 0)
		return status;
	if (is_stray(&stray))
		return say_usage(command, "this option is of an action, which comes behind the "
					  "session: ls, get, put, rm, zip, unzip, diff, apply, "
					  "discard");
	if (cell && since)
		return say_usage(command, "--cell and --since exclude each other");
	if (ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	status = ask_take(&ask, fh_files(ask.session, cell, since, &error), &error, json);
	return status >= 0 ? status : print_table(ask.answer);
}

const struct command COMMAND_FILES = {
	.name = "files",
	.summary = "list what a session has changed; get, put and apply its files",
	.example = "fumehood files work get plot.png",
	.help = "Usage: fumehood files SESSION [options]\n"
		"       fumehood files SESSION ACTION [what] [options]\n"
		"\n"
		"Without an action: lists what has been created, changed or deleted in the "
		"workspace, with the\n"
		"cell that was last at it, its size and its path.\n"
		"\n"
		"  fumehood files work\n"
		"  fumehood files work --json | jq -r '.files[].path'\n"
		"  fumehood files work get plot.png\n"
		"  fumehood files work diff -p && fumehood files work apply\n"
		"\n"
		"Actions on the workspace, also of a session that has stopped:\n"
		"  ls [FOLDER]             what is there\n"
		"  get PATH [TO]           a file from it; TO is a file, a folder, or - for "
		"stdout\n"
		"  put FILE...             files into it; - is stdin\n"
		"  rm PATH...              removes\n"
		"  zip [FOLDER]            all of it, or a folder, as an archive\n"
		"  unzip ARCHIVE [FOLDER]  the files of an archive into it; - is stdin\n"
		"\n"
		"Actions on what a workspace with :overlay keeps aside:\n"
		"  diff [PATH...]          what is added, changed and removed\n"
		"  apply [PATH...]         puts it into the directory\n"
		"  discard                 forgets all of it; the session must be stopped\n",
	.help_end = "\n"
		    "Options:\n"
		    "      --cell CELL      only what this cell did\n"
		    "      --since N        only what is different since event N (last_seq of the "
		    "answer "
		    "before)\n"
		    "  -j, --json           JSON: the answer as in the session protocol, or an "
		    "object a "
		    "line (ls, diff)\n"
		    "  -f, --force          get: replace the file; apply: also over what has been "
		    "changed "
		    "in the\n"
		    "                       directory meanwhile\n"
		    "      --max SIZE       get: refuse larger files (default 2G)\n"
		    "      --to PATH        put: where to; a folder if it ends with /\n"
		    "      --unzip          put: the files of the archive\n"
		    "  -r, --recursive      rm: folders with all that is in them\n"
		    "  -o, --output FILE    zip: where to (default: stdout)\n"
		    "  -p, --patch          diff: line by line, for patch(1)\n"
		    "      --raw            diff --patch: to a terminal, too, as it is\n",
	.run = command_files,
};
