/*
 * Where an OpenAI-compatible server is.
 *
 * An address is taken as people write it: with or without a slash at the end, or with the whole
 * path of the call. What could leak a key is refused (a name and password in the address) or never
 * done: redirects are not followed, so that a key goes to no other host, and .netrc is not read.
 */
#include "model/place.h"

#include <string.h>
#include <sys/un.h>

#include "base/mem.h"
#include "model/openai.h"

enum { CONNECT_MS = 15 * 1000, ADDRESS_BYTES_MAX = 2048 };

static const char CALL[] = "/chat/completions";

static void url_cleanup(CURLU **url)
{
	curl_url_cleanup(*url);
}
#define cleanup_url __attribute__((cleanup(url_cleanup)))

static void curl_text_cleanup(char **text)
{
	curl_free(*text);
}
#define cleanup_curl_text __attribute__((cleanup(curl_text_cleanup)))

static bool ends_with(const char *text, size_t len, const char *end)
{
	return len >= strlen(end) && memcmp(text + len - strlen(end), end, strlen(end)) == 0;
}

static int check_key(const char *key, struct err *err)
{
	if (strlen(key) > OPENAI_KEY_BYTES_MAX)
		return err_set(err, ERR_INVALID, "the key for the model's server is too long");
	for (const char *at = key; *at; at++)
		if (*at <= ' ' || *at > '~')
			return err_set(err, ERR_INVALID,
				       "the key for the model's server has blanks or characters "
				       "that no key has: look at its variable");
	return 0;
}

static bool is_loopback(const char *host)
{
	size_t len = strlen(host);

	return strcmp(host, "localhost") == 0 || ends_with(host, len, ".localhost") ||
	       strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

static bool has_part(CURLU *url, CURLUPart part)
{
	cleanup_curl_text char *text = NULL;

	return curl_url_get(url, part, &text, 0) == CURLUE_OK;
}

/* The address with another path; the query goes along when `query`. The caller frees it. */
static char *with_path(const CURLU *url, const char *path, bool query)
{
	cleanup_url CURLU *copy = curl_url_dup((CURLU *)(uintptr_t)url);
	cleanup_curl_text char *text = NULL;

	if (!copy || curl_url_set(copy, CURLUPART_PATH, path, 0) ||
	    (!query && curl_url_set(copy, CURLUPART_QUERY, NULL, 0)) ||
	    curl_url_get(copy, CURLUPART_URL, &text, 0))
		abort(); /* a valid address with an ASCII path: only memory can fail */
	return mem_string(text);
}

static char *call_url(const CURLU *url, const char *path, const char *call)
{
	cleanup_free char *whole = mem_format("%s%s", path, call);

	return with_path(url, whole, true);
}

static int check_address(CURLU *url, const char *base_url, struct err *err)
{
	cleanup_curl_text char *scheme = NULL;

	if (strlen(base_url) > ADDRESS_BYTES_MAX)
		return err_set(err, ERR_INVALID, "the address of the model's server is too long");
	if (curl_url_set(url, CURLUPART_URL, base_url, CURLU_NON_SUPPORT_SCHEME) ||
	    curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) ||
	    (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		return err_set(err, ERR_INVALID,
			       "\"%.80s\" is no address of a model's server: it is like "
			       "http://127.0.0.1:8080/v1 or https://host/v1",
			       base_url);
	if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
		return err_set(err, ERR_INVALID,
			       "the address of the model's server has a name or password in it: "
			       "a key belongs into the environment");
	if (has_part(url, CURLUPART_FRAGMENT))
		return err_set(err, ERR_INVALID,
			       "the address of the model's server must have no \"#\"");
	return 0;
}

int place_init(struct place *place, const char *base_url, const char *unix_socket, const char *key,
	       struct err *err)
{
	cleanup_url CURLU *url = curl_url();
	cleanup_curl_text char *path = NULL;
	cleanup_curl_text char *host = NULL;
	size_t len;

	if (!base_url || check_address(url, base_url, err))
		return base_url ? -1
				: err_set(err, ERR_INVALID, "the model's server has no address");
	if (key && key[0] && check_key(key, err))
		return -1;
	if (unix_socket && strlen(unix_socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return err_set(err, ERR_INVALID,
			       "the path of a server's socket has %zu bytes: %zu are the most",
			       strlen(unix_socket),
			       sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	if (curl_url_get(url, CURLUPART_PATH, &path, 0) ||
	    curl_url_get(url, CURLUPART_HOST, &host, 0))
		return err_set(err, ERR_INVALID, "\"%.80s\" names no host", base_url);
	len = strlen(path);
	while (len > 0 && path[len - 1] == '/')
		len--;
	if (ends_with(path, len, CALL))
		len -= strlen(CALL);
	path[len] = '\0';
	place->shown = with_path(url, path[0] ? path : "/", false);
	place->chat_url = call_url(url, path, CALL);
	place->models_url = call_url(url, path, "/models");
	if (ends_with(path, len, "/v1"))
		path[len - 3] = '\0';
	place->root_url = with_path(url, path[0] ? path : "/", false);
	if (ends_with(place->root_url, strlen(place->root_url), "/"))
		place->root_url[strlen(place->root_url) - 1] = '\0';
	place->unix_socket = mem_string(unix_socket);
	place->key = key && key[0] ? mem_string(key) : NULL;
	place->direct = unix_socket || is_loopback(host);
	return 0;
}

void place_release(struct place *place)
{
	if (place->key)
		explicit_bzero(place->key, strlen(place->key));
	free(place->key);
	free(place->shown);
	free(place->chat_url);
	free(place->models_url);
	free(place->root_url);
	free(place->unix_socket);
	*place = (struct place){0};
}

bool place_header(struct curl_slist **headers, const char *line)
{
	struct curl_slist *more = curl_slist_append(*headers, line);

	if (!more)
		return false;
	*headers = more;
	return true;
}

static bool add_key(struct curl_slist **headers, const char *key)
{
	char *line = key ? mem_format("Authorization: Bearer %s", key) : NULL;
	bool added = !line || place_header(headers, line);

	if (line)
		explicit_bzero(line, strlen(line));
	free(line);
	return added;
}

CURL *place_easy(const struct place *place, const char *url, struct curl_slist **headers,
		 struct err *err)
{
	CURL *easy = curl_easy_init();

	if (!easy || curl_easy_setopt(easy, CURLOPT_URL, url) ||
	    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") ||
	    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) ||
	    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) ||
	    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) ||
	    /* With HTTP/2 a cancelled answer would not close its connection. */
	    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ||
	    /* Asks for none, and undoes what comes all the same. */
	    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "identity") ||
	    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) ||
	    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) ||
	    curl_easy_setopt(easy, CURLOPT_USERAGENT, "fumehood/" FH_VERSION) ||
	    (place->direct && curl_easy_setopt(easy, CURLOPT_PROXY, "")) ||
	    (place->unix_socket &&
	     curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, place->unix_socket)) ||
	    !place_header(headers, "Expect:") || !add_key(headers, place->key)) {
		curl_easy_cleanup(easy);
		curl_slist_free_all(*headers);
		*headers = NULL;
		err_set(err, ERR_INTERNAL, "libcurl cannot ask %s", place->shown);
		return NULL;
	}
	return easy;
}
