/*
 * A session's directory before its first event: a spare that waits for its client.
 *
 * The pool keeps a session ready (doc/protocol.md, "Starting a keeper"), whose keeper holds the
 * directory's lock and has opened the journal, but has written neither session.json nor an event.
 * Such a directory is no session yet: nobody lists it. If its keeper is killed the directory stays;
 * whoever comes by removes it.
 */
#ifndef FH_JOURNAL_UNBORN_H
#define FH_JOURNAL_UNBORN_H

#include <stdbool.h>

#include "base/err.h"

/* Whether the directory is no session yet: no session.json, and no byte in its journal. One that
 * has lost its session.json but not its journal is a damaged session, not this. */
bool unborn_is(int dirfd);

/* Removes sessions_fd/<id>, whose lock the caller holds; its name is gone first, so that nobody
 * finds a half of it. */
int unborn_remove(int sessions_fd, const char *id, struct err *err);

/* Removes what killed keepers have left under sessions_fd: unborn directories with a `lock` that
 * nobody holds. One without that file is being made just now, unless it is an hour old. */
void unborn_sweep(int sessions_fd);

#endif
