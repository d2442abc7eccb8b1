/*
 * Folders that wait are kept as open descriptors, at most DEPTH_MAX of them, because their names
 * are the guest's and may be exchanged at any time; what lies deeper is not counted.
 */
#include "files/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, BLOCK_BYTES = 512 };

struct walk {
	dev_t device;
	uint64_t inodes_max;
	const atomic_bool *stop;
	struct disk_use *use;
};

static void count(struct walk *walk, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * BLOCK_BYTES;

	walk->use->bytes += S_ISDIR(st->st_mode) || st->st_nlink < 2 ? bytes : bytes / st->st_nlink;
	walk->use->inodes++;
}

static bool is_over(const struct walk *walk)
{
	return atomic_load(walk->stop) ||
	       (walk->inodes_max && walk->use->inodes > walk->inodes_max);
}

static void walk_folder(struct walk *walk, int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return;
	}
	for (struct dirent *item; !is_over(walk) && (item = readdir(dir));) {
		struct stat st;
		int below;

		if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
		    fstatat(fd, item->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    st.st_dev != walk->device)
			continue;
		count(walk, &st);
		if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
			continue;
		below = openat(fd, item->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			walk_folder(walk, below, depth + 1);
	}
	closedir(dir);
}

void disk_use_read(int folder, uint64_t inodes_max, const atomic_bool *stop, struct disk_use *use)
{
	struct walk walk = {.inodes_max = inodes_max, .stop = stop, .use = use};
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	*use = (struct disk_use){.bytes = 0};
	if (fd < 0)
		return;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return;
	}
	walk.device = st.st_dev;
	walk_folder(&walk, fd, 0);
}
