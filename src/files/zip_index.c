/*
 * The directory of an archive; see zip.h.
 *
 * All of it is looked at from the memory that holds the archive: each number meets a bound before
 * it is used as a place.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "files/tree.h"
#include "files/zip.h"

enum {
	END_BYTES = 22,
	END64_BYTES = 56,
	LOCATOR_BYTES = 20,
	CENTRAL_BYTES = 46,
	LOCAL_BYTES = 30,
	COMMENT_MAX = 0xffff,
	FLAG_ENCRYPTED = 1 << 0,
	FLAG_STRONG = 1 << 6,
	FLAG_UTF8 = 1 << 11,
	FLAG_MASKED = 1 << 13,
	MADE_BY_UNIX = 3,
	MADE_BY_DARWIN = 19,
	EXTRA_ZIP64 = 1,
};

#define SIGN_CENTRAL UINT32_C(0x02014b50)
#define SIGN_LOCAL UINT32_C(0x04034b50)
#define SIGN_END UINT32_C(0x06054b50)
#define SIGN_END64 UINT32_C(0x06064b50)
#define SIGN_LOCATOR UINT32_C(0x07064b50)

struct archive {
	const unsigned char *bytes;
	uint64_t len;
	uint64_t directory, directory_end, count;
};

static uint32_t get16(const unsigned char *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const unsigned char *at)
{
	return get16(at) | get16(at + 2) << 16;
}

static uint64_t get64(const unsigned char *at)
{
	return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static int bad(struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "the archive is refused: %s", what);
}

static int bad_entry(struct err *err, const char *name, size_t len, const char *what)
{
	cleanup_buf struct buf shown = BUF_INIT;

	text_escape(&shown, name, len, false, false);
	return err_set(err, ERR_INVALID, "the archive is refused: %.100s %s", buf_bytes(&shown),
		       what);
}

/* --- names --- */

static bool is_drive(const char *name, size_t len)
{
	char letter = len > 1 ? name[0] | 0x20 : 0;

	return len > 2 && letter >= 'a' && letter <= 'z' && name[1] == ':' &&
	       (name[2] == '/' || name[2] == '\\');
}

/* ".." between separators of either kind. */
static bool goes_up(const char *name, size_t len)
{
	size_t from = 0;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && name[i] != '/' && name[i] != '\\')
			continue;
		if (i - from == 2 && memcmp(name + from, "..", 2) == 0)
			return true;
		from = i + 1;
	}
	return false;
}

int zip_check_name(const char *name, size_t len, struct err *err)
{
	struct err why = ERR_INIT;

	if (len == 0)
		return bad(err, "an entry has no name");
	if (memchr(name, '\0', len))
		return bad_entry(err, name, len, "has a NUL in its name");
	if (name[0] == '/' || name[0] == '\\' || is_drive(name, len))
		return bad_entry(err, name, len, "is an absolute path");
	if (goes_up(name, len))
		return bad_entry(err, name, len, "leads out of the folder");
	if (tree_check_path(name, len, &why) != 0 || (len == 1 && name[0] == '.'))
		return bad_entry(err, name, len, "is no clean path");
	return 0;
}

/* --- the end of the archive --- */

static int take_end64(struct archive *archive, uint64_t end, struct err *err)
{
	const unsigned char *locator, *record;
	uint64_t at;

	if (end < LOCATOR_BYTES + END64_BYTES)
		return bad(err, "its end is damaged");
	locator = archive->bytes + end - LOCATOR_BYTES;
	at = get64(locator + 8);
	if (get32(locator) != SIGN_LOCATOR || at > end - LOCATOR_BYTES - END64_BYTES)
		return bad(err, "its end is damaged");
	record = archive->bytes + at;
	if (get32(record) != SIGN_END64 || get64(record + 4) != end - LOCATOR_BYTES - at - 12)
		return bad(err, "its end is damaged");
	if (get32(record + 16) != 0 || get32(record + 20) != 0 || get32(locator + 4) != 0 ||
	    get64(record + 24) != get64(record + 32))
		return err_set(err, ERR_UNSUPPORTED, "the archive is a part of several");
	archive->count = get64(record + 32);
	archive->directory = get64(record + 48);
	archive->directory_end = at;
	if (archive->directory > at || get64(record + 40) != at - archive->directory)
		return bad(err, "something lies before its beginning or in its end");
	return 0;
}

