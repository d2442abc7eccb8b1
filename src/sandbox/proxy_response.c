/*
 * The head of the response to a request that is passed on. It is the client that must be told that
 * this connection serves no second request: many servers close without saying so in a header, and a
 * client with a pool of connections would send its next request into one that is just being closed.
 *
 * Nothing else is changed, and lines are read as leniently as clients do: what a server says
 * concerns the guest alone.
 */
#include "sandbox/proxy_http.h"

#include <string.h>
#include <strings.h>

static const char *const DROPPED[] = {"connection:", "proxy-connection:", "keep-alive:"};

/* The length of the head with its empty line; 0: it is not whole yet. */
static size_t head_length(const char *bytes, size_t len)
{
	const char *at = bytes;
	const char *end = bytes + len;

	while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		at++;
		if (at < end && *at == '\n')
			return (size_t)(at + 1 - bytes);
		if (end - at >= 2 && at[0] == '\r' && at[1] == '\n')
			return (size_t)(at + 2 - bytes);
	}
	return 0;
}

static bool is_dropped(const char *line, size_t len)
{
	for (size_t i = 0; i < sizeof(DROPPED) / sizeof(DROPPED[0]); i++) {
		size_t name = strlen(DROPPED[i]);

		if (len >= name && strncasecmp(line, DROPPED[i], name) == 0)
			return true;
	}
	return false;
}

/* 100 and the like announce another head; after 101 there is none. */
static bool is_interim(const char *head, size_t len)
{
	return len > 12 && head[8] == ' ' && head[9] == '1' && memcmp(head + 9, "101", 3) != 0;
}

static void write_head(const char *head, size_t len, struct buf *out)
{
	const char *end = head + len;
	const char *line = head;

	while (line < end) {
		size_t size =
			(size_t)((const char *)memchr(line, '\n', (size_t)(end - line)) + 1 - line);

		if (line + size == end)
			buf_append_string(out, "Connection: close\r\n");
		if (!is_dropped(line, size))
			buf_append(out, line, size);
		line += size;
	}
}

enum proxy_outcome proxy_response_rewrite(const char *bytes, size_t len, size_t *used,
					  struct buf *out)
{
	static const char version[] = "HTTP/1.";
	const size_t version_len = sizeof(version) - 1;

	*used = 0;
	for (;;) {
		const char *head = bytes + *used;
		size_t left = len - *used;
		size_t size;

		if (memcmp(head, version, left < version_len ? left : version_len) != 0)
			return PROXY_REFUSED;
		size = head_length(head, left);
		if (size == 0)
			return left > PROXY_HTTP_HEAD_MAX ? PROXY_REFUSED : PROXY_MORE;
		*used += size;
		if (!is_interim(head, size)) {
			write_head(head, size, out);
			return PROXY_DONE;
		}
		buf_append(out, head, size);
	}
}
