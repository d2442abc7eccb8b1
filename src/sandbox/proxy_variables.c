/*
 * See proxy_variables.h.
 */
#include "sandbox/proxy_variables.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static const char *const PROXIES[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
				      "http_proxy", "https_proxy", "all_proxy"};
static const char *const LOOPBACK[] = {"localhost", "127.0.0.1", "::1"};

/* Whether a rule is about this name of the loopback. */
static bool is_allowed(const struct hosts *hosts, const char *name)
{
	for (size_t i = 0; i < hosts->count; i++) {
		if (strcmp(hosts->rules[i].target.name, name) == 0)
			return true;
	}
	return false;
}

void proxy_variables(const struct hosts *hosts, uint16_t port,
		     void (*put)(void *data, const char *name, const char *value), void *data)
{
	cleanup_buf struct buf direct = BUF_INIT;
	char url[40];

	snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
	for (size_t i = 0; i < sizeof(PROXIES) / sizeof(*PROXIES); i++)
		put(data, PROXIES[i], url);
	for (size_t i = 0; i < sizeof(LOOPBACK) / sizeof(*LOOPBACK); i++) {
		if (is_allowed(hosts, LOOPBACK[i]))
			continue;
		if (direct.len)
			buf_append_char(&direct, ',');
		buf_append_string(&direct, LOOPBACK[i]);
	}
	put(data, "NO_PROXY", buf_bytes(&direct));
	put(data, "no_proxy", buf_bytes(&direct));
}
