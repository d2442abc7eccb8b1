/*
 * fumehood variables: the variables of a session, each on a line.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/table.h"

enum { NAME_WIDTH_MAX = 32, TYPE_WIDTH_MAX = 24 };

/* "(3, 2)" or "17" or nothing. */
static void put_shape(struct buf *out, const struct json *variable)
{
	const struct json *shape = json_get(variable, "shape");

	if (!shape && json_get(variable, "length"))
		buf_printf(out, "%lld", (long long)json_get_int(variable, "length", 0));
	if (!shape)
		return;
	buf_append_char(out, '(');
	for (size_t i = 0; i < json_length(shape); i++)
		buf_printf(out, "%s%lld", i ? ", " : "", (long long)json_int(json_at(shape, i), 0));
	buf_append_char(out, ')');
}

static void put_row(struct buf *out, const struct json *variable, size_t name_width,
		    size_t type_width)
{
	const char *name = json_get_string(variable, "name");
	const char *type = json_get_string(variable, "type");
	const char *repr = json_get_string(variable, "repr");
	size_t start;

	table_cell(out, name ? name : "?", name_width);
	table_cell(out, type ? type : "?", type_width);
	start = out->len;
	put_shape(out, variable);
	table_pad(out, start, 10);
	start = out->len;
	if (json_get(variable, "size"))
		table_size(out, json_get_int(variable, "size", 0));
	table_pad(out, start, 5);
	text_escape(out, repr ? repr : "", repr ? strlen(repr) : 0, false, false);
	buf_append_char(out, '\n');
}

/* The width of a column: its longest text, at most `most`. */
static size_t width_of(const struct json *variables, const char *key, size_t most)
{
	size_t width = strlen("NAME");

	for (size_t i = 0; i < json_length(variables); i++) {
		const char *text = json_get_string(json_at(variables, i), key);
		size_t count = text ? text_count(text, strlen(text)) : 0;

		width = count > width ? count : width;
	}
	return width < most ? width : most;
}

static int print_table(const struct json *answer)
{
	const struct json *variables = json_get(answer, "variables");
	size_t name_width = width_of(variables, "name", NAME_WIDTH_MAX);
	size_t type_width = width_of(variables, "type", TYPE_WIDTH_MAX);
	int64_t total = json_get_int(answer, "total", 0);
	int64_t left_out = total - (int64_t)json_length(variables);
	cleanup_buf struct buf out = BUF_INIT;

	if (json_length(variables)) {
		table_cell(&out, "NAME", name_width);
		table_cell(&out, "TYPE", type_width);
		buf_append_string(&out, "LENGTH      SIZE   VALUE\n");
	}
	for (size_t i = 0; i < json_length(variables); i++)
		put_row(&out, json_at(variables, i), name_width, type_width);
	if (say_out(buf_bytes(&out), out.len) != 0)
		return EXIT_FUMEHOOD;
	if (left_out > 0)
		say("%lld more; --max shows more, a pattern fewer", (long long)left_out);
	if (json_get_bool(answer, "partial", false))
		say("code of the session took too long: this is not all");
	return 0;
}

static int command_variables(const struct command *command, int argc, char **argv)
{
	bool json = false;
	uint64_t max = 0;
	const struct option table[] = {
		{"max", '\0', OPTION_COUNT, &max},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 1, 2);

	if (status >= 0)
		return status;
	if (ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	status = ask_take(&ask, fh_variables(ask.session, options.words[1], (size_t)max, &error),
			  &error, json);
	return status >= 0 ? status : print_table(ask.answer);
}

const struct command COMMAND_VARIABLES = {
	.name = "variables",
	.summary = "list the variables of a session",
	.example = "fumehood variables work",
	.help = "Usage: fumehood variables SESSION [PATTERN] [options]\n"
		"\n"
		"Lists the variables: name, type, shape or length, size of the object itself, "
		"value "
		"in a few\n"
		"words. PATTERN: * any characters, ? one, [abc] one of these.\n"
		"\n"
		"  fumehood variables work\n"
		"  fumehood variables work 'df*' --json | jq -r '.variables[].name'\n"
		"\n"
		"Options:\n"
		"      --max N          at most so many (default 200, at most 10000)\n"
		"  -j, --json           the answer as in the session protocol: variables, total, "
		"truncated\n",
	.run = command_variables,
};
