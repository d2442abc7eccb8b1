/*
 * Putting aside; see guard.h.
 */
#include "keeper/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "files/answer.h"
#include "files/tree.h"

enum { PAUSE_MS_MIN = 250, PAUSE_MS_MAX = 60000, PART_OF_TIME = 50, TRIES = 100 };

static const char HELD[] = "held-by-fumehood";

struct guard {
	struct tree tree;
	const char *const *patterns;
	struct protect_list known;
	bool incomplete; /* something was not looked at, or cannot be made read-only */
	int64_t took_us; /* the last look */
};

struct guard *guard_new(const char *workspace, const char *const *patterns)
{
	struct guard *guard = mem_zalloc(sizeof(*guard));

	guard->tree = (struct tree)TREE_INIT;
	guard->patterns = patterns;
	if (tree_open(&guard->tree, workspace, NULL) != 0) {
		guard_free(guard);
		return NULL;
	}
	protect_find(guard->tree.root, patterns, PROTECT_NAMES_MAX, &guard->known);
	guard->incomplete = guard->known.incomplete || guard->known.count > PROTECT_MOUNTS_MAX;
	return guard;
}

void guard_free(struct guard *guard)
{
	if (!guard)
		return;
	protect_list_release(&guard->known);
	tree_release(&guard->tree);
	free(guard);
}

/* "<name>.held-by-fumehood", with a number where that is taken, and without the name where it would
 * be too long. */
static char *held_name(const char *name, int number)
{
	size_t room = TREE_NAME_BYTES_MAX - sizeof(HELD) - 5;
	const char *front = strlen(name) <= room ? name : "";

	return number ? mem_format("%s.%s-%d", front, HELD, number)
		      : mem_format("%s.%s", front, HELD);
}

/* Gives it another name. The name is owned by the caller; NULL with errno. */
static char *put_aside(const struct guard *guard, const char *path)
{
	cleanup_ids struct tree_ids ids = tree_enter(&guard->tree);
	const char *name;
	cleanup_fd int folder = tree_open_parent(&guard->tree, path, false, &name, NULL);

	for (int number = 0; folder >= 0 && number < TRIES; number++) {
		cleanup_free char *held = held_name(name, number);

		if (renameat2(folder, name, folder, held, RENAME_NOREPLACE) == 0)
			return mem_take(held);
		if (errno != EEXIST)
			break;
	}
	return NULL;
}

static struct json *deal_with(const struct guard *guard, const char *path)
{
	cleanup_free char *held = put_aside(guard, path);
	const char *why = strerror(errno);
	struct json *item = json_new_object();

	answer_set_name(item, "path", path, strlen(path));
	if (held)
		answer_set_name(item, "held_as", held, strlen(held));
	else
		json_set_string(item, "error", why);
	return item;
}

struct json *guard_look(struct guard *guard, bool last)
{
	cleanup_protect struct protect_list found = PROTECT_LIST_INIT;
	int64_t begin_us = clock_monotonic_us();
	struct json *items = NULL;

	protect_find(guard->tree.root, guard->patterns,
		     last ? PROTECT_ALL_NAMES_MAX : PROTECT_NAMES_MAX, &found);
	guard->incomplete = guard->incomplete || found.incomplete;
	for (size_t i = 0; i < found.count; i++) {
		if (protect_has(&guard->known, &found.items[i]))
			continue;
		if (!items)
			items = json_new_array();
		json_push(items, deal_with(guard, found.items[i].path));
	}
	guard->took_us = clock_monotonic_us() - begin_us;
	return items;
}

uint64_t guard_pause_ms(const struct guard *guard)
{
	int64_t pause_ms = guard->took_us * PART_OF_TIME / 1000;

	return (uint64_t)(pause_ms < PAUSE_MS_MIN   ? PAUSE_MS_MIN
			  : pause_ms > PAUSE_MS_MAX ? PAUSE_MS_MAX
						    : pause_ms);
}

bool guard_is_incomplete(const struct guard *guard)
{
	return guard->incomplete;
}

const char *const *guard_patterns(const struct guard *guard)
{
	return guard->patterns;
}
