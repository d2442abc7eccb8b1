/*
 * Work on snapshots for a session; see snapshots.h.
 */
#include "keeper/snapshots.h"

#include <stdatomic.h>
#include <uv.h>

#include "base/mem.h"
#include "keeper/guard.h"
#include "keeper/session.h"

struct snapshots {
	struct session *session;
	struct store *store;     /* made when it is needed first */
	struct snapshot *newest; /* what has not changed since is not read again */
	uv_work_t work;
	bool working, stopped;
	atomic_bool cancel; /* read by the thread */
	struct tree tree;
	/* of the work: */
	struct snapshot *target; /* to be restored; NULL: one is to be taken */
	struct snapshot *taken;
	struct snapshot_restored restored;
	void (*take_done)(void *data, struct snapshot *snapshot, const struct err *err);
	void (*restore_done)(void *data, struct json *files);
	void *data;
};

struct snapshots *snapshots_new(struct session *session)
{
	struct snapshots *snapshots = mem_zalloc(sizeof(*snapshots));

	snapshots->session = session;
	snapshots->tree = (struct tree)TREE_INIT;
	snapshots->work.data = snapshots;
	return snapshots;
}

bool snapshots_stop(struct snapshots *snapshots)
{
	snapshots->stopped = true;
	atomic_store(&snapshots->cancel, true);
	return !snapshots->working;
}

void snapshots_free(struct snapshots *snapshots)
{
	if (!snapshots)
		return;
	snapshot_free(snapshots->newest);
	store_free(snapshots->store);
	tree_release(&snapshots->tree);
	free(snapshots);
}

bool snapshots_busy(const struct snapshots *snapshots)
{
	return snapshots->working;
}

bool snapshots_by_default(const struct session *session)
{
	return session->config.workspace_private && session->config.workspace_mode != WORKSPACE_RO;
}

/* --- on the thread -----------------------------------------------------------------------------
 */

static void run(uv_work_t *work)
{
	struct snapshots *snapshots = work->data;
	const struct guard *guard = snapshots->session->guard;
	const struct snapshot_limits limits = SNAPSHOT_LIMITS;
	const struct snapshot_work how = {.tree = &snapshots->tree,
					  .time_us_max = snapshots->target ? SNAPSHOT_RESTORE_US_MAX
									   : SNAPSHOT_TAKE_US_MAX,
					  .cancel = &snapshots->cancel};

	if (snapshots->target)
		snapshot_restore(snapshots->target, &how, guard ? guard_patterns(guard) : NULL,
				 &snapshots->restored);
	else
		snapshots->taken =
			snapshot_take(&how, snapshots->store, &limits, snapshots->newest);
}

/* --- on the loop -------------------------------------------------------------------------------
 */

static void ended(uv_work_t *work, int status)
{
	struct snapshots *snapshots = work->data;
	struct snapshot *taken = mem_take(snapshots->taken);
	struct err err = ERR_INIT;

	(void)status; /* nobody cancels it so */
	snapshots->working = false;
	tree_release(&snapshots->tree);
	if (snapshots->stopped) {
		snapshot_free(taken);
		snapshot_restored_release(&snapshots->restored);
		snapshots->target = NULL;
		session_later(snapshots->session); /* which waited for this */
		return;
	}
	if (snapshots->target) {
		snapshots->target = NULL;
		snapshots->restore_done(snapshots->data,
					snapshot_restored_to_json(&snapshots->restored));
		snapshot_restored_release(&snapshots->restored);
		return;
	}
	snapshot_free(snapshots->newest);
	snapshots->newest = snapshot_keep(taken);
	snapshots->take_done(snapshots->data, taken, &err);
}

static int begin(struct snapshots *snapshots, struct err *err)
{
	if (snapshots->working || snapshots->stopped)
		return err_set(err, ERR_BUSY, "other work on the workspace's files is under way");
	if (snapshots->session->config.workspace_mode == WORKSPACE_RO)
		return err_set(err, ERR_UNSUPPORTED, "the workspace is read-only");
	if (!snapshots->store)
		snapshots->store =
			store_new(snapshots->session->dirfd, SNAPSHOT_STORE_BYTES_MAX, err);
	if (!snapshots->store || session_open_tree(snapshots->session, &snapshots->tree, err) != 0)
		return -1;
	return 0;
}

static int queue(struct snapshots *snapshots, struct err *err)
{
	int status = uv_queue_work(snapshots->session->loop, &snapshots->work, run, ended);

	if (status != 0) {
		tree_release(&snapshots->tree);
		snapshots->target = NULL;
		return err_set(err, ERR_IO, "starting a thread: %s", uv_strerror(status));
	}
	snapshots->working = true;
	return 0;
}

int snapshots_take(struct snapshots *snapshots,
		   void (*done)(void *data, struct snapshot *snapshot, const struct err *err),
		   void *data, struct err *err)
{
	if (begin(snapshots, err) != 0)
		return -1;
	snapshots->take_done = done;
	snapshots->data = data;
	return queue(snapshots, err);
}

int snapshots_restore(struct snapshots *snapshots, struct snapshot *snapshot,
		      void (*done)(void *data, struct json *files), void *data, struct err *err)
{
	if (begin(snapshots, err) != 0)
		return -1;
	snapshots->target = snapshot;
	snapshots->restored = (struct snapshot_restored)SNAPSHOT_RESTORED_INIT;
	snapshots->restore_done = done;
	snapshots->data = data;
	return queue(snapshots, err);
}
