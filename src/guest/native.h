/*
 * The part of a guest that needs C, but nothing of Python: the interrupt word, the order of the two
 * pipes, and the protocol's numbers. It is linked into the extension `_guest`, and is a shared
 * library of its own (libguest.so) for a Python that cannot load an extension of the limited API:
 * plain.py calls it through ctypes. So each function takes and gives what C has.
 *
 * The functions return 0 or -errno. State: a process is one guest, and a signal handler has no
 * argument to carry it; so each file keeps one static struct, said at its place.
 */
#ifndef FH_GUEST_NATIVE_H
#define FH_GUEST_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

/* ---- constants.c: the protocol's numbers by name, so that Python holds no copy of them ---- */

struct guest_constant {
	const char *name;
	long value;
};

/* Constant `index`, counted from 0; NULL behind the last one. */
const struct guest_constant *guest_constant(size_t index);

/* ---- word.c: the interrupt word ---- */

/* Maps the memfd read-only, in the place of one that is mapped already, and closes the
 * descriptor. */
int word_map(int fd);
/* The number of the cell or ask to interrupt; 0 without a word. */
uint32_t word_value(void);
/* True when the last SIGINT was sent by this process itself (os.kill, raise_signal). */
int word_own_signal(void);
/* True when PID 1 of the box has sent it: the keeper's doing, never the program's. */
int word_signal_of_init(void);
/* Puts a handler before the one that Python has installed for SIGINT, which notes who sent it. */
int word_watch_signal(void);

/* ---- order.c: the two pipes ---- */

enum { GUEST_CONTROL_FD = 3 }; /* the control socket of a guest, by the protocol */

/* Keeps private copies of descriptors 1 and 2, at numbers that programs do not use by chance. */
int order_open(void);
/* The pipes are these from now on, in all places; this process is the guest. The descriptors stay
 * the caller's. */
int order_place(int out, int err);
/* Puts descriptors 1 and 2 back where a cell has closed or redirected them. *restored counts. */
int order_restore(int *restored);
/* Waits until the reader has emptied both pipes, 5 ms at most. True at once when they are empty. */
int order_settled(void);
void order_settle(void);

#endif
