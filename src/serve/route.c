/*
 * The table of routes, and finding one; see route.h.
 */
#include "serve/route.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "serve/exchange.h"

#define KIB ((size_t)1024)
#define MIB ((size_t)1 << 20)
/* A cell's code has at most 16 MiB; escaped and with what belongs to it. */
#define CODE_BODY (20 * MIB)

static const struct route_param TEXT_PARAMS[] = {{"max_chars", PARAM_COUNT},
						 {"item_chars", PARAM_COUNT},
						 {"marks", PARAM_BOOL},
						 {NULL, PARAM_TEXT}};
static const struct route_param OUTPUTS_PARAMS[] = {{"section", PARAM_TEXT},
						    {"max_chars", PARAM_COUNT},
						    {"item_chars", PARAM_COUNT},
						    {"marks", PARAM_BOOL},
						    {NULL, PARAM_TEXT}};
static const struct route_param EVENTS_PARAMS[] = {{"since", PARAM_COUNT}, {"follow", PARAM_BOOL},
						   {"lossy", PARAM_BOOL},  {"inline", PARAM_BOOL},
						   {"cell", PARAM_TEXT},   {NULL, PARAM_TEXT}};
static const struct route_param IMAGES_PARAMS[] = {
	{"since", PARAM_COUNT}, {"section", PARAM_TEXT}, {NULL, PARAM_TEXT}};
static const struct route_param CHANGES_PARAMS[] = {
	{"since", PARAM_COUNT}, {"cell", PARAM_TEXT}, {NULL, PARAM_TEXT}};
static const struct route_param VARIABLES_PARAMS[] = {
	{"pattern", PARAM_TEXT}, {"max", PARAM_COUNT}, {NULL, PARAM_TEXT}};
static const struct route_param BLOB_PARAMS[] = {
	{"offset", PARAM_COUNT}, {"length", PARAM_COUNT}, {NULL, PARAM_TEXT}};
static const struct route_param RUN_PARAMS[] = {{"detach", PARAM_BOOL}, {NULL, PARAM_TEXT}};
static const struct route_param DELETE_PARAMS[] = {{"keep", PARAM_BOOL}, {NULL, PARAM_TEXT}};
static const struct route_param NOTEBOOK_PARAMS[] = {{"rolled_back", PARAM_TEXT},
						     {NULL, PARAM_TEXT}};
static const struct route_param FILES_PARAMS[] = {
	{"format", PARAM_TEXT}, {"after", PARAM_TEXT}, {"max", PARAM_COUNT}, {NULL, PARAM_TEXT}};
static const struct route_param REMOVE_PARAMS[] = {{"whole", PARAM_BOOL}, {NULL, PARAM_TEXT}};
static const struct route_param PUT_PARAMS[] = {{"mode", PARAM_COUNT}, {NULL, PARAM_TEXT}};

#define S "/v1/sessions/{}"

/* An op that is passed on: POST with a body. */
#define PASS(name, scope_, need, max) \
	{ \
		.method = "POST", .path = S "/" name, .scope = (scope_), .session = (need), \
		.body = BODY_OPTIONAL, .body_bytes_max = (max), .handle = rest_op, .op = name \
	}

/* One that asks: GET with a query. */
#define ASK(where, name, scope_, params_) \
	{ \
		.method = "GET", .path = S "/" where, .scope = (scope_), \
		.session = SESSION_RUNNING, .handle = rest_op, .op = name, .params = (params_) \
	}

