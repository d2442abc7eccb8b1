/*
 * fumehood fork: a second session with the past of a first.
 *
 * A branch shares memory and box with its parent until they part; the keeper makes it. An isolated
 * one is a session like any other, that this program starts and runs the parent's cells in
 * (replay.h).
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/replay.h"
#include "cli/say.h"
#include "cli/signals.h"

enum { TIMEOUT_MS = 60000, STOP_TIMEOUT_MS = 30000, REMOVE_WAIT_MS = 10000, NAMED_MAX = 10 };

struct fork {
	const char *session, *name, *from;
	bool isolated, json;
};

/* --- a branch --------------------------------------------------------------------------------- */

static int make_branch(const struct fork *wanted)
{
	cleanup_ask struct ask ask = ASK_INIT;
	cleanup_buf struct buf out = BUF_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	const char *id;
	int status;

	if (ask_open(&ask, wanted->session, false, &err) != 0)
		return say_err(&err);
	fh_set_timeout(ask.session, TIMEOUT_MS);
	status = ask_take(&ask, fh_fork(ask.session, wanted->name, wanted->from, &error), &error,
			  wanted->json);
	if (status >= 0)
		return status;
	id = json_get_string(ask.answer, "session");
	buf_printf(&out, "%s\n", id ? id : "?");
	return say_out(buf_bytes(&out), out.len);
}

/* --- an isolated one -------------------------------------------------------------------------- */

struct isolated {
	const struct fork *wanted;
	struct found parent;
	struct replay replay;
	struct replay_files files;
	struct fh_session *branch;
	int signal;  /* that ended it; 0: none */
	int differs; /* how many cells came out otherwise */
};

static void isolated_release(struct isolated *isolated)
{
	fh_close(isolated->branch);
	replay_release(&isolated->replay);
	replay_files_release(&isolated->files);
	found_release(&isolated->parent);
}

/* A session as the parent was made, but in a workspace and a box of its own. */
static int start(struct isolated *isolated, int signal_fd, struct err *err)
{
	static const enum fh_tier tiers[CONFIG_TIERS] = {
		[CONFIG_TIER_FULL] = FH_TIER_SANDBOX,
		[CONFIG_TIER_DEGRADED] = FH_TIER_DEGRADED,
		[CONFIG_TIER_NONE] = FH_TIER_NONE,
	};
	const struct config *config = &isolated->parent.entry.config;
	cleanup_buf struct buf policy = BUF_INIT, metadata = BUF_INIT;
	struct fh_start_params params;
	struct fh_error error = FH_ERROR_INIT;

	if (isolated->parent.entry.damaged)
		return err_set(err, ERR_CORRUPT, "session.json of %s is damaged",
			       isolated->wanted->session);
	fh_start_params_init(&params);
	params.name = isolated->wanted->name;
	params.python = config->python;
	params.tier = tiers[config->tier];
	if (config->wall_s_max > 0)
		params.wall_s_max = config->wall_s_max;
	params.output_bytes_max = config->output_bytes_max;
	params.limits = config->limits;
	if (config->policy) {
		json_write(&policy, config->policy);
		params.policy_json = buf_bytes(&policy);
	}
	if (config->notebook_metadata) {
		json_write(&metadata, config->notebook_metadata);
		params.notebook_metadata = buf_bytes(&metadata);
	}
	params.notebook_keeps_rolled_back = config->keeps_rolled_back;
	params.durability_power = config->durability_power;
	params.ends_with_client = false;
	params.cancel_fd = signal_fd;
	isolated->branch = fh_start(&params, &error);
	if (!isolated->branch) {
		isolated->signal = error.code == FH_GONE ? signals_next(signal_fd) : 0;
		return say_take(err, &error);
	}
	return fh_events(isolated->branch, 0, &error) == 0 ? 0 : say_take(err, &error);
}

