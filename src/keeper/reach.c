/*
 * The walk is that of sandbox/visible.h, which notes each symlink with its real place and the end.
 *
 * For a venv the interpreter alone does not tell where its libraries are: bin/python may be a copy,
 * and `home` in pyvenv.cfg names the folder of the interpreter that it was made from. So there are
 * up to three folders to look at: that of the interpreter's own name, that by which its symlinks
 * leave the workspace (else that of the program at their end), and `home`. The libraries are in
 * `../lib` of each, as getpath.py looks for them.
 */
#include "keeper/reach.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "sandbox/mounts.h"
#include "sandbox/visible.h"

enum { CONFIG_BYTES_MAX = 64 << 10, FOLDERS_MAX = 3 };

struct look {
	struct reach *reach;
	bool show; /* else only `writable` is wanted */
	struct mounts mounts;
	char *workspace;            /* real; NULL: there is none */
	char *folders[FOLDERS_MAX]; /* of interpreters */
	size_t folder_count;
};

void reach_release(struct reach *reach)
{
	for (size_t i = 0; i < reach->count; i++)
		free(reach->paths[i]);
	free(reach->paths);
	*reach = (struct reach)REACH_INIT;
}

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash != path ? mem_copy(path, (size_t)(slash - path)) : mem_string("/");
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
		at++;
	return at;
}

/* `at` to `end` without the blanks around. */
static char *trimmed(const char *at, const char *end)
{
	at = skip_blanks(at, end);
	while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	return mem_copy(at, (size_t)(end - at));
}

char *reach_home(const char *text, size_t len)
{
	const char *end = text + len;

	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		const char *equals;

		stop = stop ? stop : end;
		equals = memchr(line, '=', (size_t)(stop - line));
		if (equals) {
			cleanup_free char *key = trimmed(line, equals);
			cleanup_free char *value = trimmed(equals + 1, stop);

			if (strcasecmp(key, "home") == 0)
				return value[0] == '/' && strlen(value) < PATH_MAX ? mem_take(value)
										   : NULL;
		}
		line = stop + 1;
	}
	return NULL;
}

/* `home` of the venv whose interpreter is `python`; NULL when it is no venv. */
static char *read_home(const char *python)
{
	cleanup_free char *folder = parent_of(python);
	cleanup_free char *above = parent_of(folder);
	const char *places[] = {above, folder};

	for (size_t i = 0; i < 2; i++) {
		cleanup_free char *path = mem_format("%s/pyvenv.cfg", places[i]);
		cleanup_buf struct buf text = BUF_INIT;

		if (file_read(AT_FDCWD, path, CONFIG_BYTES_MAX, &text, NULL) == 0)
			return reach_home(buf_bytes(&text), text.len);
	}
	return NULL;
}

static bool lies_in_workspace(const struct look *look, const char *path)
{
	return look->workspace && mounts_inside(&look->mounts, path, look->workspace);
}

/* Whether the way of `path` leads through the workspace. *out: the absolute name by which its last
 * symlink there leads out of it; the caller owns it; untouched when there is none. */
static bool leads_through(const struct look *look, const char *path, char **out)
{
	struct visible way = VISIBLE_INIT;
	const char *text = NULL;
	bool through = false;

	visible_add(&way, path);
	for (size_t i = 0; i < way.link_count; i++) {
		if (lies_in_workspace(look, way.links[i].path)) {
			through = true;
			text = way.links[i].text;
		}
	}
	for (size_t i = 0; i < way.bind_count; i++)
		through = through || lies_in_workspace(look, way.binds[i]);
	if (out && text && text[0] == '/')
		*out = mem_string(text);
	visible_release(&way);
	return through;
}

static void show(const struct look *look, const char *path)
{
	struct reach *reach = look->reach;

	reach->paths = mem_resize(reach->paths, reach->count + 1, sizeof(*reach->paths));
	reach->paths[reach->count++] = mem_string(path);
}

static bool is_program(const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char start[4];

	return fd >= 0 && pread(fd, start, sizeof(start), 0) == sizeof(start) &&
	       memcmp(start, "\177ELF", sizeof(start)) == 0;
}

/* Whether one of the folders in which `lib` has packages leads through the workspace. *standard:
 * whether it has a standard library. */
