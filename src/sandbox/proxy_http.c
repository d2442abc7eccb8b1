/*
 * A head is cut into lines, the lines into names and values (borrowed slices), and only when all of
 * them have been checked is the new head written.
 */
#include "sandbox/proxy_http.h"

#include <string.h>
#include <strings.h>

struct slice {
	const char *at;
	size_t len;
};

struct header {
	struct slice name, value;
};

struct head {
	struct slice method, target;
	bool old; /* HTTP/1.0 */
	struct header headers[PROXY_HTTP_HEADERS_MAX];
	size_t count;
	const struct header *host, *length, *coding; /* NULL: not there */
	size_t connection_bytes;
};

/* Headers that concern this connection only (RFC 9110 section 7.6.1), and Host, which is written
 * anew. */
static const char *const DROPPED[] = {
	"connection", "proxy-connection", "keep-alive", "proxy-authorization", "proxy-authenticate",
	"te",         "trailer",          "upgrade",    "http2-settings",      "host",
};

/* ---- the end of the head ---- */

enum proxy_outcome proxy_http_scan(struct proxy_http_scan *scan, const char *bytes, size_t len,
				   size_t *head_len, enum refusal *refusal)
{
	for (; scan->seen < len; scan->seen++) {
		size_t i = scan->seen;
		bool after_cr = i > 0 && bytes[i - 1] == '\r';

		*refusal = REFUSAL_REQUEST_SIZE;
		if (i >= PROXY_HTTP_HEAD_MAX)
			return PROXY_REFUSED;
		*refusal = REFUSAL_REQUEST_NUL;
		if (bytes[i] == '\0')
			return PROXY_REFUSED;
		*refusal = REFUSAL_REQUEST_LINE_END;
		if ((bytes[i] == '\n') != after_cr)
			return PROXY_REFUSED;
		if (i >= 3 && memcmp(bytes + i - 3, "\r\n\r\n", 4) == 0) {
			scan->seen = i + 1;
			*head_len = i + 1;
			*refusal = REFUSAL_NONE;
			return PROXY_DONE;
		}
	}
	*refusal = REFUSAL_NONE;
	return PROXY_MORE;
}

/* ---- words ---- */

static bool is_token_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct slice slice)
{
	for (size_t i = 0; i < slice.len; i++) {
		if (!is_token_byte(slice.at[i]))
			return false;
	}
	return slice.len > 0;
}

