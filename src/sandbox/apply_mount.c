/*
 * How the new root is attached without needing a directory for it: the tmpfs is mounted on top of
 * "/" itself. A process keeps the root it has, so host paths still resolve below the old one while
 * the new one is built through its descriptor; pivot_root(".", ".") then exchanges them
 * (pivot_root(2), NOTES).
 *
 * A bind is a detached copy of a tree (open_tree), which gets its attributes, those of everything
 * mounted in it included, before it is attached: at no time is it visible with fewer. Kernels
 * before 5.12 cannot do that; there each mount of the copy is remounted after it was attached,
 * while the new root is still out of reach of everyone else.
 */
#include "sandbox/apply_mount.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "sandbox/kernel.h"

#define IN_ROOT (RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS)

/* Closes and keeps errno. */
static void shut(int fd)
{
	int sys = errno;

	close(fd);
	errno = sys;
}

/* Closes what open_parent() has given, and keeps errno. */
static void leave(int root, int fd)
{
	if (fd != root)
		shut(fd);
}

int apply_write(int dirfd, const char *path, const char *text)
{
	size_t len = strlen(text);
	int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	ssize_t count;

	if (fd < 0)
		return -1;
	count = write(fd, text, len);
	shut(fd);
	return count == (ssize_t)len ? 0 : -1;
}

/* An O_PATH descriptor of something that is in the new root. */
static int open_inside(int root, const char *target)
{
	return kernel_open(root, target[1] ? target + 1 : ".", O_PATH, IN_ROOT);
}

/* The directory `name` in `parent`, made if it is not there; never a symlink. */
static int enter(int parent, const char *name, mode_t mode)
{
	int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && mkdirat(parent, name, mode) == 0)
		fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd;
}

/* The directory that holds `target`, made with its parents if need be; *name is the last component.
 * The descriptor is a new one or `root` itself: leave() closes it. */
static int open_parent(int root, const char *target, const char **name)
{
	char component[NAME_MAX + 1];
	int fd = root;

	target++;
	for (const char *slash = strchr(target, '/'); fd >= 0 && slash;
	     slash = strchr(target, '/')) {
		size_t len = (size_t)(slash - target);
		int next = -1;

		errno = ENAMETOOLONG;
		if (len <= NAME_MAX) {
			memcpy(component, target, len);
			component[len] = '\0';
			next = enter(fd, component, 0755);
		}
		leave(root, fd);
		fd = next;
		target = slash + 1;
	}
	*name = target;
	return fd;
}

static int make_directory(int root, const struct step *step)
{
	const char *name;
	int parent = open_parent(root, step->target, &name);
	int fd;

	if (parent < 0)
		return -1;
	fd = enter(parent, name, step->mode);
	leave(root, parent);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int make_file(int root, const struct step *step)
{
	size_t len = strlen(step->source);
	const char *name;
	int parent = open_parent(root, step->target, &name);
	ssize_t count;
	int fd;

	if (parent < 0)
		return -1;
	fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, step->mode);
	leave(root, parent);
	if (fd < 0)
		return -1;
	count = write(fd, step->source, len);
	shut(fd);
	return count == (ssize_t)len ? 0 : -1;
}

static int make_link(int root, const struct step *step)
{
	const char *name;
	int parent = open_parent(root, step->target, &name);
	int result;

	if (parent < 0)
		return -1;
	result = symlinkat(step->source, parent, name);
	leave(root, parent);
	return result;
}

/* A file to mount on that is there already; not a symlink. */
static int open_existing(int parent, const char *name)
{
	int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
		close(fd);
		errno = ELOOP;
		return -1;
	}
	return fd;
}

/* A descriptor of the place to mount on: a directory or an empty file, made if it is not there. */
static int open_target(int root, const char *target, bool directory)
{
	const char *name;
	int parent = open_parent(root, target, &name);
	int fd;

	if (parent < 0)
		return -1;
	if (directory) {
		fd = enter(parent, name, 0755);
	} else {
		fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0444);
		if (fd < 0 && errno == EEXIST)
			fd = open_existing(parent, name);
	}
	leave(root, parent);
	return fd;
}

/* Attaches the mount at `target`, and closes it. */
static int attach(int root, const char *target, int mount)
{
	struct stat st;
	int fd;
	int result;

	if (fstat(mount, &st) < 0)
		return -1;
	fd = open_target(root, target, S_ISDIR(st.st_mode));
	if (fd < 0) {
		shut(mount);
		return -1;
	}
	result = kernel_move_mount(mount, fd);
	shut(fd);
	shut(mount);
	return result;
}