static bool library_leads_through(const struct look *look, const char *lib, bool *standard)
{
	DIR *directory = opendir(lib);
	const struct dirent *entry;
	bool through = leads_through(look, lib, NULL);

	*standard = false;
	while (directory && (entry = readdir(directory)) != NULL) {
		cleanup_free char *packages = mem_format("%s/%s/site-packages", lib, entry->d_name);
		cleanup_free char *os = mem_format("%s/%s/os.py", lib, entry->d_name);

		if (strncmp(entry->d_name, "python3.", 8) != 0)
			continue;
		through = through || leads_through(look, packages, NULL) ||
			  leads_through(look, os, NULL);
		*standard = *standard || access(os, R_OK) == 0;
	}
	if (directory)
		closedir(directory);
	return through;
}

/* The interpreters in a folder of them. */
static void show_programs(const struct look *look, const char *folder)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)) != NULL) {
		cleanup_free char *path = NULL;

		if (strncmp(entry->d_name, "python", 6) != 0)
			continue;
		path = mem_format("%s/%s", folder, entry->d_name);
		if (is_program(path) && !leads_through(look, path, NULL))
			show(look, path);
	}
	if (directory)
		closedir(directory);
}

static void add_folder(struct look *look, char *folder)
{
	for (size_t i = 0; i < look->folder_count; i++) {
		if (strcmp(look->folders[i], folder) == 0) {
			free(folder);
			return;
		}
	}
	look->folders[look->folder_count++] = folder;
}

/* A folder of an interpreter: can the session change it or its libraries? What must be shown? */
static void look_at_folder(const struct look *look, const char *folder)
{
	cleanup_free char *prefix = parent_of(folder);
	cleanup_free char *lib = mem_format("%s/lib", prefix);
	bool standard;
	bool through = library_leads_through(look, lib, &standard);

	through = leads_through(look, folder, NULL) || through;
	/* The other way round: a workspace in the midst of the libraries. */
	if (look->workspace && (mounts_inside(&look->mounts, look->workspace, lib) ||
				mounts_inside(&look->mounts, look->workspace, folder)))
		through = true;
	look->reach->writable = look->reach->writable || through;
	if (through || !standard || !look->show)
		return;
	show(look, lib);
	show_programs(look, folder);
}

/* What the user has named, and not the session: it is shown whole, unless /workspace has it. */
static void show_environment(const struct look *look, const char *python, bool is_venv)
{
	cleanup_free char *inside = reach_inside(python, look->workspace ? look->workspace : "/");
	cleanup_free char *folder = parent_of(python);
	cleanup_free char *prefix = parent_of(folder);
	cleanup_free char *lib = mem_format("%s/lib", prefix);
	bool standard;

	(void)library_leads_through(look, lib, &standard);
	if ((is_venv || standard) && strcmp(inside, python) == 0)
		show(look, prefix);
}

static void find(struct reach *reach, const char *python, const char *workspace, bool show)
{
	struct look look = {.reach = reach, .show = show, .mounts = MOUNTS_INIT};
	cleanup_free char *real = realpath(python, NULL);
	cleanup_free char *out = NULL;
	char *home = read_home(python);

	(void)mounts_read(&look.mounts);
	look.workspace = realpath(workspace, NULL);
	reach->writable = leads_through(&look, python, &out);
	add_folder(&look, parent_of(python));
	if (out)
		add_folder(&look, parent_of(out));
	else if (real)
		add_folder(&look, parent_of(real));
	if (show)
		show_environment(&look, python, home != NULL);
	if (home)
		add_folder(&look, home);
	for (size_t i = 0; i < look.folder_count; i++)
		look_at_folder(&look, look.folders[i]);
	for (size_t i = 0; i < look.folder_count; i++)
		free(look.folders[i]);
	mounts_release(&look.mounts);
	free(look.workspace);
}

void reach_find(struct reach *reach, const char *python, const char *workspace)
{
	find(reach, python, workspace, true);
}

bool reach_is_writable(const char *python, const char *workspace)
{
	struct reach reach = REACH_INIT;
	bool writable;

	find(&reach, python, workspace, false);
	writable = reach.writable;
	reach_release(&reach);
	return writable;
}

char *reach_inside(const char *python, const char *workspace)
{
	cleanup_free char *folder = parent_of(python);
	cleanup_free char *real = realpath(folder, NULL);
	cleanup_free char *top = realpath(workspace, NULL);
	size_t len = top ? strlen(top) : 0;
	const char *name = strrchr(python, '/');

	if (!real || !name || len < 2 || strncmp(real, top, len) != 0 ||
	    (real[len] != '/' && real[len] != '\0'))
		return mem_string(python);
	return mem_format("/workspace%s%s", real + len, name);
}
