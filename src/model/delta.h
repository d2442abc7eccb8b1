/*
 * One piece of an answer: a chat.completion.chunk of a stream, or a whole chat.completion. Pure.
 *
 * What servers do differently is taken as it comes: `content` null, absent or a list of parts;
 * `reasoning` (vLLM, Ollama) or `reasoning_content` (llama-server, LM Studio, DeepSeek); no choices
 * at all (the piece with the usage); error objects in place of a piece; members nobody knows; more
 * choices than were asked for (the first counts); a character whose bytes are spread over two
 * pieces (bytes that are no UTF-8 come out as they went in, so that they can be joined).
 */
#ifndef FH_MODEL_DELTA_H
#define FH_MODEL_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	DELTA_BYTES_MAX = 8 << 20,
	DELTA_DEPTH_MAX = 64,
	DELTA_FAULT_BYTES_MAX = 1000, /* of an error's words; the rest is cut */
};

enum delta_finish {
	DELTA_GOES_ON,
	DELTA_STOP,
	DELTA_LENGTH,
	DELTA_FILTERED, /* the provider withholds the rest */
	DELTA_BROKEN,   /* the server says that it has given up */
};

struct delta {
	struct buf text, reasoning; /* bytes, mostly UTF-8 */
	enum delta_finish finish;
	bool is_piece; /* it has the form of a piece or of a usage: something to go on with */

	bool has_usage;
	uint64_t prompt_tokens, cached_tokens, tokens;

	bool is_error;      /* an error object: the members below; nothing above counts */
	int status;         /* 400..599 as the server says, or 0 */
	struct buf message; /* valid UTF-8, never empty then */
	struct buf kind;    /* its `type` and `code`, parted by a blank */
	struct buf param;   /* the member of the request it complains of */
};

#define DELTA_INIT {.finish = DELTA_GOES_ON}

/* Reads one JSON text into a delta that is DELTA_INIT or released. ERR_INVALID when it is no JSON
 * object, ERR_LIMIT when it is too long or too deep. The caller releases it either way. */
int delta_read(struct delta *delta, const char *bytes, size_t len, struct err *err);
void delta_release(struct delta *delta);
#define cleanup_delta __attribute__((cleanup(delta_release)))

#endif
