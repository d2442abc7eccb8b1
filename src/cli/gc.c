/*
 * fumehood gc: removes what is no longer wanted. Running sessions are never touched.
 */
#include <inttypes.h>

#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"
#include "client/session.h"
#include "sandbox/cgroup.h"

#define DEFAULT_AGE_S (30.0 * 86400)

struct tally {
	unsigned count;
	uint64_t bytes;
	bool dry_run;
};

static void tell_removed(void *data, const struct store_entry *entry, uint64_t bytes,
			 const char *why)
{
	struct tally *tally = data;
	char title[16];

	tally->count++;
	tally->bytes += bytes;
	say("%s %s (%s, %" PRIu64 " KiB)", tally->dry_run ? "would remove" : "removed",
	    found_title(entry, title), why, bytes / 1024);
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
	struct store_sweep sweep = {.removed = tell_removed, .data = &tally};
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 3, argc, argv, 0, 1000);

	if (status >= 0)
		return status;
	if (options.word_count)
		return remove_named(&options, &tally);
	sweep.age_us_max = older_s < 1e12 ? (int64_t)(older_s * 1e6) : -1;
	sweep.bytes_max = size;
	sweep.dry_run = tally.dry_run;
	if (store_open(&store, &err) != 0 || store_sweep(&store, &sweep, &err) != 0)
		return say_err(&err);
	if (!tally.dry_run)
		(void)cgroup_sweep_all(); /* what keepers that were killed have left */
	say("%u sessions, %" PRIu64 " KiB", tally.count, tally.bytes / 1024);
	return 0;
}

const struct command COMMAND_GC = {
	.name = "gc",
	.summary = "remove sessions that are no longer wanted",
	.example = "fumehood gc --older 7d",
	.help = "Usage: fumehood gc [options] [SESSION...]\n"
		"\n"
		"Removes the named sessions, or else those that nobody has used for long and what "
		"killed\n"
		"one-shot runs have left. Running sessions and workspaces elsewhere are never "
		"touched.\n"
		"\n"
		"  fumehood gc                                 unused for 30 days\n"
		"  fumehood gc --older 7d --size 10G           ... and then the oldest above 10 "
		"GiB\n"
		"  fumehood gc work                            this one\n"
		"\n"
		"Options:\n"
		"      --older TIME     unused for so long: 12h, 7d (default 30d)\n"
		"      --size SIZE      keep at most so much: 500M, 10G\n"
		"  -n, --dry-run        only say what would be removed\n",
	.run = command_gc,
};
