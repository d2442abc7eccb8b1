/*
 * The walk: `done` holds the part that is resolved (no symlink in it), `rest` what is still to
 * come. A symlink puts its text in front of `rest`; an absolute one starts `done` again. 40
 * symlinks are the kernel's own limit (path_resolution(7)). Nothing here is trusted at the time of
 * the mount: apply.c opens each source with RESOLVE_NO_SYMLINKS, so a path that changes in between
 * is refused, not followed.
 */
#include "sandbox/visible.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

enum { LINKS_MAX = 40 };

/* A policy may not show these; what lies in them is fine ... */
static const char *const WHOLE[] = {"/",    "/home", "/root", "/etc", "/var",
				    "/tmp", "/run",  "/mnt",  NULL};

/* ... and neither these nor anything in them: the box has its own. */
static const char *const OWN[] = {"/proc", "/sys", "/dev", "/workspace", "/mnt/data", NULL};

void visible_release(struct visible *visible)
{
	for (size_t i = 0; i < visible->link_count; i++) {
		free(visible->links[i].path);
		free(visible->links[i].text);
	}
	for (size_t i = 0; i < visible->bind_count; i++)
		free(visible->binds[i]);
	free(visible->links);
	free(visible->binds);
	free(visible->known);
	*visible = (struct visible)VISIBLE_INIT;
}

