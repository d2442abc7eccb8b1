/* For box.c and its test: a box on a host that is described, not looked up. */
#ifndef FH_SANDBOX_BOX_PRIVATE_H
#define FH_SANDBOX_BOX_PRIVATE_H

#include "sandbox/box.h"
#include "sandbox/host.h"

/* As box_start(). */
struct box *box_start_on(const struct host *host, const struct policy *policy, enum tier tier,
			 struct err *err);

#endif
