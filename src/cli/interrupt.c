/*
 * fumehood interrupt: stops the cell that runs; the session and its variables stay.
 */
#include "base/json.h"
#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"

enum { TIMEOUT_MS = 30000 };

static int interrupt(const char *name, const char *cell, bool kill)
{
	struct fh_open_params params;
	struct fh_error error = FH_ERROR_INIT;
	struct fh_session *session;
	cleanup_json struct json *request = json_new_object();
	cleanup_json struct json *answer = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *reply = NULL;

	fh_open_params_init(&params);
	params.running_only = true;
	session = fh_open(name, &params, &error);
	if (!session)
		return say_error(&error);
	fh_set_timeout(session, TIMEOUT_MS);
	json_set_string(request, "op", "interrupt");
	if (cell)
		json_set_string(request, "cell", cell);
	if (kill)
		json_set(request, "kill", json_new_bool(true));
	json_write(&text, request);
	if (fh_call(session, buf_bytes(&text), text.len, &reply, &error) != 0) {
		fh_close(session);
		return say_error(&error);
	}
	fh_close(session);
	answer = json_parse(reply, strlen(reply), &JSON_LIMITS, NULL);
	if (!json_get_bool(answer, "interrupted", false))
		say("nothing was running");
	return 0;
}

static int command_interrupt(const struct command *command, int argc, char **argv)
{
	const char *cell = NULL;
	bool kill = false;
	const struct option table[] = {{"cell", '\0', OPTION_TEXT, &cell},
				       {"kill", '\0', OPTION_FLAG, &kill}};
	cleanup_options struct options options = {.words = NULL};
	int status = command_begin(command, &options, table, 2, argc, argv, 1, 1);

	return status >= 0 ? status : interrupt(options.words[0], cell, kill);
}

const struct command COMMAND_INTERRUPT = {
	.name = "interrupt",
	.summary = "interrupt the cell that runs in a session",
	.example = "fumehood interrupt work",
	.help = "Usage: fumehood interrupt SESSION [--cell CELL] [--kill]\n"
		"\n"
		"Interrupts what runs in the session. Its variables stay.\n"
		"\n"
		"  fumehood interrupt work\n"
		"  fumehood interrupt work --cell c7           only if it is this cell that runs\n"
		"\n"
		"Options:\n"
		"      --cell CELL      leave any other cell alone\n"
		"      --kill           for one that does not listen: kill it; the variables are\n"
		"                       those of before it\n",
	.run = command_interrupt,
};
