/*
 * Taking a snapshot; see snapshot.h.
 *
 * First a look at everything (manifest.h), then each entry in the order of the manifest, top first,
 * so that what lies on top is kept when a limit comes. An entry that has the figures of the
 * snapshot before shares its object. Any other file is opened, and the figures that count are those
 * of the open file; if they are others when it has been copied, it is copied again. What has the
 * size that it had before is compared first: it may be a touch(1), or a file that was restored.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/snapshot_impl.h"

enum {
	TRIES_MAX = 3, /* of a file that changes while it is copied */
	/* The kernel stamps files by a clock that stands still for a tick, 10 ms at most. */
	TICK_NS = 20 * 1000 * 1000,
	/* Where stamps are whole seconds: FAT has every second one. */
	COARSE_TICK_NS = 2 * 1000 * 1000 * 1000,
	LINK_TEXT_MAX = 4096,
	LINKS_BYTES_MAX = 4 << 20,
};

/* --- files with several names --- */

static int compare_peers(const void *a, const void *b, void *data)
{
	const struct manifest *manifest = data;
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	uint64_t left_inode = manifest->entries[left].inode;
	uint64_t right_inode = manifest->entries[right].inode;

	if (left_inode != right_inode)
		return left_inode < right_inode ? -1 : 1;
	return left < right ? -1 : left > right;
}

static void find_peers(struct snapshot *snapshot)
{
	const struct manifest *manifest = snapshot->manifest;
	size_t room = 0;

	for (uint32_t i = 0; i < manifest->entry_count; i++) {
		const struct manifest_entry *entry = &manifest->entries[i];

		if (entry->kind != ENTRY_FILE || entry->links < 2)
			continue;
		if (snapshot->peer_count == room) {
			room = room ? 2 * room : 16;
			snapshot->peers =
				mem_resize(snapshot->peers, room, sizeof(*snapshot->peers));
		}
		snapshot->peers[snapshot->peer_count++] = i;
	}
	if (snapshot->peer_count > 1)
		qsort_r(snapshot->peers, snapshot->peer_count, sizeof(*snapshot->peers),
			compare_peers, snapshot->manifest);
}

const uint32_t *snapshot_peers(const struct snapshot *snapshot, uint32_t entry, size_t *count)
{
	const struct manifest_entry *entries = snapshot->manifest->entries;
	uint64_t inode = entries[entry].inode;
	uint32_t low = 0, high = snapshot->peer_count, end;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (entries[snapshot->peers[middle]].inode < inode)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < snapshot->peer_count; end++)
		if (entries[snapshot->peers[end]].inode != inode)
			break;
	*count = end - low;
	return *count > 1 ? &snapshot->peers[low] : NULL;
}

/* --- taking --- */

struct take {
	struct job *job;
	struct snapshot *made;
	const struct snapshot_limits *limits;
	const struct snapshot *before;
	uint32_t *before_of; /* for each folder, the one before */
	int folder;          /* that is being read; -1: not opened yet */
	uint64_t sum;        /* of the bytes that are kept */
};

static void figures_of(struct manifest_entry *entry, const struct stat *st)
{
	struct tree_status status;

	tree_status_of(st, &status);
	entry->inode = st->st_ino;
	entry->mode = st->st_mode & 07777;
	entry->size = status.bytes;
	entry->mtime_ns = status.mtime_ns;
	entry->ctime_ns = status.ctime_ns;
}

