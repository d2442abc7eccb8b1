/*
 * Facts about this process and this kernel.
 *
 * mount_setattr(2) is looked for by calling it with a descriptor that cannot be: EBADF or EINVAL
 * mean that it is there, ENOSYS that it is not, and EPERM that a filter refuses it, which is as
 * good as missing.
 */
#include "sandbox/host.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/uids.h"

enum { MOUNTINFO_BYTES_MAX = 16 * 1024 * 1024, STAT_FIELD_ARG_START = 48 };

static void look_for_arguments(struct host *host)
{
	cleanup_buf struct buf stat = BUF_INIT;
	uintptr_t *const values[] = {&host->arg_start, &host->arg_end, &host->env_start,
				     &host->env_end};
	const char *at;

	if (file_read(AT_FDCWD, "/proc/self/stat", 4096, &stat, NULL) < 0)
		return;
	/* Field 2 is the name in parentheses and may hold anything; after the last ')' comes
	 * field 3. */
	at = strrchr(buf_bytes(&stat), ')');
	for (int field = 2; at && field < STAT_FIELD_ARG_START; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	for (size_t i = 0; at && i < 4; i++) {
		char *end;

		*values[i] = (uintptr_t)strtoull(at, &end, 10);
		at = *end == ' ' ? end + 1 : NULL;
	}
}

void host_look(struct host *host)
{
	uint32_t first, count;

	*host = (struct host){.uid = geteuid(),
			      .gid = getegid(),
			      .box_uid = geteuid(),
			      .box_gid = getegid(),
			      .family = -1,
			      .outer_uid = geteuid(),
			      .outer_gid = getegid()};
	host->mount_setattr = !(syscall(SYS_mount_setattr, -1, "", 0, NULL, 0) < 0 &&
				(errno == ENOSYS || errno == EPERM));
	host->other_uids = geteuid() == 0 && uids_of(UID_OF_SESSION, &first, &count, NULL) == 0;
	host->landlock_abi = landlock_abi();
	look_for_arguments(host);
}

static uint64_t threads_of(int proc, const char *pid)
{
	cleanup_free char *path = mem_format("%s/task", pid);
	struct stat st;

	/* A directory has a link for itself, one for its name, and one for each directory in it. */
	return fstatat(proc, path, &st, 0) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 0;
}

uint64_t host_tasks(uid_t uid)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	uint64_t count = 0;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
		    fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_uid == uid)
			count += threads_of(dirfd(dir), entry->d_name);
	}
	if (dir)
		closedir(dir);
	return count;
}

/* Undoes the octal escapes of mountinfo (\040 for a blank) in place. */
static void unescape(char *text)
{
	char *out = text;

	while (*text) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
		    text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
			*out++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 +
					(text[3] - '0'));
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
}

/* The fifth field of a mountinfo line, cut out and unescaped; NULL when the line has another form.
 */
static char *mount_point(char *line)
{
	char *end;

	for (int field = 1; line && field < 5; field++) {
		line = strchr(line, ' ');
		line = line ? line + 1 : NULL;
	}
	end = line ? strchr(line, ' ') : NULL;
	if (!end)
		return NULL;
	*end = '\0';
	unescape(line);
	return line;
}

/* Copies the strings behind the array that points to them, so that one free() releases both. */
static char **pack(const char *strings, size_t bytes, size_t count)
{
	char **array = mem_zalloc((count + 1) * sizeof(*array) + bytes);
	char *copy = (char *)(array + count + 1);

	memcpy(copy, strings, bytes);
	for (size_t i = 0; i < count; i++) {
		array[i] = copy;
		copy += strlen(copy) + 1;
	}
	return array;
}

char **host_submounts(const char *path)
{
	cleanup_buf struct buf info = BUF_INIT;
	cleanup_buf struct buf found = BUF_INIT;
	cleanup_free char *text = NULL;
	size_t len = strcmp(path, "/") == 0 ? 0 : strlen(path);
	size_t count = 0;
	char *next;

	if (file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_BYTES_MAX, &info, NULL) < 0)
		return NULL;
	text = buf_take(&info, NULL);
	for (char *line = text; line && *line; line = next) {
		char *point;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		point = mount_point(line);
		if (!point || strncmp(point, path, len) != 0 || point[len] != '/' ||
		    !point[len + 1])
			continue;
		buf_append(&found, point, strlen(point) + 1);
		count++;
	}
	return count ? pack(buf_bytes(&found), found.len, count) : NULL;
}
