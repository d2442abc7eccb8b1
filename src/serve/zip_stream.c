/*
 * An archive on its way; see zip_stream.h.
 *
 *	folders to list ─> files of one ─> header, parts, descriptor ... ─> central directory
 *
 * One question is under way at a time, and the next is asked when the client has taken what there
 * is. Links and special files are left out, as are files that have gone meanwhile.
 */
#include "serve/zip_stream.h"

#include <string.h>
#include <zlib.h>

#include "base/hash.h"
#include "base/mem.h"

enum { ENTRIES_MAX = 20000, PART_BYTES = 1 << 20, FOLDERS_MAX = 20000 };

struct zip_path {
	char *bytes;
	size_t len;
};

struct zip_list {
	struct zip_path *items;
	size_t count, taken;
};

struct zip_stream {
	struct exchange *exchange; /* kept */
	size_t base_len;           /* of the path that is archived: left out of names */
	struct zip_list folders, files;
	char *after; /* the last name of the folder that is being listed, in base64; NULL: none */
	bool asking, in_file;
	uint64_t offset; /* bytes written so far */
	uint64_t header_at, file_at;
	uint32_t crc;
	struct buf central;
	size_t count;
};

static void list_push(struct zip_list *list, const char *bytes, size_t len)
{
	if ((list->count & (list->count - 1)) == 0)
		list->items = mem_resize(list->items, list->count ? 2 * list->count : 1,
					 sizeof(*list->items));
	list->items[list->count++] = (struct zip_path){mem_copy(bytes, len), len};
}

static void list_release(struct zip_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].bytes);
	free(list->items);
}

static void zip_free(struct zip_stream *zip)
{
	struct http_request *request = zip->exchange->request;

	if (request)
		request->on_gone = request->on_drained = NULL;
	exchange_drop(zip->exchange);
	list_release(&zip->folders);
	list_release(&zip->files);
	free(zip->after);
	buf_release(&zip->central);
	free(zip);
}

/* --- the format ------------------------------------------------------------------------------- */

static void put16(struct buf *out, unsigned value)
{
	buf_append_char(out, (char)(value & 0xff));
	buf_append_char(out, (char)(value >> 8 & 0xff));
}

static void put32(struct buf *out, uint64_t value)
{
	put16(out, (unsigned)(value & 0xffff));
	put16(out, (unsigned)(value >> 16 & 0xffff));
}

enum { FLAGS = 0x0808, /* sizes follow; the name is UTF-8 */ DOS_DATE = 0x5c21 /* 2026-01-01 */ };

/* What a local header and an entry of the directory have in common (APPNOTE 4.4). */
static void put_common(struct buf *out, uint32_t crc, uint64_t bytes, size_t name_len)
{
	put16(out, 20);
	put16(out, FLAGS);
	put16(out, 0);
	put16(out, 0);
	put16(out, DOS_DATE);
	put32(out, crc);
	put32(out, bytes);
	put32(out, bytes);
	put16(out, (unsigned)name_len);
	put16(out, 0);
}

static void send_bytes(struct zip_stream *zip, const struct buf *bytes)
{
	http_write(zip->exchange->request, buf_bytes(bytes), bytes->len);
	zip->offset += bytes->len;
}

static struct slice entry_name(const struct zip_stream *zip, const struct zip_path *path)
{
	size_t skip = zip->base_len ? zip->base_len + 1 : 0;

	return (struct slice){path->bytes + skip, path->len - skip};
}

static void begin_file(struct zip_stream *zip)
{
	struct slice name = entry_name(zip, &zip->files.items[zip->files.taken]);
	cleanup_buf struct buf out = BUF_INIT;

	zip->header_at = zip->offset;
	zip->file_at = 0;
	zip->crc = (uint32_t)crc32(0, NULL, 0);
	zip->in_file = true;
	put32(&out, 0x04034b50);
	put_common(&out, 0, 0, name.len);
	buf_append(&out, name.at, name.len);
	send_bytes(zip, &out);
}

static void end_file(struct zip_stream *zip)
{
	struct slice name = entry_name(zip, &zip->files.items[zip->files.taken++]);
	cleanup_buf struct buf out = BUF_INIT;

	put32(&out, 0x08074b50);
	put32(&out, zip->crc);
	put32(&out, zip->file_at);
	put32(&out, zip->file_at);
	send_bytes(zip, &out);
	put32(&zip->central, 0x02014b50);
	put16(&zip->central, 0x0314); /* made by 2.0 on Unix */
	put_common(&zip->central, zip->crc, zip->file_at, name.len);
	put16(&zip->central, 0);
	put16(&zip->central, 0);
	put16(&zip->central, 0);
	put32(&zip->central, (uint64_t)0100644 << 16);
	put32(&zip->central, zip->header_at);
	buf_append(&zip->central, name.at, name.len);
	zip->count++;
	zip->in_file = false;
}

static void end_archive(struct zip_stream *zip)
{
	struct http_request *request = zip->exchange->request;
	uint64_t at = zip->offset;
	uint64_t len = zip->central.len;
	cleanup_buf struct buf out = BUF_INIT;

	send_bytes(zip, &zip->central);
	put32(&out, 0x06054b50);
	put32(&out, 0);
	put16(&out, (unsigned)zip->count);
	put16(&out, (unsigned)zip->count);
	put32(&out, len);
	put32(&out, at);
	put16(&out, 0);
	send_bytes(zip, &out);
	request->on_gone = NULL;
	http_end(request);
	zip_free(zip);
}

static void cut(struct zip_stream *zip)
{
	zip->exchange->request->on_gone = NULL;
	http_abort(zip->exchange->request);
	zip_free(zip);
}

/* --- asking ----------------------------------------------------------------------------------- */

