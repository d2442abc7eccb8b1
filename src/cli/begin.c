/*
 * Beginning and ending the session of a command. See begin.h.
 */
#include "cli/begin.h"

#include <limits.h>

#include "base/mem.h"
#include "cli/say.h"
#include "client/store.h"
#include "pool/pool.h"
#include "sandbox/policy.h"

enum { STOP_TIMEOUT_MS = 30000, REMOVE_WAIT_MS = 10000, SHORT_ID = 8 };

char *begin_split_workspace(const char *text, bool *read_only, struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);

	*read_only = false;
	if (colon && strcmp(colon, ":overlay") == 0) {
		err_set(err, ERR_UNSUPPORTED,
			"--workspace DIR:overlay comes with a later version; "
			"use :ro, or a copy of the directory");
		return NULL;
	}
	if (colon && strcmp(colon, ":ro") == 0)
		*read_only = true;
	else if (colon && strcmp(colon, ":rw") != 0)
		len = strlen(text);
	if (len == 0) {
		err_set(err, ERR_USAGE, "--workspace needs a directory");
		return NULL;
	}
	return mem_copy(text, len);
}

/* What the options say, made absolute; strings are owned. */
struct wanted {
	char *workspace; /* NULL: private */
	bool read_only;
	char *python;
	enum fh_tier tier;
};

static void wanted_release(struct wanted *wanted)
{
	free(wanted->workspace);
	free(wanted->python);
}

static int want_workspace(struct wanted *wanted, const struct begin_options *options,
			  const char *otherwise, struct err *err)
{
	cleanup_free char *named = NULL;
	const char *path = otherwise;

	if (options->workspace) {
		named = begin_split_workspace(options->workspace, &wanted->read_only, err);
		if (!named)
			return -1;
		path = named;
	}
	if (!path)
		return 0;
	wanted->workspace = realpath(path, NULL);
	/* The whole path, because "." says nothing in a message. */
	return policy_check_workspace(wanted->workspace ? wanted->workspace : path, named != NULL,
				      err);
}

static int want_tier(struct wanted *wanted, const struct begin_options *options, struct err *err)
{
	enum tier tier = TIER_PARTIAL;

	if (options->tier && tier_from_name(options->tier, &tier) != 0)
		return err_set(err, ERR_USAGE, "--tier is none or partial, not %s", options->tier);
	if (tier != TIER_NONE && tier != TIER_PARTIAL)
		return err_set(err, ERR_UNSUPPORTED, "the tier %s comes with a later version",
			       options->tier);
	wanted->tier = tier == TIER_NONE ? FH_TIER_NONE : FH_TIER_SANDBOX;
	return 0;
}

static int want_python(struct wanted *wanted, const struct begin_options *options, struct err *err)
{
	wanted->python = options->python ? pool_resolve_python(options->python, err)
					 : pool_default_python(err);
	return wanted->python ? 0 : -1;
}

/* A session that exists keeps what it was made with: options that say otherwise are refused, not
 * passed over. */
static int check_existing(const struct store_entry *entry, const struct begin_options *options,
			  struct err *err)
{
	__attribute__((cleanup(wanted_release))) struct wanted wanted = {.workspace = NULL};
	const struct config *config = &entry->config;
	const char *option = NULL;

	if (options->workspace) {
		if (want_workspace(&wanted, options, NULL, err) != 0)
			return -1;
		if (!config->workspace || strcmp(wanted.workspace, config->workspace) != 0 ||
		    wanted.read_only != config->workspace_read_only)
			option = "--workspace";
	}
	if (options->python) {
		if (want_python(&wanted, options, err) != 0)
			return -1;
		if (!config->python || strcmp(wanted.python, config->python) != 0)
			option = "--python";
	}
	if (options->tier) {
		if (want_tier(&wanted, options, err) != 0)
			return -1;
		if ((wanted.tier == FH_TIER_NONE) != config->tier_none)
			option = "--tier";
	}
	if (options->timeout_s > config->wall_s_max && config->wall_s_max > 0)
		return err_set(err, ERR_LIMIT,
			       "the session %s allows a cell %g s; take a shorter --timeout "
			       "or another session",
			       options->session, config->wall_s_max);
	if (option)
		return err_set(err, ERR_DUPLICATE,
			       "the session %s exists with another %s; leave the "
			       "option out or take another name",
			       options->session, option);
	return 0;
}

/* FUMEHOOD_SPARE=0: for tests and measurements of the ordinary way. */
static bool spares_are_forbidden(void)
{
	const char *spare = getenv("FUMEHOOD_SPARE");

	return spare && strcmp(spare, "0") == 0;
}

