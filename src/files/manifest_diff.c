/*
 * What differs between two manifests; see manifest.h.
 *
 * The new manifest is walked in its own order (top first), each of its folders beside the same path
 * in the old one, of which three things can be so: it was there (a pair), it was not (ABSENT: all
 * in it is new), or nothing is known of it (UNKNOWN: the times decide). A folder at which the look
 * stopped is never taken for a deleted one.
 */
#include <string.h>

#include "base/mem.h"
#include "files/manifest.h"

enum { PAIR_ABSENT = -1, PAIR_UNKNOWN = -2 }; /* else an index in old->folders */

struct diff {
	const struct diff_params *params;
	const struct manifest *old, *new;
	int64_t *pairs; /* one for each folder of new */
	struct changes *changes;
};

void changes_release(struct changes *changes)
{
	for (size_t i = 0; i < changes->count; i++)
		free(changes->list[i].path);
	free(changes->list);
	*changes = (struct changes)CHANGES_INIT;
}

static void changes_push(struct changes *changes, const struct change *change)
{
	if (!changes->list)
		changes->list = mem_resize(NULL, CHANGES_MAX, sizeof(*changes->list));
	changes->list[changes->count++] = *change;
}

void changes_add(struct changes *changes, enum change_kind kind, const struct manifest *manifest,
		 uint32_t folder, const struct manifest_entry *entry, uint64_t bytes)
{
	struct change change = {
		.kind = kind, .entry = (enum entry_kind)entry->kind, .bytes = bytes};
	struct buf path = BUF_INIT;

	if (changes->count >= CHANGES_MAX) {
		changes->more++;
		return;
	}
	manifest_path(manifest, folder, entry, &path);
	change.path = buf_take(&path, &change.path_len);
	changes_push(changes, &change);
}

void changes_append(struct changes *to, struct changes *from)
{
	size_t moved = 0;

	while (moved < from->count && to->count < CHANGES_MAX)
		changes_push(to, &from->list[moved++]);
	to->more += from->more + (from->count - moved);
	if (from->stop > to->stop)
		to->stop = from->stop;
	for (size_t i = 0; i < moved; i++)
		from->list[i].path = NULL;
	changes_release(from);
}

/* Notes a change of a thing that is no folder. */
static void note(struct diff *diff, enum change_kind kind, const struct manifest *manifest,
		 uint32_t folder, const struct manifest_entry *entry)
{
	changes_add(diff->changes, kind, manifest, folder, entry, entry->size);
}

/* The thing, or all that was in a folder which is no more. */
static void note_deleted(struct diff *diff, uint32_t folder, const struct manifest_entry *entry)
{
	const struct manifest_folder *gone;

	if (entry->kind != ENTRY_FOLDER) {
		note(diff, CHANGE_DELETED, diff->old, folder, entry);
		return;
	}
	if (entry->folder == MANIFEST_NONE)
		return;
	gone = &diff->old->folders[entry->folder];
	for (uint32_t i = 0; i < gone->count; i++) /* as deep as depth_max */
		note_deleted(diff, entry->folder, &diff->old->entries[gone->first + i]);
}

/* An entry that has no other in the old manifest: `pair` says whether that means that it was not
 * there. */
static void note_new(struct diff *diff, uint32_t folder, const struct manifest_entry *entry,
		     int64_t pair)
{
	int64_t since_ns = diff->params->since_ns;

	if (entry->kind == ENTRY_FOLDER) {
		if (entry->folder != MANIFEST_NONE)
			diff->pairs[entry->folder] = pair;
	} else if (pair == PAIR_ABSENT) {
		note(diff, CHANGE_CREATED, diff->new, folder, entry);
	} else if (entry->ctime_ns >= since_ns) {
		note(diff, entry->btime_ns >= since_ns ? CHANGE_CREATED : CHANGE_CHANGED, diff->new,
		     folder, entry);
	}
}

/* The pair of a folder that was there: one that was not entered then is unknown. */
static int64_t pair_with(uint32_t old_folder)
{
	return old_folder == MANIFEST_NONE ? (int64_t)PAIR_UNKNOWN : (int64_t)old_folder;
}

/* Whether another folder stands at the path than before. A folder keeps its watch as long as it
 * lives, while the file system may give its number, and those of its files, to the next one at
 * once. */
static bool is_replaced(const struct manifest_folder *old, const struct manifest_folder *new)
{
	return old->inode != new->inode ||
	       (old->watch >= 0 && new->watch >= 0 && old->watch != new->watch);
}

