/*
 * A file from a hub, by libcurl. See fetch.h.
 *
 * Going on: "Range: bytes=N-" and, when the server has marked the version with a strong ETag,
 * "If-Range", so that another version comes whole (200) instead of as the rest (206). When the
 * whole file's hash is pinned, a beginning without a mark, or from elsewhere, is gone on from as
 * well: the hash finds out. A 206 that begins elsewhere than it was asked to is refused.
 *
 * The head of the file is looked at as soon as it is there: who fetches 40 GB that nothing can run
 * should know after 64 MB.
 *
 * A token (HF_TOKEN) goes to the hub only: curl sends it to no other host after a redirect.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/fetch.h"
#include "model/gguf.h"

enum {
	TRIES_MAX = 6, /* without a byte in between */
	WAIT_FIRST_MS = 500,
	CONNECT_S = 20,
	SLOW_BYTES_S = 256, /* less than this, for SLOW_S: it hangs */
	SLOW_S = 60,
	REDIRECTS_MAX = 8,
	HEAD_AT = 64 << 20, /* where the head is looked at */
	WAIT_MS = 500,
};

struct transfer {
	const struct fetch *fetch;
	const char *url;
	CURL *easy;
	struct curl_slist *headers;
	char *etag;               /* of the last response */
	uint64_t range_at, whole; /* Content-Range: where it begins, of how much */
	bool has_range, begun, done, head_checked;
	char *linked;   /* HASH_HEX_SIZE, the caller's */
	struct err err; /* why the body was not taken */
};

bool fetch_cancelled(const struct fetch *fetch, int wait_ms)
{
	struct pollfd fd = {.fd = fetch->cancel_fd, .events = POLLIN};

	return poll(&fd, 1, wait_ms) > 0;
}

int fetch_fail_cancelled(struct err *err)
{
	return err_set(err, ERR_GONE, "interrupted; what is there is kept: pull again to go on");
}

/* --- heads ------------------------------------------------------------------------------------ */

/* The value of the line if it is the header `name`, owned by the caller. */
static char *header_value(const char *line, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	if (len <= name_len || strncasecmp(line, name, name_len) != 0 || line[name_len] != ':')
		return NULL;
	line += name_len + 1;
	len -= name_len + 1;
	while (len > 0 && (line[0] == ' ' || line[0] == '\t'))
		line++, len--;
	while (len > 0 && strchr(" \t\r\n", line[len - 1]))
		len--;
	return len < 1024 ? mem_copy(line, len) : NULL;
}

/* "bytes 5-9/10", "bytes 5-9/" followed by a star, or a star before "/10". */
static void take_range(struct transfer *transfer, const char *value)
{
	unsigned long long first = 0, last = 0, whole = 0;

	if (sscanf(value, "bytes %llu-%llu/%llu", &first, &last, &whole) >= 2) {
		transfer->has_range = true;
		transfer->range_at = first;
	} else {
		(void)sscanf(value, "bytes */%llu", &whole);
	}
	transfer->whole = whole;
}

static void take_linked(struct transfer *transfer, const char *value)
{
	size_t len = strlen(value);

	if (len != 66 || value[0] != '"')
		return;
	memcpy(transfer->linked, value + 1, 64);
	transfer->linked[64] = '\0';
	if (!hash_is_hex(transfer->linked))
		transfer->linked[0] = '\0';
}

static size_t take_header(char *line, size_t size, size_t count, void *data)
{
	struct transfer *transfer = data;
	size_t len = size * count;
	cleanup_free char *etag = header_value(line, len, "etag");
	cleanup_free char *range = header_value(line, len, "content-range");
	cleanup_free char *linked = header_value(line, len, "x-linked-etag");

	if (len > 5 && memcmp(line, "HTTP/", 5) == 0) {
		free(transfer->etag);
		transfer->etag = NULL;
		transfer->has_range = false;
		transfer->whole = 0;
	}
	if (etag) {
		free(transfer->etag);
		transfer->etag = etag[0] == '"' ? mem_take(etag) : NULL; /* W/ is a weak one */
	}
	if (range)
		take_range(transfer, range);
	if (linked)
		take_linked(transfer, linked);
	return len;
}

/* --- the body --------------------------------------------------------------------------------- */

static long response_code(const struct transfer *transfer)
{
	long code = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &code);
	return code;
}

static uint64_t body_length(const struct transfer *transfer)
{
	curl_off_t length = -1;

	curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	return length > 0 ? (uint64_t)length : 0;
}

