/*
 * fumehood checkpoints: what a session can return to, and dropping one.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/table.h"

enum { NAME_WIDTH_MAX = 64, CELL_WIDTH_MAX = 64 };

/* The width of a column: its longest text, at least `least`. */
static size_t width_of(const struct json *list, const char *key, size_t least, size_t most)
{
	size_t width = least;

	for (size_t i = 0; i < json_length(list); i++) {
		const char *text = json_get_string(json_at(list, i), key);
		size_t count = text ? text_count(text, strlen(text)) : 0;

		width = count > width ? count : width;
	}
	return width < most ? width : most;
}

/* "7s", "12m", "3h", "2d". */
static void put_age(struct buf *out, double seconds)
{
	if (seconds < 60)
		buf_printf(out, "%.0fs", seconds);
	else if (seconds < 3600)
		buf_printf(out, "%.0fm", seconds / 60);
	else if (seconds < 86400)
		buf_printf(out, "%.0fh", seconds / 3600);
	else
		buf_printf(out, "%.0fd", seconds / 86400);
}

static void put_row(struct buf *out, const struct json *item, size_t name_width, size_t cell_width)
{
	const char *name = json_get_string(item, "name");
	const char *cell = json_get_string(item, "cell");
	const char *files = json_get_string(item, "files");
	size_t start;

	table_cell(out, name ? name : "-", name_width);
	table_cell(out, cell ? cell : "-", cell_width);
	start = out->len;
	put_age(out, json_get_double(item, "age_s", 0));
	table_pad(out, start, 4);
	start = out->len;
	buf_printf(out, "%.1fms", (double)json_get_int(item, "copy_us", 0) / 1e3);
	table_pad(out, start, 7);
	start = out->len;
	if (json_type_of(json_get(item, "private_bytes")) == JSON_INT)
		table_size(out, json_get_int(item, "private_bytes", 0));
	else
		buf_append_char(out, '?');
	table_pad(out, start, 7);
	text_escape(out, files ? files : "?", files ? strlen(files) : 1, false, false);
	buf_append_char(out, '\n');
}

static int print_table(const struct json *answer)
{
	const struct json *list = json_get(answer, "checkpoints");
	const char *to = json_get_string(answer, "recovers_to");
	size_t name_width = width_of(list, "name", strlen("NAME"), NAME_WIDTH_MAX);
	size_t cell_width = width_of(list, "cell", strlen("CELL"), CELL_WIDTH_MAX);
	cleanup_buf struct buf out = BUF_INIT;

	if (json_length(list)) {
		table_cell(&out, "NAME", name_width);
		table_cell(&out, "CELL", cell_width);
		buf_append_string(&out, "AGE   COST     MEMORY   FILES\n");
	}
	for (size_t i = 0; i < json_length(list); i++)
		put_row(&out, json_at(list, i), name_width, cell_width);
	if (say_out(buf_bytes(&out), out.len) != 0)
		return EXIT_FUMEHOOD;
	if (json_get_bool(answer, "protected", false))
		say("the present state is held: a cell that dies costs nothing else");
	else if (to)
		say("if the interpreter died now, the state would be that after cell %s", to);
	else
		say("if the interpreter died now, the variables would be lost");
	return 0;
}

static int drop(struct ask *ask, const char *name)
{
	struct fh_error error = FH_ERROR_INIT;

	return fh_checkpoint_drop(ask->session, name, &error) == 0 ? 0 : say_error(&error);
}

static int command_checkpoints(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const char *dropped = NULL;
	const struct option table[] = {
		{"drop", '\0', OPTION_TEXT, &dropped},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 1, 1);

	if (status >= 0)
		return status;
	if (ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	if (dropped)
		return drop(&ask, dropped);
	status = ask_take(&ask, fh_checkpoints(ask.session, &error), &error, json);
	return status >= 0 ? status : print_table(ask.answer);
}

const struct command COMMAND_CHECKPOINTS = {
	.name = "checkpoints",
	.summary = "list what a session can return to",
	.example = "fumehood checkpoints work",
	.help = "Usage: fumehood checkpoints SESSION [--drop NAME] [--json]\n"
		"\n"
		"Lists the checkpoints of a running session: those that have names, and the last "
		"few that\n"
		"were made by themselves after cells. CELL is the last cell that is in it, COST "
		"how long the\n"
		"interpreter stood still for it, MEMORY what it takes beside the interpreter (? "
		"not "
		"measured\n"
		"yet), FILES whether files of the workspace can go back with it: held, part, "
		"none.\n"
		"\n"
		"  fumehood checkpoints work\n"
		"  fumehood checkpoints work --drop clean\n"
		"\n"
		"Options:\n"
		"      --drop NAME      drop the one with this name instead\n"
		"  -j, --json           the answer as in the session protocol: checkpoints, "
		"recovers_to,\n"
		"                       protected\n",
	.run = command_checkpoints,
};
