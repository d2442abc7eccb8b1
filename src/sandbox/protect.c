/*
 * Finding what is to be protected; see protect.h.
 *
 * The walk is breadth first over a list of paths, each opened anew from the root by openat2(2), as
 * files/manifest.c does it. It does not share that walk: a manifest passes over .git, which is
 * what matters most here.
 */
#include "sandbox/protect.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "sandbox/kernel.h"

enum { READ_BYTES = 32 << 10, PATTERN_BYTES_MAX = 256, PATH_BYTES_MAX = 4095 };

const char *const PROTECT_DEFAULT[] = {
	/* git: programs named in its configuration, hooks, and pointers to other ones */
	".git/hooks",
	".git/config",
	".git/config.worktree",
	".git/commondir",
	".git/info/attributes",
	".git/modules",
	".git/worktrees",
	".git:file",
	".hg/hgrc",
	/* editors and assistants: tasks, settings that name programs, servers to start */
	".vscode",
	".idea",
	".zed",
	".vim",
	".exrc",
	".nvimrc",
	".nvim.lua",
	".dir-locals.el",
	".devcontainer",
	".mcp.json",
	".claude",
	".cursor",
	".gemini",
	".codex",
	/* shells and what they load on entering a folder */
	".envrc",
	".mise.toml",
	".bashrc",
	".bash_profile",
	".bash_login",
	".bash_logout",
	".profile",
	".zshrc",
	".zshenv",
	".zprofile",
	".zlogin",
	".zlogout",
	".kshrc",
	".config/fish",
	/* package managers: registries and scripts of their own */
	".npmrc",
	".yarnrc",
	".yarnrc.yml",
	".pnpmfile.cjs",
	".cargo/config",
	".cargo/config.toml",
	/* Python: run at the start of every interpreter */
	"pyvenv.cfg",
	"sitecustomize.py",
	"usercustomize.py",
	"site-packages/*.pth",
	".ipython",
	NULL,
};

static const char FILE_ONLY[] = ":file";

/* The length of a pattern without its ":file". */
static size_t pattern_len(const char *pattern, bool *file_only)
{
	size_t len = strlen(pattern), tail = sizeof(FILE_ONLY) - 1;

	*file_only = len > tail && strcmp(pattern + len - tail, FILE_ONLY) == 0;
	return *file_only ? len - tail : len;
}

int protect_check(const char *pattern, struct err *err)
{
	bool file_only;
	size_t len = pattern_len(pattern, &file_only), parts = 1;

	for (size_t i = 0; i < len; i++)
		parts += pattern[i] == '/';
	if (len == 0 || len > PATTERN_BYTES_MAX || parts > PROTECT_PARTS_MAX || pattern[0] == '/' ||
	    pattern[len - 1] == '/' || strstr(pattern, "//"))
		return err_set(
			err, ERR_INVALID,
			"a protected place is one to %d names with '/' between them, such as "
			".git/hooks or site-packages/*.pth",
			PROTECT_PARTS_MAX);
	return 0;
}

/* The part of the path that has as many names as the pattern; NULL when it has fewer. */
static const char *tail_of(const char *path, size_t slashes)
{
	const char *at = path + strlen(path);

	while (at > path) {
		if (at[-1] == '/' && slashes-- == 0)
			return at;
		at--;
	}
	return slashes == 0 ? path : NULL;
}

static bool matches_one(const char *pattern, const char *path, bool folder)
{
	bool file_only;
	size_t len = pattern_len(pattern, &file_only), slashes = 0;
	char text[PATTERN_BYTES_MAX + 1];
	const char *tail;

	if ((file_only && folder) || len > PATTERN_BYTES_MAX)
		return false;
	memcpy(text, pattern, len);
	text[len] = '\0';
	for (size_t i = 0; i < len; i++)
		slashes += text[i] == '/';
	tail = tail_of(path, slashes);
	return tail && fnmatch(text, tail, FNM_PATHNAME | FNM_NOESCAPE) == 0;
}

bool protect_matches(const char *const *patterns, const char *path, bool folder)
{
	for (size_t i = 0; patterns && patterns[i]; i++)
		if (matches_one(patterns[i], path, folder))
			return true;
	return false;
}

bool protect_covers(const char *const *patterns, const char *path, bool folder)
{
	cleanup_free char *part = patterns ? mem_string(path) : NULL;

	while (part) {
		char *slash = strrchr(part, '/');

		if (protect_matches(patterns, part, folder))
			return true;
		if (!slash)
			break;
		*slash = '\0';
		folder = true;
	}
	return false;
}

void protect_list_release(struct protect_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].path);
	free(list->items);
	*list = (struct protect_list)PROTECT_LIST_INIT;
}

static int compare_items(const void *left, const void *right)
{
	const struct protect_item *a = left, *b = right;

	return strcmp(a->path, b->path);
}

bool protect_has(const struct protect_list *list, const struct protect_item *item)
{
	const struct protect_item *have =
		list->count ? bsearch(item, list->items, list->count, sizeof(*item), compare_items)
			    : NULL;

	return have && have->inode == item->inode &&
	       (!have->link || have->ctime_ns == item->ctime_ns);
}

/* --- the walk --- */

/* The last name of a pattern: most names are told by it not to be meant. */
struct tail {
	const char *text;
	size_t len;
	bool wild;
};

struct walk {
	int root;
	struct tail *tails;
	size_t tail_count;
	const char *const *patterns;
	struct protect_list *list;
	char **folders; /* to be read; each is freed when it has been */
	size_t count, room;
	size_t names, names_max;
};

