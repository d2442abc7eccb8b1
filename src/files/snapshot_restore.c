/*
 * Going back; see snapshot.h.
 *
 *   look ─▶ compare ─▶ remove what is new, deepest first ─▶ restore what differs, top first
 *    ▲                                                           │
 *    └── there were more names than a look takes, or a new folder could not be read before ──┘
 *                                                                ▼
 *                              modes and times of folders, deepest first
 *
 * Removing comes first, so that a full disk has room. A folder in which something must be done, and
 * that its owner may not write, gets the mode for it; the last step sets what it had. In each round
 * the lists of what was not possible are made anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/snapshot_impl.h"
#include "sandbox/protect.h"

enum { ROUNDS_MAX = 64 };

struct restore {
	struct job job;
	const struct snapshot *snapshot;
	const char *const *protect;
	struct snapshot_restored *out;
	struct tree_ids ids; /* of before tree_enter() */
	/* of one round: */
	struct comparison with;
	bool *left;  /* for each folder of now: something stays in it */
	bool opened; /* a new folder that could not be read can be now */
	uint64_t removed;
};

static bool is_protected(const struct restore *restore, struct snapshot_note_of of)
{
	cleanup_buf struct buf path = BUF_INIT;

	if (!restore->protect)
		return false;
	manifest_path(of.manifest, of.folder, of.entry, &path);
	return protect_covers(restore->protect, buf_bytes(&path), of.entry->kind == ENTRY_FOLDER);
}

/* Opens a folder, for root also one that its owner may not read: he could give himself the right.
 * -1 with errno. */
static int open_folder(const struct restore *restore, const struct manifest *manifest,
		       uint32_t folder)
{
	const struct tree *tree = restore->job.work->tree;
	struct tree_ids ids = restore->ids;
	cleanup_fd int fd = job_open_folder(&restore->job, manifest, folder, O_RDONLY);
	struct stat st;

	if (fd >= 0 || errno != EACCES || !tree->acts)
		return fd_take(&fd);
	tree_leave(&ids);
	fd = job_open_folder(&restore->job, manifest, folder, O_RDONLY);
	tree_enter(tree);
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if (st.st_uid != tree->uid) {
		errno = EACCES;
		return -1;
	}
	return fd_take(&fd);
}

/* The same of one in which names are to be changed, giving its owner the right to. */
static int open_to_change(const struct restore *restore, const struct manifest *manifest,
			  uint32_t folder)
{
	cleanup_fd int fd = open_folder(restore, manifest, folder);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if ((st.st_mode & S_IRWXU) != S_IRWXU)
		(void)!fchmod(fd, (st.st_mode & 07777) | S_IRWXU); /* else what follows fails */
	return fd_take(&fd);
}

/* --- removing --- */

/* A new folder, of which what was seen has been removed. */
static enum snapshot_why remove_folder(struct restore *restore, int fd, const char *name,
				       const struct manifest_entry *entry, int *sys)
{
	const struct manifest *now = restore->with.now;
	bool seen =
		entry->folder != MANIFEST_NONE && now->folders[entry->folder].known == FOLDER_WHOLE;
	cleanup_fd int inner = -1;

	if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return WHY_NOTHING;
	*sys = errno;
	if (seen || (errno != ENOTEMPTY && errno != EEXIST))
		return why_of_errno(*sys);
	/* If it could not be read, it can be in the next round. */
	inner = entry->folder == MANIFEST_NONE ? -1 : open_to_change(restore, now, entry->folder);
	if (inner >= 0 && now->folders[entry->folder].known == FOLDER_UNKNOWN)
		restore->opened = true;
	return WHY_UNSEEN;
}

static enum snapshot_why remove_one(struct restore *restore, int fd, struct snapshot_note_of of,
				    int *sys)
{
	struct entry_name name;

	if (of.entry->kind == ENTRY_OTHER)
		return WHY_SPECIAL;
	if (is_protected(restore, of))
		return WHY_LATER;
	if (job_is_late(&restore->job))
		return WHY_TIME;
	entry_name(of.manifest, of.entry, &name);
	if (of.entry->kind == ENTRY_FOLDER)
		return remove_folder(restore, fd, name.text, of.entry, sys);
	if (unlinkat(fd, name.text, 0) == 0 || errno == ENOENT)
		return WHY_NOTHING;
	*sys = errno;
	return why_of_errno(*sys);
}

/* What is new in a folder; what is new in those below has been removed before. */
static void remove_in(struct restore *restore, uint32_t folder)
{
	const struct manifest *now = restore->with.now;
	const struct manifest_folder *at = &now->folders[folder];
	cleanup_fd int fd = -1;

	for (uint32_t i = at->first; i < at->first + at->count; i++) {
		const struct snapshot_note_of of = {now, folder, &now->entries[i]};
		enum snapshot_why why;
		int sys = 0;

		if (restore->with.now_states[i] != NOW_NEW)
			continue;
		if (of.entry->kind == ENTRY_FOLDER && of.entry->folder != MANIFEST_NONE &&
		    restore->left[of.entry->folder]) {
			restore->left[folder] = true; /* what it is has been noted */
			continue;
		}
		if (fd < 0)
			fd = open_to_change(restore, now, folder);
		why = remove_one(restore, fd, of, &sys);
		if (why != WHY_NOTHING) {
			restore->left[folder] = true;
			notes_add(&restore->out->failed, of, why, sys);
			continue;
		}
		restore->removed++;
		if (of.entry->kind != ENTRY_FOLDER)
			notes_add(&restore->out->removed, of, WHY_NOTHING, 0);
	}
}

