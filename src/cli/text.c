/*
 * fumehood text: what a language model should read of a cell.
 */
#include <unistd.h>

#include "base/mem.h"
#include "cli/find.h"
#include "cli/fold.h"
#include "cli/say.h"
#include "cli/terminal.h"

static int command_text(const struct command *command, int argc, char **argv)
{
	uint64_t max_chars = UINT64_MAX; /* not given */
	struct digest_params form = {.marks = false};
	const struct option table[] = {
		{"max-chars", '\0', OPTION_COUNT, &max_chars},
		{"marks", '\0', OPTION_FLAG, &form.marks},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_found struct found found = FOUND_INIT;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *whole = NULL;
	struct terminal out;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 1, 2);
	char title[16];
	int outcome;

	if (status >= 0)
		return status;
	if (max_chars == 0)
		return say_usage(command, "--max-chars is more than 0");
	if (found_open(&found, options.words[0], &err) != 0)
		return say_err(&err);
	whole = mem_format("fumehood log %s", found_title(&found.entry, title));
	form.whole = whole;
	form.total_chars_max = max_chars == UINT64_MAX ? 0 : (size_t)max_chars;
	if (fold_text(found.dirfd, options.words[1], &form, &text, &err) != 0)
		return say_err(&err);
	buf_append_char(&text, '\n');
	terminal_init(&out, STDOUT_FILENO);
	terminal_guest(&out, buf_bytes(&text), text.len);
	outcome = terminal_end(&out, &err);
	terminal_release(&out);
	return outcome == 0 ? 0 : say_err(&err);
}

const struct command COMMAND_TEXT = {
	.name = "text",
	.summary = "show a cell's output as a language model reads it",
	.example = "fumehood text work c7 --max-chars 2000",
	.help = "Usage: fumehood text SESSION [CELL] [options]\n"
		"\n"
		"Prints the text of a cell for a language model: output as a terminal would show "
		"it, results,\n"
		"the failing line of an error; long parts cut in the middle. Without CELL: of the "
		"last one.\n"
		"\n"
		"  fumehood text work\n"
		"  fumehood text work c7 --max-chars 2000\n"
		"\n"
		"Options:\n"
		"      --max-chars N    longest text (default 8000 characters; with --marks a "
		"mebi)\n"
		"      --marks          each output under a mark: [stdout], [execute_result_text], "
		"[display_text],\n"
		"                       [error]; images as a sentence; each cut to its first and "
		"last "
		"500\n"
		"                       characters\n",
	.run = command_text,
};
