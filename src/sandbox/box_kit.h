/* For the tests of this folder: a box on a fresh workspace, and shell commands in it. */
#ifndef FH_SANDBOX_BOX_KIT_H
#define FH_SANDBOX_BOX_KIT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "sandbox/box_private.h"

struct kit {
	char dir[64]; /* a temporary folder: the workspace, unless the policy says otherwise */
	struct policy policy; /* defaults; for a test to change before kit_start() */
	struct host host;
	enum tier tier; /* full, unless the floor is none */
	struct box *box;
	struct buf out; /* what the last command wrote to stdout and stderr */
};

void kit_init(struct kit *kit);

/* Starts the box and asserts that it starts. */
void kit_start(struct kit *kit);

/* Frees the box and removes the folder. */
void kit_release(struct kit *kit);

/* Runs `script` by /bin/sh inside until it ends and its output is closed; returns its wait status.
 */
int kit_run(struct kit *kit, const char *script);

/* As kit_run, and asserts that it exits with 0; returns its output. */
const char *kit_output(struct kit *kit, const char *script);

/* Starts `script` by /bin/sh with descriptors 0 and 1 and 2 = /dev/null, and 3 = `fd`; returns its
 * pid inside. */
pid_t kit_spawn(struct kit *kit, const char *script, int fd);

/* Waits until `pid` is reported to have ended; returns its status. Reports of others are dropped.
 */
int kit_wait(struct kit *kit, pid_t pid);

/* Runs `body` in a child process and asserts that it returns 0: for what changes a process for
 * good. */
void kit_in_child(int (*body)(void));

/* In such a child: enters a user namespace (with the further CLONE_NEW* in `flags`) in which uid
 * and gid stay what they are and all capabilities are there. 0, or -1. */
int kit_enter_namespaces(int flags);

/* Whether `fd` comes to end-of-file within ten seconds. */
bool kit_closes(int fd);

#endif
