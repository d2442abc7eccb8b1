/*
 * A session made again from the journal of another: what `fumehood fork --isolated` does.
 *
 *	replay_read()          which cells are in the parent's state, and what they put out
 *	replay_copy_files()    the parent's workspace, without what the cells will make again
 *	replay_run()           the cells, one after the other, with the answers they got
 *	replay_settle_files()  the workspace as the parent's is, and which files came out otherwise
 *	replay_compare()       which cells came out otherwise
 *
 * It needs nothing of the parent but its directory, so the parent may run, or not, or be of another
 * machine. It is no copy of memory: what a cell reads from the clock, from random numbers or from
 * elsewhere comes out otherwise, and that is what the comparison is for.
 */
#ifndef FH_CLI_REPLAY_H
#define FH_CLI_REPLAY_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"
#include "notebook/notebook.h"

enum {
	REPLAY_FILES_MAX = 20000,
	REPLAY_DEPTH_MAX = 64, /* of folders */
};
#define REPLAY_FILE_BYTES_MAX (UINT64_C(256) << 20)
#define REPLAY_BYTES_MAX (UINT64_C(1) << 30) /* of all files together */

enum replay_kind { REPLAY_RUN, REPLAY_SECTION, REPLAY_NOTE };

/* One thing that is done again. */
struct replay_step {
	enum replay_kind kind;
	char *id;            /* of a cell */
	struct json *body;   /* of its event */
	struct json *inputs; /* array: bodies of its `input` events */
	char *status;        /* how it ended */
	/* Afterwards: */
	char *again;          /* how it ended this time; NULL: it did not run */
	struct json *differs; /* array of words: what came out otherwise; NULL: not compared */
};

struct replay {
	struct replay_step *steps; /* in their order */
	size_t count;
	size_t cells;              /* of them that are REPLAY_RUN */
	struct notebook *notebook; /* of the parent */
	struct json *made;         /* object: paths that the cells made, which are not copied */
	struct json *touched;      /* object: paths that the cells touched this time */
	bool passwords;            /* a prompt asked for one, which is not in the journal */
};

#define REPLAY_INIT \
	{ \
		.steps = NULL, .notebook = NULL, .made = NULL, .touched = NULL \
	}

/*
 * Reads the journal in `dirfd`. `from`: the name of a checkpoint, or a cell, before which it ends;
 * NULL: the present state. ERR_NOT_FOUND when the state does not have that. The caller releases
 * *replay also after failure.
 */
int replay_read(struct replay *replay, int dirfd, const char *from, struct err *err);
void replay_release(struct replay *replay);
#define cleanup_replay __attribute__((cleanup(replay_release)))

/* What becomes of files. Lists are JSON arrays, owned. */
struct replay_files {
	uint64_t count, bytes; /* copied */
	struct json *skipped;  /* [{"path","reason"}] */
	struct json *differ;  /* [{"path","change"}]: "changed", "missing" or "new" in the replay */
	struct json *folders; /* paths */
};

#define REPLAY_FILES_INIT \
	{ \
		.count = 0, .bytes = 0, .skipped = NULL, .differ = NULL, .folders = NULL \
	}

void replay_files_release(struct replay_files *files);
#define cleanup_replay_files __attribute__((cleanup(replay_files_release)))

/* Before the run. `parent` and `branch` are ids of sessions. */
int replay_copy_files(const struct replay *replay, const char *parent, const char *branch,
		      struct replay_files *files, struct err *err);

/* After it, for the present state: what was left out or touched becomes what the parent has, if it
 * is not that anyway. */
int replay_settle_files(const struct replay *replay, const char *parent, const char *branch,
			struct replay_files *files, struct err *err);

/*
 * Runs the steps in `branch`, which is subscribed to its events from the first on. `signal_fd`: see
 * signals.h; a signal ends it with ERR_GONE and *signal. A cell that fails is no failure.
 */
int replay_run(struct replay *replay, struct fh_session *branch, int signal_fd, int *signal,
	       struct err *err);

/* Compares with the journal in `dirfd`, of the branch, and fills `differs` of the cells. Returns
 * how many differ, -1 with *err. */
int replay_compare(struct replay *replay, int dirfd, struct err *err);

#endif
