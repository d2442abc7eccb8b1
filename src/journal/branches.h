/*
 * Where the directory of a branch is.
 *
 *	sessions/<root>/branches/<id>/    while its keeper lives
 *	sessions/<id> -> <root>/branches/<id>
 *	sessions/<id>/                    from then on
 *
 * A keeper is confined to the directory of its first session before it knows of any branch, and
 * Landlock takes no more folders later. So a branch begins inside of that directory, with a
 * link in its place among the sessions. When the branch has ended, link and directory change
 * places, in one step of the kernel (renameat2(2), RENAME_EXCHANGE): it is a session like any other
 * then. Where that cannot be done (a machine that loses power, a file system without it) the link
 * stays, and all goes on working through it.
 */
#ifndef FH_JOURNAL_BRANCHES_H
#define FH_JOURNAL_BRANCHES_H

#include <stdbool.h>

#include "base/err.h"

#define BRANCHES_FOLDER "branches"

/* Opens sessions_fd/<id>, a directory or the link of a branch; no other link is followed. -1 with
 * errno. The caller owns the descriptor. */
int branches_open(int sessions_fd, const char *id);

/* Makes the link for <directory>/branches/<id>, where `directory` is the path of its keeper's first
 * session beneath sessions_fd: an id, or that of a branch that still is inside another one.
 * ERR_INVALID when it is no such path. */
int branches_link(int sessions_fd, const char *directory, const char *id, struct err *err);

/* Directory and link change places; nothing when it is no link. */
int branches_settle(int sessions_fd, const char *id, struct err *err);

/* Takes the link away. What it leads to stays. */
void branches_unlink(int sessions_fd, const char *id);

/* Whether the session has, or had, branches; and whether the directory of one is inside its own. */
bool branches_any(int dirfd);
bool branches_inside(int dirfd);

#endif
