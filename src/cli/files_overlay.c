/*
 * fumehood files diff, apply, discard: what an overlay workspace keeps aside.
 *
 * It lies in the session's own directory, so it is read here, whether the session runs or not. Only
 * to throw it away, nobody may have it mounted.
 */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/files.h"
#include "cli/say.h"
#include "cli/table.h"
#include "files/answer.h"
#include "files/overlay.h"
#include "files/patch.h"
#include "sandbox/protect.h"

struct aside {
	struct found found;
	struct overlay overlay;
	struct overlay_diff diff;
};

#define ASIDE_INIT \
	{ \
		.found = FOUND_INIT, .overlay = OVERLAY_INIT, .diff = OVERLAY_DIFF_INIT \
	}

static void aside_release(struct aside *aside)
{
	overlay_diff_release(&aside->diff);
	overlay_release(&aside->overlay);
	found_release(&aside->found);
}

#define cleanup_aside __attribute__((cleanup(aside_release)))

static int aside_find(struct aside *aside, const char *session, struct err *err)
{
	if (found_open(&aside->found, session, err) != 0)
		return -1;
	if (!aside->found.entry.config.workspace_overlay)
		return err_set(err, ERR_INVALID,
			       "this session keeps no changes aside: start one with --workspace "
			       "DIR:overlay");
	return 0;
}

static int aside_open(struct aside *aside, const char *session, struct err *err)
{
	const struct config *config = &aside->found.entry.config;

	if (aside_find(aside, session, err) != 0 ||
	    overlay_open(&aside->overlay, aside->found.dirfd, config->workspace, err) != 0)
		return -1;
	return overlay_compare(&aside->overlay, &aside->diff, err);
}

/* --- diff --- */

static bool is_asked_for(const struct options *options, const char *path)
{
	for (size_t i = 0; i < options->word_count; i++) {
		size_t len = strlen(options->words[i]);

		if (strncmp(path, options->words[i], len) == 0 &&
		    (path[len] == '\0' || path[len] == '/'))
			return true;
	}
	return options->word_count == 0;
}

static void put_item(struct buf *out, const struct overlay_item *item)
{
	size_t start;

	table_cell(out, overlay_change_name(item->change), 7);
	start = out->len;
	if (item->change == OVERLAY_CHANGED && item->before == TREE_FILE) {
		table_size(out, (int64_t)item->bytes_before);
		buf_append_string(out, " > ");
	}
	if (item->kind == TREE_FILE)
		table_size(out, (int64_t)(item->change == OVERLAY_REMOVED ? item->bytes_before
									  : item->bytes));
	else
		buf_append_string(out, answer_kind_name(item->kind));
	table_pad(out, start, 11);
	text_escape(out, item->path, strlen(item->path), false, false);
	buf_append_string(out, item->kind == TREE_FOLDER ? "/" : "");
	buf_append_string(out,
			  item->stale ? "  (the directory's has been changed meanwhile)\n" : "\n");
}

static void put_json(struct buf *out, const struct overlay_item *item)
{
	cleanup_json struct json *object = json_new_object();

	answer_set_name(object, "path", item->path, strlen(item->path));
	json_set_string(object, "change", overlay_change_name(item->change));
	json_set_string(object, "type", answer_kind_name(item->kind));
	if (item->change != OVERLAY_REMOVED)
		json_set_int(object, "bytes", (int64_t)item->bytes);
	if (item->change != OVERLAY_ADDED)
		json_set_int(object, "bytes_before", (int64_t)item->bytes_before);
	json_set(object, "stale", json_new_bool(item->stale));
	json_write(out, object);
	buf_append_char(out, '\n');
}

/* A file of one side; none is empty. *large: it is too large to be compared by lines. */
static int read_side(const struct tree *tree, const char *path, bool there, struct buf *out,
		     bool *large, struct err *err)
{
	struct tree_status status;

	if (!there)
		return 0;
	if (tree_read(tree, path, 0, TREE_PART_BYTES_MAX, out, &status, err) != 0)
		return -1;
	*large = *large || status.bytes >= TREE_PART_BYTES_MAX;
	return 0;
}

/* Line by line, as patch(1) reads it. */
static int put_patch(const struct aside *aside, const struct overlay_item *item, struct buf *out,
		     struct err *err)
{
	bool before = item->change == OVERLAY_REMOVED
			      ? item->kind == TREE_FILE
			      : item->change == OVERLAY_CHANGED && item->before == TREE_FILE;
	bool after = item->change != OVERLAY_REMOVED && item->kind == TREE_FILE;
	cleanup_buf struct buf old = BUF_INIT, new = BUF_INIT;
	bool large = false;

