/*
 * The session: cells, one engine, one record, and the life of all three.
 *
 *             READY         RUN                    STOP (from any state)
 *  STARTING ────────► IDLE ─────► RUNNING       ─────────────────────────► STOPPING ──► (ended)
 *     │ FAILED         ▲ ◄──DONE───┘ │ DIED
 *     ▼                │ READY       ▼
 *   BROKEN ──RESTART─► RESTARTING ◄──┴── DIED also from IDLE
 *
 * ASKING is to a question about the variables (asks.c) and its answer what RUNNING is to a cell and
 * its end.
 *
 * One cell runs at a time. When the interpreter dies, its newest copy is woken in the same box, and
 * its cell is finished when that has answered (back.h); where there is none, a new one is started
 * (state "reset"), and the variables are gone. A start that
 * fails leaves the session BROKEN: it answers, refuses to run, and `restart` tries again.
 */
#ifndef FH_KEEPER_SESSION_H
#define FH_KEEPER_SESSION_H

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "digest/digest.h"
#include "engine/engine.h"
#include "journal/asked.h"
#include "keeper/back.h"
#include "keeper/cells.h"
#include "keeper/config.h"
#include "keeper/reach.h"
#include "keeper/record.h"
#include "keeper/server.h"
#include "keeper/watch.h"
#include "sandbox/box.h"
#include "sandbox/confine.h"
#include "sandbox/policy.h"

enum session_state {
	SESSION_STARTING,
	SESSION_IDLE,
	SESSION_RUNNING,
	SESSION_ASKING,
	SESSION_RESTARTING,
	SESSION_BROKEN,
	SESSION_STOPPING,
	SESSION_STATE_COUNT
};

enum session_event {
	SESSION_READY,
	SESSION_FAILED,
	SESSION_RUN,
	SESSION_DONE,
	SESSION_ASK,
	SESSION_ANSWERED,
	SESSION_DIED,
	SESSION_RESTART,
	SESSION_STOP,
	SESSION_EVENT_COUNT
};

/* An answer that has to wait: for a restart, or for the end. */
struct waiting_reply {
	struct waiting_reply *next;
	struct client *client;
	struct json *id;
};

struct ask;           /* asks.c */
struct checkpoints;   /* checkpoints.h */
struct snapshot;      /* files/snapshot.h */
struct snapshots;     /* snapshots.h */
struct tree;          /* files/tree.h */
struct guests;        /* engine/python/guests.h */
struct pool_wait;     /* pool_wait.h */
struct limits_change; /* limits_change.c */
struct monitor;       /* monitor.h */
struct spare;         /* spare.c */
struct guard;         /* guard.h */
struct home;          /* home.h */
struct branch;        /* branch.h */
struct fork;          /* branch.c */
struct spawner;       /* spawner.h */

struct session {
	uv_loop_t *loop;
	int dirfd;
	struct config config;
	struct record *record;
	struct server *server;
	struct cells *cells;
	/* building.c, interpreter.c: */
	struct policy policy;
	struct limits box_limits;   /* of them those of the box (limit_table.h), as in force */
	struct limits built_limits; /* ... as they were when the box was built */
	bool limits_taken;          /* this start has put others in force: told when it is ready */
	struct json *environment;   /* what the zygote said of the Python environment; NULL: cold */
	int family;                 /* the namespace of its nursery; -1: none. Owned */
	ino_t built_family;         /* ... that the box was built beneath; 0: none */
	bool foreign;       /* the Python is not the user's own: no zygote (base/python.h) */
	struct reach reach; /* without a zygote: whether there must be none, and what is seen */
	char *python, *cold_script, *guest_folder;
	const char **read_paths;
	char *overlay; /* where the changes of an overlay workspace are kept; else NULL */
	struct box *box;
	char *tmp;         /* degraded tier: where its temporary files go; else NULL */
	char *tier_reason; /* why the box is not of the tier `full`; NULL: it is, or none was wanted
			    */
	struct guests *guests;
	struct engine *engine;
	char *packages;           /* environment.c: a folder for them that the box shows; or NULL */
	const char *own_paths[2]; /* that one, and NULL */
	bool environment_due;     /* environment.c: the interpreter has not been told the latest */
	int pool_fd;              /* until the engine has it */
	struct pool_wait *pool_wait; /* a pool warms up; else NULL */
	struct json *hello;
	struct spawner *spawner;
	struct confined confined; /* what the keeper has given up (confine.h) */
	struct spare *spare;      /* not handed out yet; NULL: an ordinary session */
	/* home.h: */
	struct home *home;            /* shared; NULL in the spawner */
	struct session *next_in_home; /* home.c */
	uint32_t brand;               /* of its interpreters (box.h) */
	bool waits_for_box;           /* another session builds it */
	bool left_home;               /* it uses the box no more */
	struct branch *branch;        /* a branch, until it is born, and its end; else NULL */
	struct fork *forks;           /* branch.c: of this session, that wait for a copy */