/* A branch that did not become one. */
static void discard(struct isolated *isolated)
{
	cleanup_store struct store store = STORE_INIT;
	char id[HASH_ID_SIZE];

	if (!isolated->branch)
		return;
	memcpy(id, fh_id(isolated->branch), sizeof(id));
	fh_set_timeout(isolated->branch, STOP_TIMEOUT_MS);
	(void)fh_stop(isolated->branch, false, NULL);
	fh_close(mem_take(isolated->branch));
	if (store_open(&store, NULL) != 0 || store_remove(&store, id, REMOVE_WAIT_MS, NULL) != 0)
		say("%s could not be removed: fumehood gc %s does", id, id);
}

static int compare(struct isolated *isolated, struct err *err)
{
	const char *directory = fh_directory(isolated->branch);
	cleanup_fd int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0)
		return err_sys(err, "cannot open %s", directory);
	isolated->differs = replay_compare(&isolated->replay, dirfd, err);
	return isolated->differs < 0 ? -1 : 0;
}

static int replay_all(struct isolated *isolated, int signal_fd, struct err *err)
{
	const struct config *config = &isolated->parent.entry.config;
	struct replay *replay = &isolated->replay;

	if (replay_read(replay, isolated->parent.dirfd, isolated->wanted->from, err) != 0 ||
	    start(isolated, signal_fd, err) != 0)
		return -1;
	if (faccessat(isolated->parent.dirfd, "packages", F_OK, 0) == 0)
		say("what pip has installed in the session is not copied: a cell that needs it "
		    "fails");
	if (!isolated->wanted->json)
		say("running %zu cells again", replay->cells);
	if (replay_copy_files(replay, config->id, fh_id(isolated->branch), &isolated->files, err) !=
		    0 ||
	    replay_run(replay, isolated->branch, signal_fd, &isolated->signal, err) != 0)
		return -1;
	/* An earlier state: the parent's files are of a later one. */
	if (!isolated->wanted->from &&
	    replay_settle_files(replay, config->id, fh_id(isolated->branch), &isolated->files,
				err) != 0)
		return -1;
	return compare(isolated, err);
}

/* --- what is said of it ----------------------------------------------------------------------- */

static struct json *step_json(const struct replay_step *step)
{
	struct json *item = json_new_object();

	json_set_string(item, "cell", step->id);
	json_set_string(item, "status", step->again ? step->again : "?");
	json_set_string(item, "was", step->status ? step->status : "?");
	json_set(item, "differs", step->differs ? json_keep(step->differs) : json_new_array());
	return item;
}

static int print_json(const struct isolated *isolated)
{
	cleanup_json struct json *object = json_new_object();
	struct json *cells = json_new_array(), *files = json_new_object();
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < isolated->replay.count; i++)
		if (isolated->replay.steps[i].kind == REPLAY_RUN)
			json_push(cells, step_json(&isolated->replay.steps[i]));
	json_set_string(object, "session", fh_id(isolated->branch));
	json_set(object, "name",
		 isolated->wanted->name
			 ? json_new_string(isolated->wanted->name, strlen(isolated->wanted->name))
			 : NULL);
	json_set(object, "cells", cells);
	json_set_int(object, "differing", isolated->differs);
	json_set_int(files, "count", (int64_t)isolated->files.count);
	json_set_int(files, "bytes", (int64_t)isolated->files.bytes);
	json_set(files, "skipped",
		 isolated->files.skipped ? json_keep(isolated->files.skipped) : json_new_array());
	json_set(files, "differ",
		 isolated->files.differ ? json_keep(isolated->files.differ) : json_new_array());
	json_set(object, "files", files);
	json_write(&out, object);
	buf_append_char(&out, '\n');
	return say_out(buf_bytes(&out), out.len);
}

static void say_cells(const struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++) {
		const struct replay_step *step = &replay->steps[i];
		cleanup_buf struct buf words = BUF_INIT;

		for (size_t k = 0; k < json_length(step->differs); k++)
			buf_printf(&words, "%s%s", k ? ", " : "",
				   json_string(json_at(step->differs, k), NULL));
		if (words.len > 0)
			say("cell %s came out otherwise: %s (%s, was %s)", step->id,
			    buf_bytes(&words), step->again ? step->again : "not run",
			    step->status ? step->status : "?");
	}
	if (replay->passwords)
		say("a prompt for a password got the end of the file: passwords are not kept");
}

