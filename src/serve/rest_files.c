/*
 * Files of a workspace: listed, read with ranges, written, removed; all through the keeper, which
 * follows no path that the session could have bent (doc/protocol.md, "Files of the workspace").
 *
 * A file goes through in parts of at most 1 MiB, each asked for when the one before it has been
 * taken: neither a slow reader nor a slow writer costs more than that. What is told of a file's
 * type is its signature; and a browser that is given one saves it.
 */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "serve/exchange.h"
#include "serve/range.h"
#include "serve/zip_stream.h"

enum { PART_BYTES = 1 << 20, FIRST_BYTES = 64 << 10 };

/* --- paths ------------------------------------------------------------------------------------ */

void file_set_path(struct json *fields, const char *bytes, size_t len)
{
	cleanup_buf struct buf coded = BUF_INIT;

	if (text_is_utf8(bytes, len)) {
		json_set(fields, "path", json_new_string(bytes, len));
		return;
	}
	hash_base64_encode(&coded, bytes, len);
	json_set_string(fields, "path_base64", buf_bytes(&coded));
}

static void join_path(const struct exchange *exchange, struct buf *path)
{
	const struct target *target = &exchange->target;

	for (size_t i = exchange->rest_at; i < target->segment_count; i++) {
		if (path->len > 0)
			buf_append_char(path, '/');
		buf_append(path, target->segments[i], target->segment_lens[i]);
	}
}

/* The fields of a request about the exchange's path. */
static struct json *path_fields(const struct exchange *exchange)
{
	cleanup_buf struct buf path = BUF_INIT;
	struct json *fields = json_new_object();

	join_path(exchange, &path);
	file_set_path(fields, buf_bytes(&path), path.len);
	return fields;
}

