/*
 * Beginning and ending the session of a command. See begin.h.
 *
 * Settings are for what is made anew: a session that exists keeps what it was made with, and then
 * they are not even read.
 */
#include "cli/begin.h"

#include <limits.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/python.h"
#include "cli/say.h"
#include "client/policy.h"
#include "client/store.h"
#include "sandbox/policy.h"

enum { STOP_TIMEOUT_MS = 30000, REMOVE_WAIT_MS = 10000, SHORT_ID = 8 };

char *begin_split_workspace(const char *text, enum workspace_mode *mode, struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = strlen(text);

	*mode = WORKSPACE_RW;
	if (colon && workspace_mode_from_name(colon + 1, mode) == 0)
		len = (size_t)(colon - text);
	if (len == 0) {
		err_set(err, ERR_USAGE, "--workspace needs a directory");
		return NULL;
	}
	return mem_copy(text, len);
}

/* What the options say, made absolute; strings are owned. */
struct wanted {
	char *workspace; /* NULL: private */
	enum workspace_mode mode;
	char *python;
	enum fh_tier tier;
	bool durability_power;
	bool keeps_rolled_back;
	struct json *policy; /* NULL: nothing is asked for */
	int environment;     /* keeps that of --with where it is; -1: none */
};

#define WANTED_INIT \
	{ \
		.workspace = NULL, .environment = -1 \
	}

static void wanted_release(struct wanted *wanted)
{
	free(wanted->workspace);
	free(wanted->python);
	json_free(wanted->policy);
	if (wanted->environment >= 0)
		close(wanted->environment);
}