static void go_on(struct zip_stream *zip);

/* The part of a file has come, or none: it has gone, or it is none that can be read. */
static void part_answered(void *data, const struct scan *scan, const struct err *err)
{
	struct zip_stream *zip = data;
	cleanup_json struct json *members = NULL;
	cleanup_buf struct buf bytes = BUF_INIT;

	zip->asking = false;
	if (!zip->exchange->request) {
		zip_free(zip);
		return;
	}
	if (!scan && zip->file_at == 0 && err->code != ERR_GONE) {
		end_file(zip);
		go_on(zip);
		return;
	}
	if (!scan || file_take_part(scan, &bytes, &members) != 0 ||
	    zip->offset + bytes.len > UINT32_MAX - (1 << 20)) {
		cut(zip);
		return;
	}
	zip->crc = (uint32_t)crc32(zip->crc, (const unsigned char *)buf_bytes(&bytes),
				   (unsigned)bytes.len);
	zip->file_at += bytes.len;
	send_bytes(zip, &bytes);
	if (zip->file_at >= (uint64_t)json_get_int(members, "total", 0) || bytes.len == 0)
		end_file(zip);
	go_on(zip);
}

static void ask_part(struct zip_stream *zip)
{
	const struct zip_path *path = &zip->files.items[zip->files.taken];
	cleanup_json struct json *fields = json_new_object();

	file_set_path(fields, path->bytes, path->len);
	json_set_int(fields, "offset", (int64_t)zip->file_at);
	json_set_int(fields, "length", PART_BYTES);
	zip->asking = true;
	live_call(zip->exchange->live, "read_file", fields, NULL, part_answered, zip);
}

static void take_entry(struct zip_stream *zip, const struct zip_path *folder,
		       const struct json *entry)
{
	const char *type = json_get_string(entry, "type");
	const char *coded = json_get_string(entry, "name_base64");
	const char *name = json_get_string(entry, "name");
	cleanup_buf struct buf path = BUF_INIT;

	buf_append(&path, folder->bytes, folder->len);
	if (path.len > 0)
		buf_append_char(&path, '/');
	if (coded)
		(void)hash_base64_decode(&path, coded, strlen(coded));
	else if (name)
		buf_append_string(&path, name);
	if (type && strcmp(type, "folder") == 0)
		list_push(&zip->folders, buf_bytes(&path), path.len);
	else if (type && strcmp(type, "file") == 0)
		list_push(&zip->files, buf_bytes(&path), path.len);
}

static void list_answered(void *data, const struct scan *scan, const struct err *err)
{
	struct zip_stream *zip = data;
	cleanup_json struct json *answer = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	const struct json *entries, *last;

	zip->asking = false;
	if (!zip->exchange->request) {
		zip_free(zip);
		return;
	}
	if (!scan && zip->exchange->request->status == 0) {
		zip->exchange->request->on_gone = NULL;
		exchange_err(zip->exchange, err);
		zip_free(zip);
		return;
	}
	if (scan) {
		scan_put_rest(&text, scan);
		answer = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	}
	entries = json_get(answer, "entries");
	if (zip->exchange->request->status == 0) {
		http_field(zip->exchange->request, "Content-Disposition",
			   "attachment; filename=\"workspace.zip\"");
		http_begin(zip->exchange->request, 200, "application/zip", UINT64_MAX);
	}
	for (size_t i = 0; i < json_length(entries); i++) {
		struct zip_path folder = zip->folders.items[zip->folders.taken];

		take_entry(zip, &folder, json_at(entries, i));
	}
	free(mem_take(zip->after));
	last = json_length(entries) ? json_at(entries, json_length(entries) - 1) : NULL;
	if (json_get_bool(answer, "more", false) && last) {
		const char *coded = json_get_string(last, "name_base64");
		const char *name = json_get_string(last, "name");
		cleanup_buf struct buf base64 = BUF_INIT;

		if (!coded)
			hash_base64_encode(&base64, name ? name : "", name ? strlen(name) : 0);
		zip->after = mem_string(coded ? coded : buf_bytes(&base64));
	} else {
		zip->folders.taken++;
	}
	if (zip->files.count > ENTRIES_MAX || zip->folders.count > FOLDERS_MAX)
		cut(zip);
	else
		go_on(zip);
}

static void ask_list(struct zip_stream *zip)
{
	const struct zip_path *path = &zip->folders.items[zip->folders.taken];
	cleanup_json struct json *fields = json_new_object();

	file_set_path(fields, path->bytes, path->len);
	if (zip->after)
		json_set_string(fields, "after_base64", zip->after);
	zip->asking = true;
	live_call(zip->exchange->live, "list_files", fields, NULL, list_answered, zip);
}

static void go_on(struct zip_stream *zip)
{
	if (zip->asking || http_full(zip->exchange->request))
		return;
	if (!zip->in_file && zip->files.taken < zip->files.count)
		begin_file(zip);
	if (zip->in_file)
		ask_part(zip);
	else if (zip->folders.taken < zip->folders.count)
		ask_list(zip);
	else
		end_archive(zip);
}

static void drained(struct http_request *request)
{
	go_on(request->data);
}

static void gone(struct http_request *request)
{
	struct zip_stream *zip = request->data;

	zip->exchange->request = NULL;
	if (!zip->asking)
		zip_free(zip);
}

void zip_stream_start(struct exchange *exchange, const char *path, size_t len)
{
	struct zip_stream *zip = mem_zalloc(sizeof(*zip));

	zip->exchange = exchange_keep(exchange);
	zip->base_len = len;
	list_push(&zip->folders, path, len);
	exchange->request->data = zip;
	exchange->request->on_gone = gone;
	exchange->request->on_drained = drained;
	ask_list(zip);
}
