/*
 * fumehood gc: removes what is no longer wanted: sessions, and environments of --with that none
 * uses. Running sessions are never touched.
 */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/environments.h"
#include "cli/find.h"
#include "cli/say.h"
#include "client/session.h"
#include "sandbox/cgroup.h"

#define DEFAULT_AGE_S (30.0 * 86400)
enum { TITLE_CHARS_MAX = 200 };

struct tally {
	unsigned count, environments;
	uint64_t bytes;
	bool dry_run;
	struct json *gone; /* ids of sessions */
	/* For the sweep of environments, which goes between that of old sessions and that of
	 * many. */
	struct store *store;
	int64_t age_us_max;
	uint64_t bytes_max; /* of sessions and environments together */
	struct err err;     /* why that could not be done */
};

static void tell_removed(void *data, const struct store_entry *entry, uint64_t bytes,
			 const char *why)
{
	struct tally *tally = data;
	char title[16];

	tally->count++;
	tally->bytes += bytes;
	if (tally->gone)
		json_push(tally->gone, json_new_string(entry->config.id, strlen(entry->config.id)));
	say("%s %s (%s, %" PRIu64 " KiB)", tally->dry_run ? "would remove" : "removed",
	    found_title(entry, title), why, bytes / 1024);
}

static void tell_environment(void *data, const struct json *packages, uint64_t bytes,
			     const char *why)
{
	struct tally *tally = data;
	cleanup_buf struct buf title = BUF_INIT;

	tally->environments++;
	tally->bytes += bytes;
	for (size_t i = 0; i < json_length(packages); i++) {
		size_t len = 0;
		const char *text = json_string(json_at(packages, i), &len);

		buf_append_string(&title, i ? ", " : " with ");
		text_escape(&title, text ? text : "", len, false, false);
	}
	say("%s environment%.*s (%s, %" PRIu64 " KiB)", tally->dry_run ? "would remove" : "removed",
	    (int)text_prefix(buf_bytes(&title), title.len, TITLE_CHARS_MAX), buf_bytes(&title), why,
	    bytes / 1024);
}

static bool is_gone(void *data, const char *id)
{
	const struct tally *tally = data;

	for (size_t i = 0; i < json_length(tally->gone); i++)
		if (strcmp(json_string(json_at(tally->gone, i), NULL), id) == 0)
			return true;
	return false;
}

/* Environments can be made again, sessions cannot: so those go first. What the rest leaves to the
 * sessions. */
static uint64_t sweep_environments(void *data, uint64_t session_bytes)
{
	struct tally *tally = data;
	const uint64_t most = tally->bytes_max;
	const struct environments_sweep sweep = {
		.age_us_max = tally->age_us_max,
		.bytes_max =
			most == UINT64_MAX || most < session_bytes ? most : most - session_bytes,
		.dry_run = tally->dry_run,
		.is_gone = is_gone,
		.removed = tell_environment,
		.data = tally,
	};
	uint64_t bytes;

	(void)environments_sweep(tally->store, &sweep, &bytes, &tally->err);
	return most == UINT64_MAX ? most : bytes < most ? most - bytes : 0;
}

/* The sessions that were named, whatever their age. */
static int remove_named(const struct options *options, struct tally *tally)
{
	int status = 0;

	for (size_t i = 0; i < options->word_count; i++) {
		cleanup_found struct found found = FOUND_INIT;
		struct err err = ERR_INIT;
		uint64_t bytes;

		if (found_open(&found, options->words[i], &err) != 0) {
			status = say_err(&err);
			continue;
		}
		bytes = store_bytes(&found.store, found.entry.config.id);
		if (!tally->dry_run &&
		    session_remove(&found.store, found.entry.config.id, &err) != 0) {
			err_wrap(&err, "%s", options->words[i]);
			status = say_err(&err);
			continue;
		}
		tell_removed(tally, &found.entry, bytes, "named");
	}
	return status;
}

static int command_gc(const struct command *command, int argc, char **argv)
{
	double older_s = DEFAULT_AGE_S;
	uint64_t size = UINT64_MAX;
	struct tally tally = {.count = 0};
	const struct option table[] = {
		{"older", '\0', OPTION_SECONDS, &older_s},
		{"size", '\0', OPTION_SIZE, &size},
		{"dry-run", 'n', OPTION_FLAG, &tally.dry_run},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_store struct store store = STORE_INIT;
	cleanup_json struct json *gone = json_new_array();
	struct store_sweep sweep = {
		.removed = tell_removed, .room = sweep_environments, .data = &tally};
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 3, argc, argv, 0, 1000);

	if (status >= 0)
		return status;
	if (options.word_count)
		return remove_named(&options, &tally);
	sweep.age_us_max = older_s < 1e12 ? (int64_t)(older_s * 1e6) : -1;
	sweep.dry_run = tally.dry_run;
	tally.gone = gone;
	tally.store = &store;
	tally.age_us_max = sweep.age_us_max;
	tally.bytes_max = size;
	if (store_open(&store, &err) != 0 || store_sweep(&store, &sweep, &err) != 0)
		return say_err(&err);
	if (tally.err.code != ERR_OK)
		return say_err(&tally.err);
	if (!tally.dry_run)
		(void)cgroup_sweep_all(); /* what keepers that were killed have left */
	say("%u sessions, %u environments, %" PRIu64 " KiB", tally.count, tally.environments,
	    tally.bytes / 1024);
	return 0;
}

const struct command COMMAND_GC = {
	.name = "gc",
	.summary = "remove sessions and environments that are no longer wanted",
	.example = "fumehood gc --older 7d",
	.help = "Usage: fumehood gc [options] [SESSION...]\n"
		"\n"
		"Removes the named sessions, or else those that nobody has used for long and what "
		"killed\n"
		"one-shot runs have left, and environments of --with that no session uses. "
		"Running\n"
		"sessions and workspaces elsewhere are never touched.\n"
		"\n"
		"  fumehood gc                                 unused for 30 days\n"
		"  fumehood gc --older 7d --size 10G           ... and then the oldest above 10 "
		"GiB\n"
		"  fumehood gc work                            this one\n"
		"\n"
		"Options:\n"
		"      --older TIME     unused for so long: 12h, 7d (default 30d)\n"
		"      --size SIZE      keep at most so much, all together: 500M, 10G\n"
		"  -n, --dry-run        only say what would be removed\n",
	.run = command_gc,
};
