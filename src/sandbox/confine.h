/*
 * Confining this process: Landlock, a filter, fewer capabilities, for good.
 *
 * For our own programs, once they have everything open that they need and before they read what
 * nobody has looked at. What it gives up cannot be had back, by no thread and no mistake.
 *
 * Landlock names the folders that remain and keeps signals and abstract sockets to this process
 * and its threads; the filter (FILTER_KEEPER) refuses programs, processes, sockets and everything
 * about files that Landlock does not know; of root's capabilities those remain by which a workspace
 * can be used that belongs to somebody else.
 *
 * What is missing in the kernel is left out, and said: struct confined.
 */
#ifndef FH_SANDBOX_CONFINE_H
#define FH_SANDBOX_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

struct confine_place {
	int fd;     /* a descriptor of a folder or file; borrowed */
	bool write; /* also changed, with everything beneath it */
};

struct confine_params {
	const struct confine_place *places;
	size_t count;
	/* Files cannot be named: what is used lies where Landlock cannot follow (a mount that is
	 * made later). Constant text that says so, or NULL. */
	const char *without_files;
};

/* What holds. */
struct confined {
	int landlock_abi; /* 0: the kernel has none */
	bool files;       /* Landlock holds files to the places */
	bool scoped;      /* ... and signals and abstract sockets to this process */
	bool filter;
	bool capabilities;      /* there are no others than named above; also of an ordinary user */
	const char *files_why;  /* not `files`: constant text */
	const char *filter_why; /* likewise */
};

/* Confines the calling thread, which must be the only one, and what it starts. Takes about 50 us.
 * ERR_SANDBOX when the kernel has it and refuses: then nothing is promised, and the process should
 * end. */
int confine(const struct confine_params *params, struct confined *confined, struct err *err);

/* The layers, as box_layers() has them. The caller owns it. */
struct json *confined_layers(const struct confined *confined);

/* What a process could do all the same after it had confined itself, with no place left. */
struct confine_proof {
	struct confined confined;
	struct err err; /* confine() has failed */
	bool opened;    /* a file */
	bool ran;       /* a program */
	bool connected; /* a socket, to begin with */
};

/* Tries it in a child. -1: that could not be tried. */
int confine_prove(struct confine_proof *proof, struct err *err);

#endif