/* Before the first byte of the body: is it the rest, or the whole? */
static int begin_body(struct transfer *transfer)
{
	const struct fetch *fetch = transfer->fetch;
	struct part *part = fetch->part;
	bool rest = response_code(transfer) == 206;
	uint64_t length = body_length(transfer), total = length;

	if (rest && (!transfer->has_range || transfer->range_at != part->bytes))
		return err_set(&transfer->err, ERR_INVALID,
			       "the server sends another piece than it was asked for");
	if (rest)
		total = transfer->whole ? transfer->whole : part->bytes + length;
	if (fetch->bytes && total && total != fetch->bytes)
		return err_set(&transfer->err, ERR_INVALID,
			       "the file there has %llu bytes, not %llu: it is another one",
			       (unsigned long long)total, (unsigned long long)fetch->bytes);
	if (!rest && part_begin(part, transfer->url, transfer->etag, total ? total : fetch->bytes,
				&transfer->err) != 0)
		return -1;
	if (rest && total)
		part->total = total;
	return length ? part_check_space(part, length, &transfer->err) : 0;
}

/* Whether what is there can be run, as soon as its head is there. */
static int check_head(struct transfer *transfer)
{
	struct part *part = transfer->fetch->part;
	cleanup_free char *bytes = mem_resize(NULL, HEAD_AT, 1);
	ssize_t got = pread(part->fd, bytes, HEAD_AT, 0);
	struct gguf gguf;
	int outcome;

	transfer->head_checked = true;
	if (got < 0)
		return err_sys(&transfer->err, "cannot read %s.part", part->name);
	outcome = gguf_read(bytes, (size_t)got, &gguf, &transfer->err);
	if (outcome == 0)
		outcome = gguf_check(&gguf, UINT64_MAX, &transfer->err);
	if (outcome >= 0)
		return 0;
	part_discard(part);
	return err_wrap(&transfer->err, "the file at %.100s cannot be run", transfer->url);
}

static size_t take_body(char *bytes, size_t size, size_t count, void *data)
{
	struct transfer *transfer = data;
	const struct fetch *fetch = transfer->fetch;
	struct part *part = fetch->part;
	size_t len = size * count;
	long code = response_code(transfer);

	if (code != 200 && code != 206)
		return len; /* a page that explains; the status is enough */
	if (!transfer->begun && begin_body(transfer) != 0)
		return 0;
	transfer->begun = true;
	if (part_append(part, bytes, len, &transfer->err) != 0)
		return 0;
	if (!transfer->head_checked && part->bytes >= HEAD_AT && check_head(transfer) != 0)
		return 0;
	if (fetch->progress)
		fetch->progress(fetch->context, part->bytes, part->total);
	return len;
}

/* --- one request ------------------------------------------------------------------------------ */

static bool is_here(const char *url)
{
	return strncmp(url, "http://", 7) == 0;
}

/* Whether the address is the hub's, to which a token may go. */
static bool is_hub(const char *url)
{
	const char *endpoint = getenv("HF_ENDPOINT");
	size_t len = endpoint ? strlen(endpoint) : 0;

	return strncmp(url, HUB_DEFAULT "/", strlen(HUB_DEFAULT) + 1) == 0 ||
	       (len > 0 && strncmp(url, endpoint, len) == 0);
}

static bool may_go_on(const struct transfer *transfer)
{
	const struct fetch *fetch = transfer->fetch;
	const struct part *part = fetch->part;

	if (part->bytes == 0)
		return false;
	return fetch->sha256 || (part->url && part->etag && strcmp(part->url, transfer->url) == 0);
}

static void add_header(struct transfer *transfer, char *line)
{
	transfer->headers = curl_slist_append(transfer->headers, line);
	free(line);
}

static void set_up(struct transfer *transfer)
{
	const struct fetch *fetch = transfer->fetch;
	const struct part *part = fetch->part;
	CURL *easy = transfer->easy;
	const char *token = getenv("HF_TOKEN");

	curl_easy_setopt(easy, CURLOPT_URL, transfer->url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, is_here(transfer->url) ? "http" : "https");
	curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR,
			 is_here(transfer->url) ? "http,https" : "https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(easy, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_S);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "fumehood/" FH_VERSION);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	if (is_here(transfer->url))
		curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	if (token && token[0] && is_hub(transfer->url)) {
		curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, token);
	}
	if (may_go_on(transfer)) {
		add_header(transfer,
			   mem_format("Range: bytes=%llu-", (unsigned long long)part->bytes));
		if (part->etag && part->url && strcmp(part->url, transfer->url) == 0)
			add_header(transfer, mem_format("If-Range: %s", part->etag));
	}
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
}

/* Runs it; the code of curl, or CURLE_ABORTED_BY_CALLBACK with transfer->err. */
static CURLcode run(struct transfer *transfer)
{
	CURLM *multi = curl_multi_init();
	CURLcode code = CURLE_FAILED_INIT;
	CURLMsg *message = NULL;
	int running = 1, left;

	if (!multi)
		return code;
	curl_multi_add_handle(multi, transfer->easy);
	while (running) {
		struct curl_waitfd cancel = {.fd = transfer->fetch->cancel_fd,
					     .events = CURL_WAIT_POLLIN};

		if (curl_multi_perform(multi, &running) != CURLM_OK || !running)
			break;
		(void)curl_multi_poll(multi, cancel.fd >= 0 ? &cancel : NULL, cancel.fd >= 0,
				      WAIT_MS, NULL);
		if (cancel.fd >= 0 && cancel.revents) {
			fetch_fail_cancelled(&transfer->err);
			code = CURLE_ABORTED_BY_CALLBACK;
			break;
		}
	}
	while ((message = curl_multi_info_read(multi, &left)))
		if (message->msg == CURLMSG_DONE)
			code = message->data.result;
	curl_multi_remove_handle(multi, transfer->easy);
	curl_multi_cleanup(multi);
	return code;
}

