/*
 * Explain: what a policy comes to, step by step, without doing any of it.
 *
 * The steps are those of the plan (plan.h), as box_start() would compile it here and now, and then
 * what the init does with each program that it starts. For people who want to know what holds a
 * program, and for those who wonder why it does not find a file.
 */
#ifndef FH_SANDBOX_EXPLAIN_H
#define FH_SANDBOX_EXPLAIN_H

#include "base/err.h"
#include "base/json.h"
#include "sandbox/policy.h"

/* An array of {"by":"box"|"program","what":...,"why":...,"needs":...} in the order in which they
 * are done; the caller owns it. `program` (may be NULL) is the name of what is to run. NULL on
 * failure, for the reasons of plan_compile(). */
struct json *explain_policy(const struct policy *policy, enum tier tier, const char *program,
			    struct err *err);

#endif
