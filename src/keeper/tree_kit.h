/*
 * For the tests of manifest and watch: a folder that is edited at random, and a simple model of
 * what is in it.
 *
 * The model knows each file by its path and a version that grows with every edit, so that two
 * snapshots of it say what was created, changed and deleted, without a look at the disk.
 */
#ifndef FH_KEEPER_TREE_KIT_H
#define FH_KEEPER_TREE_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper/manifest.h"

enum { TREE_PATH_MAX = 200, TREE_ITEMS_MAX = 80 };

struct tree_item {
	char path[TREE_PATH_MAX];
	bool is_folder;
	unsigned version;
};

struct tree {
	char root[64];
	int fd;
	uint64_t random;
	unsigned version; /* of the last edit */
	bool same_size;   /* all files have the same length, else each edit has its own */
	struct tree_item items[TREE_ITEMS_MAX];
	size_t count;
};

/* Makes an empty temporary folder with `name` in its own; a failure aborts the test. */
void tree_open(struct tree *tree, const char *name, uint64_t seed);
void tree_close(struct tree *tree); /* removes it */

/* One random edit, on disk and in the model. */
void tree_edit(struct tree *tree);

/* What differs between two snapshots (copies) of a model, one line each, "created a/b\n", in the
 * order of paths. */
void tree_expect(const struct tree *old, const struct tree *new, struct buf *text);

/* The same for changes that were found. */
void tree_found(const struct changes *changes, struct buf *text);

/* Small things for tests: all relative to the root; they abort the test when they fail. */
void tree_write(const struct tree *tree, const char *path, const char *text);
void tree_mkdir(const struct tree *tree, const char *path);

#endif
