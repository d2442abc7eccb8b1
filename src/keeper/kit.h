/*
 * For the tests of this folder: a temporary session directory, and a loop that runs until something
 * is so.
 */
#ifndef FH_KEEPER_KIT_H
#define FH_KEEPER_KIT_H

#include <stdbool.h>
#include <uv.h>

struct kit {
	char path[64];
	int fd; /* of the directory */
	uv_loop_t loop;
};

/* Makes /tmp/<name>_XXXXXX and the loop; a failure aborts the test. */
void kit_open(struct kit *kit, const char *name);

/* Closes the loop (all handles must be closed or closing) and removes the directory. */
void kit_close(struct kit *kit);

/* Runs the loop until holds(data); fails after ten seconds. */
void kit_run_until(struct kit *kit, bool (*holds)(void *data), void *data);

#endif