static bool is_same(const struct diff *diff, const struct manifest_folder *folder,
		    const struct manifest_entry *old, const struct manifest_entry *new)
{
	if (old->kind != new->kind || old->size != new->size || old->inode != new->inode ||
	    old->mtime_ns != new->mtime_ns || old->ctime_ns != new->ctime_ns)
		return false;
	return !diff->params->is_touched || folder->watch < 0 ||
	       !diff->params->is_touched(diff->params->data, folder->watch,
					 manifest_name(diff->new, new), new->name_len);
}

static void note_both(struct diff *diff, uint32_t folder, const struct manifest_entry *new,
		      uint32_t old_folder, const struct manifest_entry *old)
{
	const struct manifest_folder *in = &diff->new->folders[folder];
	bool was_folder = old->kind == ENTRY_FOLDER, is_folder = new->kind == ENTRY_FOLDER;

	if (was_folder && is_folder) {
		if (new->folder != MANIFEST_NONE)
			diff->pairs[new->folder] = pair_with(old->folder);
	} else if (was_folder || is_folder) {
		note_deleted(diff, old_folder, old);
		note_new(diff, folder, new, PAIR_ABSENT);
	} else if (is_replaced(&diff->old->folders[old_folder], in) ||
		   !is_same(diff, in, old, new)) {
		note(diff, CHANGE_CHANGED, diff->new, folder, new);
	}
}

/* Merges the sorted entries of both. */
static void compare_paired(struct diff *diff, uint32_t folder, uint32_t old_folder)
{
	const struct manifest_folder *new = &diff->new->folders[folder],
				     *old = &diff->old->folders[old_folder];
	int64_t alone = old->known == FOLDER_WHOLE ? PAIR_ABSENT : PAIR_UNKNOWN;
	uint32_t i = 0, j = 0;

	while (i < new->count || j < old->count) {
		const struct manifest_entry *a =
			i < new->count ? &diff->new->entries[new->first + i] : NULL;
		const struct manifest_entry *b =
			j < old->count ? &diff->old->entries[old->first + j] : NULL;
		int order = !a ? 1 : -1;

		if (a && b)
			order = manifest_compare(manifest_name(diff->new, a), a->name_len,
						 manifest_name(diff->old, b), b->name_len);
		if (order < 0)
			note_new(diff, folder, a, alone);
		else if (order > 0 && new->known == FOLDER_WHOLE)
			note_deleted(diff, old_folder, b);
		else if (order == 0)
			note_both(diff, folder, a, old_folder, b);
		i += order <= 0;
		j += order >= 0;
	}
}

/* A copy: only what is in its folders may have changed. Both have the same entries in the same
 * places. */
static void pair_copied(struct diff *diff, const struct manifest_folder *new,
			const struct manifest_folder *old)
{
	for (uint32_t i = 0; i < new->count; i++) {
		const struct manifest_entry *entry = &diff->new->entries[new->first + i];

		if (entry->kind == ENTRY_FOLDER && entry->folder != MANIFEST_NONE)
			diff->pairs[entry->folder] =
				pair_with(diff->old->entries[old->first + i].folder);
	}
}

static void compare_folder(struct diff *diff, uint32_t folder)
{
	const struct manifest_folder *new = &diff->new->folders[folder];
	int64_t pair = diff->pairs[folder];

	if (new->known == FOLDER_UNKNOWN)
		return;
	if (pair >= 0 && diff->old->folders[pair].known == FOLDER_UNKNOWN)
		pair = PAIR_UNKNOWN;
	if (pair >= 0 && new->copied &&new->before == pair) {
		pair_copied(diff, new, &diff->old->folders[pair]);
	} else if (pair >= 0) {
		compare_paired(diff, folder, (uint32_t)pair);
	} else {
		for (uint32_t i = 0; i < new->count; i++)
			note_new(diff, folder, &diff->new->entries[new->first + i], pair);
	}
}

void manifest_diff(const struct diff_params *params, struct changes *changes)
{
	struct diff diff = {
		.params = params, .old = params->old, .new = params->new, .changes = changes};

	diff.pairs = mem_zalloc(params->new->folder_count * sizeof(*diff.pairs));
	diff.pairs[0] = params->old ? 0 : PAIR_UNKNOWN;
	for (uint32_t i = 0; i < params->new->folder_count; i++)
		compare_folder(&diff, i);
	free(diff.pairs);
	if (params->new->stop > changes->stop)
		changes->stop = params->new->stop;
}
