/*
 * What the files of the checkpoints share: the list, and the timeline (checkpoints.h).
 */
#ifndef FH_KEEPER_CHECKPOINTS_INTERNAL_H
#define FH_KEEPER_CHECKPOINTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "keeper/cells.h"
#include "keeper/checkpoints.h"

struct checkpoint {
	struct checkpoint *next; /* older */
	uint32_t number;         /* 0: it waits for another copy that is on its way */
	char *name;              /* NULL: automatic */
	bool held;               /* the copy sleeps; else it is on its way */
	uint32_t *cells; /* named: the timeline that is in it; NULL: so much of the present one */
	size_t depth;    /* how many cells */
	int64_t execution_count;
	int64_t t_us, copy_us;
	int64_t private_bytes; /* -1: not measured yet */
	struct json *info;     /* what is not in it, as the guest has said */
	uint64_t seq;
	bool takes_files; /* a snapshot is being taken for it */
	struct snapshot *files;
	struct client *client; /* who waits for it; else NULL */
	struct json *id;
};

struct checkpoints {
	struct session *session;
	struct checkpoint *list; /* the newest first */
	uint32_t *cells;         /* the timeline: numbers of cells */
	size_t depth, room;
	int64_t execution_count;
	int64_t credit_us, credit_at_us;
	int64_t booked_us; /* when the next automatic copy may be made (share.h); 0: not booked */
	int64_t last_us;   /* what the last copy took */
	int64_t measured_us;
	uv_timer_t *timer;
	bool unsupported;
	bool forked;    /* the state before the first cell is another session's */
	struct err why; /* why the present state's last copy failed; ERR_OK: none has */
};

/* A new entry for the present state, without a copy; the list owns it. `name` is copied; NULL: an
 * automatic one. */
struct checkpoint *checkpoint_add(struct checkpoints *checkpoints, const char *name);

/* Takes it off the list and frees it; the copy ends. The second tells so, if it was held. */
void checkpoint_drop(struct checkpoints *checkpoints, struct checkpoint *checkpoint);
void checkpoint_drop_telling(struct checkpoints *checkpoints, struct checkpoint *checkpoint,
			     const char *reason);

/* Writes a `checkpoint` event; `reason` may be NULL. */
void checkpoint_tell(struct checkpoints *checkpoints, const struct checkpoint *checkpoint,
		     const char *action, const char *reason);
void checkpoint_refuse_waiter(const struct checkpoint *checkpoint, const struct err *err);

/* NULL: there is none. */
struct checkpoint *checkpoint_by_number(const struct checkpoints *checkpoints, uint32_t number);
struct checkpoint *checkpoint_by_name(const struct checkpoints *checkpoints, const char *name);
size_t checkpoint_named_count(const struct checkpoints *checkpoints);

/* How many cells the checkpoint and the present have in common, from the first; whether the present
 * state has grown out of it. */
size_t checkpoint_common(const struct checkpoints *checkpoints,
			 const struct checkpoint *checkpoint);
bool checkpoint_is_past(const struct checkpoints *checkpoints, const struct checkpoint *checkpoint);

/* Of those that the present has grown out of: the deepest, and one of this depth. `held`: only one
 * that sleeps. NULL: there is none. */
struct checkpoint *checkpoint_newest(const struct checkpoints *checkpoints, bool held);
struct checkpoint *checkpoint_at_depth(const struct checkpoints *checkpoints, size_t depth,
				       bool held);

/* The cell at an index of a timeline; the last one that is in a checkpoint, NULL: none. */
struct cell *checkpoint_cell_at(const struct checkpoints *checkpoints, const uint32_t *cells,
				size_t index);
const struct cell *checkpoint_last_cell(const struct checkpoints *checkpoints,
					const struct checkpoint *checkpoint);

/* A snapshot for the one that takes_files is there (owned by it), or NULL; snapshots_take(). `data`
 * are the checkpoints. */
void checkpoint_files_taken(void *data, struct snapshot *snapshot, const struct err *err);

/* Sets a member to the cell's id, or null. */
void checkpoint_set_cell(struct json *body, const char *key, const struct cell *cell);

/* As the op `checkpoints` has it. The caller owns it. */
struct json *checkpoint_describe(const struct checkpoints *checkpoints,
				 const struct checkpoint *checkpoint);

#endif
