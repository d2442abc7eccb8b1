/*
 * A snapshot beside what is there now; see snapshot.h.
 *
 * Both are walked top first, so that what has become of a folder is known before what was in it. Of
 * a folder that is gone all is gone; of one that was, or is, not looked into nothing is known, and
 * nothing is ever removed or missed there.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/snapshot_impl.h"

enum { LINK_TEXT_MAX = 4096 };

struct compare {
	struct comparison *with;
	struct job *job;
	int folder; /* of now, in which files are compared; -1: not opened yet */
};

static bool is_folder(const struct manifest_entry *entry)
{
	return entry->kind == ENTRY_FOLDER;
}

/* --- one thing --- */

static int open_folder(struct compare *compare, uint32_t now_folder)
{
	if (compare->folder < 0)
		compare->folder =
			job_open_folder(compare->job, compare->with->now, now_folder, O_RDONLY);
	return compare->folder;
}

/* The mode that a restore gives. */
static bool have_same_mode(const struct manifest_entry *a, const struct manifest_entry *b)
{
	return (a->mode & TREE_MODE_MASK) == (b->mode & TREE_MODE_MASK);
}

static enum then_state state_of_attributes(const struct manifest_entry *then,
					   const struct manifest_entry *now)
{
	if (!have_same_mode(then, now))
		return THEN_MODE;
	return then->mtime_ns == now->mtime_ns ? THEN_SAME : THEN_TOUCHED;
}

/* Whether the file has the bytes that are kept. What cannot be read has not; what there is no time
 * to read has not either. */
static bool has_kept_bytes(struct compare *compare, const struct kept *kept, uint32_t now_folder,
			   const struct manifest_entry *now)
{
	struct entry_name name;
	cleanup_fd int fd = -1;
	struct stat st;

	if (job_is_late(compare->job) || open_folder(compare, now_folder) < 0)
		return false;
	entry_name(compare->with->now, now, &name);
	fd = open_to_read(compare->folder, name.text, &st);
	return fd >= 0 &&
	       store_object_is(compare->with->snapshot->store, kept->object, fd, NULL) == 1;
}

static enum then_state compare_files(struct compare *compare, const struct kept *kept,
				     const struct manifest_entry *then, uint32_t now_folder,
				     const struct manifest_entry *now)
{
	bool same = then->size == now->size && then->inode == now->inode &&
		    then->mtime_ns == now->mtime_ns;

	if (same && then->ctime_ns == now->ctime_ns && !kept->young)
		return THEN_SAME;
	if (!kept->object) /* the figures are all there is */
		return same ? state_of_attributes(then, now) : THEN_CHANGED;
	if (then->size != now->size || !has_kept_bytes(compare, kept, now_folder, now))
		return THEN_CHANGED;
	return state_of_attributes(then, now);
}

static enum then_state compare_links(struct compare *compare, const struct kept *kept,
				     const struct manifest_entry *then, uint32_t now_folder,
				     const struct manifest_entry *now)
{
	const struct snapshot *snapshot = compare->with->snapshot;
	char text[LINK_TEXT_MAX];
	struct entry_name name;
	ssize_t len;

	if (then->inode == now->inode && then->ctime_ns == now->ctime_ns && !kept->young)
		return THEN_SAME;
	if (kept->why != WHY_NOTHING || open_folder(compare, now_folder) < 0)
		return THEN_CHANGED;
	entry_name(compare->with->now, now, &name);
	len = readlinkat(compare->folder, name.text, text, sizeof(text));
	if (len != kept->link_len ||
	    memcmp(text, buf_bytes(&snapshot->links) + kept->link, (size_t)len) != 0)
		return THEN_CHANGED;
	return then->mtime_ns == now->mtime_ns ? THEN_SAME : THEN_TOUCHED;
}

static enum then_state compare_entries(struct compare *compare, uint32_t index, uint32_t now_folder,
				       const struct manifest_entry *now)
{
	const struct manifest_entry *then = &compare->with->then->entries[index];
	const struct kept *kept = &compare->with->snapshot->kept[index];

	if (then->kind != now->kind)
		return is_folder(then) || is_folder(now) ? THEN_GONE : THEN_CHANGED;
	switch ((enum entry_kind)then->kind) {
	case ENTRY_FILE:
		return compare_files(compare, kept, then, now_folder, now);
	case ENTRY_LINK:
		return compare_links(compare, kept, then, now_folder, now);
	case ENTRY_FOLDER:
	case ENTRY_OTHER:
		break;
	}
	return THEN_SAME;
}

/* --- what was there --- */

/* What is known of all entries of a folder of the snapshot that is not there. */
static enum then_state state_inside(const struct comparison *with, uint32_t folder)
{
	const struct manifest_folder *at = &with->then->folders[folder];

	return at->parent != MANIFEST_NONE && with->then_states[at->entry] == THEN_GONE
		       ? THEN_GONE
		       : THEN_UNKNOWN;
}

static enum then_state state_of_missing(const struct comparison *with, uint32_t now_folder)
{
	return with->now->folders[now_folder].known == FOLDER_WHOLE ? THEN_GONE : THEN_UNKNOWN;
}

