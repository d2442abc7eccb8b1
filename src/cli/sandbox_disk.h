/*
 * How much a program that runs alone has written into its workspace: counted again and again by a
 * thread, because to walk through it can take seconds.
 */
#ifndef FH_CLI_SANDBOX_DISK_H
#define FH_CLI_SANDBOX_DISK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { SANDBOX_DISK_MS = 200 }; /* between two counts, and ten times as long as one took */

struct sandbox_disk {
	pthread_t thread;
	bool runs;
	int folder; /* descriptor; -1 */
	uint64_t bytes_max, inodes_max;
	atomic_bool stop;
	atomic_bool over; /* more than one of the two */
	int wake;         /* ends its waiting; -1 */
};

#define SANDBOX_DISK_INIT \
	{ \
		.runs = false, .folder = -1, .wake = -1 \
	}

/* Begins to count what is in the folder. 0 for a limit: none of that kind; none at all: nothing
 * happens. The object must stay where it is. */
int sandbox_disk_open(struct sandbox_disk *disk, const char *folder, uint64_t bytes_max,
		      uint64_t inodes_max, struct err *err);

/* Whether there is more than the limits allow. */
bool sandbox_disk_over(struct sandbox_disk *disk);

/* Ends the thread. */
void sandbox_disk_close(struct sandbox_disk *disk);

#endif
