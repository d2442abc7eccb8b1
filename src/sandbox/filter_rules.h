/*
 * What the filter answers to each system call, before it is made a program (filter.c): the list,
 * with the reason for each group. Private to the filter.
 */
#ifndef FH_SANDBOX_FILTER_RULES_H
#define FH_SANDBOX_FILTER_RULES_H

#include "sandbox/filter.h"

/* The newest call that this list was written with: listns(2), Linux 6.19. From 424 on the numbers
 * are the same on all architectures. */
enum { NEWEST = 470, NUMBERS = NEWEST + 1 };

enum answer {
	YES,
	NO_PERM,   /* EPERM */
	NO_CALL,   /* ENOSYS: there is a fallback */
	NO_ACCESS, /* EACCES */
	ASK_CLONE,
	ASK_UNSHARE,
	ASK_IOCTL,
	ASK_KILL,
	ASK_PERSONALITY,
	ASK_SOCKET,
	ASK_PAIR,
	ASK_OPTION,    /* of a socket */
	ASK_SEGMENT,   /* argument 1 is a size */
	ASK_NOT_FIRST, /* argument 0 is not PID 1 */
	ASK_SELF,      /* argument 0 is 0: the caller itself */
	ASK_SELF_OF,   /* arguments 0 and 1: what kind of who, and 0 */
	ASK_MODE_1,    /* argument 1 is a mode */
	ASK_MODE_2,
	ASK_THREAD, /* argument 0 are flags of clone(2) */
	ASK_CODE_2, /* argument 2 is a protection of memory */
	ASK_OPEN_1, /* argument 1 are flags of open(2), and the next one a mode */
	ASK_OPEN_2,
};

/* Lays out the answers of a kind of filter. Pure. */
void filter_rules(enum answer answers[static NUMBERS], enum filter_kind kind);

#endif
