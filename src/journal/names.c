/* Names of sessions; see names.h. */
#include "journal/names.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "journal/branches.h"

static const char LINK_PREFIX[] = "../sessions/";

int names_check(const char *name, struct err *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAMES_BYTES_MAX)
		return err_set(err, ERR_INVALID, "a session's name has 1 to %d bytes",
			       NAMES_BYTES_MAX);
	if (name[0] == '.' || name[0] == '-')
		return err_set(err, ERR_INVALID, "a session's name does not begin with '.' or '-'");
	if (!text_is_utf8(name, len))
		return err_set(err, ERR_INVALID, "a session's name is UTF-8 text");
	for (size_t at = 0; at < len;) {
		uint32_t point;

		at += text_next(name + at, len - at, &point);
		if (point == '/' || point < 0x20 || (point >= 0x7f && point < 0xa0))
			return err_set(err, ERR_INVALID,
				       "a session's name has no '/' and no control characters");
	}
	if (hash_is_id(name))
		return err_set(err, ERR_INVALID, "this name has the form of an id; choose another");
	return 0;
}

int names_read(const struct names_at *names, const char *name, char id[static HASH_ID_SIZE])
{
	char target[sizeof(LINK_PREFIX) + HASH_ID_SIZE];
	const size_t prefix_len = sizeof(LINK_PREFIX) - 1;
	ssize_t len;

	if (names_check(name, NULL) != 0)
		return -1;
	len = readlinkat(names->names_fd, name, target, sizeof(target) - 1);
	if (len < 0 || (size_t)len != prefix_len + HASH_ID_SIZE - 1)
		return -1;
	target[len] = '\0';
	if (memcmp(target, LINK_PREFIX, prefix_len) != 0 || !hash_is_id(target + prefix_len))
		return -1;
	memcpy(id, target + prefix_len, HASH_ID_SIZE);
	return 0;
}

static bool session_exists(const struct names_at *names, const char *id)
{
	cleanup_fd int fd = branches_open(names->sessions_fd, id);

	return fd >= 0;
}

/* Held until it is closed; -1 with errno. */
static int take_lock(const struct names_at *names)
{
	int lock = openat(names->root_fd, "names.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (lock >= 0 && flock(lock, LOCK_EX) != 0) {
		close(lock);
		return -1;
	}
	return lock;
}

int names_give(const struct names_at *names, const char *name, const char *id, struct err *err)
{
	cleanup_fd int lock = take_lock(names);
	cleanup_free char *target = mem_format("%s%s", LINK_PREFIX, id);
	char owner[HASH_ID_SIZE];

	if (lock < 0)
		return err_sys(err, "cannot lock names.lock of the state directory");
	if (symlinkat(target, names->names_fd, name) == 0)
		return 0;
	if (errno != EEXIST)
		return err_sys(err, "cannot make by-name/%s", name);
	if (names_read(names, name, owner) == 0 && session_exists(names, owner))
		return err_set(err, ERR_DUPLICATE, "there is a session named %s already", name);
	if (unlinkat(names->names_fd, name, 0) != 0 ||
	    symlinkat(target, names->names_fd, name) != 0)
		return err_sys(err, "cannot replace by-name/%s", name);
	return 0;
}

void names_drop(const struct names_at *names, const char *name, const char *id)
{
	cleanup_fd int lock = take_lock(names);
	char owner[HASH_ID_SIZE];

	(void)lock; /* held to the end */
	if (names_read(names, name, owner) == 0 && strcmp(owner, id) == 0)
		unlinkat(names->names_fd, name, 0);
}