/* --- restoring --- */

/* A name of the same file that is as it was, to make another name of; MANIFEST_NONE. */
static uint32_t find_peer(const struct restore *restore, uint32_t index)
{
	size_t count = 0;
	const uint32_t *peers = restore->with.then->entries[index].links > 1
					? snapshot_peers(restore->snapshot, index, &count)
					: NULL;

	for (size_t i = 0; peers && i < count; i++)
		if (peers[i] != index && restore->with.then_states[peers[i]] == THEN_SAME)
			return peers[i];
	return MANIFEST_NONE;
}

/* The folder of an entry. */
static uint32_t folder_of(const struct manifest *manifest, uint32_t index)
{
	uint32_t low = 0, high = manifest->folder_count;

	while (high - low > 1) { /* the last one that begins at or before it */
		uint32_t middle = low + (high - low) / 2;

		if (manifest->folders[middle].first <= index)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static enum snapshot_why restore_file(struct restore *restore, int fd, uint32_t index,
				      const char *name, int *sys)
{
	const struct manifest *then = restore->with.then;
	uint32_t peer = find_peer(restore, index);
	struct entry_name peer_name;
	cleanup_fd int peer_fd = -1;

	if (peer != MANIFEST_NONE)
		peer_fd = job_open_folder(&restore->job, then, folder_of(then, peer), O_PATH);
	if (peer_fd >= 0) {
		entry_name(then, &then->entries[peer], &peer_name);
		if (put_peer(peer_fd, peer_name.text, fd, name, sys) == WHY_NOTHING)
			return WHY_NOTHING;
	}
	return put_file(restore->snapshot, index, fd, name, sys);
}

/* Puts back what is kept of a thing. */
static enum snapshot_why restore_kept(struct restore *restore, int fd, uint32_t index, int *sys)
{
	const struct manifest_entry *entry = &restore->with.then->entries[index];
	struct entry_name name;

	entry_name(restore->with.then, entry, &name);
	if (fd < 0) {
		*sys = errno;
		return why_of_errno(errno);
	}
	if (job_is_late(&restore->job))
		return WHY_TIME;
	switch ((enum entry_kind)entry->kind) {
	case ENTRY_FILE:
		return restore_file(restore, fd, index, name.text, sys);
	case ENTRY_LINK:
		return put_link(restore->snapshot, index, fd, name.text, sys);
	case ENTRY_FOLDER:
		if (mkdirat(fd, name.text, S_IRWXU) == 0 || errno == EEXIST)
			return WHY_NOTHING;
		*sys = errno;
		return why_of_errno(errno);
	case ENTRY_OTHER:
		break;
	}
	return WHY_SPECIAL;
}

static enum snapshot_why restore_attributes(struct restore *restore, int fd, uint32_t index,
					    int *sys)
{
	const struct manifest_entry *entry = &restore->with.then->entries[index];
	struct entry_name name;

	entry_name(restore->with.then, entry, &name);
	if (fd < 0) {
		*sys = errno;
		return why_of_errno(errno);
	}
	return put_attributes(restore->snapshot, index, fd, name.text, sys);
}

static void restore_one(struct restore *restore, int fd, uint32_t folder, uint32_t index)
{
	const struct snapshot_note_of of = {restore->with.then, folder,
					    &restore->with.then->entries[index]};
	enum then_state state = (enum then_state)restore->with.then_states[index];
	enum snapshot_why kept = (enum snapshot_why)restore->snapshot->kept[index].why;
	bool whole = state == THEN_CHANGED || state == THEN_GONE, is_folder;
	enum snapshot_why why;
	int sys = 0;

	is_folder = of.entry->kind == ENTRY_FOLDER;
	if (whole && kept != WHY_NOTHING)
		notes_add(&restore->out->unprotected, of, kept, 0);
	if (whole && kept != WHY_NOTHING && !is_folder)
		return;
	if (is_protected(restore, of))
		why = WHY_LATER;
	else
		why = whole ? restore_kept(restore, fd, index, &sys)
			    : restore_attributes(restore, fd, index, &sys);
	if (why != WHY_NOTHING) {
		notes_add(&restore->out->failed, of, why, sys);
		return;
	}
	if (state != THEN_TOUCHED && !is_folder)
		notes_add(&restore->out->restored, of, WHY_NOTHING, 0);
	restore->with.then_states[index] = THEN_SAME;
}

static void restore_in(struct restore *restore, uint32_t folder)
{
	const struct manifest_folder *at = &restore->with.then->folders[folder];
	cleanup_fd int fd = -1;

	for (uint32_t i = at->first; i < at->first + at->count; i++) {
		enum then_state state = (enum then_state)restore->with.then_states[i];

		if (state == THEN_SAME || state == THEN_UNKNOWN)
			continue;
		if (fd < 0)
			fd = open_to_change(restore, restore->with.then, folder);
		restore_one(restore, fd, folder, i);
	}
}

/* --- folders --- */

/* Makes what has been made unreadable readable again, so that the look sees it. */
static void open_up(const struct restore *restore)
{
	const struct manifest *then = restore->snapshot->manifest;

	for (uint32_t i = 0; i < then->folder_count; i++) {
		cleanup_fd int fd = -1, inner = -1;
		struct stat st;

		if (then->folders[i].known == FOLDER_UNKNOWN)
			continue;
		fd = job_open_folder(&restore->job, then, i, O_PATH);
		if (fd >= 0 && fstat(fd, &st) == 0 &&
		    (st.st_mode & (S_IRUSR | S_IXUSR)) != (S_IRUSR | S_IXUSR))
			inner = open_to_change(restore, then, i);
	}
}

static bool is_protected_folder(const struct restore *restore, uint32_t folder)
{
	const struct manifest *then = restore->snapshot->manifest;
	const struct manifest_folder *at = &then->folders[folder];

	return at->parent != MANIFEST_NONE &&
	       is_protected(restore,
			    (struct snapshot_note_of){then, at->parent, &then->entries[at->entry]});
}

static int finish_mode(const struct restore *restore, uint32_t folder, mode_t mode)
{
	cleanup_fd int fd = open_folder(restore, restore->snapshot->manifest, folder);

	return fd < 0 ? -1 : fchmod(fd, mode);
}

static void finish_folder(const struct restore *restore, uint32_t folder)
{
	const struct manifest *manifest = restore->snapshot->manifest;
	const struct manifest_folder *then = &manifest->folders[folder];
	cleanup_fd int fd = job_open_folder(&restore->job, manifest, folder, O_PATH);
	struct tree_status status;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	tree_status_of(&st, &status);
	if ((status.mode & TREE_MODE_MASK) != (then->mode & TREE_MODE_MASK) &&
	    finish_mode(restore, folder,
			(status.mode & ~(mode_t)TREE_MODE_MASK) | (then->mode & TREE_MODE_MASK)) !=
		    0 &&
	    then->parent != MANIFEST_NONE)
		notes_add(&restore->out->failed,
			  (struct snapshot_note_of){manifest, then->parent,
						    &manifest->entries[then->entry]},
			  why_of_errno(errno), errno);
	if (status.mtime_ns != then->mtime_ns)
		set_mtime(fd, then->mtime_ns);
}

/* --- all of it --- */

/* False: there is nothing more to do. */
static bool restore_round(struct restore *restore)
{
	struct manifest *now = job_look(&restore->job, SNAPSHOT_ENTRIES_MAX);
	bool again;

	comparison_init(&restore->with, &restore->job, restore->snapshot, now);
	restore->left = mem_zalloc(now->folder_count * sizeof(*restore->left));
	restore->opened = false;
	restore->removed = 0;
	snapshot_notes_release(&restore->out->unprotected);
	snapshot_notes_release(&restore->out->failed);
	for (uint32_t i = now->folder_count; i > 0; i--)
		remove_in(restore, i - 1);
	for (uint32_t i = 0; i < restore->with.then->folder_count; i++)
		restore_in(restore, i);
	restore->out->stop = now->stop;
	again = restore->opened || (now->stop == STOP_ENTRIES && restore->removed > 0);
	free(restore->left);
	comparison_release(&restore->with);
	manifest_free(now);
	return again;
}

void snapshot_restore(const struct snapshot *snapshot, const struct snapshot_work *work,
		      const char *const *protect, struct snapshot_restored *restored)
{
	cleanup_ids struct tree_ids ids = tree_enter(work->tree);
	struct restore restore = {.job = job_start(work),
				  .snapshot = snapshot,
				  .protect = protect,
				  .out = restored,
				  .ids = ids};

	open_up(&restore);
	for (int round = 0; round < ROUNDS_MAX && restore_round(&restore); round++)
		if (job_is_late(&restore.job))
			break;
	for (uint32_t i = snapshot->manifest->folder_count; i > 0; i--)
		if (snapshot->manifest->folders[i - 1].known != FOLDER_UNKNOWN &&
		    !is_protected_folder(&restore, i - 1))
			finish_folder(&restore, i - 1);
	if (snapshot->figures.stop > restored->stop)
		restored->stop = snapshot->figures.stop;
	if (restore.job.late && restored->stop < STOP_TIME)
		restored->stop = STOP_TIME;
	restored->took_us = clock_monotonic_us() - restore.job.began_us;
}

void snapshot_restored_release(struct snapshot_restored *restored)
{
	snapshot_notes_release(&restored->restored);
	snapshot_notes_release(&restored->removed);
	snapshot_notes_release(&restored->unprotected);
	snapshot_notes_release(&restored->failed);
	*restored = (struct snapshot_restored)SNAPSHOT_RESTORED_INIT;
}
