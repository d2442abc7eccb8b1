/*
 * The steps of a plan that build the new root (STEP_PROPAGATION to STEP_PIVOT), under the rules of
 * apply.h.
 *
 * The new root is a descriptor, and every target is reached from it component by component without
 * following a symlink; every source on the host is opened without following one; what is mounted
 * goes from descriptor to descriptor. So nothing that someone else can rename or replace at the
 * same time leads a mount astray.
 */
#ifndef FH_SANDBOX_APPLY_MOUNT_H
#define FH_SANDBOX_APPLY_MOUNT_H

#include "sandbox/plan.h"

/* Runs one step. *root is -1 before STEP_ROOT sets it. 0, or -1 with errno. */
int apply_mount_step(const struct step *step, const struct plan *plan, int *root);

/* Writes a text into an existing file in one go. 0, or -1 with errno. */
int apply_write(int dirfd, const char *path, const char *text);

#endif
