/*
 * The inside of a struct fh_session: one connection, the events that wait for the caller, and which
 * answers nobody wants.
 *
 * The keeper answers requests in their order, so no id is needed to find an answer: the first
 * `passed` ones are passed over (of calls that gave up), the next one is the caller's. Only those
 * of fh_post() have ids: that of a restart, say, comes when that is done, with others before it.
 */
#ifndef FH_CLIENT_SESSION_H
#define FH_CLIENT_SESSION_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"
#include "client/message.h"
#include "client/store.h"
#include "client/wire.h"

struct fh_session {
	struct wire wire;
	char id[HASH_ID_SIZE];
	char *name; /* NULL: none */
	char *directory;
	char *hello;
	uint64_t hello_seq;
	int timeout_ms;  /* for answers */
	uint64_t passed; /* answers to pass over */
	uint64_t posts;
	struct json *posted; /* {id: true} of posts whose answers have not come; NULL: none yet */
	bool subscribed;
	struct buf waiting; /* events met while waiting for an answer, each with LF */
	bool overflow;      /* there were more than fit: ask again for those after last_seq */
	uint64_t last_seq;  /* of the last event kept or given out */
	struct buf line;    /* the event given out last */
};

enum { SESSION_WAITING_BYTES_MAX = 16 << 20 };

/* Sends a line, given without LF. */
int session_send(struct fh_session *session, const char *request, size_t len, struct err *err);

/* Waits for the answer that is the caller's. *reply (NULL: not wanted) is owned by the caller. */
int session_answer(struct fh_session *session, struct json **reply, struct err *err);

/* session_send and session_answer. */
int session_call(struct fh_session *session, const char *request, size_t len, struct json **reply,
		 struct err *err);

/* fh_next with a struct err. */
int session_next(struct fh_session *session, int timeout_ms, struct err *err);

/* fh_events with a struct err. */
int session_subscribe(struct fh_session *session, uint64_t since, struct err *err);

/* Copies what a caller of the library sees. Returns -1. */
int error_give(struct fh_error *error, const struct err *err);

/* A session object over a connection, which it takes over. start.c */
struct fh_session *session_new(int fd);

/* Waits for the keeper's first line, its hello. start.c */
int session_wait_hello(struct fh_session *session, int cancel_fd, struct err *err);

enum spare_outcome {
	SPARE_GIVEN,
	SPARE_NONE,  /* there is none to be had: the ordinary way is open */
	SPARE_FAILED /* there would be none that way either */
};

/* Whether a spare can be the session that is wanted: default box, private workspace. spare.c */
bool spare_is_eligible(const struct config *config);

/* Asks the pool's spare to be the session. *session is the caller's when it is given; *err is set
 * when it failed. spare.c */
enum spare_outcome spare_start(const struct config *config, int cancel_fd,
			       struct fh_session **session, struct err *err);

/* Appends the request "start". spare.c */
void spare_write_request(struct buf *out, const struct config *config);

/* Connects to the session of `entry`, starting a keeper if there is none (unless `running_only`),
 * and waits for its hello. start.c */
struct fh_session *session_connect(const struct store_entry *entry, bool running_only,
				   int cancel_fd, struct err *err);

/* Whether a keeper listens for this session. start.c */
bool session_running(const char *id);

/* Removes a session that is not running, waiting for a keeper that is about to end. ops.c */
int session_remove(struct store *store, const char *id, struct err *err);

#endif