	if (!before && !after) {
		put_item(out, item);
		return 0;
	}
	if (read_side(&aside->overlay.lower, item->path, before, &old, &large, err) != 0 ||
	    read_side(&aside->overlay.upper, item->path, after, &new, &large, err) != 0)
		return -1;
	patch_write(out, &(struct patch_file){.path = item->path,
					      .old = before ? &old : NULL,
					      .new = after ? &new : NULL,
					      .binary = large});
	return 0;
}

int files_diff(const struct command *command, const char *session, int argc, char **argv)
{
	bool json = false, patch = false, raw = false;
	const struct option table[] = {
		{"json", 'j', OPTION_FLAG, &json},
		{"patch", 'p', OPTION_FLAG, &patch},
		{"raw", '\0', OPTION_FLAG, &raw},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_aside struct aside aside = ASIDE_INIT;
	cleanup_buf struct buf out = BUF_INIT, shown = BUF_INIT;
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, table, 3, argc, argv, 0, 10000);

	if (status >= 0)
		return status;
	if (aside_open(&aside, session, &err) != 0)
		return say_err(&err);
	for (size_t i = 0; i < aside.diff.count; i++) {
		const struct overlay_item *item = &aside.diff.items[i];

		if (!is_asked_for(&options, item->path))
			continue;
		if (json)
			put_json(&out, item);
		else if (!patch)
			put_item(&out, item);
		else if (put_patch(&aside, item, &out, &err) != 0)
			return say_err(&err);
	}
	/* Of a file's content nothing may reach a terminal that harms it. */
	if (patch && !json && !raw && isatty(STDOUT_FILENO)) {
		text_escape(&shown, buf_bytes(&out), out.len, true, false);
		return say_out(buf_bytes(&shown), shown.len);
	}
	if (aside.diff.incomplete)
		say("there are others: more than %d changes", OVERLAY_ITEMS_MAX);
	return say_out(buf_bytes(&out), out.len);
}

/* --- apply --- */

static void tell_applied(void *data, const struct overlay_item *item, enum overlay_held held)
{
	static const char *const why[] = {
		[OVERLAY_FINE] = NULL,
		[OVERLAY_STALE] = "has been changed in the directory meanwhile",
		[OVERLAY_REPLACES] = "would take the place of something else",
		[OVERLAY_SPECIAL] = "is no file, folder or symlink: not applied",
		[OVERLAY_LEADS_OUT] = "is a symlink that leads out of the directory: not applied",
		[OVERLAY_LATER] = "is run by other programs, outside of any sandbox: not applied "
				  "unless it is named",
	};
	size_t *passed_over = data;
	cleanup_buf struct buf out = BUF_INIT;

	if (!why[held]) {
		put_item(&out, item);
		(void)say_out(buf_bytes(&out), out.len);
		return;
	}
	(*passed_over)++;
	say("%s %s", item->path, why[held]);
}

int files_apply(const struct command *command, const char *session, int argc, char **argv)
{
	bool force = false;
	const struct option table[] = {{"force", 'f', OPTION_FLAG, &force}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_aside struct aside aside = ASIDE_INIT;
	struct err err = ERR_INIT;
	size_t passed_over = 0;
	struct overlay_apply how = {
		.protect = PROTECT_DEFAULT, .tell = tell_applied, .data = &passed_over};
	int status = files_begin(command, &options, table, 1, argc, argv, 0, 10000);

	if (status >= 0)
		return status;
	how.force = force;
	how.paths = options.word_count ? options.words : NULL;
	if (aside_open(&aside, session, &err) != 0 ||
	    overlay_apply(&aside.overlay, &aside.diff, &how, &err) != 0)
		return say_err(&err);
	if (aside.diff.incomplete)
		say("there are others: more than %d changes; apply again", OVERLAY_ITEMS_MAX);
	return 0;
}

/* --- discard --- */

int files_discard(const struct command *command, const char *session, int argc, char **argv)
{
	cleanup_options struct options options = {.words = NULL};
	cleanup_aside struct aside aside = ASIDE_INIT;
	cleanup_fd int lock = -1;
	struct err err = ERR_INIT;
	int status = files_begin(command, &options, NULL, 0, argc, argv, 0, 0);

	if (status >= 0)
		return status;
	if (aside_find(&aside, session, &err) != 0)
		return say_err(&err);
	lock = file_lock(aside.found.dirfd, "lock", &err);
	if (lock < 0 && err.code == ERR_BUSY)
		err_set(&err, ERR_BUSY, "the session runs; stop it first: fumehood stop %.100s",
			session);
	if (lock < 0 || overlay_discard(aside.found.dirfd, &err) != 0)
		return say_err(&err);
	return 0;
}
