/*
 * The keeper confines itself: after its configuration is read and its socket listens, before it
 * reads a journal, a client's line, or a word of a guest's.
 *
 * What remains: its session's directory, the workspace as the policy has it, /dev/null. The rest is
 * the spawner's (spawner.h).
 */
#ifndef FH_KEEPER_CONFINE_H
#define FH_KEEPER_CONFINE_H

#include "base/err.h"
#include "keeper/session.h"

/* Sets session->confined. No thread may have been started. ERR_SANDBOX or ERR_IO: not all of it
 * could be done, although the kernel has it. */
int session_confine(struct session *session, struct err *err);

#endif
