/*
 * Putting descriptors where a program expects them, in a process that may only make raw system
 * calls.
 */
#ifndef FH_SANDBOX_DESCRIPTORS_H
#define FH_SANDBOX_DESCRIPTORS_H

/* fds[i] becomes descriptor i, for each i below `count`; `above` is at least `count`. *spare stays
 * open as well, at or above `above` and closed by execve; all others are closed. 0, or -1 with
 * errno. */
int descriptors_place(int *fds, unsigned count, unsigned above, int *spare);

#endif