static int take_end(struct archive *archive, uint64_t end, struct err *err)
{
	const unsigned char *record = archive->bytes + end;
	uint32_t size = get32(record + 12), directory = get32(record + 16);

	if (get16(record + 10) == 0xffff || size == UINT32_MAX || directory == UINT32_MAX)
		return take_end64(archive, end, err);
	if (get16(record + 4) != 0 || get16(record + 6) != 0 ||
	    get16(record + 8) != get16(record + 10))
		return err_set(err, ERR_UNSUPPORTED, "the archive is a part of several");
	archive->count = get16(record + 10);
	archive->directory = directory;
	archive->directory_end = end;
	if (directory > end || size != end - directory)
		return bad(err, "something lies before its beginning or in its end");
	return 0;
}

static int find_end(struct archive *archive, struct err *err)
{
	for (uint64_t comment = 0; comment <= COMMENT_MAX && comment + END_BYTES <= archive->len;
	     comment++) {
		uint64_t at = archive->len - END_BYTES - comment;

		if (get32(archive->bytes + at) == SIGN_END &&
		    get16(archive->bytes + at + 20) == comment)
			return take_end(archive, at, err);
	}
	return err_set(err, ERR_INVALID, "this is no ZIP archive, or only the beginning of one");
}

/* --- entries --- */

/* Numbers of more than 32 bits are in an extra field, in this order, each only if it has to be. */
static int take_zip64(const unsigned char *extra, size_t len, struct zip_entry *entry)
{
	uint64_t *const wanted[] = {entry->bytes == UINT32_MAX ? &entry->bytes : NULL,
				    entry->packed == UINT32_MAX ? &entry->packed : NULL,
				    entry->start == UINT32_MAX ? &entry->start : NULL};
	bool any = wanted[0] || wanted[1] || wanted[2];

	while (any && len >= 4) {
		size_t size = get16(extra + 2);

		if (size > len - 4)
			return -1;
		if (get16(extra) == EXTRA_ZIP64) {
			const unsigned char *at = extra + 4;

			for (size_t i = 0; i < 3; i++) {
				if (!wanted[i])
					continue;
				if (size < 8)
					return -1;
				*wanted[i] = get64(at);
				at += 8;
				size -= 8;
			}
			return 0;
		}
		extra += 4 + size;
		len -= 4 + size;
	}
	return any ? -1 : 0;
}

static int check_kind(const struct zip_entry *entry, mode_t type, uint32_t flags, struct err *err)
{
	const char *name = entry->name;
	size_t len = entry->name_len;

	if (flags & (FLAG_ENCRYPTED | FLAG_STRONG | FLAG_MASKED))
		return bad_entry(err, name, len, "is encrypted");
	if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
		return bad_entry(err, name, len, "is packed by a method other than deflate");
	if (entry->method == ZIP_STORED && entry->packed != entry->bytes)
		return bad_entry(err, name, len, "has two sizes");
	if (S_ISLNK(type))
		return bad_entry(err, name, len, "is a symlink");
	if (type != 0 && !(entry->folder ? S_ISDIR(type) : S_ISREG(type)))
		return bad_entry(err, name, len, "is neither file nor folder");
	if (entry->folder && entry->bytes != 0)
		return bad_entry(err, name, len, "is a folder with content");
	if ((flags & FLAG_UTF8) && !text_is_utf8(name, len))
		return bad_entry(err, name, len, "says that its name is UTF-8, which it is not");
	return zip_check_name(name, len, err);
}

