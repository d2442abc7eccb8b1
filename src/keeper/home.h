/*
 * The home: the sessions of one keeper, which live in one box.
 *
 * A keeper begins with one session, its *root*. A branch of it (branch.h) is a session like any
 * other, but for the box: that is shared, and with it the workspace, the network, the limits of the
 * box, the spawner and the registry of guests. Each session has its own pointers to these; whoever
 * builds a box anew sets them in all (home_share()).
 *
 * While several live in the box nobody takes it from under the others: it is not built anew for
 * other limits, nor because it is full. When it dies, each session hears of it from its own
 * interpreter. The last one to hear builds the next box, and the others wait for that:
 *
 *   hears ──> waits (the others still have interpreters that die) ──> built by another ──> starts
 *     └─────> builds (all others wait, or have no interpreter) ──────────────────────────> starts
 *
 * The root's struct outlives all others, also when its session has ended first: what branches
 * borrow (the paths of the Python, the guard, the network) is its own.
 */
#ifndef FH_KEEPER_HOME_H
#define FH_KEEPER_HOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "keeper/share.h"

enum { HOME_SESSIONS_MAX = 8 };

struct session;
struct spawner;
struct net;

struct home {
	struct session *root;
	struct session *sessions; /* that have not ended; the newest first */
	struct session *ended;    /* branches that are to be freed when nothing uses them */
	struct session *builder;  /* builds the box; NULL: nobody */
	struct net *net;          /* of the box; NULL: no host was ever allowed (net.h) */
	struct spawner *spawner;
	char *runtime;       /* where sockets are */
	struct share share;  /* of the processors, for copies */
	uint32_t last_brand; /* box.h; the root's is 0 */
};

/* The session is the root. The caller owns the home. */
struct home *home_new(struct session *root);
void home_free(struct home *home); /* NULL is fine; when all sessions have ended */

/* A branch comes: it gets what is shared; and, when it has its configuration, what is known of the
 * box and the limits in force there. */
void home_join(struct session *branch, const struct session *parent);
void home_take_box(struct session *branch, const struct session *from);

/* The session uses the box no more; and: it has ended. */
void home_leave(struct session *session);
void home_ended(struct session *session); /* the last one stops the loop */
/* The session needs the spawner no more. The last one waits until that has gone. */
void home_let_spawner_go(struct session *session);

/* The directory in which the box's own parts are: that of the root, which the spawner has, too. */
int home_dirfd(const struct session *session);

/* How many use the box; whether others than this one do. */
size_t home_count(const struct home *home);
bool home_is_shared(const struct session *session);

/* The session has built the box: the others get it, and those that wait go on. */
void home_share(struct session *session);

/* The box has died and others have lived in it. True: this session is to build the next one, and
 * the old one has been let go of. False: it is started when that is there. */
bool home_may_build(struct session *session);

/* The session has no interpreter, and builds none: those that waited for it go on. */
void home_gave_up(struct session *session);

/* ERR_BUSY when others live in the box: `what` ("limits of the box") would change theirs. */
int home_check_alone(const struct session *session, const char *what, struct err *err);

/* An event that is about the box: the body (taken) goes to each session's journal. The cell is
 * named where only one session can be meant. */
void home_tell_network(struct home *home, struct json *body);

#endif
