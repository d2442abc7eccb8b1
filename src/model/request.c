/*
 * The body of a request for a chat completion.
 *
 * Only what every server knows: roles system, user and assistant, `content` a plain string,
 * max_tokens (Ollama documents nothing newer). OpenAI's newer models want max_completion_tokens:
 * they say so, and get it in the second try.
 */
#include "model/request.h"

#include <string.h>

#include "model/fault.h"

static const struct {
	const char *name;
	unsigned field;
} FIELDS[] = {
	{"stream_options", FIELD_STREAM_OPTIONS},
	{"seed", FIELD_SEED},
	{"top_p", FIELD_TOP_P},
	{"temperature", FIELD_TEMPERATURE},
	{"stop", FIELD_STOP},
	{"max_tokens", FIELD_MAX_TOKENS},
};

enum { FIELD_COUNT = sizeof(FIELDS) / sizeof(FIELDS[0]) };

static struct json *messages_of(const struct generation_request *request)
{
	static const char *const roles[] = {
		[ROLE_SYSTEM] = "system", [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant"};
	struct json *messages = json_new_array();

	for (size_t i = 0; i < request->count; i++) {
		struct json *message = json_new_object();

		json_set_string(message, "role", roles[request->messages[i].role]);
		json_set(message, "content",
			 json_new_string(request->messages[i].text, request->messages[i].len));
		json_push(messages, message);
	}
	return messages;
}

struct json *request_new(const char *model, const struct generation_request *request)
{
	struct json *json = json_new_object();
	struct json *options = json_new_object();
	struct json *stop = request->stop && request->stop[0] ? json_new_array() : NULL;

	json_set_string(json, "model", model);
	json_set(json, "messages", messages_of(request));
	json_set(json, "stream", json_new_bool(true));
	json_set(options, "include_usage", json_new_bool(true));
	json_set(json, "stream_options", options);
	json_set(json, "temperature", json_new_double(request->temperature));
	if (request->top_p > 0)
		json_set(json, "top_p", json_new_double(request->top_p));
	json_set_int(json, "max_tokens", request->tokens_max);
	if (request->seed >= 0)
		json_set_int(json, "seed", request->seed);
	for (size_t i = 0; stop && request->stop[i]; i++)
		json_push(stop, json_new_string(request->stop[i], strlen(request->stop[i])));
	if (stop)
		json_set(json, "stop", stop);
	return json;
}

unsigned request_fields(const struct json *request)
{
	unsigned fields = FIELD_EXTRA;

	for (size_t i = 0; i < FIELD_COUNT; i++)
		if (json_has(request, FIELDS[i].name))
			fields |= FIELDS[i].field;
	return fields;
}

static int add_member(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)key_len;
	json_set(data, key, json_copy(value));
	return 0;
}

void request_write(struct buf *out, const struct json *request, const struct json *extra,
		   unsigned dropped)
{
	cleanup_json struct json *copy = json_copy(request);
	int64_t tokens_max = json_get_int(request, "max_tokens", 0);

	for (size_t i = 0; i < FIELD_COUNT; i++)
		if (dropped & FIELDS[i].field)
			json_remove(copy, FIELDS[i].name);
	if (dropped & FIELD_MAX_TOKENS)
		json_set_int(copy, "max_completion_tokens", tokens_max);
	if (extra && !(dropped & FIELD_EXTRA))
		(void)json_each(extra, add_member, copy);
	json_write(out, copy);
}

struct named {
	const char *refusal;
	bool found;
};

static int look_for(const char *key, size_t key_len, struct json *value, void *data)
{
	struct named *named = data;

	(void)key_len;
	(void)value;
	named->found = named->found || fault_names(named->refusal, key, false);
	return 0;
}

unsigned request_named(const struct json *extra, const char *refusal)
{
	struct named named = {.refusal = refusal, .found = false};

	if (extra)
		(void)json_each(extra, look_for, &named);
	return named.found ? FIELD_EXTRA : 0;
}
