/*
 * fumehood export: the notebook of a session, rebuilt from its journal.
 */
#include <unistd.h>

#include "base/mem.h"
#include "cli/find.h"
#include "cli/fold.h"
#include "cli/output.h"
#include "cli/say.h"

static int command_export(const struct command *command, int argc, char **argv)
{
	const char *path = "-", *rolled_back = NULL;
	enum notebook_rolled_back what;
	uint64_t until = UINT64_MAX, damaged = 0;
	const struct option table[] = {
		{"output", 'o', OPTION_TEXT, &path},
		{"until", '\0', OPTION_COUNT, &until},
		{"rolled-back", '\0', OPTION_TEXT, &rolled_back},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_found struct found found = FOUND_INIT;
	cleanup_output struct output output = OUTPUT_INIT;
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 3, argc, argv, 1, 1);

	if (status >= 0)
		return status;
	what = notebook_rolled_back_from_name(rolled_back);
	if (rolled_back && what == NOTEBOOK_AS_SAID)
		return say_usage(command, "--rolled-back is omit or keep, not %s", rolled_back);
	if (found_open(&found, options.words[0], &err) != 0 ||
	    output_open(&output, path, &err) != 0 ||
	    fold_notebook(found.dirfd, until, what, &bytes, &damaged, &err) != 0 ||
	    output_write(&output, &bytes, &err) != 0)
		return say_err(&err);
	if (damaged == 0)
		return 0;
	say("%llu lines of the journal are damaged and not in the notebook",
	    (unsigned long long)damaged);
	return EXIT_FUMEHOOD;
}

const struct command COMMAND_EXPORT = {
	.name = "export",
	.summary = "write a session's notebook",
	.example = "fumehood export work -o work.ipynb",
	.help = "Usage: fumehood export SESSION [-o FILE.ipynb] [--until N] [--rolled-back WHAT]\n"
		"\n"
		"Rebuilds the notebook from the session's journal, running or not, and writes it "
		"to stdout or\n"
		"to a file.\n"
		"\n"
		"  fumehood export work -o work.ipynb\n"
		"  fumehood export work --until 120            as it was after event 120\n"
		"\n"
		"Options:\n"
		"  -o, --output FILE    where to (default: stdout)\n"
		"      --until N        only events up to number N (fumehood log shows the "
		"numbers)\n"
		"      --rolled-back WHAT  omit or keep cells that were rolled back (default: as "
		"the "
		"session\n"
		"                       does)\n"
		"\n"
		"Exit status: 0, 125 also if a line of the journal is damaged (the rest is "
		"written).\n",
	.run = command_export,
};
