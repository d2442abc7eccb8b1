/*
 * Events of a session on their way to one client: as JSON at the end, as SSE, or as NDJSON.
 *
 * A stream has a link of its own to the keeper, so it is a cursor on the journal: when the client
 * does not read, the link is not read, and the keeper goes on without it. Nothing is gathered but
 * for a JSON answer, and of that at most 16 MiB.
 *
 *	asked ─ reply ─> accepted ─ events ... ─ finished ─> done
 *	  │ refused ─> a problem                 └ the session ends ─> told, done
 *	  └ duplicate, with an Idempotency-Key: the cell that is there is followed ─> accepted
 *
 * A client that goes away interrupts its run, unless it was detached.
 */
#ifndef FH_SERVE_STREAM_H
#define FH_SERVE_STREAM_H

#include "serve/exchange.h"

enum stream_form { STREAM_JSON, STREAM_TEXT, STREAM_SSE, STREAM_NDJSON };

enum { STREAM_GATHERED_BYTES_MAX = 16 << 20, STREAM_PING_S = 15 };

struct stream_params {
	enum stream_form form;
	const char *cell; /* only its events; NULL: all */
	uint64_t since;
	bool follow, lossy, by_link; /* by_link: large values as {"$blob":…} */
	struct json *run; /* the fields of a run, whose cell is `cell`; taken. NULL: none */
	bool keyed;       /* the cell's id was made of an Idempotency-Key */
	bool detach;
	bool once; /* the session is stopped and removed behind it */
};

/* Begins to answer the exchange, which has a session. */
void stream_start(struct exchange *exchange, struct stream_params *params);

/* Once a second: comments to silent SSE clients. */
void streams_ping(struct serve *serve, int64_t now_us);

/* The daemon ends: streams that have no end of their own are ended. */
void streams_end_all(struct serve *serve);

/* The forms that an events stream may have, for exchange_accepts(). */
extern const char *const STREAM_TYPES[];

#endif
