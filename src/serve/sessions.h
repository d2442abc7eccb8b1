/*
 * The running sessions, as the daemon knows them: each with one main link to its keeper.
 *
 *	opening ─ hello ─> ready ─ the link ends ─> gone
 *	   │ none listens: a keeper is started, where the caller wants that
 *	   └ it cannot be had: gone, with the reason for all who wait
 *
 * The main link follows all events. From it the daemon knows what a session does (state, cell, last
 * event), counts, and publishes; requests that are answered soon go over it, each with a number.
 * Who reads a stream has a link of its own, so that a slow one holds up nobody (stream.h).
 *
 * Nothing here outlives the daemon: sessions are found again by their directories and sockets.
 * Those that end with their client (a one-shot `fumehood run`) are not linked to, for the link
 * would keep them.
 */
#ifndef FH_SERVE_SESSIONS_H
#define FH_SERVE_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "serve/gate.h"
#include "serve/link.h"
#include "serve/scan.h"

enum live_state { LIVE_OPENING, LIVE_READY, LIVE_GONE };

enum { LIVE_IDLE_LINKS_MAX = 8, CALL_TIMEOUT_S = 120 };

struct sessions;

struct live {
	struct sessions *sessions;
	struct live *next;
	enum live_state state;
	char id[HASH_ID_SIZE];
	char *name; /* NULL: none */
	char tier[16];
	char doing[16]; /* "idle", "running", ...: as events tell it */
	char cell[65];  /* the one that runs; "": none */
	uint64_t queue; /* cells that wait, as far as this daemon has seen */
	uint64_t last_seq;
	int64_t used_us; /* monotonic: the last request or event */
	unsigned users;  /* requests and streams that are under way */
	struct link *main;
	struct call *calls;
	struct waiter *waiters;
	struct link *idle[LIVE_IDLE_LINKS_MAX]; /* links that were used for a stream */
	size_t idle_count;
	int64_t cell_began_us;
};

/* Told of what happens, for metrics and publishing. */
struct sessions_events {
	void (*event)(void *data, struct live *live, const struct scan *scan, const char *line,
		      size_t len);
	void (*gone)(void *data, struct live *live);
	void *data;
};

/* `runtime_fd`: the folder of the keepers' sockets, borrowed. `inlined`: events are told with their
 * large values, not with links to them. */
struct sessions *sessions_new(uv_loop_t *loop, int runtime_fd, bool inlined,
			      const struct sessions_events *events);

/* Closes all links; the sessions run on. Then sessions_free(), once the loop has ended. */
void sessions_close(struct sessions *sessions);
void sessions_free(struct sessions *sessions);

/* Looks for keepers that run and links to them; on a worker thread, so it returns at once. With
 * `clean`, what dead ones have left is removed first. */
void sessions_adopt_all(struct sessions *sessions, bool clean);

/* Once a second: calls that got no answer. */
void sessions_tick(struct sessions *sessions, int64_t now_us);

struct live *sessions_first(struct sessions *sessions);
size_t sessions_count(const struct sessions *sessions, const struct principal *who);

/* `live` is NULL after a failure. */
typedef void sessions_found(void *data, struct live *live, const struct err *err);

enum open_mode { OPEN_RUNNING, OPEN_START };

/*
 * The session of this id or name, if the principal may see it; found() is called once, perhaps at
 * once. OPEN_START starts a keeper for one that has none; else ERR_GONE says that it is stopped.
 */
void sessions_find(struct sessions *sessions, const char *word, const struct principal *who,
		   enum open_mode mode, sessions_found *found, void *data);

/* Takes over a connection whose hello has come (a session that was just started). `fd` is taken. */
struct live *sessions_take(struct sessions *sessions, int fd, const struct buf *rest,
			   const char *hello);

/* The answer to a call: `scan` is of the line, or NULL with *err. A refusal comes as *err. */
typedef void live_answered(void *data, const struct scan *scan, const struct err *err);

/* Sends {"op":…} with the members of `fields` (borrowed; NULL: none) over the main link. `id`: of a
 * run; NULL: a number is taken. */
void live_call(struct live *live, const char *op, const struct json *fields, const char *id,
	       live_answered *answered, void *data);

/* A request of which nobody waits for the answer. `request` is a whole line with LF. */
void live_post(struct live *live, const char *line);

/* A link of its own for a stream: one that is idle, or a new one. It belongs to the caller; events
 * of an earlier use may still come. */
struct link *live_link(struct live *live, const struct link_events *events, void *data);

/* One that is new in any case: its hello comes. */
struct link *live_new_link(struct live *live, const struct link_events *events, void *data);

/* Gives a link back that can be used again. */
void live_return(struct live *live, struct link *link);

/* Another link of the session has ended while it followed: so has the session, whatever the main
 * link has read so far. Whoever asks next finds it stopped. */
void live_ended(struct live *live, const struct err *err);

/* Held while a request or a stream needs it: idle culling waits. */
void live_hold(struct live *live);
void live_let(struct live *live);

#endif
