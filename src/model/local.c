/*
 * The backend `local`. See local.h.
 *
 * What a server of ours is asked beyond what any OpenAI-compatible one is: to keep the prompt in
 * its cache. Everything else it was told when it was started.
 */
#include "model/local.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "model/catalog.h"
#include "model/gguf.h"
#include "model/lease.h"
#include "model/openai.h"

static int alive(void *context, struct backend *backend, struct err *err)
{
	(void)backend;
	return lease_ensure(context, err);
}

static void explain(void *context, struct err *err)
{
	lease_explain(context, err);
}

static void release(void *context)
{
	lease_free(context);
}

/* The file's name without folder and ".gguf", owned by the caller. */
static char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t len = strlen(name);

	if (len > 5 && strcmp(name + len - 5, ".gguf") == 0)
		len -= 5;
	return mem_copy(name, len);
}

static struct backend *over_lease(struct lease *lease, const char *name, uint64_t context,
				  struct err *err)
{
	cleanup_json struct json *extra = json_new_object();
	const struct backend_openai_params params = {
		.kind = "local",
		.base_url = "http://localhost/v1",
		.unix_socket = lease_socket(lease),
		.model = name,
		.extra = extra,
		.context_tokens = context,
		.hooks = {.alive = alive, .explain = explain, .release = release, .context = lease},
	};
	struct backend *backend;

	json_set(extra, "cache_prompt", json_new_bool(true));
	backend = backend_openai_new(&params, err);
	if (!backend)
		lease_free(lease);
	return backend;
}

void backend_local_take(struct backend_local_params *params, const struct settings *settings)
{
	params->server = settings_text(settings, SETTING_LLAMA_SERVER);
	params->context = (uint64_t)settings_count(settings, SETTING_LLAMA_CONTEXT);
	params->threads = (uint64_t)settings_count(settings, SETTING_LLAMA_THREADS);
	params->idle_ms = settings_count(settings, SETTING_LLAMA_IDLE_S) * 1000;
}

struct backend *backend_local_new(const struct backend_local_params *params, struct err *err)
{
	cleanup_catalog struct catalog catalog = CATALOG_INIT;
	cleanup_free char *wanted = NULL, *path = NULL, *name = NULL;
	uint64_t context = params->context ? params->context : LLAMA_CONTEXT_MAX;
	struct lease_params wish = {.server = params->server,
				    .threads = (unsigned)params->threads,
				    .idle_ms = params->idle_ms ? params->idle_ms : LOCAL_IDLE_MS,
				    .cancel_fd = params->cancel_fd,
				    .deadline_us = params->deadline_us};
	struct gguf gguf;
	struct lease *lease;

	if (catalog_load(&catalog, err) != 0)
		return NULL;
	wanted = catalog_default(&catalog, params->model, err);
	path = wanted ? catalog_resolve(&catalog, wanted, err) : NULL;
	if (!path || gguf_load(path, &gguf, err) != 0)
		return NULL;
	if (gguf.context && gguf.context < context)
		context = gguf.context;
	name = base_name(path);
	wish.model = path;
	wish.name = name;
	wish.context = context;
	lease = lease_new(&wish, err);
	return lease ? over_lease(lease, name, context, err) : NULL;
}
