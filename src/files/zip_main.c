/*
 * fumehood-zip: archives, in a process that can do nothing else.
 *
 *	fumehood-zip unpack < archive.zip > messages
 *	fumehood-zip pack   < messages > archive.zip
 *
 * An archive comes from anywhere, and its bytes are inflated by a library. So it is done here: with
 * no environment and no descriptors but stdin and stdout, and confined before the first byte is
 * looked at (base/decoder.h), with no more memory and time than the largest archive needs. What
 * comes out are messages (zip.h), which whoever started this checks again: names, numbers and
 * sizes.
 *
 * Unpacking goes over the archive twice: first everything is inflated into nothing and its
 * checksums are compared; then its names are told, and only then is the first byte handed out. So
 * an archive that is damaged or not wanted leaves nothing half done. The archive must be a regular
 * file; should someone shorten it meanwhile, this process ends by SIGBUS, and harms nobody.
 *
 * What is packed is written as it comes, sizes behind the bytes, all times 1980-01-01: the same
 * files give the same archive.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/decoder.h"
#include "base/mem.h"
#include "base/text.h"
#include "files/tree.h"
#include "files/zip.h"

enum {
	EXIT_BAD = 1,
	EXIT_WRONG_USE = 2,
	CPU_S_MAX = 300,
	MEMORY_MIB_MAX = 256,
	INPUT_BYTES_MAX_MIB = 4096,
	PART_MAX = ZIP_DATA_MAX
};

/* `mapped`: bytes of the archive, which count as memory. */
static int confine(uint64_t mapped)
{
	const struct decoder_limits limits = {.memory_bytes =
						      ((uint64_t)MEMORY_MIB_MAX << 20) + mapped,
					      .cpu_s = CPU_S_MAX,
					      .writes_files = true};

	return decoder_confine(&limits);
}

static void put_all(const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t put = write(STDOUT_FILENO, at, len);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			_exit(EXIT_BAD);
		at += put;
		len -= (size_t)put;
	}
}

static void say_message(enum zip_kind kind, uint32_t mode, const void *bytes, size_t len)
{
	const struct zip_head head = {.kind = kind, .mode = mode, .len = len};

	put_all(&head, sizeof(head));
	put_all(bytes, len);
}

static void __attribute__((noreturn)) say_fault(const struct err *err)
{
	say_message(ZIP_FAULT, err->code, err->text, strlen(err->text));
	_exit(EXIT_BAD);
}

/* --- unpacking --- */

static void damaged(const struct zip_entry *entry)
{
	cleanup_buf struct buf shown = BUF_INIT;
	struct err err = ERR_INIT;

	text_escape(&shown, entry->name, entry->name_len, false, false);
	err_set(&err, ERR_INVALID, "the archive is refused: %.150s is damaged", buf_bytes(&shown));
	say_fault(&err);
}

/* What comes out, counted and summed; handed out with `tell`. */
struct flow {
	const struct zip_entry *entry;
	uint64_t bytes;
	uLong crc;
	bool tell;
};

static void flow_take(struct flow *flow, const unsigned char *bytes, size_t len)
{
	flow->bytes += len;
	if (flow->bytes > flow->entry->bytes)
		damaged(flow->entry);
	flow->crc = crc32(flow->crc, bytes, (uInt)len);
	if (flow->tell && len > 0)
		say_message(ZIP_DATA, 0, bytes, len);
}

static void take_stored(struct flow *flow, const unsigned char *at)
{
	uint64_t left = flow->entry->packed;

	while (left > 0) {
		size_t part = left < PART_MAX ? (size_t)left : PART_MAX;

		flow_take(flow, at, part);
		at += part;
		left -= part;
	}
}

static void take_deflated(struct flow *flow, const unsigned char *at)
{
	static unsigned char out[PART_MAX];
	z_stream stream = {.next_in = (unsigned char *)(uintptr_t)at};
	uint64_t left = flow->entry->packed;
	int result = inflateInit2(&stream, -MAX_WBITS);

	while (result == Z_OK) {
		if (stream.avail_in == 0 && left > 0) {
			stream.avail_in = left < PART_MAX ? (uInt)left : PART_MAX;
			left -= stream.avail_in;
		}
		stream.next_out = out;
		stream.avail_out = sizeof(out);
		result = inflate(&stream, Z_NO_FLUSH);
		flow_take(flow, out, sizeof(out) - stream.avail_out);
	}
	if (result != Z_STREAM_END || stream.avail_in != 0 || left != 0)
		damaged(flow->entry);
	inflateEnd(&stream);
}

