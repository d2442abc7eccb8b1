/*
 * fumehood images: where the images of a session are.
 */
#include "base/mem.h"
#include "base/text.h"
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/table.h"

/* The folder that the path of an image begins in. */
static const char *folder_of(const struct ask *ask, const struct json *image)
{
	const char *place = json_get_string(image, "place");

	if (place && strcmp(place, "workspace") == 0)
		return ask->found.entry.config.workspace;
	return ask->found.entry.directory;
}

static void put_row(struct buf *out, const struct ask *ask, const struct json *image)
{
	const char *cell = json_get_string(image, "cell");
	const char *mime = json_get_string(image, "mime");
	const char *path = json_get_string(image, "path");
	const char *section = json_get_string(image, "section");
	const char *folder = folder_of(ask, image);
	cleanup_free char *whole =
		mem_format("%s/%s", folder ? folder : "?", path ? path : "(not written)");

	table_cell(out, cell ? cell : "-", 8);
	table_cell(out, section ? section : "-", 16);
	table_cell(out, mime ? mime : "?", 13);
	text_escape(out, whole, strlen(whole), false, false);
	buf_append_char(out, '\n');
}

static int print_table(const struct ask *ask)
{
	const struct json *images = json_get(ask->answer, "images");
	int64_t more = json_get_int(ask->answer, "images_more", 0);
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < json_length(images); i++)
		put_row(&out, ask, json_at(images, i));
	if (say_out(buf_bytes(&out), out.len) != 0)
		return EXIT_FUMEHOOD;
	if (more > 0)
		say("%lld more", (long long)more);
	return 0;
}

static int command_images(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const char *section = NULL;
	uint64_t since = 0;
	const struct option table[] = {
		{"section", '\0', OPTION_TEXT, &section},
		{"since", '\0', OPTION_COUNT, &since},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 3, argc, argv, 1, 1);

	if (status >= 0)
		return status;
	if (ask_open(&ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	status = ask_take(&ask, fh_images(ask.session, section, since, &error), &error, json);
	return status >= 0 ? status : print_table(&ask);
}

const struct command COMMAND_IMAGES = {
	.name = "images",
	.summary = "list the images of a session",
	.example = "fumehood images work --section Results",
	.help = "Usage: fumehood images SESSION [options]\n"
		"\n"
		"Lists the images: displayed ones, then image files that cells have made, with "
		"cell, "
		"section,\n"
		"type and path.\n"
		"\n"
		"  fumehood images work\n"
		"  fumehood images work --section Results --json | jq -r '.images[].path'\n"
		"\n"
		"Options:\n"
		"      --section TITLE  only those of this section\n"
		"      --since N        only those after event N (last_seq of the answer before)\n"
		"  -j, --json           the answer as in the session protocol: images, last_seq\n",
	.run = command_images,
};
