/*
 * Finding the session of a command. See find.h.
 */
#include "cli/find.h"

#include <unistd.h>

#include "base/mem.h"
#include "cli/say.h"

int found_open(struct found *found, const char *session, struct err *err)
{
	if (store_open(&found->store, err) != 0 ||
	    store_find(&found->store, session, &found->entry, err) != 0)
		return -1;
	found->dirfd = store_open_directory(&found->store, found->entry.config.id, err);
	return found->dirfd < 0 ? -1 : 0;
}

void found_release(struct found *found)
{
	if (found->dirfd >= 0)
		close(found->dirfd);
	store_entry_release(&found->entry);
	store_release(&found->store);
}

const char *found_title(const struct store_entry *entry, char text[static 16])
{
	if (entry->config.name)
		return entry->config.name;
	memcpy(text, entry->config.id, 8);
	text[8] = '\0';
	return text;
}

int command_begin(const struct command *command, struct options *options,
		  const struct option *table, size_t count, int argc, char **argv, size_t words_min,
		  size_t words_max)
{
	struct err err = ERR_INIT;

	if (options_read(options, table, count, argc, argv, &err) != 0)
		return say_usage(command, "%s", err.text);
	if (options->help)
		return say_help(command);
	if (options->word_count < words_min)
		return say_usage(command, "%s needs more: which session?", command->name);
	if (options->word_count > words_max)
		return say_usage(command, "%s does not know what to do with %s", command->name,
				 options->words[words_max]);
	return -1;
}
