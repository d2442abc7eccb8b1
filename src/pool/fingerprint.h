/*
 * Whether an environment has changed since its zygote imported it.
 *
 * A zygote holds modules in memory; after `pip install -U` they are the old ones. The fingerprint
 * remembers device, inode and mtime of the files and directories that such a change touches: the
 * interpreter, site-packages and the like. Asking costs one stat(2) an entry, a few microseconds in
 * all.
 *
 * A directory with another mtime is read: only if the set of its names and inodes (without
 * __pycache__) has changed, or the time of a file or of a package's *-info folder, has the
 * environment. Otherwise the first import ever, which makes site-packages/__pycache__, would cost a
 * second start.
 */
#ifndef FH_POOL_FINGERPRINT_H
#define FH_POOL_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fingerprint_entry {
	char *path;
	bool exists;
	uint64_t device, inode;
	int64_t mtime_ns;
	uint64_t names; /* sum over a directory's entries, 0 for a file */
};

enum { FINGERPRINT_ENTRIES_MAX = 64 }; /* paths beyond it are not watched */

struct fingerprint {
	struct fingerprint_entry entries[FINGERPRINT_ENTRIES_MAX];
	size_t count;
};

/* An empty one: never changed. */
void fingerprint_init(struct fingerprint *print);
void fingerprint_release(struct fingerprint *print);

/* Watches a path as it is now (it may be absent). A path that is there already is left as it was.
 */
void fingerprint_add(struct fingerprint *print, const char *path);

/* Watches a directory of modules and each of them: a build may write them anew in place. */
void fingerprint_add_package(struct fingerprint *print, const char *directory);

/* Watches the places for packages under a prefix: <prefix>/lib{,64}/python3*, and in it
 * site-packages and dist-packages; also of /usr/local for /usr, where Debian's pip installs. */
void fingerprint_add_prefix(struct fingerprint *print, const char *prefix);

/* The path that has changed since it was added, or NULL. Borrowed. */
const char *fingerprint_changed(struct fingerprint *print);

#endif