static void unpack_entry(const unsigned char *archive, const struct zip_entry *entry, bool tell)
{
	struct flow flow = {.entry = entry, .crc = crc32(0, NULL, 0), .tell = tell};

	if (tell)
		say_message(entry->folder ? ZIP_FOLDER : ZIP_FILE, (uint32_t)entry->mode,
			    entry->name, entry->name_len);
	if (entry->folder)
		return;
	if (entry->method == ZIP_STORED)
		take_stored(&flow, archive + entry->data);
	else
		take_deflated(&flow, archive + entry->data);
	if (flow.bytes != entry->bytes || flow.crc != entry->crc)
		damaged(entry);
}

static int unpack(void)
{
	struct zip_index index = ZIP_INDEX_INIT;
	struct err err = ERR_INIT;
	const unsigned char *archive = NULL;
	struct stat st;

	if (fstat(STDIN_FILENO, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > (off_t)INPUT_BYTES_MAX_MIB << 20)
		return EXIT_WRONG_USE;
	if (st.st_size > 0)
		archive = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0);
	if (archive == MAP_FAILED || confine((uint64_t)st.st_size) != 0)
		return EXIT_WRONG_USE;
	if (zip_read_index(archive, (size_t)st.st_size, &index, &err) != 0)
		say_fault(&err);
	for (size_t i = 0; i < index.count; i++)
		unpack_entry(archive, &index.entries[i], false);
	for (size_t i = 0; i < index.count; i++)
		say_message(index.entries[i].folder ? ZIP_NAME_FOLDER : ZIP_NAME, 0,
			    index.entries[i].name, index.entries[i].name_len);
	for (size_t i = 0; i < index.count; i++)
		unpack_entry(archive, &index.entries[i], true);
	say_message(ZIP_DONE, 0, NULL, 0);
	zip_index_release(&index);
	return 0;
}

/* --- packing --- */

struct packer {
	uint64_t at;          /* bytes written */
	struct buf directory; /* what is to come at the end */
	uint32_t count;
};