static void compare_then(struct compare *compare, uint32_t folder)
{
	struct comparison *with = compare->with;
	const struct manifest_folder *at = &with->then->folders[folder];
	uint32_t there = with->now_of[folder];

	compare->folder = -1;
	for (uint32_t i = at->first; i < at->first + at->count; i++) {
		const struct manifest_entry *then = &with->then->entries[i], *now = NULL;
		enum then_state state;

		if (there == MANIFEST_NONE) {
			state = state_inside(with, folder);
		} else {
			now = manifest_find(with->now, there, manifest_name(with->then, then),
					    then->name_len);
			state = now ? compare_entries(compare, i, there, now)
				    : state_of_missing(with, there);
		}
		with->then_states[i] = (uint8_t)state;
	}
	if (compare->folder >= 0)
		close(compare->folder);
}

/* --- what is there --- */

static enum now_state state_of_now(const struct comparison *with, uint32_t folder,
				   const struct manifest_entry *now)
{
	const struct manifest_folder *at = &with->now->folders[folder];
	uint32_t was = with->then_of[folder];
	const struct manifest_entry *then;

	if (was == MANIFEST_NONE)
		return with->now_states[at->entry] == NOW_NEW ? NOW_NEW : NOW_UNKNOWN;
	then = manifest_find(with->then, was, manifest_name(with->now, now), now->name_len);
	if (then)
		return is_folder(then) == is_folder(now) ? NOW_KNOWN : NOW_NEW;
	return with->then->folders[was].known == FOLDER_WHOLE ? NOW_NEW : NOW_UNKNOWN;
}

static void compare_now(struct comparison *with, uint32_t folder)
{
	const struct manifest_folder *at = &with->now->folders[folder];

	for (uint32_t i = at->first; i < at->first + at->count; i++)
		with->now_states[i] = (uint8_t)state_of_now(with, folder, &with->now->entries[i]);
}

void comparison_init(struct comparison *comparison, struct job *job,
		     const struct snapshot *snapshot, const struct manifest *now)
{
	struct compare compare = {.with = comparison, .job = job};

	*comparison = (struct comparison){
		.snapshot = snapshot,
		.then = snapshot->manifest,
		.now = now,
		.now_of = manifest_pair(snapshot->manifest, now),
		.then_of = manifest_pair(now, snapshot->manifest),
		.then_states = mem_zalloc(snapshot->manifest->entry_count + 1u),
		.now_states = mem_zalloc(now->entry_count + 1u),
	};
	for (uint32_t i = 0; i < comparison->then->folder_count; i++)
		compare_then(&compare, i);
	for (uint32_t i = 0; i < now->folder_count; i++)
		compare_now(comparison, i);
}

void comparison_release(struct comparison *comparison)
{
	free(comparison->now_of);
	free(comparison->then_of);
	free(comparison->then_states);
	free(comparison->now_states);
	*comparison = (struct comparison){.snapshot = NULL};
}

/* --- as changes --- */

static void tell(struct changes *changes, enum change_kind kind, const struct manifest *manifest,
		 uint32_t folder, const struct manifest_entry *entry, uint64_t bytes)
{
	if (!is_folder(entry))
		changes_add(changes, kind, manifest, folder, entry, bytes);
}

/* How large the file has become. */
static uint64_t bytes_now(const struct comparison *with, uint32_t folder,
			  const struct manifest_entry *then)
{
	const struct manifest_entry *now = manifest_find(
		with->now, with->now_of[folder], manifest_name(with->then, then), then->name_len);

	return now ? now->size : 0;
}

static void tell_then(const struct comparison *with, uint32_t folder, struct changes *changes)
{
	const struct manifest_folder *at = &with->then->folders[folder];

	for (uint32_t i = at->first; i < at->first + at->count; i++) {
		const struct manifest_entry *entry = &with->then->entries[i];

		switch ((enum then_state)with->then_states[i]) {
		case THEN_MODE:
		case THEN_CHANGED:
			tell(changes, CHANGE_CHANGED, with->then, folder, entry,
			     bytes_now(with, folder, entry));
			break;
		case THEN_GONE:
			tell(changes, CHANGE_DELETED, with->then, folder, entry, entry->size);
			break;
		case THEN_SAME:
		case THEN_UNKNOWN:
		case THEN_TOUCHED:
			break;
		}
	}
}

static void tell_now(const struct comparison *with, uint32_t folder, struct changes *changes)
{
	const struct manifest_folder *at = &with->now->folders[folder];

	for (uint32_t i = at->first; i < at->first + at->count; i++)
		if (with->now_states[i] == NOW_NEW)
			tell(changes, CHANGE_CREATED, with->now, folder, &with->now->entries[i],
			     with->now->entries[i].size);
}

void snapshot_diff(const struct snapshot *snapshot, const struct snapshot_work *work,
		   struct changes *changes)
{
	cleanup_ids struct tree_ids ids = tree_enter(work->tree);
	struct job job = job_start(work);
	struct manifest *now = job_look(&job, SNAPSHOT_ENTRIES_MAX);
	cleanup_comparison struct comparison with;
	enum manifest_stop stop = now->stop;

	comparison_init(&with, &job, snapshot, now);
	for (uint32_t i = 0; i < with.then->folder_count; i++)
		tell_then(&with, i, changes);
	for (uint32_t i = 0; i < now->folder_count; i++)
		tell_now(&with, i, changes);
	if (job.late && stop < STOP_TIME)
		stop = STOP_TIME;
	if (snapshot->figures.stop > stop)
		stop = snapshot->figures.stop;
	if (stop > changes->stop)
		changes->stop = stop;
	manifest_free(now);
}
