/*
 * Words about a return. See went_back.h.
 *
 * Lists are cut after a few names, because a return can touch thousands of files; --json has all
 * that the keeper tells.
 */
#include "cli/went_back.h"

#include <string.h>

#include "base/text.h"
#include "cli/say.h"
#include "digest/loss.h"

enum {
	NAMES_MAX = 10,
	TIMEOUT_MS = 600000 /* files of the workspace may have to be copied */
};

int went_back_call(const struct command *command, int argc, char **argv, size_t words_min,
		   char *(*call)(struct fh_session *session, const char *name, enum fh_files files,
				 struct fh_error *error),
		   struct ask *ask)
{
	bool json = false;
	const char *files_word = NULL;
	const struct option table[] = {
		{"files", '\0', OPTION_TEXT, &files_word},
		{"json", 'j', OPTION_FLAG, &json},
	};
	cleanup_options struct options options = {.words = NULL};
	enum fh_files files = FH_FILES_DEFAULT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, words_min, 2);

	if (status >= 0)
		return status;
	if (files_word && went_back_files(files_word, &files, &err) != 0)
		return say_usage(command, "%s", err.text);
	if (ask_open(ask, options.words[0], false, &err) != 0)
		return say_err(&err);
	fh_set_timeout(ask->session, TIMEOUT_MS);
	return ask_take(ask, call(ask->session, options.words[1], files, &error), &error, json);
}

int went_back_files(const char *text, enum fh_files *files, struct err *err)
{
	if (strcmp(text, "yes") == 0)
		*files = FH_FILES_BACK;
	else if (strcmp(text, "no") == 0)
		*files = FH_FILES_STAY;
	else
		return err_set(err, ERR_USAGE, "--files is yes or no, not %s", text);
	return 0;
}

static void put_text(struct buf *out, const char *text)
{
	text_escape(out, text, strlen(text), false, false);
}

/* An item: a name, or {"path", and why}. */
static void put_item(struct buf *out, const struct json *item)
{
	const char *name = json_string(item, NULL);
	const char *path = name ? name : json_get_string(item, "path");
	const char *why = json_get_string(item, "reason");

	if (!why)
		why = json_get_string(item, "change");
	put_text(out, path ? path : "?");
	if (!why)
		return;
	buf_append_string(out, " (");
	put_text(out, why);
	buf_append_char(out, ')');
}

static void put_list(struct buf *out, const char *head, const struct json *list)
{
	size_t count = json_type_of(list) == JSON_ARRAY ? json_length(list) : 0;

	if (count == 0)
		return;
	buf_append_string(out, head);
	for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
		buf_append_string(out, i ? ", " : " ");
		put_item(out, json_at(list, i));
	}
	if (count > NAMES_MAX)
		buf_printf(out, " and %zu more", count - NAMES_MAX);
	buf_append_char(out, '\n');
}

void went_back_cells(struct buf *out, const struct json *body)
{
	if (json_length(json_get(body, "rolled_back")) == 0)
		buf_append_string(out, "no cell was rolled back\n");
	put_list(out, "rolled back:", json_get(body, "rolled_back"));
}

void went_back_rest(struct buf *out, const struct json *body)
{
	const struct json *files = json_get(body, "files");
	int64_t more = json_get_int(files, "more", 0);
	cleanup_buf struct buf words = BUF_INIT;

	if (loss_words(&words, json_get(body, "lost")))
		buf_printf(out, "not restored: %s\n", buf_bytes(&words));
	put_list(out, "files restored:", json_get(files, "restored"));
	put_list(out, "files removed:", json_get(files, "removed"));
	put_list(out, "files that could not be restored:", json_get(files, "not_protected"));
	put_list(out, "files that are not as they were then:", json_get(files, "differ"));
	if (more > 0)
		buf_printf(out, "and %lld more files\n", (long long)more);
}

int went_back_print(const struct json *reply, const char *first)
{
	const char *cell = json_get_string(reply, "cell");
	cleanup_buf struct buf out = BUF_INIT;

	went_back_cells(&out, reply);
	buf_append_string(&out, cell ? "the state is that after cell " : first);
	put_text(&out, cell ? cell : "");
	buf_append_char(&out, '\n');
	went_back_rest(&out, reply);
	return say_out(buf_bytes(&out), out.len);
}