/* --- outcomes --------------------------------------------------------------------------------- */

enum outcome { OUTCOME_DONE, OUTCOME_AGAIN, OUTCOME_FAILED };

static enum outcome judge_status(struct transfer *transfer, long status, struct err *err)
{
	struct part *part = transfer->fetch->part;

	if (status == 200 || status == 206)
		return OUTCOME_DONE;
	if (status == 416) {
		if (transfer->whole && transfer->whole == part->bytes)
			return OUTCOME_DONE;
		if (part_begin(part, NULL, NULL, 0, err) != 0)
			return OUTCOME_FAILED;
		err_set(err, ERR_GONE, "the server has a shorter file than the part that is here");
		return OUTCOME_AGAIN;
	}
	if (status == 404 || status == 410) {
		err_set(err, ERR_NOT_FOUND, "there is nothing at %.160s (HTTP %ld)", transfer->url,
			status);
		return OUTCOME_FAILED;
	}
	if (status == 401 || status == 403) {
		err_set(err, ERR_DENIED,
			"%.120s asks who you are (HTTP %ld): accept the model's terms there, and "
			"set HF_TOKEN",
			transfer->url, status);
		return OUTCOME_FAILED;
	}
	err_set(err, ERR_GONE, "%.160s answers HTTP %ld", transfer->url, status);
	return status == 408 || status == 429 || status >= 500 ? OUTCOME_AGAIN : OUTCOME_FAILED;
}

static bool is_final(CURLcode code)
{
	switch ((int)code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_FAILED_INIT:
		return true;
	default:
		return false;
	}
}

static enum outcome judge(struct transfer *transfer, CURLcode code, bool *reached, struct err *err)
{
	long status = response_code(transfer);

	if (status)
		*reached = true;
	if (transfer->err.code != ERR_OK) {
		*err = transfer->err;
		return OUTCOME_FAILED;
	}
	if (code == CURLE_OK)
		return judge_status(transfer, status, err);
	err_set(err, code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_GONE, "%.120s: %s%s",
		transfer->url, curl_easy_strerror(code),
		*reached ? "; what is there is kept: pull again to go on" : "");
	return is_final(code) ? OUTCOME_FAILED : OUTCOME_AGAIN;
}

static enum outcome try_once(const struct fetch *fetch, const char *url, bool *reached,
			     char linked[static HASH_HEX_SIZE], struct err *err)
{
	struct transfer transfer = {.fetch = fetch,
				    .url = url,
				    .linked = linked,
				    .err = ERR_INIT,
				    .easy = curl_easy_init()};
	enum outcome outcome = OUTCOME_FAILED;

	if (!transfer.easy) {
		err_set(err, ERR_INTERNAL, "libcurl cannot be used");
		return outcome;
	}
	set_up(&transfer);
	outcome = judge(&transfer, run(&transfer), reached, err);
	curl_easy_cleanup(transfer.easy);
	curl_slist_free_all(transfer.headers);
	free(transfer.etag);
	return outcome;
}

static int check_url(const char *url, struct err *err)
{
	static const char *const here[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};

	if (strncmp(url, "https://", 8) == 0)
		return 0;
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++) {
		size_t len = strlen(here[i]);

		if (strncmp(url, here[i], len) == 0 && (url[len] == ':' || url[len] == '/'))
			return 0;
	}
	return err_set(err, ERR_INVALID, "%.160s: an address begins with https://", url);
}

int fetch_hub(const struct fetch *fetch, const char *url, bool *reached,
	      char linked[static HASH_HEX_SIZE], struct err *err)
{
	struct err why = ERR_INIT;
	unsigned tries = 0;

	*reached = false;
	linked[0] = '\0';
	if (check_url(url, err) != 0)
		return -1;
	for (;;) {
		uint64_t before = fetch->part->bytes;
		enum outcome outcome = try_once(fetch, url, reached, linked, &why);

		if (outcome == OUTCOME_DONE)
			return 0;
		tries = fetch->part->bytes > before ? 1 : tries + 1;
		/* Who cannot be reached at all is not waited for: there are the packages. */
		if (outcome == OUTCOME_FAILED || tries >= TRIES_MAX || (!*reached && tries >= 2))
			break;
		if (fetch->note)
			fetch->note(fetch->context, why.text);
		if (fetch_cancelled(fetch, WAIT_FIRST_MS << (tries - 1))) {
			fetch_fail_cancelled(&why);
			break;
		}
	}
	if (err)
		*err = why;
	return -1;
}