const struct route ROUTES[] = {
	{.method = "GET", .path = "/healthz", .handle = rest_health, .open = true},
	{.method = "GET", .path = "/readyz", .handle = rest_ready, .open = true},
	{.method = "GET", .path = "/openapi.json", .handle = rest_openapi},
	{.method = "GET", .path = "/metrics", .scope = SCOPE_METRICS, .handle = rest_metrics},
	{.method = "GET",
	 .path = "/v1/sessions",
	 .scope = SCOPE_READ,
	 .handle = rest_sessions_list},
	{.method = "POST",
	 .path = "/v1/sessions",
	 .scope = SCOPE_MANAGE,
	 .body = BODY_OPTIONAL,
	 .body_bytes_max = MIB,
	 .handle = rest_session_start},
	{.method = "POST",
	 .path = "/v1/run",
	 .scope = SCOPE_RUN | SCOPE_MANAGE,
	 .body = BODY_JSON,
	 .body_bytes_max = CODE_BODY,
	 .handle = rest_run_once,
	 .end_is_gone = true},
	{.method = "POST",
	 .path = "/v1/ask",
	 .scope = SCOPE_RUN,
	 .body = BODY_JSON,
	 .body_bytes_max = 4 * MIB,
	 .handle = rest_ask,
	 .params = RUN_PARAMS,
	 .end_is_gone = true},
	{.method = "GET",
	 .path = S,
	 .scope = SCOPE_READ,
	 .session = SESSION_NAMED,
	 .handle = rest_session_get},
	{.method = "DELETE",
	 .path = S,
	 .scope = SCOPE_MANAGE,
	 .session = SESSION_NAMED,
	 .handle = rest_session_delete,
	 .params = DELETE_PARAMS},
	{.method = "POST",
	 .path = S "/open",
	 .scope = SCOPE_MANAGE,
	 .session = SESSION_START,
	 .body = BODY_OPTIONAL,
	 .body_bytes_max = KIB,
	 .handle = rest_session_open},
	{.method = "POST",
	 .path = S "/run",
	 .scope = SCOPE_RUN,
	 .session = SESSION_START,
	 .body = BODY_JSON,
	 .body_bytes_max = CODE_BODY,
	 .handle = rest_run,
	 .params = RUN_PARAMS,
	 .end_is_gone = true},
	{.method = "GET",
	 .path = S "/cells/{}",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_cell},
	{.method = "GET",
	 .path = S "/cells/{}/text",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_text,
	 .params = TEXT_PARAMS},
	{.method = "GET",
	 .path = S "/events",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_events,
	 .params = EVENTS_PARAMS},
	{.method = "GET",
	 .path = S "/channel",
	 .scope = SCOPE_READ,
	 .session = SESSION_START,
	 .handle = rest_channel},
	{.method = "GET",
	 .path = S "/notebook",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_notebook,
	 .params = NOTEBOOK_PARAMS},
	{.method = "GET",
	 .path = S "/blobs/{}",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_blob,
	 .params = BLOB_PARAMS},
	PASS("interrupt", SCOPE_RUN, SESSION_RUNNING, KIB),
	PASS("input", SCOPE_RUN, SESSION_RUNNING, MIB),
	PASS("complete", SCOPE_RUN, SESSION_START, CODE_BODY),
	PASS("inspect", SCOPE_RUN, SESSION_START, CODE_BODY),
	PASS("restart", SCOPE_RUN, SESSION_START, KIB),
	PASS("section", SCOPE_RUN, SESSION_START, 64 * KIB),
	{.method = "POST",
	 .path = S "/note",
	 .scope = SCOPE_RUN,
	 .session = SESSION_START,
	 .body = BODY_JSON,
	 .body_bytes_max = CODE_BODY,
	 .handle = rest_note,
	 .op = "note"},
	PASS("save", SCOPE_READ, SESSION_RUNNING, KIB),
	PASS("checkpoint", SCOPE_RUN, SESSION_RUNNING, 64 * KIB),
	PASS("rollback", SCOPE_RUN, SESSION_RUNNING, 64 * KIB),
	{.method = "POST",
	 .path = S "/fork",
	 .scope = SCOPE_MANAGE,
	 .session = SESSION_RUNNING,
	 .body = BODY_OPTIONAL,
	 .body_bytes_max = 64 * KIB,
	 .handle = rest_session_fork,
	 .op = "fork"},
	{.method = "DELETE",
	 .path = S "/checkpoints/{}",
	 .scope = SCOPE_RUN,
	 .session = SESSION_RUNNING,
	 .handle = rest_checkpoint_drop},
	PASS("reset", SCOPE_RUN, SESSION_RUNNING, 64 * KIB),
	PASS("stop", SCOPE_MANAGE, SESSION_RUNNING, KIB),
	PASS("limits", SCOPE_MANAGE, SESSION_RUNNING, 64 * KIB),
	{.method = "POST",
	 .path = S "/policy",
	 .scope = SCOPE_MANAGE,
	 .session = SESSION_RUNNING,
	 .body = BODY_JSON,
	 .body_bytes_max = 64 * KIB,
	 .handle = rest_policy,
	 .op = "policy"},
	ASK("checkpoints", "checkpoints", SCOPE_READ, NULL),
	ASK("limits", "limits", SCOPE_READ, NULL),
	ASK("policy", "policy", SCOPE_READ, NULL),
	ASK("status", "status", SCOPE_READ, NULL),
	ASK("variables", "variables", SCOPE_RUN, VARIABLES_PARAMS),
	ASK("outputs", "outputs", SCOPE_READ, OUTPUTS_PARAMS),
	ASK("images", "images", SCOPE_READ, IMAGES_PARAMS),
	ASK("changes", "files", SCOPE_READ, CHANGES_PARAMS),
	{.method = "GET",
	 .path = S "/files",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_files_get,
	 .params = FILES_PARAMS},
	{.method = "GET",
	 .path = S "/files/{...}",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_files_get,
	 .params = FILES_PARAMS},
	{.method = "PUT",
	 .path = S "/files/{...}",
	 .scope = SCOPE_FILES,
	 .session = SESSION_START,
	 .body = BODY_STREAM,
	 .body_bytes_max = (size_t)4 << 30,
	 .handle = rest_files_put,
	 .params = PUT_PARAMS},
	{.method = "DELETE",
	 .path = S "/files/{...}",
	 .scope = SCOPE_FILES,
	 .session = SESSION_RUNNING,
	 .handle = rest_files_delete,
	 .params = REMOVE_PARAMS},
	{.method = "POST",
	 .path = S "/folders/{...}",
	 .scope = SCOPE_FILES,
	 .session = SESSION_START,
	 .body = BODY_OPTIONAL,
	 .body_bytes_max = KIB,
	 .handle = rest_folder_make},
	{.method = "GET",
	 .path = "/task/{}",
	 .scope = SCOPE_READ,
	 .session = SESSION_RUNNING,
	 .handle = rest_original},
	{.method = NULL},
};

