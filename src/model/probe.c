/*
 * What a server says of its models: their names, and how much context there is.
 *
 * No standard has the context's size, so it is looked for where each server puts it:
 *
 *	GET {base}/models     max_model_len (vLLM), context_length (OpenRouter, Together),
 *	                      context_window (Groq), max_context_length (Mistral), meta.n_ctx
 *	                      (llama-server)
 *	GET {root}/props      default_generation_settings.n_ctx (older llama-server; one slot's)
 *	GET {root}/api/ps     models[].context_length (Ollama; of a model that is loaded)
 *	GET {root}/api/v0/models  data[].loaded_context_length (LM Studio)
 *
 * These are asked one after another, all within the caller's time; what does not answer so is
 * passed over.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/openai_impl.h"

enum { PROBE_BYTES_MAX = 4 << 20, MODELS_MAX = 1000, CONTEXT_TOKENS_MAX = 1 << 30 };

static size_t on_bytes(char *bytes, size_t size, size_t count, void *data)
{
	struct buf *body = data;

	if (body->len + size * count > PROBE_BYTES_MAX)
		return 0;
	buf_append(body, bytes, size * count);
	return size * count;
}

static void say_failed(const struct openai *openai, CURLcode code, long status,
		       const struct buf *body, struct err *err)
{
	const struct place *place = &openai->place;
	struct fault_source source = {
		.shown = place->shown, .model = openai->model, .key = place->key};
	unsigned named;
	bool vague;

	if (code == CURLE_OPERATION_TIMEDOUT)
		err_set(err, ERR_TIMEOUT, "%s does not say in time which models it has: name one",
			place->shown);
	else if (code)
		err_set(err, ERR_GONE, "nobody answers at %s (%s): is the server running?",
			place->shown, curl_easy_strerror(code));
	else if (status >= 400)
		fault_from_body(buf_bytes(body), body->len, (int)status, &source, &named, &vague,
				err);
	else
		err_set(err, ERR_INVALID, "%s does not say which models it has: name one",
			place->shown);
}

/* The object at `url`, owned by the caller, or NULL. */
static struct json *get(const struct openai *openai, const char *url, int64_t until_us,
			struct err *err)
{
	cleanup_buf struct buf body = BUF_INIT;
	struct curl_slist *headers = NULL;
	int64_t left_ms = (until_us - clock_monotonic_us()) / 1000;
	CURLcode code = CURLE_OPERATION_TIMEDOUT;
	struct json *json = NULL;
	long status = 0;
	CURL *easy = place_easy(&openai->place, url, &headers, err);

	if (!easy)
		return NULL;
	if (left_ms > 0 &&
	    !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) &&
	    !curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)left_ms) &&
	    !curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) &&
	    !curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body)) {
		code = curl_easy_perform(easy);
		(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	}
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	if (code == CURLE_OK && status == 200)
		json = json_parse(buf_bytes(&body), body.len, &JSON_LIMITS, NULL);
	if (json_type_of(json) != JSON_OBJECT) {
		json_free(json);
		say_failed(openai, code, status, &body, err);
		return NULL;
	}
	return json;
}

static struct json *get_at_root(const struct openai *openai, const char *path, int64_t until_us)
{
	cleanup_free char *url = mem_format("%s%s", openai->place.root_url, path);

	return get(openai, url, until_us, NULL);
}

struct json *probe_models(struct openai *openai, int64_t until_us, struct err *err)
{
	cleanup_json struct json *answer = get(openai, openai->place.models_url, until_us, err);
	const struct json *data = json_get(answer, "data");
	struct json *names;

	if (!answer)
		return NULL;
	names = json_new_array();
	for (size_t i = 0; i < json_length(data) && i < MODELS_MAX; i++) {
		size_t len = 0;
		const char *id = json_string(json_get(json_at(data, i), "id"), &len);

		if (id)
			json_push(names, json_new_string(id, len));
	}
	if (json_length(names) > 0)
		return names;
	json_free(names);
	say_failed(openai, CURLE_OK, 200, NULL, err);
	return NULL;
}

static uint64_t tokens_at(const struct json *object, const char *key)
{
	int64_t tokens = json_get_int(object, key, 0);

	return tokens > 0 && tokens <= CONTEXT_TOKENS_MAX ? (uint64_t)tokens : 0;
}

/* The entry of our model: the one with its name, or the only one. */
static const struct json *entry(const struct json *list, const char *name_key, const char *model)
{
	for (size_t i = 0; i < json_length(list); i++) {
		const char *name = json_get_string(json_at(list, i), name_key);

		if (name && strcmp(name, model) == 0)
			return json_at(list, i);
	}
	return json_length(list) == 1 ? json_at(list, 0) : NULL;
}

static uint64_t context_of_entry(const struct json *entry)
{
	static const char *const keys[] = {"max_model_len", "context_length", "context_window",
					   "max_context_length", NULL};
	uint64_t tokens = tokens_at(json_get(entry, "meta"), "n_ctx");

	for (size_t i = 0; keys[i] && tokens == 0; i++)
		tokens = tokens_at(entry, keys[i]);
	return tokens;
}

uint64_t probe_context(struct openai *openai, int64_t until_us)
{
	cleanup_json struct json *models = get(openai, openai->place.models_url, until_us, NULL);
	const struct json *ours = entry(json_get(models, "data"), "id", openai->model);
	const char *owner = json_get_string(ours, "owned_by");
	uint64_t tokens = context_of_entry(ours);
	cleanup_json struct json *more = NULL;

	if (tokens > 0)
		return tokens;
	if (owner && strcmp(owner, "library") == 0) {
		more = get_at_root(openai, "/api/ps", until_us);
		return tokens_at(entry(json_get(more, "models"), "name", openai->model),
				 "context_length");
	}
	if (owner && strcmp(owner, "organization_owner") == 0) {
		more = get_at_root(openai, "/api/v0/models", until_us);
		return tokens_at(entry(json_get(more, "data"), "id", openai->model),
				 "loaded_context_length");
	}
	if (owner && strcmp(owner, "llamacpp") != 0)
		return 0;
	more = get_at_root(openai, "/props", until_us);
	return tokens_at(json_get(more, "default_generation_settings"), "n_ctx");
}
