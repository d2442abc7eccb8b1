/*
 * What the daemon must know of a keeper's line, read without parsing it.
 *
 * The journal writes `seq`, `t`, `type` and `cell` first and in this order, and answers begin with
 * `type` and `id`; so a look at the beginning is enough, and events pass through the daemon as the
 * bytes they are. A line that begins otherwise has kind SCAN_OTHER.
 *
 * Pure.
 */
#ifndef FH_SERVE_SCAN_H
#define FH_SERVE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/head.h"

enum scan_kind { SCAN_EVENT, SCAN_REPLY, SCAN_REFUSED, SCAN_OTHER };

struct scan {
	enum scan_kind kind;
	uint64_t seq;      /* of an event */
	struct slice type; /* of an event; a type has no escapes */
	struct slice cell; /* of an event; len 0: none */
	uint64_t number;   /* the id of an answer that is a number; 0: it is none */
	struct slice id;   /* the id that is a string, without quotes */
	struct slice rest; /* of an answer: behind its id, up to the closing brace and with it. It
			      begins with ',' or is "}" */
};

void scan_line(const char *line, size_t len, struct scan *scan);

/* Appends the answer's own members as an object: what is left of {"type":…,"id":…,…}. */
struct buf;
void scan_put_rest(struct buf *out, const struct scan *scan);

#endif
