/*
 * The limits of a session: their names, their values, and which can change while it lives.
 *
 * Pure. Every limit has the name under which it is reported when it is met; session.json, the op
 * `limits` and the events all read and write them through the one table in limit_table.c.
 */
#ifndef FH_KEEPER_LIMIT_TABLE_H
#define FH_KEEPER_LIMIT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct limits {
	double wall_s;             /* a cell's wall time; > 0, at most LIMITS_WALL_S_MAX */
	uint64_t output_bytes;     /* streams and displays of a cell */
	uint64_t background_bytes; /* output of a cell after its end */
	uint64_t queue;            /* cells that wait */
	uint64_t record_bytes;     /* journal and blobs together */
	uint64_t processes;        /* processes and threads */
	uint64_t files;            /* open files of a process; at least 128 */
	uint64_t file_bytes;       /* size of a file */
	uint64_t tmp_bytes;        /* private /tmp */
	uint64_t checkpoints;      /* automatic ones that are held; 0: none are made */
	/* 0: no limit */
	uint64_t memory_bytes; /* all processes of the session together */
	uint64_t disk_bytes;   /* a private workspace */
	uint64_t disk_inodes;  /* files and folders in it */
	double cpus;           /* processors at a time */
	double cpu_s;          /* seconds of processor time of a cell */
};

#define LIMITS_WALL_S_MAX 1e12 /* in microseconds it still fits into 64 bits */

/* When a new value holds. */
enum limit_change {
	LIMIT_NOW,   /* this process enforces it */
	LIMIT_LOWER, /* the kernel does, for each process: it can be lowered at once, and is raised
			with the next interpreter (setrlimit(2)) */
	LIMIT_RESTART, /* the box was built with it: with the next interpreter */
};

/* The defaults. */
void limits_init(struct limits *limits);

/* {"wall_s":300,...}: all of them, for the `session` event and `status`. The caller owns it. */
struct json *limits_json(const struct limits *limits);

/* Sets one limit. ERR_INVALID when there is none of this name (the text lists those that there
 * are), or the value is not of its kind; then nothing has changed. */
int limits_set_one(struct limits *limits, const char *name, const struct json *value,
		   struct err *err);

/* Sets all members of the object, or none. */
int limits_set(struct limits *limits, const struct json *set, struct err *err);

/* Whether there is a limit of this name. */
bool limits_has(const char *name);

/* {"name":"files","value":1024,"unit":"files"}: one that was met, for the `finished` event. `name`
 * is one of the table's. The caller owns it. */
struct json *limits_one(const struct limits *limits, const char *name);

/* Whether it is one of time: a cell that has met it was not wrong, but too long. `name` is one of
 * the table's. */
bool limits_is_of_time(const char *name);

/* Whether the limit of this name is enforced by the box, not by this process. */
bool limits_is_of_box(const char *name);

/* Whether all sessions of a box share it. */
bool limits_is_shared(const char *name);

/* Copies those limits of the box from `to` that hold at once: all with `started` (an interpreter
 * starts now, in a box that is made for it), else those that are lower. */
void limits_take_box(struct limits *in_force, const struct limits *to, bool started);

/* {"wall_s":{"value":300,"changes":"now"},"files":{"value":64,"changes":"lower","next":128},...}:
 * `next` is there where `wanted` waits for the next interpreter. The caller owns it. */
struct json *limits_describe(const struct limits *in_force, const struct limits *wanted);

/* {"files":128}: only those that wait. The caller owns it. */
struct json *limits_next(const struct limits *in_force, const struct limits *wanted);

#endif
