/*
 * A policy as the client sees it: JSON that it passes on.
 *
 * What is in it is the keeper's to check. But a variable that is null means the value of whoever
 * starts the session, and only this process has that.
 */
#ifndef FH_CLIENT_POLICY_H
#define FH_CLIENT_POLICY_H

#include "base/err.h"
#include "base/json.h"

/* Puts this process's values into the variables of "env" that are null; those that are not set
 * here are left out. A value that is no UTF-8 is repaired. ERR_USAGE for a name with NUL in it,
 * which could not be passed on as it is. */
int policy_take_variables(struct json *policy, struct err *err);

#endif