static bool is_word(struct slice slice, const char *word)
{
	return slice.len == strlen(word) && strncasecmp(slice.at, word, slice.len) == 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct slice trim(struct slice slice)
{
	while (slice.len && is_blank(slice.at[0])) {
		slice.at++;
		slice.len--;
	}
	while (slice.len && is_blank(slice.at[slice.len - 1]))
		slice.len--;
	return slice;
}

/* Cuts `rest` at the first `c`; without one all of it is taken and false returned. */
static bool cut(struct slice *rest, char c, struct slice *part)
{
	const char *at = rest->len ? memchr(rest->at, c, rest->len) : NULL;

	*part = *rest;
	if (!at) {
		rest->at += rest->len;
		rest->len = 0;
		return false;
	}
	part->len = (size_t)(at - rest->at);
	rest->at = at + 1;
	rest->len -= part->len + 1;
	return true;
}

/* The next line without its CRLF; false: there is none, or it is not ended so. */
static bool cut_line(struct slice *rest, struct slice *line)
{
	if (!cut(rest, '\n', line) || line->len == 0 || line->at[line->len - 1] != '\r')
		return false;
	line->len--;
	return memchr(line->at, '\r', line->len) == NULL;
}

static bool is_printable(struct slice slice)
{
	for (size_t i = 0; i < slice.len; i++) {
		unsigned char c = (unsigned char)slice.at[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* ---- the head ---- */

static enum refusal read_request_line(struct head *head, struct slice line)
{
	struct slice rest = line;
	struct slice version;

	if (!is_printable(line))
		return REFUSAL_REQUEST_NUL;
	if (!cut(&rest, ' ', &head->method) || !cut(&rest, ' ', &head->target))
		return REFUSAL_REQUEST_SYNTAX;
	version = rest;
	if (!is_token(head->method) || head->method.len > PROXY_HTTP_METHOD_MAX ||
	    head->target.len == 0 || memchr(head->target.at, '\t', head->target.len))
		return REFUSAL_REQUEST_SYNTAX;
	if (version.len < 5 || memcmp(version.at, "HTTP/", 5) != 0)
		return REFUSAL_REQUEST_SYNTAX;
	head->old = version.len == 8 && memcmp(version.at, "HTTP/1.0", 8) == 0;
	if (!head->old && !(version.len == 8 && memcmp(version.at, "HTTP/1.1", 8) == 0))
		return REFUSAL_REQUEST_VERSION;
	return REFUSAL_NONE;
}

/* Remembers the headers that decide something, each of which may stand there once. */
static enum refusal note_header(struct head *head, const struct header *header)
{
	struct slice name = header->name;

	if (is_word(name, "host")) {
		if (head->host)
			return REFUSAL_REQUEST_HOST;
		head->host = header;
	} else if (is_word(name, "content-length")) {
		if (head->length)
			return REFUSAL_REQUEST_FRAMING;
		head->length = header;
	} else if (is_word(name, "transfer-encoding")) {
		if (head->coding)
			return REFUSAL_REQUEST_FRAMING;
		head->coding = header;
	} else if (is_word(name, "connection")) {
		head->connection_bytes += header->value.len;
		if (head->connection_bytes > PROXY_HTTP_CONNECTION_MAX)
			return REFUSAL_REQUEST_HEADERS;
	}
	return REFUSAL_NONE;
}

static enum refusal read_headers(struct head *head, struct slice rest)
{
	struct slice line;

	while (cut_line(&rest, &line)) {
		struct header *header = &head->headers[head->count];
		enum refusal refusal;

		if (line.len == 0)
			return rest.len == 0 ? REFUSAL_NONE : REFUSAL_REQUEST_SYNTAX;
		if (is_blank(line.at[0]))
			return REFUSAL_REQUEST_FOLD;
		if (head->count == PROXY_HTTP_HEADERS_MAX)
			return REFUSAL_REQUEST_HEADERS;
		if (!is_printable(line))
			return REFUSAL_REQUEST_NUL;
		header->value = line;
		if (!cut(&header->value, ':', &header->name) || !is_token(header->name))
			return REFUSAL_REQUEST_SYNTAX;
		header->value = trim(header->value);
		head->count++;
		refusal = note_header(head, header);
		if (refusal != REFUSAL_NONE)
			return refusal;
	}
	return REFUSAL_REQUEST_SYNTAX;
}

/* ---- what it means ---- */

static bool is_named_by_connection(const struct head *head, struct slice name)
{
	for (size_t i = 0; i < head->count; i++) {
		struct slice rest = head->headers[i].value;
		struct slice word;
		bool more = is_word(head->headers[i].name, "connection");

		while (more) {
			more = cut(&rest, ',', &word);
			word = trim(word);
			if (word.len == name.len && strncasecmp(word.at, name.at, name.len) == 0)
				return true;
		}
	}
	return false;
}

/* RFC 9112 section 6.3, without what it lets a lenient server repair. */
static enum refusal read_framing(const struct head *head, struct proxy_body *body)
{
	static const char *const kept[] = {"host", "content-length", "transfer-encoding"};

	*body = (struct proxy_body){.stage = PROXY_BODY_DONE};
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		struct slice name = {.at = kept[i], .len = strlen(kept[i])};

		if (is_named_by_connection(head, name))
			return REFUSAL_REQUEST_FRAMING;
	}
	if (head->coding) {
		if (head->length || head->old || !is_word(head->coding->value, "chunked"))
			return REFUSAL_REQUEST_FRAMING;
		body->stage = PROXY_BODY_SIZE;
		return REFUSAL_NONE;
	}
	if (!head->length)
		return REFUSAL_NONE;
	if (head->length->value.len == 0 || head->length->value.len > 18)
		return REFUSAL_REQUEST_FRAMING;
	for (size_t i = 0; i < head->length->value.len; i++) {
		char c = head->length->value.at[i];

		if (c < '0' || c > '9')
			return REFUSAL_REQUEST_FRAMING;
		body->left = body->left * 10 + (uint64_t)(c - '0');
	}
	if (body->left > 0)
		body->stage = PROXY_BODY_LENGTH;
	return REFUSAL_NONE;
}

static enum refusal check_host(const struct head *head, const struct hosts_target *target,
			       uint16_t port_default)
{
	struct hosts_target named;

	if (!head->host)
		return head->old || port_default == 0 ? REFUSAL_NONE : REFUSAL_REQUEST_HOST;
	/* After CONNECT some clients name the host without its port. */
	if (hosts_read_authority(head->host->value.at, head->host->value.len,
				 port_default ? port_default : target->port,
				 &named) != REFUSAL_NONE ||
	    !hosts_same(&named, target))
		return REFUSAL_REQUEST_HOST;
	return REFUSAL_NONE;
}

static enum refusal read_connect(const struct head *head, struct proxy_http_request *request)
{
	struct proxy_body body;
	enum refusal refusal;

	request->tunnel = true;
	buf_append(&request->asked, head->target.at, head->target.len);
	refusal = hosts_read_authority(head->target.at, head->target.len, 0, &request->target);
	if (refusal == REFUSAL_NONE)
		refusal = check_host(head, &request->target, 0);
	if (refusal == REFUSAL_NONE)
		refusal = read_framing(head, &body);
	/* A body would be taken for the tunnel's first bytes. */
	if (refusal == REFUSAL_NONE && body.stage != PROXY_BODY_DONE)
		refusal = REFUSAL_REQUEST_FRAMING;
	return refusal;
}

static bool is_dropped(const struct head *head, struct slice name)
{
	for (size_t i = 0; i < sizeof(DROPPED) / sizeof(DROPPED[0]); i++) {
		if (is_word(name, DROPPED[i]))
			return true;
	}
	return is_named_by_connection(head, name);
}

static void write_head(const struct head *head, struct slice path,
		       struct proxy_http_request *request)
{
	struct buf *out = &request->head;

	buf_append(out, head->method.at, head->method.len);
	buf_append_char(out, ' ');
	if (path.len == 0 && is_word(head->method, "options"))
		buf_append_char(out, '*'); /* RFC 9112 section 3.2.4 */
	else if (path.len == 0 || path.at[0] != '/')
		buf_append_char(out, '/');
	buf_append(out, path.at, path.len);
	buf_append_string(out, head->old ? " HTTP/1.0\r\nHost: " : " HTTP/1.1\r\nHost: ");
	hosts_write_authority(&request->target, 80, out);
	buf_append_string(out, "\r\n");
	for (size_t i = 0; i < head->count; i++) {
		const struct header *header = &head->headers[i];

		if (is_dropped(head, header->name))
			continue;
		buf_append(out, header->name.at, header->name.len);
		buf_append_string(out, ": ");
		buf_append(out, header->value.at, header->value.len);
		buf_append_string(out, "\r\n");
	}
	buf_append_string(out, head->old ? "Via: 1.0 fumehood\r\n" : "Via: 1.1 fumehood\r\n");
	buf_append_string(out, "Connection: close\r\n\r\n");
}

static enum refusal read_absolute(const struct head *head, struct proxy_http_request *request)
{
	static const char scheme[] = "http://";
	const size_t scheme_len = sizeof(scheme) - 1;
	struct slice path = head->target;
	struct slice authority;
	enum refusal refusal;

	if (path.at[0] == '/' || path.at[0] == '*')
		return REFUSAL_REQUEST_FORM;
	if (path.len < scheme_len || strncasecmp(path.at, scheme, scheme_len) != 0)
		return REFUSAL_REQUEST_SCHEME;
	path.at += scheme_len;
	path.len -= scheme_len;
	authority = path;
	authority.len = 0;
	while (path.len && !strchr("/?#", path.at[0])) {
		path.at++;
		path.len--;
		authority.len++;
	}
	buf_append(&request->asked, authority.at, authority.len);
	if (path.len && memchr(path.at, '#', path.len))
		return REFUSAL_REQUEST_SYNTAX;
	refusal = hosts_read_authority(authority.at, authority.len, 80, &request->target);
	if (refusal == REFUSAL_NONE)
		refusal = check_host(head, &request->target, 80);
	if (refusal == REFUSAL_NONE)
		refusal = read_framing(head, &request->body);
	if (refusal == REFUSAL_NONE)
		write_head(head, path, request);
	return refusal;
}

enum refusal proxy_http_read(const char *bytes, size_t len, struct proxy_http_request *request)
{
	struct head head = {.count = 0};
	struct slice rest = {.at = bytes, .len = len};
	struct slice line;
	enum refusal refusal = REFUSAL_NONE;

	request->body.stage = PROXY_BODY_DONE;
	if (len > PROXY_HTTP_HEAD_MAX)
		return REFUSAL_REQUEST_SIZE;
	if (!cut_line(&rest, &line))
		return REFUSAL_REQUEST_SYNTAX;
	refusal = read_request_line(&head, line);
	if (refusal != REFUSAL_NONE)
		return refusal;
	refusal = read_headers(&head, rest);
	if (refusal != REFUSAL_NONE)
		return refusal;
	if (head.method.len == 7 && memcmp(head.method.at, "CONNECT", 7) == 0)
		return read_connect(&head, request);
	return read_absolute(&head, request);
}

void proxy_http_release(struct proxy_http_request *request)
{
	buf_release(&request->asked);
	buf_release(&request->head);
}

/* ---- answers ---- */

static const char *status_text(int status)
{
	switch (status) {
	case 403:
		return "Forbidden";
	case 408:
		return "Request Timeout";
	case 431:
		return "Request Header Fields Too Large";
	case 502:
		return "Bad Gateway";
	case 503:
		return "Service Unavailable";
	case 504:
		return "Gateway Timeout";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Bad Request";
	}
}

void proxy_http_refuse(enum refusal refusal, const char *shown, struct buf *out)
{
	cleanup_buf struct buf text = BUF_INIT;
	int status = refusal_http_status(refusal);

	buf_printf(&text, "Fumehood: %s %s (%s).\n", *shown ? shown : "a host",
		   refusal_text(refusal), refusal_name(refusal));
	/* Proxy-Status: RFC 9209. */
	buf_printf(out,
		   "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		   "Content-Length: %zu\r\nProxy-Status: fumehood; details=\"%s\"\r\n"
		   "Connection: close\r\n\r\n%s",
		   status, status_text(status), text.len, refusal_name(refusal), buf_bytes(&text));
}
