/*
 * One zygote process, from its start to its reaping. When to start one and what its end means is
 * decided in warmer.c.
 *
 * It is `<python> -I -X utf8 -u <guest folder>/zygote.py <JSON options>` with a clean environment,
 * because a guest can read the zygote's environment and arguments in /proc/self. Descriptor 3 is
 * its end of a SEQPACKET pair, 0 is /dev/null, 1 and 2 are one pipe to the pool, of which the last
 * 16 KiB are kept: they explain a failure.
 *
 * The process ends by itself when its socket ends; so a pool that is killed leaves no zygote
 * behind.
 */
#ifndef FH_POOL_ZYGOTE_H
#define FH_POOL_ZYGOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

enum { ZYGOTE_WORDS_BYTES_MAX = 16 * 1024 };

struct zygote;

struct zygote_params {
	uv_loop_t *loop;
	const char *python;  /* absolute */
	const char *script;  /* absolute path of zygote.py */
	const char *modules; /* to import, a JSON array; NULL: zygote.py's own list */
	rlim_t files_soft;   /* soft limit of open files, which the pool has raised for itself */

	/* A message of the zygote; `bytes` lives as long as the call. */
	void (*message)(void *data, const void *bytes, size_t len);
	/* The process has ended and all it said has been delivered. zygote_retire() is due. */
	void (*ended)(void *data, const char *reason);
	void *data;
};

/* Starts the process; does not wait for it. Copies `params`, borrows its strings. ERR_ENGINE and
 * the like when the interpreter cannot be executed. End it by zygote_retire(). */
struct zygote *zygote_start(const struct zygote_params *params, struct err *err);

pid_t zygote_pid(const struct zygote *zygote);

/* The user namespace of its nursery, beneath which boxes must be made that its guests shall enter.
 * Borrowed. -1: it is not confined. */
int zygote_family(const struct zygote *zygote);

/* The last ZYGOTE_WORDS_BYTES_MAX bytes it wrote to stdout and stderr. Borrowed. */
const struct buf *zygote_words(const struct zygote *zygote);

/* Whether its socket ended with a message of ours unread in it: the last one sent has surely not
 * been carried out. False is no proof of the opposite. Known when `ended` is called. */
bool zygote_left_unread(const struct zygote *zygote);

/* Sends one message with descriptors, which the caller keeps. 0, or -1 with errno: then nothing was
 * sent. */
int zygote_send(struct zygote *zygote, const void *bytes, size_t len, const int *fds,
		size_t fd_count);

/* SIGKILL; `ended` follows. */
void zygote_kill(struct zygote *zygote);

/* Gives it up: no event comes any more, its socket ends, and after 2 s it is killed. It is freed on
 * the loop when it has been reaped. Guests that it has given live on. */
void zygote_retire(struct zygote *zygote);

#endif
