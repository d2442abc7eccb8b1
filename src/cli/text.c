/*
 * fumehood text: what a language model should read of a cell, or of the cells of a section.
 */
#include <unistd.h>

#include "base/mem.h"
#include "cli/begin.h"
#include "cli/find.h"
#include "cli/fold.h"
#include "cli/say.h"
#include "cli/terminal.h"

struct text_of {
	const char *cell;    /* NULL: the last one */
	const char *section; /* NULL: one cell */
	bool json;
	struct digest_params form;
};

/* Each text of the section's cells under the cell's id, a blank line between two. */
static void put_cells(struct buf *out, const struct json *cells)
{
	for (size_t i = 0; i < json_length(cells); i++) {
		const struct json *item = json_at(cells, i);
		size_t len = 0;
		const char *text = json_string(json_get(item, "text"), &len);

		buf_printf(out, "%s[%s]\n", i ? "\n" : "", json_get_string(item, "cell"));
		buf_append(out, text, len);
		buf_append_char(out, '\n');
	}
}

static int gather(const struct text_of *wanted, int dirfd, struct buf *out, struct err *err)
{
	struct json *cells;

	if (!wanted->section) {
		if (fold_text(dirfd, wanted->cell, &wanted->form, out, err) != 0)
			return -1;
		buf_append_char(out, '\n');
		return 0;
	}
	cells = fold_section(dirfd, wanted->section, &wanted->form, err);
	if (!cells)
		return -1;
	if (wanted->json) {
		cleanup_json struct json *body = json_new_object();

		json_set(body, "cells", cells);
		json_write(out, body);
		buf_append_char(out, '\n');
	} else {
		put_cells(out, cells);
		json_free(cells);
	}
	return 0;
}

static int print_text(const struct buf *text)
{
	struct terminal out;
	struct err err = ERR_INIT;
	int outcome;

	terminal_init(&out, STDOUT_FILENO);
	terminal_guest(&out, buf_bytes(text), text->len);
	outcome = terminal_end(&out, &err);
	terminal_release(&out);
	return outcome == 0 ? 0 : say_err(&err);
}

static int command_text(const struct command *command, int argc, char **argv)
{
	uint64_t max_chars = UINT64_MAX; /* not given */
	struct text_of wanted = {.section = NULL};
	const struct option table[] = {
		{"max-chars", '\0', OPTION_COUNT, &max_chars},
		{"marks", '\0', OPTION_FLAG, &wanted.form.marks},
		{"section", '\0', OPTION_TEXT, &wanted.section},
		{"json", 'j', OPTION_FLAG, &wanted.json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_found struct found found = FOUND_INIT;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_free char *whole = NULL;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 4, argc, argv, 1, 2);
	char title[16];

	if (status >= 0)
		return status;
	wanted.cell = options.words[1];
	if (max_chars == 0)
		return say_usage(command, "--max-chars is more than 0");
	if (wanted.section && wanted.cell)
		return say_usage(command, "text takes a CELL or --section, not both");
	if (wanted.json && !wanted.section)
		return say_usage(command, "--json is for --section");
	if (begin_max_chars(&max_chars, wanted.form.marks, &err) != 0 ||
	    found_open(&found, options.words[0], &err) != 0)
		return say_err(&err);
	whole = mem_format("fumehood log %s", found_title(&found.entry, title));
	wanted.form.whole = whole;
	wanted.form.total_chars_max = (size_t)max_chars;
	if (gather(&wanted, found.dirfd, &text, &err) != 0)
		return say_err(&err);
	return print_text(&text);
}

const struct command COMMAND_TEXT = {
	.name = "text",
	.summary = "show the output of cells as a language model reads it",
	.example = "fumehood text work c7 --max-chars 2000",
	.help = "Usage: fumehood text SESSION [CELL | --section TITLE] [options]\n"
		"\n"
		"Prints the text of a cell for a language model: output as a terminal would show "
		"it, results,\n"
		"the failing line of an error; long parts cut in the middle. Without CELL: of the "
		"last one.\n"
		"\n"
		"  fumehood text work\n"
		"  fumehood text work c7 --max-chars 2000\n"
		"  fumehood text work --section Results        of its cells, each under its id\n"
		"\n"
		"Options:\n"
		"      --section TITLE  of all cells of the sections with this title\n"
		"  -j, --json           ... as {\"cells\":[{\"cell\",\"text\"}]}\n"
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
