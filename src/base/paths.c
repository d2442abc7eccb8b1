/*
 * XDG directories and the place of our helper programs.
 *
 * The specification says that a relative path in one of its variables is to be ignored, so it is.
 * The directories are made here, because a path without its directory is of no use to any caller;
 * but not that of the configuration, which is only read.
 *
 * The runtime directory is checked with the descriptor of what was opened, not by name: in /tmp
 * anyone can plant a directory or a symlink under a name that is known beforehand.
 */
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* The variable's value if it is an absolute path, else NULL. */
static const char *absolute_from(const char *variable)
{
	const char *value = getenv(variable);

	return value && value[0] == '/' ? value : NULL;
}

/* $HOME, else the home directory in passwd; owned by the caller. */
static char *home_directory(struct err *err)
{
	const char *home = absolute_from("HOME");
	struct passwd entry;
	struct passwd *found = NULL;
	cleanup_free char *strings = NULL;
	size_t size = 1024;
	int sys;

	if (home)
		return mem_string(home);
	do {
		size *= 2;
		strings = mem_resize(strings, size, 1);
		sys = getpwuid_r(getuid(), &entry, strings, size, &found);
	} while ((sys == ERANGE && size < 1 << 20) || sys == EINTR);
	if (!found || found->pw_dir[0] != '/') {
		err_set(err, ERR_NOT_FOUND, "no home directory: set HOME to an absolute path");
		return NULL;
	}
	return mem_string(found->pw_dir);
}

/* $variable/fumehood, else ~/<below_home>/fumehood. */
static char *base_path(const char *variable, const char *below_home, struct err *err)
{
	const char *base = absolute_from(variable);
	cleanup_free char *home = NULL;

	if (base)
		return mem_format("%s/fumehood", base);
	home = home_directory(err);
	return home ? mem_format("%s/%s/fumehood", home, below_home) : NULL;
}

/* The same; made. */
static char *base_directory(const char *variable, const char *below_home, struct err *err)
{
	cleanup_free char *path = base_path(variable, below_home, err);

	if (!path || file_make_dirs(path, 0700, err) < 0)
		return NULL;
	return mem_take(path);
}

char *paths_state(struct err *err)
{
	return base_directory("XDG_STATE_HOME", ".local/state", err);
}

char *paths_data(struct err *err)
{
	return base_directory("XDG_DATA_HOME", ".local/share", err);
}

char *paths_config(struct err *err)
{
	return base_path("XDG_CONFIG_HOME", ".config", err);
}

char *paths_runtime(struct err *err)
{
	const char *base = absolute_from("XDG_RUNTIME_DIR");
	cleanup_free char *path = NULL;
	cleanup_fd int fd = -1;
	struct stat st;

	/* The variable outlives the directory where a login left it behind (su, containers). */
	if (base && stat(base, &st) == 0 && S_ISDIR(st.st_mode))
		path = mem_format("%s/fumehood", base);
	else
		path = mem_format("/tmp/fumehood-%u", (unsigned)geteuid());
	if (mkdir(path, 0700) < 0 && errno != EEXIST) {
		err_sys(err, "cannot make directory %s", path);
		return NULL;
	}
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR) { /* also a symlink */
		err_set(err, ERR_DENIED, "%s is no directory: remove it", path);
		return NULL;
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		err_sys(err, "cannot open directory %s", path);
		return NULL;
	}
	if (st.st_uid != geteuid() || (st.st_mode & 0077) != 0) {
		err_set(err, ERR_DENIED,
			"%s belongs to someone else or has rights for others: remove it", path);
		return NULL;
	}
	return mem_take(path);
}

/* The directory of the running executable, owned by the caller. */
static char *program_directory(struct err *err)
{
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (len < 0) {
		err_sys(err, "cannot read /proc/self/exe");
		return NULL;
	}
	path[len] = '\0';
	slash = strrchr(path, '/');
	if (!slash) {
		err_set(err, ERR_NOT_FOUND, "the running program has no path");
		return NULL;
	}
	return mem_copy(path, (size_t)(slash - path));
}

char *paths_helper(const char *name, struct err *err)
{
	const char *libexec = absolute_from("FUMEHOOD_LIBEXEC");
	cleanup_free char *directory = NULL;
	cleanup_free char *beside = NULL;
	cleanup_free char *installed = NULL;
	const char *slash;

	if (libexec) {
		cleanup_free char *chosen = mem_format("%s/%s", libexec, name);

		if (access(chosen, X_OK) == 0)
			return mem_take(chosen);
		err_sys(err, "cannot use %s (from FUMEHOOD_LIBEXEC)", chosen);
		return NULL;
	}
	directory = program_directory(err);
	if (!directory)
		return NULL;
	beside = mem_format("%s/%s", directory, name);
	if (access(beside, X_OK) == 0)
		return mem_take(beside);
	/* <prefix>/bin/fumehood and <prefix>/libexec/fumehood/<name> */
	slash = strrchr(directory, '/');
	installed = mem_format("%.*s/libexec/fumehood/%s", slash ? (int)(slash - directory) : 0,
			       directory, name);
	if (access(installed, X_OK) == 0)
		return mem_take(installed);
	err_set(err, ERR_NOT_FOUND, "%s is not installed: it was looked for at %s and %s", name,
		beside, installed);
	return NULL;
}
