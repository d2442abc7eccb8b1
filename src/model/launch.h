/*
 * Starting the llama.cpp server confined: what its half a million lines read from a model file that
 * somebody has uploaded shall not reach anything.
 *
 * fumehood-ask is started once more, confines itself, and becomes the server. Confined, it
 *	- writes files nowhere but in its own folder and in /dev (Landlock): graphics cards are
 *there;
 *	- connects to nothing, and has no sockets but Unix ones (a filter): with the above, what it
 *	  reads it can tell nobody but who asks it;
 *	- reaches into no other process, gains no rights by a program (no_new_privs);
 *	- is killed when its owner dies, and first of all when memory is short.
 * It reads what the user reads: libraries of graphics cards and of package managers lie anywhere.
 * Where the kernel lacks one of the two it is left out.
 */
#ifndef FH_MODEL_LAUNCH_H
#define FH_MODEL_LAUNCH_H

#include "base/child.h"
#include "base/err.h"
#include "base/json.h"

#define LAUNCH_NAME "fumehood-model-launch" /* its argv[0] */

/* Starts argv (an array of texts, the first an absolute path) with `log` as stdout and stderr.
 * `folder` is what it may write in. The caller owns child->pidfd and waits for it. */
int launch(const struct json *argv, const char *folder, int log, struct child *child,
	   struct err *err);

/* The other end: argv has the parent's pid, the folder and the words behind LAUNCH_NAME. Does not
 * return but for a failure: an exit status. */
int launch_run(int argc, char **argv);

#endif
