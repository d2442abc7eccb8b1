/*
 * What must wait, on a worker thread: looking for sessions in their directory, starting and
 * removing them. Each job runs once and its outcome comes back to the loop once.
 */
#ifndef FH_SERVE_LOOKUP_H
#define FH_SERVE_LOOKUP_H

#include <fumehood.h>
#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

enum { LOOKUP_WORD_SIZE = 160 };

struct lookup {
	uv_work_t work;
	void (*done)(void *data, struct lookup *lookup);
	void *data;

	/* What is wanted: to find `word`, or, beside that or instead, one of these. */
	char word[LOOKUP_WORD_SIZE]; /* name or id */
	bool all;                    /* list all sessions */
	bool clean; /* ... and first remove what dead ones have left: sockets, halves, one-shot runs
		     */
	bool start; /* start its keeper */
	bool remove; /* remove it; with `stop`, stop it first */
	bool stop;
	struct json *create; /* start a new one: its parameters as they were checked; owned */

	/* What came of it: err.code is ERR_OK, or the reason. */
	struct err err;
	char id[HASH_ID_SIZE];
	char *name; /* NULL: none */
	bool running, ends_with_client;
	int fd; /* of `start` and `create`: connected, the hello has come; owned */
	struct buf rest;
	char *hello;
	struct json *list;  /* of `all`: see lookup.c */
	struct json *entry; /* of the one that was found */
};

struct lookup *lookup_new(const char *word);

/* Queues the job; it is freed after done(), which may be NULL. */
void lookup_queue(uv_loop_t *loop, struct lookup *lookup,
		  void (*done)(void *data, struct lookup *lookup), void *data);

/* Checks the body of POST /v1/sessions. With `trusted` (a peer of our own uid) also what reaches
 * into the host is allowed: workspace, python, tier none. ERR_INVALID, ERR_DENIED. Pure. */
int lookup_check_start(const struct json *body, bool trusted, struct err *err);

#endif
