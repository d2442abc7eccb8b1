/*
 * The look at a workspace; see manifest.h.
 *
 * Folders wait in the array of folders itself: reading the n-th appends its children behind the
 * last. Each is opened by its path from the root with openat2(2), RESOLVE_BENEATH | NO_SYMLINKS |
 * NO_XDEV, so that a folder which a guest swaps for a symlink meanwhile leads nowhere, and a
 * hanging network mount cannot hold the keeper. Files are only asked for their figures: statx(2)
 * waits neither for a FIFO nor for a device.
 */
#include "files/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/mem.h"

enum { PATH_BYTES_MAX = 4096, READ_BYTES = 32 << 10, CLOCK_EVERY = 32, NAMES_BYTES_MAX = 8 << 20 };

struct scan {
	const struct manifest_params *params;
	struct manifest *made;
	unsigned until_clock; /* names until the clock is asked again */
	bool late;
};

void manifest_free(struct manifest *manifest)
{
	if (!manifest)
		return;
	free(manifest->folders);
	free(manifest->entries);
	buf_release(&manifest->names);
	free(manifest);
}

const char *manifest_stop_name(enum manifest_stop stop)
{
	static const char *const names[STOP_COUNT] = {
		[STOP_UNREADABLE] = "unreadable",
		[STOP_MOUNT] = "mount",
		[STOP_DEPTH] = "depth",
		[STOP_ENTRIES] = "entries",
		[STOP_TIME] = "time",
		[STOP_UNWATCHED] = "unwatched",
		[STOP_BASELINE] = "baseline",
	};

	return names[stop];
}

/* A file of ours that is about to get its name. */
static bool is_temporary(const char *name, size_t len)
{
	static const char ours[] = ".fumehood-", temp[] = ".tmp";

	return len >= sizeof(ours) + sizeof(temp) - 2 &&
	       memcmp(name, ours, sizeof(ours) - 1) == 0 &&
	       memcmp(name + len - (sizeof(temp) - 1), temp, sizeof(temp) - 1) == 0;
}

bool manifest_ignores(const char *name, size_t len)
{
	static const char *const names[] = {
		"__pycache__", ".ipynb_checkpoints", ".git",          ".hg",
		".svn",        ".mypy_cache",        ".pytest_cache", ".ruff_cache",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
			return true;
	return is_temporary(name, len);
}

const char *manifest_name(const struct manifest *manifest, const struct manifest_entry *entry)
{
	return buf_bytes(&manifest->names) + entry->name;
}

int manifest_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return order ? order : (a_len > b_len) - (a_len < b_len);
}