static bool is_under(const char *path, const char *top)
{
	size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static void add_link(struct visible *visible, const char *path, const char *text)
{
	size_t count = visible->link_count;

	visible->links = mem_resize(visible->links, count + 1, sizeof(*visible->links));
	visible->links[count] = (struct visible_link){mem_string(path), mem_string(text)};
	visible->link_count++;
}

static void add_bind(struct visible *visible, const char *path)
{
	size_t count = visible->bind_count;

	visible->binds = mem_resize(visible->binds, count + 1, sizeof(*visible->binds));
	visible->binds[count] = mem_string(path);
	visible->bind_count++;
}

/* Takes the last component off `done`; at the top it stays there, as /.. is /. */
static void go_up(struct buf *done)
{
	size_t len = done->len;
	const char *text = buf_bytes(done);

	while (len > 0 && text[len - 1] != '/')
		len--;
	buf_truncate(done, len ? len - 1 : 0);
}

/* Appends one component to `done`, or, when it is a symlink, notes it and puts its text in front of
 * *rest. -1 when there is nothing by that name. */
static int step(struct visible *visible, struct buf *done, const char *name, size_t len,
		char **rest)
{
	size_t before = done->len;
	char text[PATH_MAX];
	struct stat st;
	ssize_t size;
	char *longer;

	buf_append_char(done, '/');
	buf_append(done, name, len);
	/* Most paths are in /etc: one look at it is enough. */
	if (visible->known && is_under(visible->known, buf_bytes(done)))
		return 0;
	if (lstat(buf_bytes(done), &st) < 0)
		return -1;
	if (!S_ISLNK(st.st_mode))
		return 0;
	size = readlink(buf_bytes(done), text, sizeof(text) - 1);
	if (size <= 0)
		return -1;
	text[size] = '\0';
	add_link(visible, buf_bytes(done), text);
	buf_truncate(done, text[0] == '/' ? 0 : before);
	longer = mem_format("%s/%s", text, name + len);
	free(*rest);
	*rest = longer;
	return 1;
}

/* Walks `path` to its end. True when it is there; `done` is then its real path, "" for /. */
static bool walk(struct visible *visible, const char *path, struct buf *done)
{
	cleanup_free char *rest = mem_string(path);
	const char *at = rest;
	int links = 0;

	while (*at) {
		size_t len = strcspn(at, "/");
		int found;

		if (len == 0 || (len == 1 && at[0] == '.')) {
			at += len + (at[len] == '/');
			continue;
		}
		if (len == 2 && at[0] == '.' && at[1] == '.') {
			go_up(done);
			at += len;
			continue;
		}
		found = step(visible, done, at, len, &rest);
		if (found < 0 || links + found > LINKS_MAX)
			return false;
		links += found;
		at = found ? rest : at + len;
	}
	return true;
}

static void add_end(struct visible *visible, struct buf *done)
{
	struct stat st;

	if (!done->len || lstat(buf_bytes(done), &st) < 0 ||
	    (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		return;
	add_bind(visible, buf_bytes(done));
	go_up(done);
	free(visible->known);
	visible->known = mem_string(buf_bytes(done));
}

void visible_add(struct visible *visible, const char *path)
{
	cleanup_buf struct buf done = BUF_INIT;

	if (walk(visible, path, &done))
		add_end(visible, &done);
}

static bool is_home(const char *real)
{
	const char *home = getenv("HOME");

	return (strncmp(real, "/home/", 6) == 0 && !strchr(real + 6, '/')) ||
	       (home && strcmp(real, home) == 0);
}

static int check_own(const char *real, const char *shown, struct err *err)
{
	for (size_t i = 0; OWN[i]; i++) {
		if (is_under(real, OWN[i]))
			return err_set(err, ERR_DENIED,
				       "sandbox: %.120s cannot be shown: the box has "
				       "its own %s there",
				       shown, OWN[i]);
	}
	return 0;
}

static int check(const char *real, const char *shown, struct err *err)
{
	bool whole = is_home(real);

	for (size_t i = 0; WHOLE[i]; i++)
		whole = whole || strcmp(real, WHOLE[i]) == 0;
	if (whole)
		return err_set(err, ERR_DENIED,
			       "sandbox: %.150s is too much to show to a session: name a "
			       "folder in it",
			       shown);
	return check_own(real, shown, err);
}

int visible_add_checked(struct visible *visible, const char *path, struct err *err)
{
	cleanup_buf struct buf done = BUF_INIT;
	cleanup_buf struct buf shown = BUF_INIT;
	size_t before = visible->link_count;

	text_escape(&shown, path, strlen(path), false, false);
	if (path[0] != '/' || strlen(path) >= PATH_MAX)
		return err_set(err, ERR_INVALID, "sandbox: %.150s is no absolute path",
			       buf_bytes(&shown));
	if (!walk(visible, path, &done))
		return 0;
	for (size_t i = before; i < visible->link_count; i++) {
		if (check_own(visible->links[i].path, buf_bytes(&shown), err) < 0)
			return -1;
	}
	if (check(done.len ? buf_bytes(&done) : "/", buf_bytes(&shown), err) < 0)
		return -1;
	add_end(visible, &done);
	return 0;
}

/* Whether bind `index` is there already by another: one above it, or an equal one before it. */
static bool is_covered(const struct visible *visible, size_t index)
{
	const char *path = visible->binds[index];

	for (size_t i = 0; i < visible->bind_count; i++) {
		const char *other = visible->binds[i];

		if (i == index || !other || !is_under(path, other))
			continue;
		if (strcmp(path, other) != 0 || i < index)
			return true;
	}
	return false;
}

static bool link_needed(const struct visible *visible, size_t index)
{
	const char *path = visible->links[index].path;

	for (size_t i = 0; i < visible->bind_count; i++) {
		if (is_under(path, visible->binds[i]))
			return false;
	}
	for (size_t i = 0; i < index; i++) {
		if (visible->links[i].path && strcmp(path, visible->links[i].path) == 0)
			return false;
	}
	return true;
}

void visible_settle(struct visible *visible)
{
	size_t kept = 0;

	for (size_t i = 0; i < visible->bind_count; i++) {
		if (is_covered(visible, i)) {
			free(visible->binds[i]);
			visible->binds[i] = NULL;
		}
	}
	for (size_t i = 0; i < visible->bind_count; i++) {
		if (visible->binds[i])
			visible->binds[kept++] = visible->binds[i];
	}
	visible->bind_count = kept;
	kept = 0;
	for (size_t i = 0; i < visible->link_count; i++) {
		struct visible_link link = visible->links[i];

		if (link_needed(visible, i)) {
			visible->links[i].path = NULL;
			visible->links[kept++] = link;
		} else {
			free(link.path);
			free(link.text);
			visible->links[i].path = NULL;
		}
	}
	visible->link_count = kept;
}

bool visible_covers(const struct visible *visible, const char *path)
{
	for (size_t i = 0; i < visible->bind_count; i++) {
		if (is_under(path, visible->binds[i]))
			return true;
	}
	return false;
}

bool visible_links(const struct visible *visible, const char *path)
{
	for (size_t i = 0; i < visible->link_count; i++) {
		if (strcmp(path, visible->links[i].path) == 0)
			return true;
	}
	return false;
}
