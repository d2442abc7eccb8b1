/*
 * Requests of the session protocol (doc/protocol.md): bytes in, a checked request or an error out.
 *
 * Pure: no clock, no descriptor. What request_parse() lets through has a known op and fields of the
 * right types, so that the code behind it reads fields without asking again.
 */
#ifndef FH_KEEPER_REQUEST_H
#define FH_KEEPER_REQUEST_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "journal/event.h"

enum {
	REQUEST_LINE_BYTES_MAX = 64 << 20,
	REQUEST_DEPTH_MAX = 64,
	REQUEST_CODE_BYTES_MAX = 16 << 20,
	REQUEST_BLOB_BYTES_MAX = 1 << 20,
	REQUEST_VARIABLES_MAX = 10000,
	REQUEST_PATH_BYTES_MAX = 4096,
	REQUEST_CHECKPOINT_NAME_BYTES_MAX = 64,
	REQUEST_RECORD_BYTES_MAX = 1 << 20, /* the line of a `record` */
};

enum request_op {
	REQUEST_RUN,
	REQUEST_INTERRUPT,
	REQUEST_INPUT,
	REQUEST_TEXT,
	REQUEST_NOTEBOOK,
	REQUEST_SAVE,
	REQUEST_EVENTS,
	REQUEST_SECTION,
	REQUEST_NOTE,
	REQUEST_RECORD,
	REQUEST_BLOB,
	REQUEST_STATUS,
	REQUEST_COMPLETE,
	REQUEST_INSPECT,
	REQUEST_VARIABLES,
	REQUEST_FILES,
	REQUEST_LIST_FILES,
	REQUEST_READ_FILE,
	REQUEST_WRITE_FILE,
	REQUEST_REMOVE_FILE,
	REQUEST_MAKE_FOLDER,
	REQUEST_IMAGES,
	REQUEST_OUTPUTS,
	REQUEST_LIMITS,
	REQUEST_POLICY,
	REQUEST_CHECKPOINT,
	REQUEST_CHECKPOINTS,
	REQUEST_ROLLBACK,
	REQUEST_RESET,
	REQUEST_FORK,
	REQUEST_RESTART,
	REQUEST_STOP,
	REQUEST_OP_COUNT
};

struct request {
	enum request_op op;
	struct json *id;   /* string, number or NULL; borrowed from json */
	struct json *json; /* the whole request; owned */
};

#define REQUEST_INIT \
	{ \
		.op = REQUEST_OP_COUNT, .id = NULL, .json = NULL \
	}

/* The type of the event that a REQUEST_RECORD writes: that of an ask (journal/asked.h). */
enum event_type request_record_type(const struct request *request);

/* Reads one line (without its LF). Also after a failure request->id and ->json may be set, so that
 * the refusal can name the request; release it in any case. */
int request_parse(const char *line, size_t len, struct request *request, struct err *err);
void request_release(struct request *request);

#endif
