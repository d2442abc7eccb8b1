/*
 * The files of a session's cells: what a watch found, in the words of the protocol.
 */
#ifndef FH_KEEPER_FILES_H
#define FH_KEEPER_FILES_H

#include <stdint.h>

#include "base/json.h"
#include "keeper/watch.h"

/* Watches the workspace (a host path, any bytes); NULL when it cannot be opened. The caller owns
 * it. */
struct watch *files_watch(const char *workspace);

/* The same with a descriptor of it, which stays the caller's. */
struct watch *files_watch_at(int fd);

/*
 * Sets `files` and, where they say something, `files_more` (how many are not in the list) and
 * `files_incomplete` (why there may be others). The list takes at most FILES_BYTES_MAX as JSON, so
 * that it never becomes a blob. What other programs run later by one of the patterns `protect`
 * (sandbox/protect.h; NULL: none) says so.
 */
enum { FILES_BYTES_MAX = 32 << 10 };
void files_tell(const struct watch *watch, const struct changes *changes,
		const char *const *protect, struct json *body);

#endif
