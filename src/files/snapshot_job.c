/*
 * What taking, comparing and restoring have in common; see snapshot_impl.h.
 *
 * A folder is opened by its path from the root, beneath it (tree.h); what is in it by one name that
 * is never followed. So a folder that is swapped for a symlink meanwhile leads nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/snapshot_impl.h"

/* --- a piece of work --- */

struct job job_start(const struct snapshot_work *work)
{
	return (struct job){.work = work, .began_us = clock_monotonic_us(), .late = false};
}

bool job_is_late(struct job *job)
{
	const struct snapshot_work *work = job->work;

	if (!job->late)
		job->late = (work->cancel &&
			     atomic_load_explicit(work->cancel, memory_order_relaxed)) ||
			    clock_monotonic_us() - job->began_us >= work->time_us_max;
	return job->late;
}

/* The look asks for the clock to find out whether it is late: 1 is later than the deadline 0. */
static int64_t look_clock_us(void *data)
{
	return job_is_late(data) ? 1 : -1;
}

struct manifest *job_look(struct job *job, size_t entries_max)
{
	const struct manifest_params params = {
		.root = job->work->tree->root,
		.entries_max = entries_max,
		.depth_max = MANIFEST_DEPTH_MAX,
		.deadline_us = 0,
		.clock_us = look_clock_us,
		.everything = true,
		.data = job,
	};

	return manifest_scan(&params);
}

int job_open_folder(const struct job *job, const struct manifest *manifest, uint32_t folder,
		    int flags)
{
	const struct manifest_folder *at = &manifest->folders[folder];
	cleanup_buf struct buf path = BUF_INIT;

	if (at->parent != MANIFEST_NONE)
		manifest_path(manifest, at->parent, &manifest->entries[at->entry], &path);
	return tree_open_at(job->work->tree, buf_bytes(&path), flags | O_DIRECTORY, 0);
}

int open_to_read(int folder, const char *name, struct stat *st)
{
	cleanup_fd int fd =
		openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) != 0)
		return -1;
	if (!S_ISREG(st->st_mode)) {
		errno = ESTALE;
		return -1;
	}
	return fd_take(&fd);
}

void entry_name(const struct manifest *manifest, const struct manifest_entry *entry,
		struct entry_name *name)
{
	size_t len =
		entry->name_len < sizeof(name->text) ? entry->name_len : sizeof(name->text) - 1;

	memcpy(name->text, manifest_name(manifest, entry), len);
	name->text[len] = '\0';
}

enum snapshot_why why_of_errno(int sys)
{
	switch (sys) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return WHY_NO_SPACE;
	case EACCES:
	case EPERM:
	case EROFS:
		return WHY_UNREADABLE;
	case ENOENT: /* it, or what it became: gone, a symlink, a socket, a folder, and back */
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case EEXIST:
	case ENOTEMPTY:
	case ENXIO:
	case ESTALE:
		return WHY_CHANGING;
	default:
		return WHY_IO;
	}
}

/* --- notes --- */

const char *snapshot_why_name(enum snapshot_why why)
{
	static const char *const names[WHY_COUNT] = {
		[WHY_NOTHING] = "",
		[WHY_FILE_BYTES] = "file_bytes",
		[WHY_SUM_BYTES] = "sum_bytes",
		[WHY_STORE] = "store",
		[WHY_NO_SPACE] = "no_space",
		[WHY_UNREADABLE] = "unreadable",
		[WHY_CHANGING] = "changing",
		[WHY_SPECIAL] = "special",
		[WHY_UNSEEN] = "unseen",
		[WHY_TIME] = "time",
		[WHY_LATER] = "executes_later",
		[WHY_IO] = "io",
	};

	return names[why];
}

void snapshot_notes_release(struct snapshot_notes *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		free(notes->list[i].path);
	free(notes->list);
	*notes = (struct snapshot_notes){.list = NULL, .count = 0, .more = 0};
}

void notes_add(struct snapshot_notes *notes, struct snapshot_note_of of, enum snapshot_why why,
	       int sys)
{
	struct snapshot_note note = {.why = why, .sys = sys, .bytes = 0};
	struct buf path = BUF_INIT;

	if (notes->count == SNAPSHOT_NOTES_MAX) {
		notes->more++;
		return;
	}
	if (!notes->list)
		notes->list = mem_resize(NULL, SNAPSHOT_NOTES_MAX, sizeof(*notes->list));
	manifest_path(of.manifest, of.folder, of.entry, &path);
	note.path = buf_take(&path, &note.path_len);
	if (of.entry->kind == ENTRY_FILE)
		note.bytes = of.entry->size;
	notes->list[notes->count++] = note;
}