/* The entry's own header must say the same. */
static int check_local(const struct archive *archive, struct zip_entry *entry, bool slash,
		       uint32_t flags, struct err *err)
{
	size_t len = entry->name_len + slash;
	const unsigned char *local;

	if (entry->start > archive->directory || archive->directory - entry->start < LOCAL_BYTES)
		return bad_entry(err, entry->name, entry->name_len, "lies outside of it");
	local = archive->bytes + entry->start;
	if (get32(local) != SIGN_LOCAL || get16(local + 26) != len ||
	    archive->directory - entry->start - LOCAL_BYTES < len + get16(local + 28) ||
	    memcmp(local + LOCAL_BYTES, entry->name, len) != 0 ||
	    get16(local + 8) != entry->method ||
	    ((get16(local + 6) ^ flags) & (FLAG_ENCRYPTED | FLAG_UTF8)))
		return bad_entry(err, entry->name, entry->name_len, "has two different headers");
	entry->data = entry->start + LOCAL_BYTES + len + get16(local + 28);
	if (entry->packed > archive->directory - entry->data)
		return bad_entry(err, entry->name, entry->name_len, "lies outside of it");
	return 0;
}

static mode_t unix_mode(const unsigned char *central)
{
	uint32_t maker = central[5];

	return maker == MADE_BY_UNIX || maker == MADE_BY_DARWIN
		       ? (mode_t)(get32(central + 38) >> 16)
		       : 0;
}

/* One entry of the directory at *at, which goes on behind it. */
static int take_entry(const struct archive *archive, uint64_t *at, struct zip_entry *entry,
		      struct err *err)
{
	const unsigned char *central = archive->bytes + *at;
	uint64_t left = archive->directory_end - *at;
	size_t name_len, extra_len, comment_len;
	bool slash;
	mode_t mode;

	if (left < CENTRAL_BYTES || get32(central) != SIGN_CENTRAL)
		return bad(err, "its directory is damaged");
	name_len = get16(central + 28);
	extra_len = get16(central + 30);
	comment_len = get16(central + 32);
	if (left - CENTRAL_BYTES < name_len + extra_len + comment_len || name_len == 0)
		return bad(err, "its directory is damaged");
	mode = unix_mode(central);
	slash = central[CENTRAL_BYTES + name_len - 1] == '/';
	*entry = (struct zip_entry){
		.name = (const char *)central + CENTRAL_BYTES,
		.name_len = name_len - slash,
		.folder = slash,
		.mode = mode & 0777 ? mode & TREE_MODE_MASK
			: slash     ? 0755
				    : 0644,
		.method = (uint16_t)get16(central + 10),
		.crc = get32(central + 16),
		.packed = get32(central + 20),
		.bytes = get32(central + 24),
		.start = get32(central + 42),
	};
	if (take_zip64(central + CENTRAL_BYTES + name_len, extra_len, entry) != 0)
		return bad_entry(err, entry->name, entry->name_len, "has no size");
	*at += CENTRAL_BYTES + name_len + extra_len + comment_len;
	if (check_kind(entry, mode & S_IFMT, get16(central + 8), err) != 0)
		return -1;
	return check_local(archive, entry, slash, get16(central + 8), err);
}

/* --- all of them --- */

static int compare_names(const struct zip_entry *a, const char *name, size_t len)
{
	int order = memcmp(a->name, name, a->name_len < len ? a->name_len : len);

	return order ? order : (a->name_len > len) - (a->name_len < len);
}

static int by_name(const void *left, const void *right)
{
	const struct zip_entry *a = *(struct zip_entry *const *)left;
	const struct zip_entry *b = *(struct zip_entry *const *)right;

	return compare_names(a, b->name, b->name_len);
}

static int by_place(const void *left, const void *right)
{
	const struct zip_entry *a = *(struct zip_entry *const *)left;
	const struct zip_entry *b = *(struct zip_entry *const *)right;

	return (a->start > b->start) - (a->start < b->start);
}