static void take_tails(struct walk *walk)
{
	size_t count = 0;

	while (walk->patterns[count])
		count++;
	walk->tails = mem_resize(NULL, count, sizeof(*walk->tails));
	for (size_t i = 0; i < count; i++) {
		bool file_only;
		size_t len = pattern_len(walk->patterns[i], &file_only);
		const char *slash = memrchr(walk->patterns[i], '/', len);
		const char *text = slash ? slash + 1 : walk->patterns[i];

		len -= (size_t)(text - walk->patterns[i]);
		walk->tails[i] =
			(struct tail){.text = text, .len = len, .wild = strcspn(text, "*?[") < len};
	}
	walk->tail_count = count;
}

static bool matches_tail(const struct tail *tail, const char *name)
{
	char text[PATTERN_BYTES_MAX + 1];

	if (tail->len > PATTERN_BYTES_MAX)
		return false;
	memcpy(text, tail->text, tail->len);
	text[tail->len] = '\0';
	return fnmatch(text, name, FNM_NOESCAPE) == 0;
}

static bool may_be_meant(const struct walk *walk, const char *name, size_t len)
{
	for (size_t i = 0; i < walk->tail_count; i++) {
		const struct tail *tail = &walk->tails[i];

		if (tail->wild ? matches_tail(tail, name)
			       : tail->len == len && memcmp(tail->text, name, len) == 0)
			return true;
	}
	return false;
}

static void add_folder(struct walk *walk, const char *path)
{
	if (walk->count == walk->room) {
		walk->room = walk->room ? 2 * walk->room : 64;
		walk->folders = mem_resize(walk->folders, walk->room, sizeof(*walk->folders));
	}
	walk->folders[walk->count++] = mem_string(path);
}

static void add_found(struct walk *walk, const char *path, const struct stat *st)
{
	struct protect_list *list = walk->list;

	if (list->count == PROTECT_FOUND_MAX) {
		list->incomplete = true;
		return;
	}
	if ((list->count & (list->count - 1)) == 0)
		list->items = mem_resize(list->items, list->count ? 2 * list->count : 1,
					 sizeof(*list->items));
	list->items[list->count++] = (struct protect_item){
		.path = mem_string(path),
		.inode = st->st_ino,
		.ctime_ns = (int64_t)((uint64_t)st->st_ctim.tv_sec * 1000000000u +
				      (uint64_t)st->st_ctim.tv_nsec),
		.link = S_ISLNK(st->st_mode),
	};
}

/* git's own data, in which nothing is found but time lost. */
static bool is_data_of_git(const char *folder, const char *name)
{
	static const char *const names[] = {"objects", "refs", "logs", "lfs"};
	size_t len = strlen(folder);

	if (len < 4 || strcmp(folder + len - 4, ".git") != 0 || (len > 4 && folder[len - 5] != '/'))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static unsigned depth_of(const char *path)
{
	unsigned depth = 0;

	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

static void take_name(struct walk *walk, int fd, const char *folder, const struct dirent64 *item)
{
	const char *name = item->d_name;
	bool is_folder = item->d_type == DT_DIR;
	bool may_be = may_be_meant(walk, name, strlen(name));
	cleanup_free char *path = NULL;
	struct stat st;

	if (item->d_type == DT_UNKNOWN)
		is_folder = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
	if (!may_be && !is_folder)
		return;
	path = folder[0] ? mem_format("%s/%s", folder, name) : mem_string(name);
	if (may_be && protect_matches(walk->patterns, path, is_folder)) {
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			add_found(walk, path, &st);
		return;
	}
	if (!is_folder || is_data_of_git(folder, name))
		return;
	if (depth_of(path) >= PROTECT_DEPTH_MAX || strlen(path) > PATH_BYTES_MAX)
		walk->list->incomplete = true;
	else
		add_folder(walk, path);
}

/* False: no more names are looked at. */
static bool read_folder(struct walk *walk, int fd, const char *folder)
{
	_Alignas(struct dirent64) char buffer[READ_BYTES];
	ssize_t len;

	while ((len = getdents64(fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *item = (const void *)(buffer + at);

			at += item->d_reclen;
			if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
				continue;
			if (++walk->names > walk->names_max)
				return false;
			take_name(walk, fd, folder, item);
		}
	}
	if (len < 0 && errno != ENOENT)
		walk->list->incomplete = true;
	return true;
}

void protect_find(int root, const char *const *patterns, size_t names_max,
		  struct protect_list *list)
{
	struct walk walk = {
		.root = root, .patterns = patterns, .list = list, .names_max = names_max};
	bool more = true;

	if (!patterns || !patterns[0])
		return;
	take_tails(&walk);
	add_folder(&walk, "");
	for (size_t i = 0; i < walk.count; i++) {
		cleanup_free char *folder = walk.folders[i];
		cleanup_fd int fd = -1;

		if (!more)
			continue;
		fd = kernel_open(root, folder[0] ? folder : ".",
				 O_RDONLY | O_DIRECTORY | O_NONBLOCK,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
					 RESOLVE_NO_XDEV);
		if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
			list->incomplete = true;
		if (fd >= 0)
			more = read_folder(&walk, fd, folder);
		list->incomplete = list->incomplete || !more;
	}
	free(walk.folders);
	free(walk.tails);
	if (list->count > 1)
		qsort(list->items, list->count, sizeof(*list->items), compare_items);
}
