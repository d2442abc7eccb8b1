/*
 * From a session's configuration to its box: see building.c.
 */
#ifndef FH_KEEPER_BUILDING_H
#define FH_KEEPER_BUILDING_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "keeper/session.h"

/* Whether the interpreter is started in the box, not forked from a zygote. */
bool building_is_cold(const struct session *session);

/* Which nursery the namespace `family` is: as long as it exists, its number is no other's. 0:
 * none. */
ino_t building_family(int family);

/* Builds the strongest box that there can be, no weaker than the policy's floor, for what is known
 * now of the environment. What stood in the way of a full one is in session->tier_reason. The
 * caller owns it. */
struct box *building_make(struct session *session, struct err *err);

/* For the degraded tier: a directory for temporary files beside the workspace, since /tmp is
 * everybody's without a mount namespace. Its path goes into session->policy.tmp. */
int building_make_tmp(struct session *session, struct err *err);

#endif