	enum session_state state;
	struct cell *running;
	struct checkpoints *checkpoints;
	struct back back; /* where it goes back to */
	struct snapshots *snapshots;
	struct snapshot *before; /* of the files, before the cell that may be undone; or NULL */
	uint32_t before_cell;    /* ... whose number is this; 0: none was taken */
	bool just_started;       /* `running` began in this turn of the loop; else false */
	struct watch
		*watch; /* of the workspace; NULL: nothing can change there, or it is not there */
	bool guard_warned;       /* that the guard cannot see all */
	struct guard *guard;     /* of a workspace that is somebody's own; else NULL */
	struct monitor *monitor; /* of what the limits do */
	char *section;           /* title of the last section; NULL: none yet */
	bool draining;           /* stop when the queue is empty */
	const char *stop_reason; /* constant; NULL: not stopping */
	const char *kill_reason; /* why the interpreter was killed by us; NULL: it was not */
	const char *restart_reason;
	bool opened;      /* clients have been greeted */
	bool sync_failed; /* durability.c: the disk has refused to sync the journal, once */
	struct asked asked; /* instructions to a model, that a client has recorded */
	struct ask *asks; /* in the order of their requests; the first is with the interpreter when
			     ASKING */
	uint32_t ask_count; /* ever started */
	struct limits_change
		*limits_changes; /* the first is with a worker; the end waits for them */
	uv_timer_t *cell_timer;
	uv_timer_t *ask_timer;
	uv_timer_t *later_timer;
	uv_timer_t *guard_timer;
	struct waiting_reply *restart_waiters, *stop_waiters;
	void (*released)(
		void *data); /* record and box are closed: the directory may be another keeper's */
	void (*ended)(void *data); /* all is closed: the loop may stop */
	void *ended_data;
	struct err start_err; /* why there never was an interpreter; else ERR_OK */
};

extern const struct engine_events SESSION_ENGINE_EVENTS; /* data is the session */
extern const struct record_events SESSION_RECORD_EVENTS; /* data is the session */

const char *session_state_name(const struct session *session); /* as the protocol has it */

/* Moves the state by the table; an illegal move is an assert. */
void session_move(struct session *session, enum session_event event);

/* Answers all of them: refused with err, or with an empty reply when it is NULL. */
void session_answer(struct waiting_reply **waiters, const struct err *err);

/* Goes on from the loop: starts an interpreter when RESTARTING, closes everything when STOPPING. */
void session_later(struct session *session);

/* Runs the next queued cell if one may run; ends a draining session. */
void session_next(struct session *session);

/* The running cell has met this limit (a name of the table, constant): it is interrupted, and
 * killed if that does not help. Nothing happens to one that is being stopped already. */
void session_cell_over(struct session *session, const char *limit);

/* The running cell's time limit, its end, and cells that never ran. */
void session_cancel_queue(struct session *session,
			  const char *reason); /* of their `finished`; may be NULL */
void session_finish(struct session *session, struct cell *cell, const char *status,
		    const char *reason, const char *state, int64_t execution_count);

/* The limit (or "no_space") by which `truncated` and `warning` name what was dropped. */
const char *session_drop_name(enum drop drop);

/* Says of all cells what was dropped and not told yet: output after their end, and what did not fit
 * into the record. */
void session_say_truncated(struct session *session);

/* Answers the prompt that waits; text NULL is the end of file. ERR_NOT_FOUND when none waits. */
int session_input(struct session *session, const char *text, size_t len, struct err *err);

/* Closes the cells that a dead keeper left open, and says that the variables are gone. */
void session_reopen(struct session *session);

/* Ends the session: the running cell is killed, the queue cancelled. Repeated calls do nothing. */
void session_stop(struct session *session, const char *reason);

