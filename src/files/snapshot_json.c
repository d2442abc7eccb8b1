/*
 * Snapshots as JSON; see snapshot.h. Each list is bounded by its bytes, too: a path may be long,
 * and an event with them must never become a blob.
 */
#include <string.h>

#include "files/answer.h"
#include "files/snapshot.h"

/* A list that takes items until it is too long. */
struct items {
	struct json *list;
	struct buf text; /* for the length */
	uint64_t more;
	bool full;
};

static struct items items_start(uint64_t more)
{
	return (struct items){.list = json_new_array(), .text = BUF_INIT, .more = more};
}

static void items_add(struct items *items, struct json *item)
{
	if (!items->full) {
		json_write(&items->text, item);
		items->full = items->text.len > SNAPSHOT_JSON_BYTES_MAX;
	}
	if (!items->full) {
		json_push(items->list, item);
		return;
	}
	json_free(item);
	items->more++;
}

/* Sets `key` and `key`_more; an empty list only when `always`. */
static void items_end(struct items *items, struct json *body, const char *key, const char *key_more,
		      bool always)
{
	if (always || json_length(items->list) > 0)
		json_set(body, key, items->list);
	else
		json_free(items->list);
	if (items->more > 0)
		json_set_int(body, key_more, (int64_t)items->more);
	buf_release(&items->text);
}

static void set_bytes(struct json *item, uint64_t bytes)
{
	json_set_int(item, "bytes", bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static struct json *item_of(const struct snapshot_note *note)
{
	struct json *item = json_new_object();

	answer_set_name(item, "path", note->path, note->path_len);
	if (note->why != WHY_NOTHING)
		json_set_string(item, "reason", snapshot_why_name(note->why));
	if (note->sys)
		json_set_string(item, "error", strerrordesc_np(note->sys));
	if (note->bytes)
		set_bytes(item, note->bytes);
	return item;
}

static void tell_notes(struct json *body, const char *key, const char *key_more,
		       const struct snapshot_notes *notes)
{
	struct items items = items_start(notes->more);

	for (size_t i = 0; i < notes->count; i++)
		items_add(&items, item_of(&notes->list[i]));
	items_end(&items, body, key, key_more, false);
}

struct json *snapshot_to_json(const struct snapshot *snapshot)
{
	struct json *body = json_new_object();
	struct snapshot_figures figures;
	struct snapshot_notes notes = {.list = NULL};
	const char *stop;

	snapshot_figures(snapshot, &figures);
	snapshot_unprotected(snapshot, &notes);
	stop = manifest_stop_name(figures.stop);
	json_set_int(body, "files", (int64_t)figures.files);
	set_bytes(body, figures.kept_bytes);
	tell_notes(body, "unprotected", "unprotected_more", &notes);
	if (stop)
		json_set_string(body, "incomplete", stop);
	snapshot_notes_release(&notes);
	return body;
}

void snapshot_tell_changes(const struct changes *changes, struct json *body)
{
	static const char *const kinds[] = {[CHANGE_CREATED] = "created",
					    [CHANGE_CHANGED] = "changed",
					    [CHANGE_DELETED] = "deleted"};
	struct items items = items_start(changes->more);
	const char *stop = manifest_stop_name(changes->stop);

	for (size_t i = 0; i < changes->count; i++) {
		const struct change *change = &changes->list[i];
		struct json *item = json_new_object();

		answer_set_name(item, "path", change->path, change->path_len);
		json_set_string(item, "change", kinds[change->kind]);
		set_bytes(item, change->bytes);
		items_add(&items, item);
	}
	items_end(&items, body, "differs", "differs_more", true);
	if (stop)
		json_set_string(body, "differs_incomplete", stop);
}

struct json *snapshot_restored_to_json(const struct snapshot_restored *restored)
{
	struct json *body = json_new_object();
	const char *stop = manifest_stop_name(restored->stop);

	tell_notes(body, "restored", "restored_more", &restored->restored);
	tell_notes(body, "removed", "removed_more", &restored->removed);
	tell_notes(body, "unprotected", "unprotected_more", &restored->unprotected);
	tell_notes(body, "failed", "failed_more", &restored->failed);
	if (stop)
		json_set_string(body, "incomplete", stop);
	return body;
}
