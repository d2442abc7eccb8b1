/*
 * What the tests of save.c share: a directory to work in, edits as other programs make them, and
 * looks at the outcome. Included once by each test program.
 */
#ifndef FH_NOTEBOOK_SAVE_KIT_H
#define FH_NOTEBOOK_SAVE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "notebook/save.h"

struct place {
	char path[64];
	int dirfd;
};

static inline int setup(void **state)
{
	struct place *place = mem_zalloc(sizeof(*place));

	snprintf(place->path, sizeof(place->path), "/tmp/fh-save-XXXXXX");
	if (mkdtemp(place->path) == NULL)
		return -1;
	place->dirfd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = place;
	return place->dirfd < 0 ? -1 : 0;
}

static inline int teardown(void **state)
{
	struct place *place = *state;

	close(place->dirfd);
	file_remove_tree(AT_FDCWD, place->path, NULL);
	free(place);
	return 0;
}

static inline void put(int dirfd, const char *name, const char *text, int flags)
{
	cleanup_fd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* An edit in place, and one as editors do it: a new file renamed over the old one. */
static inline void edit(int dirfd, const char *name, const char *text)
{
	put(dirfd, name, text, O_TRUNC);
}

static inline void edit_by_rename(int dirfd, const char *name, const char *text)
{
	put(dirfd, "editor.swap", text, O_TRUNC);
	assert_int_equal(renameat(dirfd, "editor.swap", dirfd, name), 0);
}

static inline void check_file(int dirfd, const char *name, const char *want)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err err = ERR_INIT;

	if (file_read(dirfd, name, 1 << 20, &bytes, &err) < 0)
		fail_msg("%s: %s", name, err.text);
	assert_string_equal(buf_bytes(&bytes), want);
}

static inline size_t count_files(int dirfd)
{
	DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count - 2; /* . and .. */
}

static inline struct save *make(int dirfd, const char *name, bool adopt)
{
	struct err err = ERR_INIT;
	struct save *save = save_new(dirfd, name, adopt, &err);

	if (save == NULL)
		fail_msg("%s", err.text);
	return save;
}

/* Saves and returns whether the writer moved. */
static inline bool write_text(struct save *save, const char *text)
{
	struct err err = ERR_INIT;
	bool moved = true;

	if (save_write(save, text, strlen(text), &moved, &err) < 0)
		fail_msg("%s", err.text);
	return moved;
}

#endif