static const struct zip_entry *find(struct zip_entry *const *sorted, size_t count, const char *name,
				    size_t len)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_names(sorted[middle], name, len);

		if (order == 0)
			return sorted[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* No name twice, and no file that is a folder for another. */
static int check_names(struct zip_entry **sorted, size_t count, struct err *err)
{
	qsort(sorted, count, sizeof(struct zip_entry *), by_name);
	for (size_t i = 0; i < count; i++) {
		const struct zip_entry *entry = sorted[i];

		if (i > 0 && by_name(&sorted[i - 1], &sorted[i]) == 0)
			return bad_entry(err, entry->name, entry->name_len, "is in it twice");
		for (size_t len = 1; len < entry->name_len; len++) {
			const struct zip_entry *above =
				entry->name[len] == '/' ? find(sorted, count, entry->name, len)
							: NULL;

			if (above && !above->folder)
				return bad_entry(err, above->name, above->name_len,
						 "is a file and a folder at once");
		}
	}
	return 0;
}

static int check_places(struct zip_entry **sorted, size_t count, struct err *err)
{
	qsort(sorted, count, sizeof(struct zip_entry *), by_place);
	for (size_t i = 1; i < count; i++)
		if (sorted[i]->start < sorted[i - 1]->data + sorted[i - 1]->packed)
			return bad_entry(err, sorted[i]->name, sorted[i]->name_len,
					 "overlaps another entry");
	return 0;
}

static int check_sizes(const struct zip_index *index, uint64_t len, struct err *err)
{
	uint64_t total = 0;

	for (size_t i = 0; i < index->count; i++) {
		if (index->entries[i].bytes > ZIP_BYTES_MAX ||
		    (total += index->entries[i].bytes) > ZIP_BYTES_MAX)
			return err_set(
				err, ERR_LIMIT,
				"the archive is refused: more than %llu bytes would come out "
				"(limit zip_bytes)",
				(unsigned long long)ZIP_BYTES_MAX);
	}
	if (total > ZIP_FREE_BYTES && total / ZIP_RATIO_MAX > len)
		return err_set(err, ERR_LIMIT,
			       "the archive is refused: %llu bytes would come out of %llu, more "
			       "than %d times as many (limit zip_ratio)",
			       (unsigned long long)total, (unsigned long long)len, ZIP_RATIO_MAX);
	return 0;
}

static int check_all(const struct zip_index *index, uint64_t len, struct err *err)
{
	cleanup_free struct zip_entry **sorted =
		mem_resize(NULL, index->count + 1, sizeof(struct zip_entry *));

	for (size_t i = 0; i < index->count; i++)
		sorted[i] = &index->entries[i];
	if (check_names(sorted, index->count, err) != 0 ||
	    check_places(sorted, index->count, err) != 0)
		return -1;
	return check_sizes(index, len, err);
}

int zip_read_index(const unsigned char *bytes, size_t len, struct zip_index *index, struct err *err)
{
	struct archive archive = {.bytes = bytes, .len = len};
	uint64_t at;

	if (find_end(&archive, err) != 0)
		return -1;
	if (archive.count > ZIP_ENTRIES_MAX)
		return err_set(err, ERR_LIMIT,
			       "the archive is refused: it has more than %d entries (limit "
			       "zip_entries)",
			       ZIP_ENTRIES_MAX);
	index->entries = mem_resize(NULL, (size_t)archive.count + 1, sizeof(*index->entries));
	at = archive.directory;
	while (index->count < archive.count) {
		if (take_entry(&archive, &at, &index->entries[index->count], err) != 0)
			return -1;
		index->count++;
	}
	if (at != archive.directory_end)
		return bad(err, "its directory is damaged");
	return check_all(index, len, err);
}

void zip_index_release(struct zip_index *index)
{
	free(index->entries);
	*index = (struct zip_index)ZIP_INDEX_INIT;
}