static bool have_same_figures(const struct manifest_entry *a, const struct manifest_entry *b)
{
	return a->kind == b->kind && a->size == b->size && a->inode == b->inode &&
	       a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* By the clock that stamps files. */
static int64_t stamp_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether a change after `now_ns` could leave the same ctime. */
static bool is_young(int64_t ctime_ns, int64_t now_ns)
{
	int64_t tick_ns = ctime_ns % 1000000000 == 0 ? (int64_t)COARSE_TICK_NS : (int64_t)TICK_NS;

	return ctime_ns > now_ns - tick_ns;
}

/* The entry in the snapshot before, or NULL. */
static const struct manifest_entry *entry_before(const struct take *take, uint32_t folder,
						 const struct manifest_entry *entry)
{
	if (!take->before || take->before_of[folder] == MANIFEST_NONE)
		return NULL;
	return manifest_find(take->before->manifest, take->before_of[folder],
			     manifest_name(take->made->manifest, entry), entry->name_len);
}

static const struct kept *kept_before(const struct take *take, const struct manifest_entry *before)
{
	return before ? &take->before->kept[before - take->before->manifest->entries] : NULL;
}

static int open_folder(struct take *take, uint32_t folder)
{
	if (take->folder < 0)
		take->folder = job_open_folder(take->job, take->made->manifest, folder, O_RDONLY);
	return take->folder;
}

/* What the limits say to a file of this size. */
static enum snapshot_why why_of_size(struct take *take, uint64_t bytes)
{
	if (bytes > take->limits->file_bytes_max)
		return WHY_FILE_BYTES;
	if (bytes > take->limits->sum_bytes_max || take->sum > take->limits->sum_bytes_max - bytes)
		return WHY_SUM_BYTES;
	return WHY_NOTHING;
}

static enum snapshot_why why_of_error(const struct err *err)
{
	if (err->code == ERR_LIMIT)
		return WHY_STORE;
	if (err->code == ERR_GONE)
		return WHY_CHANGING;
	return why_of_errno(err->sys);
}

/* The object for the bytes of an open file: that of before when it has the same. */
static struct store_object *object_of(struct take *take, int fd, uint64_t bytes,
				      const struct kept *before, struct err *err)
{
	struct store *store = take->made->store;
	struct store_object *object;

	if (before && before->object && store_object_is(store, before->object, fd, NULL) == 1) {
		take->made->figures.compared_bytes += bytes;
		return store_object_keep(store, before->object);
	}
	object = store_put(store, fd, bytes, err);
	if (object)
		take->made->figures.copied_bytes += bytes;
	return object;
}

/* One try to keep an open file as it is; WHY_CHANGING asks for another one. */
static enum snapshot_why keep_open(struct take *take, int fd, struct manifest_entry *entry,
				   struct kept *kept, const struct kept *before)
{
	int64_t now_ns = stamp_now_ns();
	struct err err = ERR_INIT;
	struct manifest_entry after = *entry;
	struct store_object *object;
	enum snapshot_why why;
	struct stat st;

	if (fstat(fd, &st) != 0)
		return WHY_IO;
	figures_of(entry, &st);
	why = why_of_size(take, entry->size);
	if (why != WHY_NOTHING)
		return why;
	object = object_of(take, fd, entry->size, before, &err);
	if (!object)
		return why_of_error(&err);
	if (fstat(fd, &st) == 0)
		figures_of(&after, &st);
	if (!have_same_figures(entry, &after)) {
		store_object_drop(take->made->store, object);
		return WHY_CHANGING;
	}
	kept->object = object;
	kept->young = is_young(entry->ctime_ns, now_ns);
	return WHY_NOTHING;
}

static enum snapshot_why keep_by_reading(struct take *take, uint32_t folder,
					 struct manifest_entry *entry, struct kept *kept,
					 const struct kept *before)
{
	enum snapshot_why why = why_of_size(take, entry->size);
	struct entry_name name;
	cleanup_fd int fd = -1;
	struct stat st;

	if (why != WHY_NOTHING)
		return why;
	if (job_is_late(take->job))
		return WHY_TIME;
	entry_name(take->made->manifest, entry, &name);
	if (open_folder(take, folder) >= 0)
		fd = open_to_read(take->folder, name.text, &st);
	if (fd < 0)
		return why_of_errno(errno);
	why = WHY_CHANGING;
	for (int tries = 0; tries < TRIES_MAX && why == WHY_CHANGING && !job_is_late(take->job);
	     tries++)
		why = keep_open(take, fd, entry, kept, before);
	return why;
}

/* What is kept by another name of the file, or NULL. */
static const struct kept *kept_by_peer(const struct take *take, uint32_t index)
{
	const struct manifest_entry *entry = &take->made->manifest->entries[index];
	size_t count = 0;
	const uint32_t *peers = entry->links > 1 ? snapshot_peers(take->made, index, &count) : NULL;

	return peers && peers[0] < index && take->made->kept[peers[0]].object
		       ? &take->made->kept[peers[0]]
		       : NULL;
}

static enum snapshot_why keep_file(struct take *take, uint32_t folder, uint32_t index)
{
	struct manifest_entry *entry = &take->made->manifest->entries[index];
	struct kept *kept = &take->made->kept[index];
	const struct manifest_entry *before = entry_before(take, folder, entry);
	const struct kept *old = kept_before(take, before), *peer = kept_by_peer(take, index);
	enum snapshot_why why = why_of_size(take, entry->size);

	if (why == WHY_NOTHING && old && old->object && !old->young &&
	    have_same_figures(before, entry)) {
		kept->object = store_object_keep(take->made->store, old->object);
	} else if (why == WHY_NOTHING) {
		why = keep_by_reading(take, folder, entry, kept, peer ? peer : old);
	}
	if (why == WHY_NOTHING && !peer)
		take->sum += entry->size;
	return why;
}

static enum snapshot_why keep_link(struct take *take, uint32_t folder, uint32_t index)
{
	struct snapshot *made = take->made;
	struct manifest_entry *entry = &made->manifest->entries[index];
	struct kept *kept = &made->kept[index];
	const struct manifest_entry *before = entry_before(take, folder, entry);
	const struct kept *old = kept_before(take, before);
	char text[LINK_TEXT_MAX];
	struct entry_name name;
	ssize_t len = -1;

	kept->young = is_young(entry->ctime_ns, stamp_now_ns());
	entry_name(made->manifest, entry, &name);
	if (old && old->why == WHY_NOTHING && !old->young && have_same_figures(before, entry)) {
		len = old->link_len;
		memcpy(text, buf_bytes(&take->before->links) + old->link, (size_t)len);
	} else if (job_is_late(take->job)) {
		return WHY_TIME;
	} else if (open_folder(take, folder) >= 0) {
		len = readlinkat(take->folder, name.text, text, sizeof(text));
	}
	if (len < 0 || len == sizeof(text))
		return len < 0 ? why_of_errno(errno == EINVAL ? ESTALE : errno) : WHY_IO;
	if (made->links.len + (size_t)len > LINKS_BYTES_MAX)
		return WHY_SUM_BYTES;
	kept->link = (uint32_t)made->links.len;
	kept->link_len = (uint16_t)len;
	buf_append(&made->links, text, (size_t)len);
	return WHY_NOTHING;
}

static enum snapshot_why keep_entry(struct take *take, uint32_t folder, uint32_t index)
{
	const struct manifest *manifest = take->made->manifest;
	const struct manifest_entry *entry = &manifest->entries[index];

	switch ((enum entry_kind)entry->kind) {
	case ENTRY_FILE:
		take->made->figures.files++;
		return keep_file(take, folder, index);
	case ENTRY_LINK:
		take->made->figures.links++;
		return keep_link(take, folder, index);
	case ENTRY_FOLDER:
		if (entry->folder != MANIFEST_NONE &&
		    manifest->folders[entry->folder].known == FOLDER_WHOLE)
			return WHY_NOTHING;
		return WHY_UNSEEN;
	case ENTRY_OTHER:
		break;
	}
	return WHY_SPECIAL;
}

static void keep_folder(struct take *take, uint32_t folder)
{
	const struct manifest_folder *at = &take->made->manifest->folders[folder];

	take->folder = -1;
	for (uint32_t i = at->first; i < at->first + at->count; i++) {
		enum snapshot_why why = keep_entry(take, folder, i);

		take->made->kept[i].why = (uint8_t)why;
		take->made->figures.unprotected += why != WHY_NOTHING;
	}
	if (take->folder >= 0)
		close(take->folder);
}

struct snapshot *snapshot_take(const struct snapshot_work *work, struct store *store,
			       const struct snapshot_limits *limits, const struct snapshot *before)
{
	cleanup_ids struct tree_ids ids = tree_enter(work->tree);
	struct job job = job_start(work);
	struct snapshot *made = mem_zalloc(sizeof(*made));
	struct take take = {.job = &job, .made = made, .limits = limits, .before = before};

	atomic_init(&made->refs, 1);
	made->store = store_keep(store);
	made->manifest = job_look(&job, limits->entries_max);
	made->kept = mem_zalloc((made->manifest->entry_count + 1) * sizeof(*made->kept));
	if (before)
		take.before_of = manifest_pair(made->manifest, before->manifest);
	find_peers(made);
	for (uint32_t i = 0; i < made->manifest->folder_count; i++)
		keep_folder(&take, i);
	free(take.before_of);
	made->figures.folders = made->manifest->folder_count;
	made->figures.kept_bytes = take.sum;
	made->figures.stop = made->manifest->stop;
	if (job.late && made->figures.stop < STOP_TIME)
		made->figures.stop = STOP_TIME;
	store_trim(store);
	made->figures.took_us = clock_monotonic_us() - job.began_us;
	return made;
}

struct snapshot *snapshot_keep(struct snapshot *snapshot)
{
	atomic_fetch_add(&snapshot->refs, 1);
	return snapshot;
}

void snapshot_free(struct snapshot *snapshot)
{
	if (!snapshot || atomic_fetch_sub(&snapshot->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < snapshot->manifest->entry_count; i++)
		store_object_drop(snapshot->store, snapshot->kept[i].object);
	store_free(snapshot->store);
	manifest_free(snapshot->manifest);
	free(snapshot->kept);
	buf_release(&snapshot->links);
	free(snapshot->peers);
	free(snapshot);
}

void snapshot_figures(const struct snapshot *snapshot, struct snapshot_figures *figures)
{
	*figures = snapshot->figures;
}

void snapshot_unprotected(const struct snapshot *snapshot, struct snapshot_notes *notes)
{
	const struct manifest *manifest = snapshot->manifest;

	for (uint32_t f = 0; f < manifest->folder_count; f++) {
		const struct manifest_folder *folder = &manifest->folders[f];

		for (uint32_t i = folder->first; i < folder->first + folder->count; i++) {
			enum snapshot_why why = (enum snapshot_why)snapshot->kept[i].why;

			if (why != WHY_NOTHING)
				notes_add(notes,
					  (struct snapshot_note_of){manifest, f,
								    &manifest->entries[i]},
					  why, 0);
		}
	}
}
