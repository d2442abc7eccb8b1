/*
 * Events: the numbered lines of a journal, as a struct.
 *
 * An event is one line of JSON (DESIGN §4.2). The fields that every reader needs, and those of the
 * frequent `stream` event, are members; all other fields of the line are in `body`. The same struct
 * is made by the keeper before it is written and by a cursor after it was read, so that the
 * notebook and the text for the model are the same fold over fresh and over stored events.
 */
#ifndef FH_JOURNAL_EVENT_H
#define FH_JOURNAL_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum { EVENT_LINE_BYTES_MAX = 4 << 20 }; /* a longer line in a journal is damage */
enum {
	EVENT_INLINED_BYTES_MAX = 256 << 20
};                                          /* of a line with its blobs inlined (16 MiB, escaped) */
enum { EVENT_STREAM_BYTES_MAX = 64 << 10 }; /* text of one stream event, as UTF-8 */
enum { EVENT_INLINE_BYTES_MAX = 64 << 10 }; /* a longer value of another event goes into a blob */
enum { EVENT_FORMAT = 1 };                  /* `format` in the first line */

enum event_type {
	EVENT_SESSION,
	EVENT_SECTION,
	EVENT_NOTE,
	EVENT_CELL,
	EVENT_STARTED,
	EVENT_STREAM,
	EVENT_DISPLAY,
	EVENT_UPDATE_DISPLAY,
	EVENT_CLEAR,
	EVENT_RESULT,
	EVENT_ERROR,
	EVENT_INPUT_REQUEST,
	EVENT_INPUT,
	EVENT_TRUNCATED,
	EVENT_FINISHED,
	EVENT_DIED,
	EVENT_COMMITTED,  /* the state after a cell sleeps as a copy */
	EVENT_CHECKPOINT, /* a checkpoint was made or dropped */
	EVENT_ROLLBACK,
	EVENT_FORKED,
	EVENT_RESTARTED,
	EVENT_STATE,
	EVENT_WARNING,
	EVENT_NETWORK,
	EVENT_ASK, /* an instruction to a model, and what became of it (asked.h) */
	EVENT_ATTEMPT,
	EVENT_TOKEN,
	EVENT_CODE,
	EVENT_VERDICT,
	EVENT_GAP,
	EVENT_STOPPED,
	EVENT_OTHER, /* a type that a later version writes: kept and passed on, meaning nothing here
		      */
	EVENT_TYPE_COUNT
};

struct event {
	uint64_t seq; /* 1, 2, 3 ...; 0 before journal_append() */
	int64_t t_us; /* wall clock, microseconds since 1970; 0 before journal_append() */
	enum event_type type;
	char *cell; /* id of the cell it came from; NULL for events of the session */
	/* EVENT_STREAM only: */
	bool is_stderr;
	bool background; /* origin: not by the running cell's own main thread */
	char *text;      /* valid UTF-8, may hold NUL */
	size_t text_len;
	/* every other type: an object with all fields but seq, t, type and cell; NULL means {} */
	struct json *body;
};

#define EVENT_INIT \
	{ \
		.seq = 0, .t_us = 0, .type = EVENT_OTHER, .cell = NULL, .is_stderr = false, \
		.background = false, .text = NULL, .text_len = 0, .body = NULL \
	}

void event_release(struct event *event); /* frees the members, all owned by the event */
#define cleanup_event __attribute__((cleanup(event_release)))

/* "stream", "display" ... for EVENT_OTHER "other". */
const char *event_type_name(enum event_type type);
enum event_type event_type_from_name(const char *name);

/* Reads one line (without its LF) into *event, which must be EVENT_INIT. ERR_CORRUPT when it is no
 * event: bad JSON, no positive seq, no type, a bad time, a stream without text. EVENT_OTHER keeps
 * its `type` in the body. */
int event_parse(const char *line, size_t len, struct event *event, struct err *err);

/* As event_parse, for a line that a keeper sent: its blobs may be inlined. */
int event_parse_inlined(const char *line, size_t len, struct event *event, struct err *err);

/* Appends the event as one line with LF: {"seq":..,"t":"..","type":"..","cell":"..",...}. */
void event_write(struct buf *out, const struct event *event);

/*
 * Images: the keeper writes each displayed image to images/<cell>-<n>.<ext>, and the text for the
 * model names that file; both count with this one. `n` counts the result, display and
 * update_display events of the cell that hold an image, from 1. Returns the mime type of the image
 * in the event's `data` (image/png, image/jpeg, image/gif, image/webp, image/svg+xml: the first of
 * these), or NULL.
 */
const char *event_image(const struct event *event, const char **extension);

#endif
