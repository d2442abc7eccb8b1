/*
 * See sandbox_disk.h.
 */
#include "cli/sandbox_disk.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "files/disk_use.h"

enum { REST = 10 }; /* times as long as the count took */

static void *count(void *data)
{
	struct sandbox_disk *disk = data;
	struct pollfd wake = {.fd = disk->wake, .events = POLLIN};

	while (!atomic_load(&disk->stop)) {
		struct disk_use use = {0};
		int64_t begin = clock_monotonic_us(), rest_ms;

		disk_use_read(disk->folder, disk->inodes_max, &disk->stop, &use);
		if ((disk->bytes_max && use.bytes > disk->bytes_max) ||
		    (disk->inodes_max && use.inodes > disk->inodes_max)) {
			atomic_store(&disk->over, true);
			break;
		}
		rest_ms = (clock_monotonic_us() - begin) * REST / 1000;
		(void)poll(&wake, 1, rest_ms > SANDBOX_DISK_MS ? (int)rest_ms : SANDBOX_DISK_MS);
	}
	return NULL;
}

int sandbox_disk_open(struct sandbox_disk *disk, const char *folder, uint64_t bytes_max,
		      uint64_t inodes_max, struct err *err)
{
	sigset_t all, before;
	int result;

	if (!bytes_max && !inodes_max)
		return 0;
	disk->bytes_max = bytes_max;
	disk->inodes_max = inodes_max;
	disk->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	disk->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (disk->folder < 0 || disk->wake < 0)
		return err_sys(err, "looking at the workspace");
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	result = pthread_create(&disk->thread, NULL, count, disk);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (result != 0)
		return err_set(err, ERR_IO, "no thread can be started to look at the workspace");
	disk->runs = true;
	return 0;
}

bool sandbox_disk_over(struct sandbox_disk *disk)
{
	return disk->runs && atomic_load(&disk->over);
}

void sandbox_disk_close(struct sandbox_disk *disk)
{
	const uint64_t one = 1;

	if (disk->runs) {
		atomic_store(&disk->stop, true);
		(void)!write(disk->wake, &one, sizeof(one));
		(void)pthread_join(disk->thread, NULL);
		disk->runs = false;
	}
	if (disk->folder >= 0)
		close(disk->folder);
	if (disk->wake >= 0)
		close(disk->wake);
	disk->folder = disk->wake = -1;
}
