/*
 * fumehood complete: what may stand at the end of some code.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/say.h"

static int print_matches(const struct json *answer)
{
	const struct json *matches = json_get(answer, "matches");
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < json_length(matches); i++) {
		size_t len = 0;
		const char *text = json_string(json_at(matches, i), &len);

		if (!text)
			continue;
		text_escape(&out, text, len, false, false);
		buf_append_char(&out, '\n');
	}
	return say_out(buf_bytes(&out), out.len);
}

static int command_complete(const struct command *command, int argc, char **argv)
{
	bool json = false;
	uint64_t cursor = UINT64_MAX;
	const struct option table[] = {
		{"cursor", '\0', OPTION_COUNT, &cursor},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_source struct source source = SOURCE_INIT;
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 2, 2);

	if (status >= 0)
		return status;
	if (ask_text(&source, options.words[1], &err) != 0 ||
	    ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	status =
		ask_take(&ask,
			 fh_complete(ask.session, buf_bytes(&source.code), source.code.len,
				     cursor == UINT64_MAX ? FH_CURSOR_END : (size_t)cursor, &error),
			 &error, json);
	return status >= 0 ? status : print_matches(ask.answer);
}

const struct command COMMAND_COMPLETE = {
	.name = "complete",
	.summary = "complete code with the names of a session",
	.example = "fumehood complete work 'os.pa'",
	.help = "Usage: fumehood complete SESSION CODE | - [--cursor N] [--json]\n"
		"\n"
		"Prints what may stand at the end of the code (- : from stdin): names, attributes, "
		"keys,\n"
		"modules, files. One a line; each takes the place of what is typed of it already.\n"
		"\n"
		"  fumehood complete work 'os.pa'\n"
		"  fumehood complete work 'df[\"' --json\n"
		"\n"
		"Options:\n"
		"      --cursor N       after N characters instead of at the end\n"
		"  -j, --json           the answer as in the session protocol: matches, "
		"cursor_start, "
		"cursor_end,\n"
		"                       metadata\n",
	.run = command_complete,
};
