/*
 * For the tests of manifest and watch: a folder that is edited at random, and a simple model of
 * what is in it.
 *
 * The model knows each file by its path and a version that grows with every edit, so that two
 * snapshots of it say what was created, changed and deleted, without a look at the disk.
 */
#ifndef FH_FILES_MODEL_KIT_H
#define FH_FILES_MODEL_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "files/manifest.h"

enum { MODEL_PATH_MAX = 200, MODEL_ITEMS_MAX = 80 };

struct model_item {
	char path[MODEL_PATH_MAX];
	bool is_folder;
	unsigned version;
};

struct model {
	char root[64];
	int fd;
	uint64_t random;
	unsigned version; /* of the last edit */
	bool same_size;   /* all files have the same length, else each edit has its own */
	struct model_item items[MODEL_ITEMS_MAX];
	size_t count;
};

/* Makes an empty temporary folder with `name` in its own; a failure aborts the test. */
void model_open(struct model *model, const char *name, uint64_t seed);
void model_close(struct model *model); /* removes it */

/* One random edit, on disk and in the model. */
void model_edit(struct model *model);

/* What differs between two snapshots (copies) of a model, one line each, "created a/b\n", in the
 * order of paths. */
void model_expect(const struct model *old, const struct model *new, struct buf *text);

/* The same for changes that were found. */
void model_found(const struct changes *changes, struct buf *text);

/* Small things for tests: all relative to the root; they abort the test when they fail. */
void model_write(const struct model *model, const char *path, const char *text);
void model_mkdir(const struct model *model, const char *path);

#endif