static void say_files(const struct json *list, const char *key, const char *head)
{
	for (size_t i = 0; i < json_length(list) && i < NAMED_MAX; i++) {
		const char *path = json_get_string(json_at(list, i), "path");
		const char *why = json_get_string(json_at(list, i), key);

		say("%s: %s (%s)", head, path ? path : "?", why ? why : "?");
	}
	if (json_length(list) > NAMED_MAX)
		say("%s: %zu more (--json has them)", head, json_length(list) - NAMED_MAX);
}

static int tell(const struct isolated *isolated)
{
	cleanup_buf struct buf out = BUF_INIT;

	if (isolated->wanted->json)
		return print_json(isolated);
	say_cells(&isolated->replay);
	say_files(isolated->files.skipped, "reason", "not copied");
	say_files(isolated->files.differ, "change",
		  "came out otherwise, and is as in the parent where that has it");
	say("%zu cells were run again, %d came out otherwise; %llu files were copied",
	    isolated->replay.cells, isolated->differs, (unsigned long long)isolated->files.count);
	buf_printf(&out, "%s\n", fh_id(isolated->branch));
	return say_out(buf_bytes(&out), out.len);
}

static int make_isolated(const struct fork *wanted)
{
	__attribute__((cleanup(isolated_release))) struct isolated isolated = {
		.wanted = wanted,
		.parent = FOUND_INIT,
		.replay = REPLAY_INIT,
		.files = REPLAY_FILES_INIT,
	};
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	int status;

	if (signal_fd < 0 || found_open(&isolated.parent, wanted->session, &err) != 0)
		return say_err(&err);
	if (replay_all(&isolated, signal_fd, &err) != 0) {
		discard(&isolated);
		if (isolated.signal)
			signals_die(isolated.signal);
		return say_err(&err);
	}
	status = tell(&isolated);
	return status != 0 ? status : isolated.differs > 0 ? EXIT_CELL_FAILED : 0;
}

/* --- the command line ------------------------------------------------------------------------- */

static int command_fork(const struct command *command, int argc, char **argv)
{
	struct fork wanted = {.session = NULL};
	const struct option table[] = {
		{"from", '\0', OPTION_TEXT, &wanted.from},
		{"isolated", '\0', OPTION_FLAG, &wanted.isolated},
		{"json", 'j', OPTION_FLAG, &wanted.json},
	};
	cleanup_options struct options options = {.words = NULL};
	int status = command_begin(command, &options, table, 3, argc, argv, 1, 2);

	if (status >= 0)
		return status;
	wanted.session = options.words[0];
	wanted.name = options.words[1];
	return wanted.isolated ? make_isolated(&wanted) : make_branch(&wanted);
}

const struct command COMMAND_FORK = {
	.name = "fork",
	.summary = "make a second session with the past of a first",
	.example = "fumehood fork work experiment",
	.help = "Usage: fumehood fork SESSION [NAME] [options]\n"
		"\n"
		"Makes a branch of a running session: another one, named NAME, that begins with "
		"the same\n"
		"variables. It has a journal and a notebook of its own, and shares workspace, "
		"network and limits\n"
		"with the first; the end of one does not touch the other. Prints its id.\n"
		"\n"
		"  fumehood fork work experiment\n"
		"  fumehood fork work --from clean             of the checkpoint clean\n"
		"  fumehood fork work copy --isolated          nothing shared\n"
		"\n"
		"Options:\n"
		"      --from NAME|CELL  begin at a checkpoint, or with the state before a cell\n"
		"      --isolated       make a session in a box of its own, with a copy of the "
		"workspace, by\n"
		"                       running the cells again that are in the state (SESSION "
		"may have\n"
		"                       stopped); says which came out otherwise\n"
		"  -j, --json           print the answer as in the session protocol: session, "
		"name, socket;\n"
		"                       isolated: session, name, cells, differing, files\n"
		"\n"
		"Exit status: 0, 1 if a cell of an isolated branch came out otherwise (it is there "
		"all the\n"
		"same), 2 for wrong usage, 125 if Fumehood itself failed.\n",
	.run = command_fork,
};