/* Kills the interpreter and starts a new one. */
void session_restart(struct session *session);

/* Appends the text for a model of one cell in this form, whose `whole` is not looked at. `finished`
 * (may be NULL) is an event that is not in the journal yet. */
int session_text(struct session *session, const struct cell *cell, const struct digest_params *form,
		 const struct event *finished, struct buf *out, struct err *err);

/* asks.c: questions about the variables, answered between cells. The JSON for the guest is `body`;
 * the client gets the answer, or a refusal, later. ERR_BUSY when a cell runs or waits. */
enum ask_kind { ASK_COMPLETE, ASK_INSPECT, ASK_VARIABLES };
int session_ask(struct session *session, struct client *client, struct json *id, enum ask_kind kind,
		const struct json *body, struct err *err);
void session_ask_next(
	struct session *session); /* when IDLE: gives the next one to the interpreter */
void session_ask_make_way(
	struct session *session); /* a cell waits: nothing may stand in its way for ever */
void session_answered(struct session *session, uint32_t number, const struct json *answer);
/* The interpreter is gone, or going: nobody answers any more. */
void session_refuse_asks(struct session *session, const char *why);
void ask_timer_fired(uv_timer_t *timer); /* data is the session */

/* Answers the open prompt (text NULL: end of file). ERR_NOT_FOUND when none waits. */
int session_input(struct session *session, const char *text, size_t len, struct err *err);

/* Appends the line that greets a client. */
void session_hello(const struct session *session, struct buf *out);

/* Begins or goes on with the journal, and greets the clients: the interpreter is ready. */
int session_open(struct session *session, struct err *err);

/* Makes the first event and a hello for nothing: the next time it is faster by a tenth of a
 * millisecond. */
void session_rehearse(const struct session *session);

/* The clock of the running cell, after the session's limit has changed. */
void session_time_again(struct session *session);

/* environment.c: before a box is built: a place for packages, if the session may need one. */
int session_place_packages(struct session *session, struct err *err);
/* environment.c: in the spawner, where the keeper has made that place: the box shall show it. */
int session_show_packages(struct session *session, struct err *err);
/* environment.c: tells the interpreter, which is idle, its variables if they are due. */
void session_tell_environment(struct session *session);

/* limits_change.c: the limits in force, as {"wall_s":300,...}. The caller owns it. */
struct json *session_limits_json(const struct session *session);
/* Writes a `state` event with them. */
void session_tell_limits(struct session *session);

/* policy_change.c: the policy in force, without the values of variables. The caller owns it. */
struct json *session_policy_json(const struct session *session);
/* Writes a `state` event with it. */
void session_tell_policy(struct session *session);

/* durability.c: events of the record; data is the session. */
void session_sync_began(void *data);
void session_sync_ended(void *data, const struct err *err);
/* ERR_IO when durability `power` is promised and cannot be kept any more. */
int session_check_durable(const struct session *session, struct err *err);

/* ops_files.c: the workspace's files, as the session sees them. The caller releases *tree, also
 * after a failure. */
int session_open_tree(const struct session *session, struct tree *tree, struct err *err);

/* ops_files.c: puts aside what the session has made for others to run (guard.h): now; when a cell
 * has ended; and each minute. The timer's data is the session. */
void session_guard_look(struct session *session, bool last);
void session_guard_soon(struct session *session);
void session_guard_ended(struct session *session);
void session_guard_fired(uv_timer_t *timer);

/* ops.c: answers one line of a client. */
void session_line(struct session *session, struct client *client, const char *line, size_t len);

/* building.c: what is needed once, of keeper and spawner. */
int session_prepare(struct session *session, struct err *err);
/* The part of it that follows from session->config alone. */
int session_prepare_policy(struct session *session, struct err *err);
/* interpreter.c: watches the workspace from now on. */
void session_watch_workspace(struct session *session);
/* interpreter.c: each start of an interpreter (the box is rebuilt when it is gone, or has other
 * limits than it should). 0: `ready` or `failed` of the engine's events follows. */
int session_start_engine(struct session *session, struct err *err);
void session_release_engine(struct session *session); /* and the box, if no other session uses it */
void session_release_box(struct session *session);
/* In the box that there is. */
int session_make_engine(struct session *session, struct err *err);
/* PID 1 lives. */
bool session_box_is_alive(const struct session *session);
struct json *session_versions(const struct session *session);

#endif
