/*
 * fumehood stop: ends sessions; their records stay.
 */
#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"
#include "client/session.h"

/* Stops one running session. */
static int stop_one(const char *name, bool drain)
{
	struct fh_open_params params;
	struct fh_error error = FH_ERROR_INIT;
	struct fh_session *session;
	int outcome;

	fh_open_params_init(&params);
	params.running_only = true;
	session = fh_open(name, &params, &error);
	if (!session)
		return say_error(&error);
	outcome = fh_stop(session, drain, &error);
	fh_close(session);
	return outcome == 0 ? 0 : say_error(&error);
}

static int stop_all(bool drain)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_list struct store_list list = STORE_LIST_INIT;
	struct err err = ERR_INIT;
	int status = 0;

	if (store_open(&store, &err) != 0 || store_list(&store, &list, &err) != 0)
		return say_err(&err);
	for (size_t i = 0; i < list.count; i++) {
		int one = 0;

		if (session_running(list.entries[i].config.id))
			one = stop_one(list.entries[i].config.id, drain);
		status = one ? one : status;
	}
	return status;
}

static int command_stop(const struct command *command, int argc, char **argv)
{
	bool drain = false, all = false;
	const struct option table[] = {
		{"drain", '\0', OPTION_FLAG, &drain},
		{"all", 'a', OPTION_FLAG, &all},
	};
	cleanup_options struct options options = {.words = NULL};
	int status = command_begin(command, &options, table, 2, argc, argv, 0, 1000);

	if (status >= 0)
		return status;
	if (all && options.word_count)
		return say_usage(command, "stop takes sessions or --all, not both");
	if (!all && options.word_count == 0)
		return say_usage(command, "stop needs more: which session?");
	if (all)
		return stop_all(drain);
	status = 0;
	for (size_t i = 0; i < options.word_count; i++) {
		int one = stop_one(options.words[i], drain);

		status = one ? one : status;
	}
	return status;
}

const struct command COMMAND_STOP = {
	.name = "stop",
	.summary = "stop sessions",
	.example = "fumehood stop work",
	.help = "Usage: fumehood stop [--drain] SESSION... | --all\n"
		"\n"
		"Ends sessions: the running cell is killed and the queue cancelled. Journal, "
		"notebook and files\n"
		"stay, and the session can be used again; fumehood gc SESSION removes it.\n"
		"\n"
		"  fumehood stop work\n"
		"  fumehood stop --all --drain\n"
		"\n"
		"Options:\n"
		"      --drain          finish what is queued first\n"
		"  -a, --all            all running sessions\n",
	.run = command_stop,
};
