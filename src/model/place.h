/*
 * Where an OpenAI-compatible server is: its address taken apart once, and curl handles for it that
 * all have the same rules (openai.h).
 */
#ifndef FH_MODEL_PLACE_H
#define FH_MODEL_PLACE_H

#include <curl/curl.h>
#include <stdbool.h>

#include "base/err.h"

struct place {
	char *shown;    /* scheme, host, port and path: for messages; no query, it may be secret */
	char *chat_url; /* .../chat/completions */
	char *models_url;
	char *root_url; /* without the path's /v1: where llama-server and Ollama have more */
	char *unix_socket; /* NULL: TCP */
	char *key;         /* NULL: none */
	bool direct;       /* loopback or a Unix socket: never through a proxy */
};

/* ERR_INVALID says what is wrong with the address or the key, and what one looks like. The caller
 * releases it after success only. */
int place_init(struct place *place, const char *base_url, const char *unix_socket, const char *key,
	       struct err *err);
void place_release(struct place *place); /* the key's memory is overwritten */

/* Adds a line to the headers; false when curl cannot. */
bool place_header(struct curl_slist **headers, const char *line);

/* A handle for one request to `url` of this place, with *headers for the caller to extend, set and
 * free after the handle. NULL and ERR_INTERNAL when curl cannot. */
CURL *place_easy(const struct place *place, const char *url, struct curl_slist **headers,
		 struct err *err);

#endif
