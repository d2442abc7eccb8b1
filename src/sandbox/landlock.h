/*
 * Landlock: the rights on files that a process can give up, and the three system calls.
 *
 * A second wall behind the mounts. Even what a mistake in the mounts, or a descriptor from outside,
 * would let a process open lies beneath no path that the ruleset names. The constants are our own,
 * since the headers of Debian 12 end at ABI 2; rights that the running kernel does not know are
 * left out of what is handled (host.h has the ABI).
 *
 * Source: Documentation/userspace-api/landlock.rst, landlock(7).
 */
#ifndef FH_SANDBOX_LANDLOCK_H
#define FH_SANDBOX_LANDLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox/kernel.h"

enum {
	LANDLOCK_EXECUTE = 1 << 0,
	LANDLOCK_WRITE_FILE = 1 << 1,
	LANDLOCK_READ_FILE = 1 << 2,
	LANDLOCK_READ_DIR = 1 << 3,
	LANDLOCK_REMOVE_DIR = 1 << 4,
	LANDLOCK_REMOVE_FILE = 1 << 5,
	LANDLOCK_MAKE_CHAR = 1 << 6,
	LANDLOCK_MAKE_DIR = 1 << 7,
	LANDLOCK_MAKE_REG = 1 << 8,
	LANDLOCK_MAKE_SOCK = 1 << 9,
	LANDLOCK_MAKE_FIFO = 1 << 10,
	LANDLOCK_MAKE_BLOCK = 1 << 11,
	LANDLOCK_MAKE_SYM = 1 << 12,
	LANDLOCK_REFER = 1 << 13,     /* ABI 2 */
	LANDLOCK_TRUNCATE = 1 << 14,  /* ABI 3 */
	LANDLOCK_IOCTL_DEV = 1 << 15, /* ABI 5 */

	LANDLOCK_READ = LANDLOCK_EXECUTE | LANDLOCK_READ_FILE | LANDLOCK_READ_DIR,
	/* everything but to make devices */
	LANDLOCK_CHANGE = LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE |
			  LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_MAKE_SOCK |
			  LANDLOCK_MAKE_FIFO | LANDLOCK_MAKE_SYM | LANDLOCK_REFER |
			  LANDLOCK_TRUNCATE,
	LANDLOCK_DEVICE = LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV,
	LANDLOCK_OF_FILES = LANDLOCK_EXECUTE | LANDLOCK_WRITE_FILE | LANDLOCK_READ_FILE |
			    LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV,
};

/* From this ABI on it keeps signals and abstract sockets in: Linux 6.12. */
enum { LANDLOCK_ABI_SCOPES = 6 };

enum {
	LANDLOCK_SCOPE_ABSTRACT = 1 << 0, /* abstract Unix sockets; ABI 6 */
	LANDLOCK_SCOPE_SIGNAL = 1 << 1,   /* ABI 6 */
};

/* All rights on files that an ABI (>= 1) knows. */
static inline uint64_t landlock_handled(int abi)
{
	if (abi >= 5)
		return (1 << 16) - 1;
	if (abi >= 3)
		return (1 << 15) - 1;
	return abi == 2 ? (1 << 14) - 1 : (1 << 13) - 1;
}

/* The ABI of the running kernel; 0: none, or switched off at its start. */
static inline int landlock_abi(void)
{
	long abi = syscall(444, NULL, 0, 1U /* LANDLOCK_CREATE_RULESET_VERSION */);

	return abi < 0 ? 0 : (int)abi;
}

/* The mistakes of the running kernel's Landlock that have been mended, as bits; 0: unknown. */
static inline unsigned landlock_errata(void)
{
	long errata = syscall(444, NULL, 0, 2U /* LANDLOCK_CREATE_RULESET_ERRATA */);

	return errata < 0 ? 0 : (unsigned)errata;
}

/* A ruleset that handles these rights on files and these scopes (ABI 6, else 0). A descriptor, or
 * -1. */
static inline int landlock_create(uint64_t files, uint64_t scoped)
{
	const struct {
		uint64_t files, net, scoped;
	} attributes = {.files = files, .net = 0, .scoped = scoped};

	/* A kernel that knows less of it refuses a longer one, unless the rest is 0. */
	return (int)syscall(444, &attributes, sizeof(attributes), 0U);
}

/* Allows `rights` on what `path` (an O_PATH descriptor) is and what lies beneath it. */
static inline int landlock_allow(int ruleset, int path, uint64_t rights)
{
	const struct {
		uint64_t rights;
		int32_t path;
	} __attribute__((packed)) rule = {.rights = rights, .path = path};

	return (int)syscall(445, ruleset, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0U);
}

/* Applies it to the calling thread and what it starts; no_new_privs must be set. */
static inline int landlock_restrict(int ruleset)
{
	return (int)syscall(446, ruleset, 0U);
}

#endif
