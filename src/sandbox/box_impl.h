/* What box.c and box_elsewhere.c share: the box itself. */
#ifndef FH_SANDBOX_BOX_IMPL_H
#define FH_SANDBOX_BOX_IMPL_H

#include "base/buf.h"
#include "sandbox/box.h"
#include "sandbox/box_group.h"
#include "sandbox/spawn.h"
#include "sandbox/uids.h"

struct box {
	enum tier tier;
	uid_t uid;       /* the keeper's */
	uint32_t layers; /* REPORT_BIT of those that hold */
	struct uid_lease lease;
	int filter; /* a memfd; -1 in tier none */
	struct spawned init;
	int namespaces[BOX_NAMESPACES];
	char *workspace;
	int overlay; /* the workspace as it is inside, if it is an overlay; else -1 */
	struct protect_list protect;
	struct buf exits; /* of struct exit_report */
	struct box_group group;
};

/* One without anything, of this tier, for the keeper's uid. */
struct box *box_new(enum tier tier, uid_t uid);

#endif