static void get_all(void *bytes, size_t len)
{
	char *at = bytes;

	while (len > 0) {
		ssize_t got = read(STDIN_FILENO, at, len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			_exit(EXIT_BAD);
		at += got;
		len -= (size_t)got;
	}
}

/* Whoever started this stays below the bounds; beyond 32 bits nothing is written. */
static void pack_out(struct packer *packer, const void *bytes, size_t len)
{
	packer->at += len;
	if (packer->at >= UINT32_MAX)
		_exit(EXIT_BAD);
	put_all(bytes, len);
}

static void put16(struct buf *out, uint32_t value)
{
	buf_append_char(out, (char)(value & 0xff));
	buf_append_char(out, (char)(value >> 8 & 0xff));
}

static void put32(struct buf *out, uint32_t value)
{
	put16(out, value & 0xffff);
	put16(out, value >> 16);
}

enum { VERSION = 20, FLAG_SIZES_BEHIND = 1 << 3, FLAG_UTF8 = 1 << 11, DATE_1980 = 0x21 };

/* What both headers have: version to date. */
static void put_common(struct buf *out, uint32_t flags, uint32_t method)
{
	put16(out, VERSION);
	put16(out, flags);
	put16(out, method);
	put16(out, 0);
	put16(out, DATE_1980);
}

struct sums {
	uint32_t crc, packed, bytes;
};

static void put_sums(struct buf *out, const struct sums *sums)
{
	put32(out, sums->crc);
	put32(out, sums->packed);
	put32(out, sums->bytes);
}

static void note(struct packer *packer, const char *name, size_t len, uint32_t mode, uint32_t flags,
		 uint32_t method, const struct sums *sums, uint64_t start)
{
	struct buf *out = &packer->directory;

	put32(out, UINT32_C(0x02014b50));
	put16(out, 3 << 8 | VERSION); /* made on Unix */
	put_common(out, flags, method);
	put_sums(out, sums);
	put16(out, (uint32_t)len);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
	put32(out, mode << 16 | (S_ISDIR(mode) ? 0x10 : 0));
	put32(out, (uint32_t)start);
	buf_append(out, name, len);
	packer->count++;
}

static void put_local(struct packer *packer, const char *name, size_t len, uint32_t flags,
		      uint32_t method)
{
	cleanup_buf struct buf out = BUF_INIT;
	const struct sums none = {0, 0, 0};

	put32(&out, UINT32_C(0x04034b50));
	put_common(&out, flags, method);
	put_sums(&out, &none);
	put16(&out, (uint32_t)len);
	put16(&out, 0);
	buf_append(&out, name, len);
	pack_out(packer, buf_bytes(&out), out.len);
}

static void deflate_part(struct packer *packer, z_stream *stream, int flush)
{
	static unsigned char out[PART_MAX];

	do {
		stream->next_out = out;
		stream->avail_out = sizeof(out);
		if (deflate(stream, flush) == Z_STREAM_ERROR)
			_exit(EXIT_BAD);
		pack_out(packer, out, sizeof(out) - stream->avail_out);
	} while (stream->avail_out == 0);
}

/* A file's bytes come until a message of another kind, which is left in *head. */
static void pack_file(struct packer *packer, const char *name, size_t len, uint32_t mode,
		      struct zip_head *head)
{
	static unsigned char in[PART_MAX];
	uint32_t flags = FLAG_SIZES_BEHIND | (text_is_utf8(name, len) ? FLAG_UTF8 : 0);
	uint64_t start = packer->at, data;
	z_stream stream = {.next_in = NULL};
	cleanup_buf struct buf behind = BUF_INIT;
	uLong crc = crc32(0, NULL, 0);
	struct sums sums;

	put_local(packer, name, len, flags, ZIP_DEFLATED);
	data = packer->at;
	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		_exit(EXIT_BAD);
	for (get_all(head, sizeof(*head)); head->kind == ZIP_DATA; get_all(head, sizeof(*head))) {
		if (head->len > sizeof(in))
			_exit(EXIT_BAD);
		get_all(in, (size_t)head->len);
		crc = crc32(crc, in, (uInt)head->len);
		stream.next_in = in;
		stream.avail_in = (uInt)head->len;
		deflate_part(packer, &stream, Z_NO_FLUSH);
	}
	deflate_part(packer, &stream, Z_FINISH);
	if (stream.total_in >= UINT32_MAX)
		_exit(EXIT_BAD);
	sums = (struct sums){.crc = (uint32_t)crc,
			     .packed = (uint32_t)(packer->at - data),
			     .bytes = (uint32_t)stream.total_in};
	deflateEnd(&stream);
	put32(&behind, UINT32_C(0x08074b50));
	put_sums(&behind, &sums);
	pack_out(packer, buf_bytes(&behind), behind.len);
	note(packer, name, len, S_IFREG | mode, flags, ZIP_DEFLATED, &sums, start);
}

static void pack_folder(struct packer *packer, const char *name, size_t len, uint32_t mode)
{
	cleanup_free char *slashed = mem_format("%.*s/", (int)len, name);
	uint32_t flags = text_is_utf8(name, len) ? FLAG_UTF8 : 0;
	const struct sums none = {0, 0, 0};
	uint64_t start = packer->at;

	put_local(packer, slashed, len + 1, flags, ZIP_STORED);
	note(packer, slashed, len + 1, S_IFDIR | mode, flags, ZIP_STORED, &none, start);
}

static void pack_end(struct packer *packer)
{
	cleanup_buf struct buf out = BUF_INIT;
	uint64_t start = packer->at, size = packer->directory.len;

	pack_out(packer, buf_bytes(&packer->directory), packer->directory.len);
	put32(&out, UINT32_C(0x06054b50));
	put32(&out, 0);
	put16(&out, packer->count);
	put16(&out, packer->count);
	put32(&out, (uint32_t)size);
	put32(&out, (uint32_t)start);
	put16(&out, 0);
	pack_out(packer, buf_bytes(&out), out.len);
}

static int pack(void)
{
	struct packer packer = {.directory = BUF_INIT};
	struct zip_head head;
	char name[TREE_PATH_BYTES_MAX + 1];

	if (confine(0) != 0)
		return EXIT_WRONG_USE;
	get_all(&head, sizeof(head));
	while (head.kind != ZIP_DONE) {
		uint32_t kind = head.kind, mode = head.mode & TREE_MODE_MASK;
		size_t len = (size_t)head.len;

		if ((kind != ZIP_FILE && kind != ZIP_FOLDER) || len >= sizeof(name) || len == 0 ||
		    packer.count >= ZIP_ENTRIES_MAX)
			return EXIT_BAD;
		get_all(name, len);
		name[len] = '\0';
		if (kind == ZIP_FILE) {
			pack_file(&packer, name, len, mode, &head);
		} else {
			pack_folder(&packer, name, len, mode);
			get_all(&head, sizeof(head));
		}
	}
	pack_end(&packer);
	buf_release(&packer.directory);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "unpack") == 0)
		return unpack();
	if (argc == 2 && strcmp(argv[1], "pack") == 0)
		return pack();
	return EXIT_WRONG_USE;
}
