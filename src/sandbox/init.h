/*
 * The init: PID 1 of a box, and what the keeper and it say to each other.
 *
 * It is no program of its own but a copy of the keeper that never returns: apply.h builds the box
 * round it, then it waits in one poll for orders on its socket and for ended children. It starts
 * programs, reaps everything, sends signals (a pid seen from outside may have been recycled; inside
 * it cannot be, until reaped) and clears the box. At end-of-file it exits, and the kernel kills all
 * that is in the pid namespace.
 *
 * Messages have a fixed size on a SEQPACKET socket, in the machine's byte order. Each order gets
 * one INIT_DONE; INIT_EXITED comes at any time in between. All pids are those inside. Orders come
 * from the keeper alone and are trusted; what is in the box has no access to the socket.
 */
#ifndef FH_SANDBOX_INIT_H
#define FH_SANDBOX_INIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "sandbox/filter.h"

enum {
	INIT_KEEP_MAX = 256, /* pids that an order to kill can spare */
	INIT_FDS_MAX = 15,   /* descriptors for a program; one more carries its strings */
	INIT_LIMITS_MAX = 5,
	INIT_KILL_MS_MAX = 2000,
	INIT_BRAND_MAX = 1 << 30,
};

enum init_type {
	/* keeper -> init */
	INIT_EXEC =
		'x', /* + descriptors: a memfd of struct init_strings, then those of the program */
	INIT_SIGNAL = 's', /* pid: the process group, signal */
	INIT_KILL = 'k',   /* count, pids: whom to spare; brand: whom to kill */
	INIT_BRAND = 'b',  /* pid, brand: of it and all that it starts from now on */
	INIT_SEAL = 'z',
	INIT_LOWER = 'l', /* resource, bytes: the limit, of everything inside */
	INIT_JOIN = 'j',  /* + descriptors: "0" is written to each, cgroup_open_tasks() */
	/* init -> keeper */
	/* once, first: the plan has been applied; + the descriptor of the ruleset, if there is one
	 */
	INIT_READY = 'r',
	INIT_FAILED = 'f', /* once, instead: count is the index of the step, sys its errno */
	INIT_EXITED = 'e', /* pid, status as waitpid(2) gives it */
	INIT_DONE = 'd',   /* sys: 0 or an errno; pid (exec); count, left (kill) */
};

/* INIT_KILL: whatever the brand. */
#define INIT_ALL UINT32_MAX

struct init_order {
	uint32_t type;
	uint32_t count;
	int32_t pid;
	int32_t signal;
	int32_t resource; /* lower: an RLIMIT_* */
	uint64_t bytes;   /* exec: size of the memfd; lower: the new limit */
	/* brand: from 1; kill: INIT_ALL, or those of this brand (0: those without) */
	uint32_t brand;
	int32_t pids[INIT_KEEP_MAX];
};

struct init_report {
	uint32_t type;
	int32_t pid;
	int32_t status;
	int32_t sys;
	uint32_t count; /* killed */
	uint32_t left;  /* still there after INIT_KILL_MS_MAX */
};

/* The memfd of an exec: this head, argc + 1 + envc + 1 pointers that the child fills in, then the
 * strings, each with its NUL. */
struct init_strings {
	uint64_t argc, envc;
	char *pointers[];
};

/* What the init knows from the start. */
struct init_setup {
	const char *directory; /* of the programs it starts: the workspace as seen inside */
	bool boxed; /* PID 1 of a pid namespace; else a subreaper that kills its descendants */
	struct {
		int resource;
		rlim_t value;
	} limits[INIT_LIMITS_MAX]; /* of the programs; clamped to the hard limit that is in force */
	unsigned limit_count;
	const struct filter *filter; /* of the programs; NULL: none */
	int ruleset;                 /* Landlock's, of the programs; -1: none */
};

/* Sends READY and serves orders until end-of-file. All signals must be blocked. Does not return. */
void init_run(int socket, const struct init_setup *setup) __attribute__((noreturn));

/* Sends one report, with a descriptor if `fd` is none of -1. 0, or -1 with errno. */
int init_report(int socket, const struct init_report *report, int fd);

#endif