/* --- finding ---------------------------------------------------------------------------------- */

/* Compares the pattern's segments with the target's. */
static bool matches(const char *path, const struct target *target)
{
	size_t i = 0;

	while (*path == '/' && path[1]) {
		const char *part = path + 1;
		size_t len = strcspn(part, "/");

		if (len == 5 && memcmp(part, "{...}", 5) == 0)
			return i < target->segment_count;
		if (i == target->segment_count)
			return false;
		if (!(len == 2 && memcmp(part, "{}", 2) == 0) &&
		    (target->segment_lens[i] != len || memcmp(target->segments[i], part, len) != 0))
			return false;
		i++;
		path = part + len;
	}
	return i == target->segment_count && (!target->folder || i == 0);
}

static void allow_method(char allow[static 64], const char *method)
{
	size_t len = strlen(allow);

	snprintf(allow + len, 64 - len, "%s%s", len ? ", " : "", method);
	if (strcmp(method, "GET") == 0)
		allow_method(allow, "HEAD");
}

const struct route *route_find(const struct slice *method, const struct target *target, int *status,
			       char allow[static 64])
{
	struct slice wanted = *method;

	allow[0] = '\0';
	if (slice_is(method, "HEAD"))
		wanted = (struct slice){"GET", 3};
	for (const struct route *route = ROUTES; route->method; route++) {
		if (!matches(route->path, target))
			continue;
		if (slice_is(&wanted, route->method))
			return route;
		allow_method(allow, route->method);
	}
	*status = allow[0] ? 405 : 404;
	return NULL;
}

void route_places(const struct route *route, size_t *first, size_t *second, size_t *rest)
{
	const char *path = route->path;
	size_t i = 0;

	*first = *second = *rest = SIZE_MAX;
	for (; *path == '/' && path[1]; i++) {
		const char *part = path + 1;
		size_t len = strcspn(part, "/");

		if (len == 2 && memcmp(part, "{}", 2) == 0) {
			if (*first == SIZE_MAX)
				*first = i;
			else
				*second = i;
		} else if (len == 5 && memcmp(part, "{...}", 5) == 0) {
			*rest = i;
		}
		path = part + len;
	}
}