static int start_new(struct begin *begin, const struct begin_options *options,
		     const char *workspace, const char *notebook_metadata, int cancel_fd,
		     struct err *err)
{
	__attribute__((cleanup(wanted_release))) struct wanted wanted = {.workspace = NULL};
	struct fh_start_params params;
	struct fh_error error = FH_ERROR_INIT;

	if (want_workspace(&wanted, options, workspace, err) != 0 ||
	    want_tier(&wanted, options, err) != 0 || want_python(&wanted, options, err) != 0)
		return -1;
	fh_start_params_init(&params);
	params.name = options->session;
	params.workspace = wanted.workspace;
	params.workspace_read_only = wanted.read_only;
	params.python = wanted.python;
	params.tier = wanted.tier;
	if (options->timeout_s > params.wall_s_max ||
	    (options->timeout_is_limit && options->timeout_s > 0))
		params.wall_s_max = options->timeout_s;
	params.ends_with_client = !options->session && !options->keep;
	params.notebook_metadata = notebook_metadata;
	params.without_spare = spares_are_forbidden();
	params.cancel_fd = cancel_fd;
	begin->session = fh_start(&params, &error);
	begin->created = true;
	return begin->session ? 0 : say_take(err, &error);
}

/* Opens the session of --session if there is one: 1 opened, 0 there is none, -1 failure. */
static int open_existing(struct begin *begin, const struct begin_options *options, int cancel_fd,
			 struct err *err)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT;
	struct fh_open_params params;
	struct fh_error error = FH_ERROR_INIT;
	struct err why = ERR_INIT;

	if (store_open(&store, err) != 0)
		return -1;
	if (store_find(&store, options->session, &entry, &why) != 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*err = why;
		return -1;
	}
	if (check_existing(&entry, options, err) != 0)
		return -1;
	fh_open_params_init(&params);
	params.cancel_fd = cancel_fd;
	params.running_only = options->running_only;
	begin->session = fh_open(entry.config.id, &params, &error);
	begin->created = false;
	return begin->session ? 1 : say_take(err, &error);
}

int begin_session(struct begin *begin, const struct begin_options *options, const char *workspace,
		  const char *notebook_metadata, int cancel_fd, struct err *err)
{
	struct err why = ERR_INIT;
	int opened;

	begin->end = options->session ? BEGIN_LEAVE_RUNNING
		     : options->keep  ? BEGIN_KEEP
				      : BEGIN_REMOVE;
	if (!options->session)
		return start_new(begin, options, workspace, notebook_metadata, cancel_fd, err);
	opened = open_existing(begin, options, cancel_fd, err);
	if (opened)
		return opened > 0 ? 0 : -1;
	if (options->running_only)
		return err_set(err, ERR_NOT_FOUND, "there is no session %s", options->session);
	if (start_new(begin, options, workspace, notebook_metadata, cancel_fd, &why) == 0)
		return 0;
	/* Someone else made a session of this name just now: use that one. */
	if (why.code == ERR_DUPLICATE) {
		opened = open_existing(begin, options, cancel_fd, err);
		if (opened)
			return opened > 0 ? 0 : -1;
	}
	if (err)
		*err = why;
	return -1;
}

static void remove_directory(const char *id)
{
	cleanup_store struct store store = STORE_INIT;
	struct err err = ERR_INIT;

	if (store_open(&store, &err) != 0 || store_remove(&store, id, REMOVE_WAIT_MS, &err) != 0)
		say("the session %s could not be removed: %s", id, err.text);
}

void begin_finish(struct begin *begin, bool stopped)
{
	struct fh_session *session = begin->session;
	struct fh_error error = FH_ERROR_INIT;
	char id[HASH_ID_SIZE];

	if (!session)
		return;
	begin->session = NULL;
	memcpy(id, fh_id(session), sizeof(id));
	if (begin->end != BEGIN_LEAVE_RUNNING && !stopped) {
		fh_set_timeout(session, STOP_TIMEOUT_MS);
		if (fh_stop(session, false, &error) != 0 && error.code != FH_GONE)
			say("the session could not be stopped: %s", error.text);
	}
	fh_close(session);
	if (begin->end == BEGIN_REMOVE)
		remove_directory(id);
	else if (begin->end == BEGIN_KEEP)
		say("the session is kept: fumehood log %.*s (fumehood gc %.*s removes it)",
		    SHORT_ID, id, SHORT_ID, id);
}
