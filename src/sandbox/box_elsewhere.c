/*
 * A box taken apart and put together again, for another process; see box_elsewhere.h.
 */
#include "sandbox/box_elsewhere.h"

#include <string.h>

#include "base/mem.h"
#include "sandbox/box_impl.h"

struct box *box_new(enum tier tier, uid_t uid)
{
	struct box *box = mem_zalloc(sizeof(*box));

	box->tier = tier;
	box->uid = uid;
	box->init = (struct spawned)SPAWNED_INIT;
	box->lease = (struct uid_lease)UID_LEASE_INIT;
	box->group = (struct box_group)BOX_GROUP_INIT;
	box->filter = -1;
	box->overlay = -1;
	for (size_t i = 0; i < BOX_NAMESPACES; i++)
		box->namespaces[i] = -1;
	return box;
}

struct box *box_take_parts(const struct box_parts *parts)
{
	struct box *box = box_new(parts->tier, parts->uid);

	box->layers = parts->layers;
	box->lease.uid = parts->box_uid;
	box->init.pid = parts->init_pid;
	box->init.pidfd = parts->pidfd;
	box->init.socket = parts->socket;
	box->overlay = parts->overlay;
	box->workspace = mem_string(parts->workspace);
	box->group.memory_bytes_max = parts->memory_bytes_max;
	box->group.elsewhere = parts->elsewhere;
	box->group.elsewhere_data = parts->data;
	box_take_how(box, parts->how);
	return box;
}

void box_take_how(struct box *box, const char *const how[BOX_LIMITS])
{
	memcpy(box->group.how, how, sizeof(box->group.how));
}

void box_give_parts(const struct box *box, struct box_parts *parts)
{
	*parts = (struct box_parts){.tier = box->tier,
				    .uid = box->uid,
				    .box_uid = box->lease.uid,
				    .layers = box->layers,
				    .memory_bytes_max = box->group.memory_bytes_max,
				    .init_pid = box->init.pid,
				    .pidfd = box->init.pidfd,
				    .socket = box->init.socket,
				    .overlay = box->overlay,
				    .workspace = box->workspace};
	for (int limit = 0; limit < BOX_LIMITS; limit++)
		parts->how[limit] = box_group_how(&box->group, (enum box_limit)limit);
}
