/*
 * The parts of a session that each one in a keeper has for itself: the keeper's first, and its
 * branches (home.h). From shell_open() on a failure can be told to those who wait.
 */
#ifndef FH_KEEPER_SHELL_H
#define FH_KEEPER_SHELL_H

#include "base/err.h"
#include "keeper/session.h"

/* Makes them for a session that has its loop, its directory, its configuration or at least room for
 * it, and what it shares. */
void shell_open(struct session *session);

/* The journal; `above` is the folder that its directory lies in (taken over). */
int shell_record(struct session *session, int above, struct err *err);

/* When it has ended: frees all parts but what it shares with others. */
void shell_close(struct session *session);

/* The end of each turn of the loop: what the sessions have to say goes out. */
void shell_turn(struct home *home);

#endif