static int want_workspace(struct wanted *wanted, const struct begin_options *options,
			  const char *otherwise, struct err *err)
{
	cleanup_free char *named = NULL;
	const char *path = otherwise;

	if (options->workspace) {
		named = begin_split_workspace(options->workspace, &wanted->mode, err);
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

static enum fh_tier tier_of(const struct config *config)
{
	static const enum fh_tier tiers[CONFIG_TIERS] = {
		[CONFIG_TIER_FULL] = FH_TIER_SANDBOX,
		[CONFIG_TIER_DEGRADED] = FH_TIER_DEGRADED,
		[CONFIG_TIER_NONE] = FH_TIER_NONE,
	};

	return tiers[config->tier];
}

static int want_tier(struct wanted *wanted, const struct begin_options *options, struct err *err)
{
	enum tier tier = TIER_FULL;

	if (options->tier && tier_from_name(options->tier, &tier) != 0)
		return err_set(err, ERR_USAGE, "--tier is full, degraded or none, not %s",
			       options->tier);
	wanted->tier = tier == TIER_NONE       ? FH_TIER_NONE
		       : tier == TIER_DEGRADED ? FH_TIER_DEGRADED
					       : FH_TIER_SANDBOX;
	return 0;
}

/* `otherwise`: the setting. */
static int want_durability(struct wanted *wanted, const struct begin_options *options,
			   const char *otherwise, struct err *err)
{
	const char *name = options->durability ? options->durability : otherwise;

	wanted->durability_power = strcmp(name, "power") == 0;
	if (!wanted->durability_power && strcmp(name, "process") != 0)
		return err_set(err, ERR_USAGE, "--durability is process or power, not %s", name);
	return 0;
}

/* `otherwise`: the setting. */
static int want_rolled_back(struct wanted *wanted, const struct begin_options *options,
			    const char *otherwise, struct err *err)
{
	const char *name = options->rolled_back ? options->rolled_back : otherwise;

	wanted->keeps_rolled_back = strcmp(name, "keep") == 0;
	if (!wanted->keeps_rolled_back && strcmp(name, "omit") != 0)
		return err_set(err, ERR_USAGE, "--rolled-back is omit or keep, not %s", name);
	return 0;
}

char *begin_python(const char *named, const struct settings *settings, struct err *err)
{
	const char *set = settings_text(settings, SETTING_PYTHON);
	char *python;

	if (named)
		return python_resolve(named, err);
	if (!set)
		return python_default(err);
	python = python_resolve(set, err);
	if (!python)
		err_wrap(err, "%s",
			 settings->items[SETTING_PYTHON].source == SETTING_FROM_ENVIRONMENT
				 ? SETTINGS[SETTING_PYTHON].variable
				 : "\"python\" of the configuration");
	return python;
}

int begin_max_chars(uint64_t *chars, bool marks, struct err *err)
{
	cleanup_settings struct settings settings = {.file = NULL};

	if (*chars != UINT64_MAX)
		return 0;
	*chars = 0;
	if (marks)
		return 0;
	if (settings_load(&settings, err) != 0)
		return -1;
	*chars = (uint64_t)settings_count(&settings, SETTING_TEXT_MAX_CHARS);
	return 0;
}

/* Of --with: another Python, that is based on the one that is wanted so far. */
static int want_packages(struct wanted *wanted, const struct begin_options *options, int cancel_fd,
			 struct err *err)
{
	cleanup_free char *base = NULL;

	if (options->with.packages.count == 0)
		return 0;
	base = mem_take(wanted->python);
	wanted->python = with_python(&options->with, base, cancel_fd, &wanted->environment, err);
	return wanted->python ? 0 : -1;
}

/* Of the options as they are: the path that a new session of them would have. */
static char *python_of(const struct begin_options *options, struct err *err)
{
	cleanup_settings struct settings settings = {.file = NULL};
	cleanup_free char *base = NULL;

	if (!options->python && settings_load(&settings, err) != 0)
		return NULL;
	base = options->python ? python_resolve(options->python, err)
			       : begin_python(NULL, &settings, err);
	if (!base || options->with.packages.count == 0)
		return mem_take(base);
	return with_path(&options->with, base, err);
}

/* A session that exists keeps what it was made with: options that say otherwise are refused, not
 * passed over. */
static int check_existing(const struct store_entry *entry, const struct begin_options *options,
			  struct err *err)
{
	__attribute__((cleanup(wanted_release))) struct wanted wanted = WANTED_INIT;
	const struct config *config = &entry->config;
	const char *option = NULL;

	if (options->workspace) {
		if (want_workspace(&wanted, options, NULL, err) != 0)
			return -1;
		if (!config->workspace || strcmp(wanted.workspace, config->workspace) != 0 ||
		    (wanted.mode == WORKSPACE_RO) != config->workspace_read_only ||
		    (wanted.mode == WORKSPACE_OVERLAY) != config->workspace_overlay)
			option = "--workspace";
	}
	if (options->python) {
		if (config->workspace &&
		    python_check_workspace(options->python, config->workspace, err) != 0)
			return -1;
	}
	if (options->python || options->with.packages.count > 0) {
		wanted.python = python_of(options, err);
		if (!wanted.python)
			return -1;
		if (!config->python || strcmp(wanted.python, config->python) != 0)
			option = options->with.packages.count > 0 ? "--with" : "--python";
	}
	if (options->tier) {
		if (want_tier(&wanted, options, err) != 0)
			return -1;
		if (wanted.tier != tier_of(config))
			option = "--tier";
	}
	if (options->durability) {
		if (want_durability(&wanted, options, NULL, err) != 0)
			return -1;
		if (wanted.durability_power != config->durability_power)
			option = "--durability";
	}
	if (options->rolled_back) {
		if (want_rolled_back(&wanted, options, NULL, err) != 0)
			return -1;
		if (wanted.keeps_rolled_back != config->keeps_rolled_back)
			option = "--rolled-back";
	}
	if (policy_options_read(&options->policy, &wanted.policy, err) != 0 ||
	    policy_take_variables(wanted.policy, err) != 0)
		return -1;
	if (wanted.policy && !json_equal(wanted.policy, config->policy))
		option = "policy";
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

/* Whether the configuration has a say about this limit. */
static bool is_wanted(const struct settings *settings, enum setting_id id,
		      const struct json *policy)
{
	return settings_given(settings, id) && !json_has(policy, strchr(SETTINGS[id].key, '.') + 1);
}

/* What is not set stays 0, the keeper's own default: session.json says only what was wanted. What
 * the policy has goes over the configuration. */
static void take_limits(struct fh_start_params *params, const struct settings *settings,
			const struct json *policy)
{
	const struct {
		enum setting_id id;
		uint64_t *limit;
	} rows[] = {
		{SETTING_LIMITS_OUTPUT_BYTES, &params->output_bytes_max},
		{SETTING_LIMITS_BACKGROUND_BYTES, &params->limits.background_bytes},
		{SETTING_LIMITS_QUEUE, &params->limits.queue},
		{SETTING_LIMITS_RECORD_BYTES, &params->limits.record_bytes},
		{SETTING_LIMITS_PROCESSES, &params->limits.processes},
		{SETTING_LIMITS_FILES, &params->limits.files},
		{SETTING_LIMITS_FILE_BYTES, &params->limits.file_bytes},
		{SETTING_LIMITS_TMP_BYTES, &params->limits.tmp_bytes},
		{SETTING_LIMITS_MEMORY_BYTES, &params->limits.memory_bytes},
		{SETTING_LIMITS_DISK_BYTES, &params->limits.disk_bytes},
		{SETTING_LIMITS_DISK_INODES, &params->limits.disk_inodes},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (is_wanted(settings, rows[i].id, policy))
			*rows[i].limit = settings_json(settings, rows[i].id)
						 ? (uint64_t)settings_count(settings, rows[i].id)
						 : FH_NO_LIMIT;
	if (is_wanted(settings, SETTING_LIMITS_CHECKPOINTS, policy)) {
		params->limits.checkpoints =
			(uint64_t)settings_count(settings, SETTING_LIMITS_CHECKPOINTS);
		if (params->limits.checkpoints == 0)
			params->limits.checkpoints = FH_NO_CHECKPOINTS;
	}
	if (is_wanted(settings, SETTING_LIMITS_CPUS, policy))
		params->limits.cpus = settings_number(settings, SETTING_LIMITS_CPUS);
	if (is_wanted(settings, SETTING_LIMITS_CPU_S, policy))
		params->limits.cpu_s = settings_number(settings, SETTING_LIMITS_CPU_S);
}

static bool is_degraded(const struct fh_session *session)
{
	const char *text = fh_hello(session);
	cleanup_json struct json *hello = json_parse(text, strlen(text), &JSON_LIMITS, NULL);
	const char *tier = json_get_string(hello, "tier");

	return tier && strcmp(tier, tier_name(TIER_DEGRADED)) == 0;
}

/* On success the session and the workspace are `begin`'s; without a session nothing is. */
static int take_session(struct begin *begin, struct fh_session *session, char **workspace)
{
	begin->session = session;
	if (!session)
		return -1;
	begin->degraded = is_degraded(session);
	free(begin->workspace);
	begin->workspace = mem_take(*workspace);
	return 0;
}

static int start_new(struct begin *begin, const struct begin_options *options,
		     const char *workspace, const char *notebook_metadata, int cancel_fd,
		     struct err *err)
{
	__attribute__((cleanup(wanted_release))) struct wanted wanted = WANTED_INIT;
	cleanup_buf struct buf policy = BUF_INIT;
	cleanup_settings struct settings settings = {.file = NULL};
	struct fh_start_params params;
	struct fh_error error = FH_ERROR_INIT;
	const char *named;

	if (settings_load(&settings, err) != 0 ||
	    want_workspace(&wanted, options, workspace, err) != 0 ||
	    want_tier(&wanted, options, err) != 0 ||
	    policy_options_read(&options->policy, &wanted.policy, err) != 0 ||
	    want_durability(&wanted, options, settings_text(&settings, SETTING_DURABILITY), err) !=
		    0 ||
	    want_rolled_back(&wanted, options,
			     settings_text(&settings, SETTING_NOTEBOOK_ROLLED_BACK), err) != 0)
		return -1;
	named = options->python ? options->python : settings_text(&settings, SETTING_PYTHON);
	if (named && wanted.workspace && python_check_workspace(named, wanted.workspace, err) != 0)
		return -1;
	wanted.python = begin_python(options->python, &settings, err);
	if (!wanted.python || want_packages(&wanted, options, cancel_fd, err) != 0)
		return -1;
	fh_start_params_init(&params);
	params.name = options->session;
	params.workspace = wanted.workspace;
	params.workspace_read_only = wanted.mode == WORKSPACE_RO;
	params.workspace_overlay = wanted.mode == WORKSPACE_OVERLAY;
	params.python = wanted.python;
	params.tier = wanted.tier;
	params.durability_power = wanted.durability_power;
	params.notebook_keeps_rolled_back = wanted.keeps_rolled_back;
	params.wall_s_max = settings_seconds(&settings, SETTING_TIMEOUT);
	take_limits(&params, &settings, wanted.policy);
	if (wanted.policy)
		json_write(&policy, wanted.policy);
	params.policy_json = wanted.policy ? buf_bytes(&policy) : NULL;
	if (options->timeout_s > params.wall_s_max ||
	    (options->timeout_is_limit && options->timeout_s > 0))
		params.wall_s_max = options->timeout_s;
	params.ends_with_client = !options->session && !options->keep;
	params.notebook_metadata = notebook_metadata;
	params.without_spare = !settings_bool(&settings, SETTING_SPARE);
	params.cancel_fd = cancel_fd;
	if (take_session(begin, fh_start(&params, &error), &wanted.workspace) != 0)
		return say_take(err, &error);
	begin->created = true;
	return 0;
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
	if (take_session(begin, fh_open(entry.config.id, &params, &error),
			 &entry.config.workspace) != 0)
		return say_take(err, &error);
	begin->created = false;
	return 1;
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

void begin_say_tier(const struct begin *begin, const struct begin_options *options)
{
	if (begin->degraded && !options->tier)
		say("the sandbox is degraded: without user namespaces Landlock and a filter are "
		    "all that stands before the files of this account; \"fumehood doctor sandbox\" "
		    "says what to do, --tier-floor full refuses it");
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

	free(mem_take(begin->workspace));
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