const struct manifest_entry *manifest_find(const struct manifest *manifest, uint32_t folder,
					   const char *name, size_t len)
{
	const struct manifest_folder *in = &manifest->folders[folder];
	uint32_t low = in->first, high = in->first + in->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct manifest_entry *entry = &manifest->entries[middle];
		int order = manifest_compare(name, len, manifest_name(manifest, entry),
					     entry->name_len);

		if (order == 0)
			return entry;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static void append_folder_path(const struct manifest *manifest, uint32_t folder, struct buf *path)
{
	const struct manifest_folder *at = &manifest->folders[folder];
	const struct manifest_entry *entry;

	if (at->parent == MANIFEST_NONE)
		return;
	append_folder_path(manifest, at->parent, path); /* as deep as depth_max */
	if (path->len > 0)
		buf_append_char(path, '/');
	entry = &manifest->entries[at->entry];
	buf_append(path, manifest_name(manifest, entry), entry->name_len);
}

void manifest_path(const struct manifest *manifest, uint32_t folder,
		   const struct manifest_entry *entry, struct buf *path)
{
	append_folder_path(manifest, folder, path);
	if (path->len > 0)
		buf_append_char(path, '/');
	buf_append(path, manifest_name(manifest, entry), entry->name_len);
}

/* --- building
 * ----------------------------------------------------------------------------------- */

static void stop_at(struct manifest *manifest, enum manifest_stop stop)
{
	if (stop > manifest->stop)
		manifest->stop = stop;
}

static uint32_t folder_add(struct manifest *manifest, uint32_t parent, uint32_t entry)
{
	struct manifest_folder *folder;

	if (manifest->folder_count == manifest->folder_cap) {
		manifest->folder_cap = manifest->folder_cap ? 2 * manifest->folder_cap : 8;
		manifest->folders =
			mem_resize(manifest->folders, manifest->folder_cap, sizeof(*folder));
	}
	folder = &manifest->folders[manifest->folder_count];
	*folder = (struct manifest_folder){
		.parent = parent, .entry = entry, .before = MANIFEST_NONE, .watch = -1};
	if (parent != MANIFEST_NONE) {
		folder->depth = manifest->folders[parent].depth + 1;
		folder->inode = manifest->entries[entry].inode;
	}
	return manifest->folder_count++;
}

/* A new entry, already with its name; NULL when no more are taken. Valid until the next one. */
static struct manifest_entry *entry_add(struct scan *scan, const char *name, size_t len)
{
	struct manifest *made = scan->made;
	struct manifest_entry *entry;

	if (made->entry_count >= scan->params->entries_max ||
	    made->names.len + len > NAMES_BYTES_MAX) {
		stop_at(made, STOP_ENTRIES);
		return NULL;
	}
	if (made->entry_count == made->entry_cap) {
		made->entry_cap = made->entry_cap ? 2 * made->entry_cap : 16;
		made->entries = mem_resize(made->entries, made->entry_cap, sizeof(*entry));
	}
	entry = &made->entries[made->entry_count++];
	*entry = (struct manifest_entry){.name = (uint32_t)made->names.len,
					 .name_len = (uint16_t)len,
					 .folder = MANIFEST_NONE};
	buf_append(&made->names, name, len);
	return entry;
}

static bool is_late(struct scan *scan)
{
	if (!scan->late &&
	    scan->params->clock_us(scan->params->data) >= scan->params->deadline_us) {
		scan->late = true;
		stop_at(scan->made, STOP_TIME);
	}
	return scan->late;
}

/* --- one folder
 * --------------------------------------------------------------------------------- */

/* A hostile time overflows; it is only ever compared, so it may wrap. */
static int64_t nanoseconds(const struct statx_timestamp *time)
{
	return (int64_t)((uint64_t)time->tv_sec * 1000000000u + time->tv_nsec);
}

static enum entry_kind kind_of(mode_t mode)
{
	if (S_ISREG(mode))
		return ENTRY_FILE;
	if (S_ISDIR(mode))
		return ENTRY_FOLDER;
	return S_ISLNK(mode) ? ENTRY_LINK : ENTRY_OTHER;
}

static bool is_passed_over(const struct scan *scan, const char *name, size_t len)
{
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return true;
	return scan->params->everything ? is_temporary(name, len) : manifest_ignores(name, len);
}

/* One name that the folder has. False: no more are taken. A name that has vanished since is passed
 * over. */
static bool take_name(struct scan *scan, int fd, const struct dirent64 *item)
{
	struct manifest_entry *entry;
	size_t len = strlen(item->d_name);
	struct statx st = {.stx_mask = 0};

	if (is_passed_over(scan, item->d_name, len))
		return true;
	if (--scan->until_clock == 0) {
		scan->until_clock = CLOCK_EVERY;
		if (is_late(scan))
			return false;
	}
	/* Of a folder nothing but its number is kept: what happens in it shows inside. */
	if (item->d_type != DT_DIR &&
	    statx(fd, item->d_name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
		return true;
	entry = entry_add(scan, item->d_name, len);
	if (!entry)
		return false;
	entry->kind = item->d_type == DT_DIR ? ENTRY_FOLDER : (uint8_t)kind_of(st.stx_mode);
	entry->inode = item->d_type == DT_DIR ? item->d_ino : st.stx_ino;
	entry->mode = st.stx_mode & 07777;
	entry->links = st.stx_nlink < UINT16_MAX ? (uint16_t)st.stx_nlink : UINT16_MAX;
	entry->size = st.stx_size;
	entry->mtime_ns = nanoseconds(&st.stx_mtime);
	entry->ctime_ns = nanoseconds(&st.stx_ctime);
	entry->btime_ns = st.stx_mask & STATX_BTIME ? nanoseconds(&st.stx_btime) : 0;
	return true;
}

static enum folder_known read_names(struct scan *scan, int fd)
{
	_Alignas(struct dirent64) char buffer[READ_BYTES];
	ssize_t len;

	while ((len = getdents64(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *item = (const void *)(buffer + at);

			if (!take_name(scan, fd, item))
				return FOLDER_PART;
			at += item->d_reclen;
		}
	}
	if (len == 0 || errno == ENOENT) /* ENOENT: the folder was removed meanwhile */
		return FOLDER_WHOLE;
	stop_at(scan->made, STOP_UNREADABLE);
	return FOLDER_PART;
}

static int compare_entries(const void *a, const void *b, void *data)
{
	const struct manifest_entry *left = a, *right = b;

	return manifest_compare(manifest_name(data, left), left->name_len,
				manifest_name(data, right), right->name_len);
}

static int folder_open(const struct scan *scan, uint32_t folder)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	cleanup_buf struct buf path = BUF_INIT;

	append_folder_path(scan->made, folder, &path);
	if (path.len == 0)
		buf_append_char(&path, '.');
	return (int)syscall(SYS_openat2, scan->params->root, buf_bytes(&path), &how, sizeof(how));
}

/* A folder that cannot be opened: one that has vanished is empty, of others we know nothing. */
static void not_opened(struct scan *scan, struct manifest_folder *folder)
{
	switch (errno) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
		folder->known = FOLDER_WHOLE;
		break;
	case EXDEV:
		stop_at(scan->made, STOP_MOUNT);
		break;
	case ENAMETOOLONG:
		stop_at(scan->made, STOP_DEPTH);
		break;
	default:
		stop_at(scan->made, STOP_UNREADABLE);
		break;
	}
}

static void folder_read(struct scan *scan, uint32_t index)
{
	struct manifest *made = scan->made;
	struct manifest_folder *folder = &made->folders[index];
	cleanup_fd int fd = folder_open(scan, index);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0) {
		not_opened(scan, folder);
		return;
	}
	folder->inode = st.st_ino;
	folder->mode = st.st_mode & 07777;
	folder->mtime_ns =
		(int64_t)((uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec);
	folder->watch = scan->params->enter ? scan->params->enter(scan->params->data, fd) : -1;
	if (folder->watch < 0)
		made->unwatched++;
	folder->known = read_names(scan, fd);
	folder->count = made->entry_count - folder->first;
	if (folder->count > 1)
		qsort_r(made->entries + folder->first, folder->count, sizeof(*made->entries),
			compare_entries, made);
}

/* --- the manifest before
 * ------------------------------------------------------------------------ */

/* The folder as it was before, or NULL. */
static const struct manifest_folder *folder_before(const struct scan *scan,
						   const struct manifest_folder *folder)
{
	return folder->before == MANIFEST_NONE ? NULL
					       : &scan->params->before->folders[folder->before];
}

static bool can_copy(const struct scan *scan, const struct manifest_folder *folder)
{
	const struct manifest_folder *old = folder_before(scan, folder);

	return old && scan->params->is_unchanged && old->watch >= 0 && old->known == FOLDER_WHOLE &&
	       (old->inode == folder->inode || folder->parent == MANIFEST_NONE) &&
	       scan->params->is_unchanged(scan->params->data, old->watch);
}

/* The entries, and how much was known of the folder. */
static void folder_copy(struct scan *scan, uint32_t index)
{
	const struct manifest *before = scan->params->before;
	struct manifest_folder *folder = &scan->made->folders[index];
	const struct manifest_folder *old = folder_before(scan, folder);

	folder->known = old->known;
	folder->inode = old->inode;
	folder->mode = old->mode;
	folder->mtime_ns = old->mtime_ns;
	for (uint32_t i = 0; i < old->count; i++) {
		const struct manifest_entry *from = &before->entries[old->first + i];
		struct manifest_entry *entry =
			entry_add(scan, manifest_name(before, from), from->name_len);
		uint32_t name = entry ? entry->name : 0;

		if (!entry) {
			folder->known = FOLDER_PART;
			break;
		}
		*entry = *from;
		entry->name = name;
		entry->folder = MANIFEST_NONE;
	}
	folder->count = scan->made->entry_count - folder->first;
}

/* --- the tree
 * ----------------------------------------------------------------------------------- */

static void add_children(struct scan *scan, uint32_t index)
{
	const struct manifest *before = scan->params->before;
	struct manifest *made = scan->made;
	const struct manifest_folder parent = made->folders[index]; /* a copy: the array moves */

	for (uint32_t i = parent.first; i < parent.first + parent.count; i++) {
		const struct manifest_entry *entry = &made->entries[i];
		const struct manifest_entry *old = NULL;
		uint32_t child;

		if (entry->kind != ENTRY_FOLDER)
			continue;
		if (parent.depth >= scan->params->depth_max) {
			stop_at(made, STOP_DEPTH);
			continue;
		}
		if (parent.before != MANIFEST_NONE)
			old = manifest_find(before, parent.before, manifest_name(made, entry),
					    entry->name_len);
		child = folder_add(made, index, i);
		made->entries[i].folder = child;
		if (old && old->kind == ENTRY_FOLDER)
			made->folders[child].before = old->folder;
	}
}

static void folder_scan(struct scan *scan, uint32_t index)
{
	struct manifest *made = scan->made;
	struct manifest_folder *folder = &made->folders[index];

	folder->first = made->entry_count;
	if (made->entry_count >= scan->params->entries_max) {
		stop_at(made, STOP_ENTRIES);
	} else if (can_copy(scan, folder)) {
		folder->watch = folder_before(scan, folder)->watch;
		folder->copied = true;
		folder_copy(scan, index);
	} else if (!is_late(scan)) {
		folder_read(scan, index);
	} else if (folder_before(scan, folder)) {
		/* As it was; its number is forgotten, so that the next look reads it. */
		folder_copy(scan, index);
	}
	add_children(scan, index);
}

uint32_t *manifest_pair(const struct manifest *manifest, const struct manifest *other)
{
	uint32_t *pairs = mem_resize(NULL, manifest->folder_count, sizeof(*pairs));

	pairs[0] = 0;
	for (uint32_t i = 1; i < manifest->folder_count; i++) { /* parents come first */
		const struct manifest_folder *folder = &manifest->folders[i];
		const struct manifest_entry *name = &manifest->entries[folder->entry];
		const struct manifest_entry *there = NULL;

		if (pairs[folder->parent] != MANIFEST_NONE)
			there = manifest_find(other, pairs[folder->parent],
					      manifest_name(manifest, name), name->name_len);
		pairs[i] = there && there->kind == ENTRY_FOLDER ? there->folder : MANIFEST_NONE;
	}
	return pairs;
}

struct manifest *manifest_scan(const struct manifest_params *params)
{
	struct scan scan = {.params = params,
			    .made = mem_zalloc(sizeof(*scan.made)),
			    .until_clock = CLOCK_EVERY,
			    .late = false};

	folder_add(scan.made, MANIFEST_NONE, MANIFEST_NONE);
	if (params->before)
		scan.made->folders[0].before = 0;
	for (uint32_t i = 0; i < scan.made->folder_count; i++)
		folder_scan(&scan, i);
	return scan.made;
}