/* Takes the answer of read_file apart: the base64 is found, not parsed. */
int file_take_part(const struct scan *scan, struct buf *bytes, struct json **members)
{
	static const char mark[] = "\"data\":\"";
	const char *end = scan->rest.at + scan->rest.len;
	const char *at = memmem(scan->rest.at, scan->rest.len, mark, sizeof(mark) - 1);
	const char *quote =
		at ? memchr(at + sizeof(mark) - 1, '"', (size_t)(end - at) - (sizeof(mark) - 1))
		   : NULL;
	cleanup_buf struct buf rest = BUF_INIT;

	if (!quote || hash_base64_decode(bytes, at + sizeof(mark) - 1,
					 (size_t)(quote - at) - (sizeof(mark) - 1)) != 0)
		return -1;
	buf_append_char(&rest, '{');
	buf_append(&rest, scan->rest.at + 1, (size_t)(at - scan->rest.at) - 1);
	buf_append_string(&rest, "\"data\":null");
	buf_append(&rest, quote + 1, (size_t)(end - quote - 1));
	*members = json_parse(buf_bytes(&rest), rest.len, &JSON_LIMITS, NULL);
	return *members ? 0 : -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct download {
	struct exchange *exchange; /* kept */
	struct json *path;         /* the fields that name it */
	bool begun, asking;
	uint64_t at, end; /* the bytes that are left: from `at` to `end` */
	uint64_t total;
	char *modified;
};

static void download_free(struct download *download)
{
	if (download->exchange->request) {
		download->exchange->request->on_drained = NULL;
		download->exchange->request->on_gone = NULL;
	}
	exchange_drop(download->exchange);
	json_free(download->path);
	free(download->modified);
	free(download);
}

static void download_answered(void *data, const struct scan *scan, const struct err *err);

static void ask_part(struct download *download, uint64_t offset, uint64_t length)
{
	cleanup_json struct json *fields = json_copy(download->path);

	json_set_int(fields, "offset", (int64_t)offset);
	json_set_int(fields, "length", (int64_t)(length > PART_BYTES ? PART_BYTES : length));
	download->asking = true;
	live_call(download->exchange->live, "read_file", fields, NULL, download_answered, download);
}

static void download_go_on(struct download *download)
{
	struct http_request *request = download->exchange->request;

	if (download->asking)
		return;
	if (download->at == download->end) {
		request->on_gone = NULL;
		http_end(request);
		download_free(download);
	} else if (!http_full(request)) {
		ask_part(download, download->at, download->end - download->at);
	}
}

static void download_drained(struct http_request *request)
{
	download_go_on(request->data);
}

/* An answer that is still to come finds the exchange without a request. */
static void download_gone(struct http_request *request)
{
	struct download *download = request->data;

	download->exchange->request = NULL;
	if (!download->asking)
		download_free(download);
}

static void put_name(struct exchange *exchange)
{
	const struct target *target = &exchange->target;
	const char *name = target->segments[target->segment_count - 1];
	cleanup_buf struct buf coded = BUF_INIT;

	for (const char *c = name; *c; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			     (*c >= '0' && *c <= '9') || strchr("-._~", *c);

		if (plain)
			buf_append_char(&coded, *c);
		else
			buf_printf(&coded, "%%%02X", (unsigned)(unsigned char)*c);
	}
	http_field(exchange->request, "Content-Disposition", "attachment; filename*=UTF-8''%s",
		   buf_bytes(&coded));
}

/* The first part has come: the answer begins. */
static int download_begin(struct download *download, const struct json *members,
			  const struct buf *bytes)
{
	struct exchange *exchange = download->exchange;
	struct http_request *request = exchange->request;
	const struct slice *field = head_find(&request->head, "range", NULL);
	enum range_kind kind = RANGE_NONE;

	download->total = (uint64_t)json_get_int(members, "total", 0);
	download->modified = mem_string(json_get_string(members, "modified"));
	download->end = download->total;
	if (field && !head_find(&request->head, "if-range", NULL))
		kind = range_read(field, download->total, &download->at, &download->end);
	http_field(request, "Accept-Ranges", "bytes");
	if (kind == RANGE_OUTSIDE) {
		http_field(request, "Content-Range", "bytes */%" PRIu64, download->total);
		exchange_problem(exchange, 416, "the file has %" PRIu64 " bytes", download->total);
		return -1;
	}
	put_name(exchange);
	http_field(request, "ETag", "\"%s-%" PRIu64 "\"",
		   download->modified ? download->modified : "", download->total);
	if (kind == RANGE_SOME)
		http_field(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
			   download->at, download->end - 1, download->total);
	download->begun = true;
	http_begin(request, kind == RANGE_SOME ? 206 : 200, file_type(buf_bytes(bytes), bytes->len),
		   download->end - download->at);
	return 0;
}

static bool same_file(const struct download *download, const struct json *members)
{
	const char *modified = json_get_string(members, "modified");

	return download->total == (uint64_t)json_get_int(members, "total", -1) && modified &&
	       download->modified && strcmp(modified, download->modified) == 0;
}

static void download_part(struct download *download, const struct scan *scan)
{
	struct http_request *request = download->exchange->request;
	cleanup_json struct json *members = NULL;
	cleanup_buf struct buf bytes = BUF_INIT;
	uint64_t offset, skip;

	if (file_take_part(scan, &bytes, &members) != 0) {
		request->on_gone = NULL;
		http_abort(request);
		download_free(download);
		return;
	}
	offset = (uint64_t)json_get_int(members, "offset", 0);
	if (!download->begun && download_begin(download, members, &bytes) != 0) {
		download_free(download);
		return;
	}
	/* Another file by now, or cut meanwhile: half of each would be worse than nothing. */
	if (!same_file(download, members) || (bytes.len == 0 && download->at < download->end)) {
		request->on_gone = NULL;
		http_abort(request);
		download_free(download);
		return;
	}
	skip = download->at - offset;
	if (offset <= download->at && skip < bytes.len) {
		uint64_t len = bytes.len - skip;

		len = len < download->end - download->at ? len : download->end - download->at;
		http_write(request, buf_bytes(&bytes) + skip, len);
		download->at += len;
	}
	if (request->is_head)
		download->at = download->end;
	download_go_on(download);
}

static void download_answered(void *data, const struct scan *scan, const struct err *err)
{
	struct download *download = data;
	struct http_request *request = download->exchange->request;

	download->asking = false;
	if (!request) {
		download_free(download);
	} else if (scan) {
		download_part(download, scan);
	} else {
		request->on_gone = NULL;
		if (download->begun)
			http_abort(request);
		else
			exchange_err(download->exchange, err);
		download_free(download);
	}
}

/* --- lists ------------------------------------------------------------------------------------ */

static void list_answered(void *data, const struct scan *scan, const struct err *err)
{
	struct exchange *exchange = data;
	cleanup_buf struct buf body = BUF_INIT;

	if (!scan) {
		exchange_err(exchange, err);
	} else {
		scan_put_rest(&body, scan);
		exchange_bytes(exchange, 200, "application/json", buf_bytes(&body), body.len);
	}
	exchange_drop(exchange);
}

static void list_folder(struct exchange *exchange)
{
	cleanup_json struct json *fields =
		exchange->rest_at == SIZE_MAX ? json_new_object() : path_fields(exchange);
	const char *after = target_param(&exchange->target, "after");
	cleanup_buf struct buf coded = BUF_INIT;
	uint64_t max = 0;

	if (after) {
		hash_base64_encode(&coded, after, strlen(after));
		json_set_string(fields, "after_base64", buf_bytes(&coded));
	}
	if (exchange_count(exchange, "max", &max, NULL) == 0 && max > 0)
		json_set_int(fields, "max", (int64_t)max);
	live_call(exchange->live, "list_files", fields, NULL, list_answered,
		  exchange_keep(exchange));
}

void rest_files_get(struct exchange *exchange)
{
	const char *format = target_param(&exchange->target, "format");
	bool folder = exchange->rest_at == SIZE_MAX || exchange->target.folder;
	struct download *download;

	if (format && strcmp(format, "zip") == 0) {
		cleanup_buf struct buf path = BUF_INIT;

		if (exchange->rest_at != SIZE_MAX)
			join_path(exchange, &path);
		zip_stream_start(exchange, buf_bytes(&path), path.len);
		return;
	}
	if (format && strcmp(format, "list") != 0) {
		exchange_problem(exchange, 400, "format is list or zip");
		return;
	}
	if (folder || format) {
		list_folder(exchange);
		return;
	}
	download = mem_zalloc(sizeof(*download));
	download->exchange = exchange_keep(exchange);
	download->path = path_fields(exchange);
	exchange->request->data = download;
	exchange->request->on_gone = download_gone;
	exchange->request->on_drained = download_drained;
	ask_part(download, 0, FIRST_BYTES);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct upload {
	struct exchange *exchange; /* kept */
	char id[HASH_ID_SIZE];
	struct buf bytes; /* that have come and were not sent */
	uint64_t sent;
	bool asking, done;
};

static void upload_free(struct upload *upload)
{
	if (upload->exchange->request) {
		upload->exchange->request->on_gone = NULL;
		upload->exchange->request->on_body = NULL;
	}
	exchange_drop(upload->exchange);
	buf_release(&upload->bytes);
	free(upload);
}

static void upload_answered(void *data, const struct scan *scan, const struct err *err);

static void send_part(struct upload *upload, bool done)
{
	struct exchange *exchange = upload->exchange;
	cleanup_json struct json *fields = path_fields(exchange);
	cleanup_buf struct buf coded = BUF_INIT;
	size_t len = upload->bytes.len < PART_BYTES ? upload->bytes.len : PART_BYTES;
	uint64_t mode = 0644;

	hash_base64_encode(&coded, buf_bytes(&upload->bytes), len);
	json_set_string(fields, "upload", upload->id);
	json_set(fields, "data", json_new_string(buf_bytes(&coded), coded.len));
	json_set_int(fields, "offset", (int64_t)upload->sent);
	if (done && exchange_count(exchange, "mode", &mode, NULL) == 0)
		json_set_int(fields, "mode", (int64_t)mode);
	json_set(fields, "done", json_new_bool(done));
	buf_consume(&upload->bytes, len);
	upload->sent += len;
	upload->asking = true;
	upload->done = done;
	live_call(exchange->live, "write_file", fields, NULL, upload_answered, upload);
}

/* Sends what is there, or waits for more of it. */
static void upload_go_on(struct upload *upload)
{
	struct exchange *exchange = upload->exchange;

	if (upload->asking)
		return;
	if (upload->bytes.len >= PART_BYTES || (exchange->body_complete && upload->bytes.len > 0)) {
		http_pause(exchange->request);
		send_part(upload, exchange->body_complete && upload->bytes.len <= PART_BYTES);
	} else if (exchange->body_complete) {
		send_part(upload, true);
	} else {
		http_resume(exchange->request); /* more may come during this call: it is the last */
	}
}

static void upload_body(struct http_request *request, const char *bytes, size_t len)
{
	struct upload *upload = request->data;

	buf_append(&upload->bytes, bytes, len);
	upload_go_on(upload);
}

static void upload_complete(struct http_request *request)
{
	struct upload *upload = request->data;

	upload->exchange->body_complete = true;
	upload_go_on(upload);
}

static void forgotten(void *data, const struct scan *scan, const struct err *err)
{
	(void)data;
	(void)scan;
	(void)err;
}

/* What has been written so far lies beside the place, under a name of the protocol's. */
static void abandon(struct upload *upload)
{
	cleanup_json struct json *fields = json_new_object();
	cleanup_buf struct buf path = BUF_INIT;
	const char *slash;

	if (upload->sent == 0)
		return;
	join_path(upload->exchange, &path);
	slash = memrchr(buf_bytes(&path), '/', path.len);
	buf_truncate(&path, slash ? (size_t)(slash - buf_bytes(&path)) + 1 : 0);
	buf_printf(&path, ".fumehood-%s.tmp", upload->id);
	file_set_path(fields, buf_bytes(&path), path.len);
	live_call(upload->exchange->live, "remove_file", fields, NULL, forgotten, NULL);
}

static void upload_gone(struct http_request *request)
{
	struct upload *upload = request->data;

	upload->exchange->request = NULL;
	if (upload->asking)
		return; /* the answer will find nobody */
	abandon(upload);
	upload_free(upload);
}

static void upload_answered(void *data, const struct scan *scan, const struct err *err)
{
	struct upload *upload = data;
	struct exchange *exchange = upload->exchange;
	cleanup_buf struct buf body = BUF_INIT;

	upload->asking = false;
	if (!exchange->request) {
		if (scan && !upload->done)
			abandon(upload);
		upload_free(upload);
	} else if (!scan) {
		exchange->request->on_gone = NULL;
		exchange_err(exchange, err);
		upload_free(upload);
	} else if (upload->done) {
		exchange->request->on_gone = NULL;
		buf_printf(&body, "{\"bytes\":%" PRIu64 "}\n", upload->sent);
		exchange_bytes(exchange, 200, "application/json", buf_bytes(&body), body.len);
		upload_free(upload);
	} else {
		upload_go_on(upload);
	}
}

void rest_files_put(struct exchange *exchange)
{
	struct http_request *request = exchange->request;
	struct upload *upload;
	uint64_t mode = 0644;

	if (exchange_count(exchange, "mode", &mode, NULL) != 0 || mode > 0777) {
		exchange_problem(exchange, 400, "mode is a number from 0 to 511");
		return;
	}
	upload = mem_zalloc(sizeof(*upload));
	upload->exchange = exchange_keep(exchange);
	hash_random_id(upload->id);
	request->data = upload;
	request->on_gone = upload_gone;
	request->on_body = upload_body;
	request->on_complete = upload_complete;
	upload_go_on(upload);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void done_answered(void *data, const struct scan *scan, const struct err *err)
{
	struct exchange *exchange = data;

	if (!scan)
		exchange_err(exchange, err);
	else
		exchange_bytes(exchange, 204, NULL, "", 0);
	exchange_drop(exchange);
}

void rest_files_delete(struct exchange *exchange)
{
	cleanup_json struct json *fields = path_fields(exchange);
	bool whole = false;

	(void)exchange_bool(exchange, "whole", &whole, NULL);
	json_set(fields, "whole", json_new_bool(whole));
	live_call(exchange->live, "remove_file", fields, NULL, done_answered,
		  exchange_keep(exchange));
}

void rest_folder_make(struct exchange *exchange)
{
	cleanup_json struct json *fields = path_fields(exchange);

	live_call(exchange->live, "make_folder", fields, NULL, done_answered,
		  exchange_keep(exchange));
}
