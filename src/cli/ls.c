/*
 * fumehood ls: the sessions that there are.
 *
 * The directories are listed and each keeper is asked by connecting to its socket: what answers is
 * running. Names and paths are shown escaped, one line a session.
 */
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/table.h"

enum { NAME_WIDTH_MIN = 8, NAME_WIDTH_MAX = 32 };

static void put_age(struct buf *out, int64_t us)
{
	int64_t s = us / 1000000;

	if (s < 120)
		buf_printf(out, "%" PRId64 "s", s < 0 ? 0 : s);
	else if (s < 7200)
		buf_printf(out, "%" PRId64 "min", s / 60);
	else if (s < 172800)
		buf_printf(out, "%" PRId64 "h", s / 3600);
	else
		buf_printf(out, "%" PRId64 "d", s / 86400);
}

static void put_row(struct buf *out, const struct json *session, size_t name_width)
{
	const char *name = json_get_string(session, "name");
	const char *workspace = json_get_string(session, "workspace");
	const char *directory = json_get_string(session, "directory");
	int64_t created = clock_parse(json_get_string(session, "created"));
	cleanup_free char *id = mem_copy(json_get_string(session, "id"), 8);
	cleanup_free char *own = mem_format("%s/workspace", directory);
	const char *parent = json_get_string(session, "parent");
	cleanup_free char *shared = mem_format("(branch of %.8s)", parent ? parent : "");
	size_t start;

	table_cell(out, id, 8);
	table_cell(out, name ? name : "-", name_width);
	table_cell(out,
		   json_get_bool(session, "damaged", false)   ? "damaged"
		   : json_get_bool(session, "running", false) ? "running"
							      : "stopped",
		   7);
	start = out->len;
	put_age(out, clock_wall_us() - created);
	table_pad(out, start, 5);
	start = out->len;
	table_size(out, json_get_int(session, "bytes", 0));
	table_pad(out, start, 5);
	if (!workspace)
		workspace = "?";
	else if (parent)
		workspace = shared;
	else if (strcmp(workspace, own) == 0)
		workspace = "(private)";
	text_escape(out, workspace, strlen(workspace), false, false);
	buf_append_char(out, '\n');
}

static int print_table(const struct json *sessions)
{
	cleanup_buf struct buf out = BUF_INIT;
	size_t width = NAME_WIDTH_MIN;

	for (size_t i = 0; i < json_length(sessions); i++) {
		const char *name = json_get_string(json_at(sessions, i), "name");
		size_t count = name ? text_count(name, strlen(name)) : 0;

		width = count > width ? count : width;
	}
	width = width > NAME_WIDTH_MAX ? NAME_WIDTH_MAX : width;
	if (json_length(sessions) == 0) {
		if (isatty(STDERR_FILENO) == 1)
			say("no sessions; fumehood run -s NAME -c CODE makes one that lives on");
		return 0;
	}
	table_cell(&out, "ID", 8);
	table_cell(&out, "NAME", width);
	buf_append_string(&out, "STATE    AGE    SIZE   WORKSPACE\n");
	for (size_t i = 0; i < json_length(sessions); i++)
		put_row(&out, json_at(sessions, i), width);
	return say_out(buf_bytes(&out), out.len);
}

/* One object a line. */
static int print_json(const struct json *sessions)
{
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < json_length(sessions); i++) {
		json_write(&out, json_at(sessions, i));
		buf_append_char(&out, '\n');
	}
	return say_out(buf_bytes(&out), out.len);
}

static int command_ls(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_json struct json *sessions = NULL;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 1, argc, argv, 0, 0);
	char *text;

	if (status >= 0)
		return status;
	text = fh_list(&error);
	if (!text)
		return say_error(&error);
	sessions = json_parse(text, strlen(text), &JSON_LIMITS, &err);
	fh_free(text);
	if (!sessions)
		return say_err(&err);
	return json ? print_json(sessions) : print_table(sessions);
}

const struct command COMMAND_LS = {
	.name = "ls",
	.summary = "list sessions",
	.example = "fumehood ls",
	.help = "Usage: fumehood ls [--json]\n"
		"\n"
		"Lists the sessions, newest first: those that run and those whose record is kept.\n"
		"\n"
		"  fumehood ls\n"
		"  fumehood ls --json | jq -r 'select(.running) | .id'\n"
		"\n"
		"Options:\n"
		"  -j, --json           one JSON object a session\n",
	.run = command_ls,
};
