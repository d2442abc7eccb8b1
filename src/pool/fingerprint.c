/*
 * Fingerprint of an environment; fingerprint.h says what for.
 *
 * The sum over a directory must not depend on the order of readdir(3), so each name is hashed with
 * its inode (FNV-1a, 64 bit) and the hashes are added. A package that is installed again has the
 * same names, and often the same inodes: the time of its metadata folder and of plain files is
 * hashed too. That of other folders is not, since the first import puts a __pycache__ into them. It
 * guards against mistakes, not against an attacker: who can write site-packages can do anything in
 * this zygote anyway.
 */
#include "pool/fingerprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "base/mem.h"

void fingerprint_init(struct fingerprint *print)
{
	print->count = 0;
}

void fingerprint_release(struct fingerprint *print)
{
	for (size_t i = 0; i < print->count; i++)
		free(print->entries[i].path);
	print->count = 0;
}

static bool ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static int64_t mtime_ns_of(const struct stat *status)
{
	return status->st_mtim.tv_sec * INT64_C(1000000000) + status->st_mtim.tv_nsec;
}

static uint64_t hash_entry(int directory, const struct dirent *entry)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ entry->d_ino;
	struct stat status;

	if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (!S_ISDIR(status.st_mode) || ends_with(entry->d_name, "-info")))
		hash ^= (uint64_t)mtime_ns_of(&status) * UINT64_C(0x9e3779b97f4a7c15);
	for (const char *c = entry->d_name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t sum_names(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	uint64_t sum = 0;

	if (!directory)
		return 0;
	while ((entry = readdir(directory)) != NULL) {
		/* ".." belongs to somebody else, and __pycache__ comes with the first import. */
		if (strcmp(entry->d_name, "..") != 0 && strcmp(entry->d_name, "__pycache__") != 0)
			sum += hash_entry(dirfd(directory), entry);
	}
	closedir(directory);
	return sum;
}

/* The cheap part: everything but `names`. */
static bool look(const char *path, struct fingerprint_entry *now)
{
	struct stat status;

	*now = (struct fingerprint_entry){.path = NULL};
	if (stat(path, &status) < 0)
		return false;
	now->exists = true;
	now->device = status.st_dev;
	now->inode = status.st_ino;
	now->mtime_ns = mtime_ns_of(&status);
	return S_ISDIR(status.st_mode);
}

void fingerprint_add(struct fingerprint *print, const char *path)
{
	struct fingerprint_entry *entry;

	for (size_t i = 0; i < print->count; i++) {
		if (strcmp(print->entries[i].path, path) == 0)
			return;
	}
	if (print->count == FINGERPRINT_ENTRIES_MAX)
		return;
	entry = &print->entries[print->count++];
	if (look(path, entry))
		entry->names = sum_names(path);
	entry->path = mem_string(path);
}

static void add_matches(struct fingerprint *print, const char *directory, const char *below)
{
	cleanup_free char *pattern = mem_format("%s/%s", directory, below);
	glob_t found = {.gl_pathc = 0};

	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			fingerprint_add(print, found.gl_pathv[i]);
	}
	globfree(&found);
}

void fingerprint_add_package(struct fingerprint *print, const char *directory)
{
	fingerprint_add(print, directory);
	add_matches(print, directory, "*.py");
	add_matches(print, directory, "*.so");
}

void fingerprint_add_prefix(struct fingerprint *print, const char *prefix)
{
	add_matches(print, prefix, "lib/python3*");
	add_matches(print, prefix, "lib/python3*/site-packages");
	add_matches(print, prefix, "lib/python3*/dist-packages");
	add_matches(print, prefix, "lib64/python3*/site-packages");
	if (strcmp(prefix, "/usr") == 0)
		fingerprint_add_prefix(print, "/usr/local");
}

static bool entry_changed(struct fingerprint_entry *entry)
{
	struct fingerprint_entry now;
	bool directory = look(entry->path, &now);

	if (now.exists != entry->exists || now.device != entry->device || now.inode != entry->inode)
		return true;
	if (now.mtime_ns == entry->mtime_ns)
		return false;
	if (!directory || sum_names(entry->path) != entry->names)
		return true;
	entry->mtime_ns = now.mtime_ns; /* the same names: do not read it again each time */
	return false;
}

const char *fingerprint_changed(struct fingerprint *print)
{
	for (size_t i = 0; i < print->count; i++) {
		if (entry_changed(&print->entries[i]))
			return print->entries[i].path;
	}
	return NULL;
}