/* "/proc/self/fd/N": how mount(2) is given a descriptor. */
static const char *descriptor_path(int fd, char path[static 32])
{
	char digits[12];
	size_t count = 0;
	size_t len = strlen("/proc/self/fd/");

	memcpy(path, "/proc/self/fd/", len);
	do {
		digits[count++] = (char)('0' + fd % 10);
		fd /= 10;
	} while (fd > 0);
	while (count > 0)
		path[len++] = digits[--count];
	path[len] = '\0';
	return path;
}

/* Adds attributes to one mount by remounting it. What it already has must be named again: in a user
 * namespace such flags are locked, and leaving one out is refused. */
static int remount(int root, const char *target, uint64_t attributes)
{
	unsigned long flags = MS_REMOUNT | MS_BIND;
	struct statfs now;
	char path[32];
	int fd = open_inside(root, target);
	int result = -1;

	if (fd < 0)
		return -1;
	if (fstatfs(fd, &now) == 0) {
		/* ST_RDONLY, ST_NOSUID, ST_NODEV, ST_NOEXEC have the values of MS_* and
		 * MOUNT_ATTR_*. */
		flags |= ((unsigned long)now.f_flags | attributes) &
			 (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
		flags |= (unsigned long)now.f_flags & (MS_NOATIME | MS_NODIRATIME);
		flags |= now.f_flags & ST_RELATIME ? MS_RELATIME : 0;
		result = kernel_mount(NULL, descriptor_path(fd, path), flags);
	}
	shut(fd);
	return result;
}

/* Adds attributes to one mount in the new root, by whichever call the kernel has. */
static int add_attributes(int root, const char *target, uint64_t attributes,
			  const struct plan *plan)
{
	int fd;
	int result;

	if (!plan->host.mount_setattr)
		return remount(root, target, attributes);
	fd = open_inside(root, target);
	if (fd < 0)
		return -1;
	result = kernel_mount_setattr(fd, false, attributes);
	shut(fd);
	return result;
}

/* The place of a host path below `step->source` in the new root, in `path`. */
static int inside_path(const struct step *step, const char *host, char path[static PATH_MAX])
{
	size_t top = strcmp(step->source, "/") == 0 ? 0 : strlen(step->source);
	size_t first = strlen(step->target);
	size_t rest = strlen(host + top);

	if (first + rest >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, step->target, first);
	memcpy(path + first, host + top, rest + 1);
	return 0;
}

static int remount_all(int root, const struct step *step)
{
	char path[PATH_MAX];

	if (remount(root, step->target, step->attributes) < 0)
		return -1;
	for (size_t i = 0; step->submounts && step->submounts[i]; i++) {
		if (inside_path(step, step->submounts[i], path) < 0 ||
		    remount(root, path, step->attributes) < 0)
			return -1;
	}
	return 0;
}

/* Makes part of a mount in the new root a mount of its own, by mount(2): an open_tree() or
 * fsmount() counts as a new mount namespace for a moment, which by then is forbidden. */
static int bind_to_itself(int root, const struct step *step, const struct plan *plan)
{
	char path[32];
	int fd = open_inside(root, step->target);
	int result;

	if (fd < 0)
		return -1;
	descriptor_path(fd, path);
	result = kernel_mount(path, path, MS_BIND);
	shut(fd);
	return result < 0 ? -1 : add_attributes(root, step->target, step->attributes, plan);
}

/* The host's /proc is trusted, and its link "self" leads to this process's directory. */
static int bind_process(int root, const struct step *step)
{
	int source = kernel_open(AT_FDCWD, "/proc/self", O_PATH, 0);
	int mount;

	if (source < 0)
		return -1;
	mount = kernel_open_tree(source);
	shut(source);
	return mount < 0 ? -1 : attach(root, step->target, mount);
}

static int bind_tree(int root, const struct step *step, const struct plan *plan)
{
	int source;
	int mount;

	if (step->mount >= 0) /* with its attributes */
		return attach(root, step->target, step->mount);
	source = kernel_open(AT_FDCWD, step->source, O_PATH, RESOLVE_NO_SYMLINKS);
	if (source < 0)
		return -1;
	mount = kernel_open_tree(source);
	shut(source);
	if (mount < 0)
		return -1;
	if (plan->host.mount_setattr && kernel_mount_setattr(mount, true, step->attributes) < 0) {
		shut(mount);
		return -1;
	}
	if (attach(root, step->target, mount) < 0)
		return -1;
	return plan->host.mount_setattr ? 0 : remount_all(root, step);
}

/* A new file system, not yet attached. */
static int make_file_system(const char *type, const struct step *step)
{
	int context = kernel_fsopen(type);
	int mount;

	if (context < 0)
		return -1;
	for (size_t i = 0; i < STEP_OPTIONS_MAX && step->options[i].key; i++) {
		const struct step_option *option = &step->options[i];

		if (kernel_fsconfig(context, option->value ? KERNEL_FS_STRING : KERNEL_FS_FLAG,
				    option->key, option->value) < 0) {
			shut(context);
			return -1;
		}
	}
	mount = kernel_fsconfig(context, KERNEL_FS_CREATE, NULL, NULL);
	if (mount == 0)
		mount = kernel_fsmount(context, step->attributes);
	shut(context);
	return mount;
}

static int make_root(const struct step *step, int *root)
{
	int top;
	int result;

	*root = make_file_system("tmpfs", step);
	if (*root < 0)
		return -1;
	top = kernel_open(AT_FDCWD, "/", O_PATH, 0);
	if (top < 0)
		return -1;
	result = kernel_move_mount(*root, top);
	shut(top);
	return result < 0 ? -1 : fchdir(*root);
}

static int mount_new(int root, const struct step *step)
{
	int mount = make_file_system(step->source, step);

	return mount < 0 ? -1 : attach(root, step->target, mount);
}

/* Layers are named by paths from the working directory, which is the new root. */
static int mount_overlay(int root, const struct step *step)
{
	int mount = make_file_system("overlay", step);

	return mount < 0 ? -1 : attach(root, step->target, mount);
}

/* A second place for what is in the new root already, with its attributes and what is on it. */
static int bind_inside(int root, const struct step *step)
{
	int source = open_inside(root, step->source);
	int mount;

	if (source < 0)
		return -1;
	mount = kernel_open_tree(source);
	shut(source);
	return mount < 0 ? -1 : attach(root, step->target, mount);
}

static int unmount(int root, const struct step *step)
{
	/* The target is one name. */
	if (syscall(SYS_umount2, step->target + 1, KERNEL_DETACH) < 0)
		return -1;
	return unlinkat(root, step->target + 1, AT_REMOVEDIR);
}

static int write_inside(int root, const struct step *step)
{
	size_t len = strlen(step->source);
	int fd = kernel_open(root, step->target + 1, O_WRONLY, IN_ROOT);
	ssize_t count;

	if (fd < 0)
		return -1;
	count = write(fd, step->source, len);
	shut(fd);
	return count == (ssize_t)len ? 0 : -1;
}

/* The working directory is the new root. Private in the end: what the host mounts below /usr later
 * must not appear inside, where it would not be read-only. */
static int pivot(void)
{
	if (kernel_pivot_root(".", ".") < 0 || syscall(SYS_umount2, ".", KERNEL_DETACH) < 0 ||
	    chdir("/") < 0)
		return -1;
	return kernel_mount(NULL, "/", MS_REC | MS_PRIVATE);
}

int apply_mount_step(const struct step *step, const struct plan *plan, int *root)
{
	/* The enumeration lists these kinds and others; those are run_process_step()'s. */
	switch ((int)step->kind) {
	case STEP_PROPAGATION:
		return kernel_mount(NULL, "/", MS_REC | MS_SLAVE);
	case STEP_ROOT:
		return make_root(step, root);
	case STEP_DIRECTORY:
		return make_directory(*root, step);
	case STEP_FILE:
		return make_file(*root, step);
	case STEP_LINK:
		return make_link(*root, step);
	case STEP_BIND_ITSELF:
		return bind_to_itself(*root, step, plan);
	case STEP_BIND_PROCESS:
		return bind_process(*root, step);
	case STEP_BIND:
		return bind_tree(*root, step, plan);
	case STEP_MOUNT:
		return mount_new(*root, step);
	case STEP_BIND_INSIDE:
		return bind_inside(*root, step);
	case STEP_OVERLAY:
		return mount_overlay(*root, step);
	case STEP_UNMOUNT:
		return unmount(*root, step);
	case STEP_READ_ONLY:
		return add_attributes(*root, step->target, MOUNT_ATTR_RDONLY, plan);
	case STEP_WRITE:
		return write_inside(*root, step);
	case STEP_PIVOT:
		return pivot();
	default:
		errno = ENOSYS;
		return -1;
	}
}
