/*
 * Comparing the layers; see overlay.h.
 *
 * A file that was copied up and has the same bytes and mode as before is no change. What was copied
 * up cannot be told from what is new: overlayfs would mark it (user.overlay.origin), but not for a
 * mount in a user namespace. So a file that somebody has removed from the directory meanwhile, and
 * the session has changed, is shown as added.
 */
#include "files/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

enum {
	BASE_FORMAT = 1,
	BASE_BYTES_MAX = 32 << 20,
	COMPARE_BYTES = 64 << 10,
	LINK_BYTES_MAX = 4096
};

static const char BASE[] = "base.json";

/* --- the folder --- */

/* Files are stamped by this clock, or by one that is up to a tick behind: so what has been changed
 * until now never has a later stamp. */
static int64_t stamp_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int write_base(int folder, const struct json *base, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, base);
	buf_append_char(&text, '\n');
	return file_replace(folder, BASE, buf_bytes(&text), text.len, 0600, err);
}

static int make_parts(int folder, struct err *err)
{
	if ((mkdirat(folder, "upper", 0755) != 0 && errno != EEXIST) ||
	    (mkdirat(folder, "work", 0755) != 0 && errno != EEXIST))
		return err_sys(err, "the folder for the changes of the workspace");
	return 0;
}

static int open_folder(int session_fd)
{
	return openat(session_fd, OVERLAY_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int overlay_prepare(int session_fd, struct err *err)
{
	cleanup_json struct json *base = NULL;
	cleanup_fd int folder = -1;

	if (mkdirat(session_fd, OVERLAY_FOLDER, 0700) != 0 && errno != EEXIST)
		return err_sys(err, "the folder for the changes of the workspace");
	folder = open_folder(session_fd);
	if (folder < 0)
		return err_sys(err, "the folder for the changes of the workspace");
	if (make_parts(folder, err) != 0)
		return -1;
	if (faccessat(folder, BASE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	base = json_new_object();
	json_set_int(base, "format", BASE_FORMAT);
	json_set_int(base, "base_ns", stamp_now());
	json_set(base, "applied", json_new_object());
	return write_base(folder, base, err);
}

int overlay_open(struct overlay *overlay, int session_fd, const char *workspace, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;
	int upper;

	overlay->folder = open_folder(session_fd);
	if (overlay->folder < 0)
		return errno == ENOENT
			       ? err_set(err, ERR_NOT_FOUND,
					 "this session keeps no changes aside: its workspace "
					 "is no :overlay, or it never ran")
			       : err_sys(err, "the changes of the workspace");
	if (file_read(overlay->folder, BASE, BASE_BYTES_MAX, &text, err) != 0)
		return -1;
	overlay->base = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, err);
	if (!overlay->base)
		return err_wrap(err, "overlay/base.json");
	if (json_get_int(overlay->base, "format", 0) != BASE_FORMAT)
		return err_set(err, ERR_UNSUPPORTED, "overlay/base.json is of another format");
	upper = openat(overlay->folder, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0)
		return err_sys(err, "the changes of the workspace");
	if (tree_adopt(&overlay->upper, upper, err) != 0)
		return -1;
	return tree_open(&overlay->lower, workspace, err);
}

void overlay_release(struct overlay *overlay)
{
	tree_release(&overlay->lower);
	tree_release(&overlay->upper);
	if (overlay->folder >= 0)
		close(overlay->folder);
	json_free(overlay->base);
	*overlay = (struct overlay)OVERLAY_INIT;
}

int overlay_discard(int session_fd, struct err *err)
{
	if (file_remove_tree(session_fd, OVERLAY_FOLDER, err) != 0)
		return -1;
	return overlay_prepare(session_fd, err);
}

/* --- comparing --- */

struct compare {
	const struct overlay *overlay;
	struct overlay_diff *diff;
	/* folders of the upper layer that are still to be read */
	struct {
		char *path;
		bool below; /* there is such a folder in the directory too */
	} * folders;
	size_t count, room;
};

void overlay_diff_release(struct overlay_diff *diff)
{
	for (size_t i = 0; i < diff->count; i++)
		free(diff->items[i].path);
	free(diff->items);
	*diff = (struct overlay_diff)OVERLAY_DIFF_INIT;
}

const char *overlay_change_name(enum overlay_change change)
{
	static const char *const names[] = {[OVERLAY_ADDED] = "added",
					    [OVERLAY_CHANGED] = "changed",
					    [OVERLAY_REMOVED] = "removed"};

	return names[change];
}

static void add_folder(struct compare *compare, const char *path, bool below)
{
	if (compare->count == compare->room) {
		compare->room = compare->room ? 2 * compare->room : 64;
		compare->folders =
			mem_resize(compare->folders, compare->room, sizeof(*compare->folders));
	}
	compare->folders[compare->count].path = mem_string(path);
	compare->folders[compare->count++].below = below;
}

static struct overlay_item *add_item(struct compare *compare, enum overlay_change change,
				     const char *path)
{
	struct overlay_diff *diff = compare->diff;

	if (diff->count == OVERLAY_ITEMS_MAX) {
		diff->incomplete = true;
		return NULL;
	}
	if ((diff->count & (diff->count - 1)) == 0)
		diff->items = mem_resize(diff->items, diff->count ? 2 * diff->count : 1,
					 sizeof(*diff->items));
	diff->items[diff->count] =
		(struct overlay_item){.change = change, .path = mem_string(path)};
	return &diff->items[diff->count++];
}

/* When the session has last known the path of the directory to be as it is. */
static int64_t known_until(const struct overlay *overlay, const char *path)
{
	cleanup_buf struct buf key = BUF_INIT;
	int64_t base_ns = json_get_int(overlay->base, "base_ns", 0);

	hash_base64_encode(&key, path, strlen(path));
	return json_get_int(json_get(overlay->base, "applied"), buf_bytes(&key), base_ns);
}

/* The newest change to anything in a folder of the directory; what cannot be seen counts as new. */
static int64_t newest_in(const struct tree *lower, const char *path,
			 const struct tree_status *status, unsigned depth)
{
	cleanup_listing struct tree_listing listing = TREE_LISTING_INIT;
	int64_t newest = status->ctime_ns;

	if (status->kind != TREE_FOLDER)
		return newest;
	if (depth == 0 || tree_list(lower, path, NULL, TREE_LIST_MAX, &listing, NULL) != 0 ||
	    listing.more || listing.incomplete)
		return INT64_MAX;
	for (size_t i = 0; i < listing.count; i++) {
		cleanup_free char *child = mem_format("%s/%s", path, listing.entries[i].name);
		int64_t of_child = newest_in(lower, child, &listing.entries[i].status, depth - 1);

		newest = of_child > newest ? of_child : newest;
	}
	return newest;
}

enum { DEPTH_MAX = 32 };

static void say_before(const struct compare *compare, struct overlay_item *item,
		       const struct tree_status *below)
{
	const struct overlay *overlay = compare->overlay;

	if (!item)
		return;
	item->before = below->kind;
	item->bytes_before = below->bytes;
	item->stale = newest_in(&overlay->lower, item->path, below, DEPTH_MAX) >
		      known_until(overlay, item->path);
}

static void add_removed(struct compare *compare, const char *path)
{
	struct tree_status below;
	struct overlay_item *item;

	if (tree_look(&compare->overlay->lower, path, &below, NULL) != 0)
		return; /* gone there too */
	item = add_item(compare, OVERLAY_REMOVED, path);
	if (item)
		item->kind = below.kind;
	say_before(compare, item, &below);
}

char *overlay_link_text(const struct tree *tree, const char *path, struct err *err)
{
	cleanup_ids struct tree_ids ids = tree_enter(tree);
	cleanup_fd int fd = tree_open_at(tree, path, O_PATH | O_NOFOLLOW, 0);
	char text[LINK_BYTES_MAX];
	ssize_t len = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof(text));

	if (len < 0) {
		tree_fail(path, err);
		return NULL;
	}
	return mem_copy(text, (size_t)len);
}

static bool links_are_equal(const struct overlay *overlay, const char *path)
{
	cleanup_free char *now = overlay_link_text(&overlay->upper, path, NULL);
	cleanup_free char *before = overlay_link_text(&overlay->lower, path, NULL);

	return now && before && strcmp(now, before) == 0;
}

/* Whether both have the same bytes. What cannot be read is different. */
static bool files_are_equal(const struct overlay *overlay, const char *path)
{
	cleanup_fd int now = tree_open_file(&overlay->upper, path, NULL);
	cleanup_fd int before = tree_open_file(&overlay->lower, path, NULL);
	cleanup_free char *room = mem_resize(NULL, 2, COMPARE_BYTES);
	off_t at = 0;

	if (now < 0 || before < 0)
		return false;
	for (;;) {
		ssize_t left = pread(now, room, COMPARE_BYTES, at);
		ssize_t right = pread(before, room + COMPARE_BYTES, COMPARE_BYTES, at);

		if (left != right || left < 0 ||
		    memcmp(room, room + COMPARE_BYTES, (size_t)left) != 0)
			return false;
		if (left == 0)
			return true;
		at += left;
	}
}

static bool is_same(const struct overlay *overlay, const char *path, const struct tree_status *now,
		    const struct tree_status *below)
{
	if (now->kind != below->kind)
		return false;
	if (now->kind == TREE_LINK)
		return links_are_equal(overlay, path);
	return now->kind == TREE_FILE && now->bytes == below->bytes &&
	       (now->mode & TREE_MODE_MASK) == (below->mode & TREE_MODE_MASK) &&
	       files_are_equal(overlay, path);
}

/* Something in the upper layer; `below`: what the directory has there, or NULL. */
static void take_present(struct compare *compare, const char *path, const struct tree_status *now,
			 const struct tree_status *below)
{
	bool merged = below && now->kind == TREE_FOLDER && below->kind == TREE_FOLDER;
	struct overlay_item *item;

	if (now->kind == TREE_FOLDER)
		add_folder(compare, path, merged);
	if (merged || (below && is_same(compare->overlay, path, now, below)))
		return;
	item = add_item(compare, below ? OVERLAY_CHANGED : OVERLAY_ADDED, path);
	if (!item)
		return;
	item->kind = now->kind;
	item->mode = now->mode;
	item->bytes = now->bytes;
	if (below)
		say_before(compare, item, below);
}

static bool is_whiteout(const struct tree_status *status)
{
	return status->is_device && status->device == makedev(0, 0);
}

static char *join(const char *folder, const char *name)
{
	return folder[0] ? mem_format("%s/%s", folder, name) : mem_string(name);
}

static void take_entry(struct compare *compare, const char *folder, bool below,
		       const struct tree_entry *entry)
{
	cleanup_free char *path = join(folder, entry->name);
	struct tree_status lower;

	if (is_whiteout(&entry->status)) {
		if (below)
			add_removed(compare, path);
		return;
	}
	if (below && tree_look(&compare->overlay->lower, path, &lower, NULL) == 0)
		take_present(compare, path, &entry->status, &lower);
	else
		take_present(compare, path, &entry->status, NULL);
}

static bool is_opaque(const struct overlay *overlay, const char *folder)
{
	cleanup_fd int fd = tree_open_at(&overlay->upper, folder, O_RDONLY | O_DIRECTORY, 0);
	char value[4];

	return fd >= 0 && fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) == 1 &&
	       value[0] == 'y';
}

/* What the directory has in a folder that is opaque, and the layer has not. */
static int take_hidden(struct compare *compare, const char *folder, struct err *err)
{
	cleanup_free char *after = NULL;
	bool more = true;

	while (more) {
		cleanup_listing struct tree_listing listing = TREE_LISTING_INIT;

		if (tree_list(&compare->overlay->lower, folder, after, TREE_LIST_MAX, &listing,
			      err) != 0)
			return -1;
		for (size_t i = 0; i < listing.count; i++) {
			cleanup_free char *path = join(folder, listing.entries[i].name);
			struct tree_status now;

			if (tree_look(&compare->overlay->upper, path, &now, NULL) != 0)
				add_removed(compare, path);
		}
		more = listing.more && listing.count > 0;
		free(after);
		after = more ? mem_string(listing.entries[listing.count - 1].name) : NULL;
	}
	return 0;
}

static int read_folder(struct compare *compare, const char *folder, bool below, struct err *err)
{
	cleanup_free char *after = NULL;
	bool more = true;

	while (more) {
		cleanup_listing struct tree_listing listing = TREE_LISTING_INIT;

		if (tree_list(&compare->overlay->upper, folder, after, TREE_LIST_MAX, &listing,
			      err) != 0)
			return -1;
		for (size_t i = 0; i < listing.count; i++)
			take_entry(compare, folder, below, &listing.entries[i]);
		compare->diff->incomplete = compare->diff->incomplete || listing.incomplete;
		more = listing.more && listing.count > 0;
		free(after);
		after = more ? mem_string(listing.entries[listing.count - 1].name) : NULL;
	}
	return below && is_opaque(compare->overlay, folder) ? take_hidden(compare, folder, err) : 0;
}

int overlay_compare(const struct overlay *overlay, struct overlay_diff *diff, struct err *err)
{
	struct compare compare = {.overlay = overlay, .diff = diff};
	int result = 0;

	add_folder(&compare, "", true);
	for (size_t i = 0; i < compare.count; i++) {
		if (result == 0 && !diff->incomplete)
			result = read_folder(&compare, compare.folders[i].path,
					     compare.folders[i].below, err);
		free(compare.folders[i].path);
	}
	free(compare.folders);
	return result;
}
