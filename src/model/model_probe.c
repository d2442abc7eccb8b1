/*
 * A backend as a command, so that a flow test can use it as `ask` does.
 *
 *	model_probe JSON
 *
 * The object names the backend (`script`: a file; or `url`, and perhaps `unix`, `model`, `extra`,
 * `alive`; or `local`: a model, and perhaps `server`, `context_max`, `threads`, `server_idle_ms`),
 * what is asked (`prompts`: a list of texts, each asked at once with the others;
 * `system`, `temperature`, `top_p`, `seed`, `tokens`, `stop`, `first_ms`, `idle_ms`), and what else
 * is done: `context` asks for the context's size, `cancel` frees each answer at its first text,
 * `drop` frees the backend then. The key is in the environment: MODEL_PROBE_KEY. `alive` is a
 * command for sh; what it prints is where the server is now.
 *
 * Prints one JSON object a line: `model`, `text`, `cancelled`, `done`, `context`, `error`. Stdin at
 * its end, or a line there, ends it (extra descriptors of backend_wait()).
 */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "model/local.h"
#include "model/openai.h"
#include "model/script.h"

enum { LINE_BYTES = 4096, TOKENS = 1024, ASKS_MAX = 64 };

struct ask {
	struct generation *generation;
	int64_t number;
	bool spoke;
};

struct probe {
	const struct json *wish;
	struct backend *backend;
	struct ask asks[ASKS_MAX];
	size_t count;
};

static void print(struct json *json)
{
	cleanup_buf struct buf line = BUF_INIT;

	json_write(&line, json);
	puts(buf_bytes(&line));
	fflush(stdout);
	json_free(json);
}

static struct json *line_of(const char *type, int64_t number)
{
	struct json *json = json_new_object();

	json_set_string(json, "type", type);
	json_set_int(json, "n", number);
	return json;
}

static struct json *error_of(const struct err *err)
{
	struct json *json = json_new_object();

	json_set_string(json, "code", err_name(err->code));
	json_set_string(json, "message", err->text);
	return json;
}

static int fail(const struct err *err)
{
	struct json *json = error_of(err);

	json_set_string(json, "type", "error");
	print(json);
	return 1;
}

static void on_text(void *context, const char *text, size_t len, bool reasoning)
{
	struct ask *ask = context;
	struct json *json = line_of("text", ask->number);

	ask->spoke = true;
	json_set(json, "text", json_new_string(text, len));
	json_set(json, "reasoning", json_new_bool(reasoning));
	print(json);
}

/* The hook: a command that says where the server is. */
static int alive(void *context, struct backend *backend, struct err *err)
{
	char line[LINE_BYTES] = "";
	FILE *pipe = popen(context, "r");

	if (!pipe || !fgets(line, sizeof(line), pipe))
		line[0] = '\0';
	if (!pipe || pclose(pipe) != 0)
		return err_set(err, ERR_GONE, "the server cannot be started");
	line[strcspn(line, "\n")] = '\0';
	return backend_openai_move(backend, line, NULL, NULL, err);
}

static void explain(void *context, struct err *err)
{
	(void)context;
	err_wrap(err, "explained");
}

static void release(void *context)
{
	(void)context;
	puts("{\"type\":\"released\"}");
}

static struct backend *make_local(const struct json *wish, struct err *err)
{
	const struct backend_local_params params = {
		.model = json_get_string(wish, "local"),
		.server = json_get_string(wish, "server"),
		.context = (uint64_t)json_get_int(wish, "context_max", 0),
		.threads = (uint64_t)json_get_int(wish, "threads", 0),
		.idle_ms = json_get_int(wish, "server_idle_ms", 0),
		.cancel_fd = STDIN_FILENO,
	};

	return backend_local_new(&params, err);
}

static struct backend *make_backend(const struct json *wish, struct err *err)
{
	const char *script = json_get_string(wish, "script");
	const char *command = json_get_string(wish, "alive");
	struct backend_openai_params params = {
		.base_url = json_get_string(wish, "url"),
		.unix_socket = json_get_string(wish, "unix"),
		.key = getenv("MODEL_PROBE_KEY"),
		.model = json_get_string(wish, "model"),
		.extra = json_get(wish, "extra"),
	};

	if (script)
		return backend_script_new(script, err);
	if (json_has(wish, "local"))
		return make_local(wish, err);
	if (command) {
		params.kind = "local";
		params.hooks = (struct openai_hooks){.alive = alive,
						     .explain = explain,
						     .release = release,
						     .context = (void *)(uintptr_t)command};
	}
	return backend_openai_new(&params, err);
}

static struct message message_of(enum message_role role, const struct json *text)
{
	struct message message = {.role = role};

	message.text = json_string(text, &message.len);
	return message;
}

static int ask_all(struct probe *probe, struct err *err)
{
	const struct json *wish = probe->wish, *prompts = json_get(wish, "prompts");
	const struct json *stops = json_get(wish, "stop");
	const char *stop[ASKS_MAX] = {NULL};
	struct message messages[2];
	size_t count = json_has(wish, "system") ? 1 : 0;
	struct generation_request request = {
		.messages = messages,
		.count = count + 1,
		.temperature = json_get_double(wish, "temperature", 0),
		.top_p = json_get_double(wish, "top_p", 0),
		.seed = json_get_int(wish, "seed", -1),
		.tokens_max = (uint32_t)json_get_int(wish, "tokens", TOKENS),
		.stop = stop,
		.first_ms_max = json_get_int(wish, "first_ms", 0),
		.idle_ms_max = json_get_int(wish, "idle_ms", 0),
	};

	for (size_t i = 0; i < json_length(stops) && i < ASKS_MAX - 1; i++)
		stop[i] = json_string(json_at(stops, i), NULL);
	if (count)
		messages[0] = message_of(ROLE_SYSTEM, json_get(wish, "system"));
	for (size_t i = 0; i < json_length(prompts) && i < ASKS_MAX; i++) {
		struct ask *ask = &probe->asks[i];
		struct generation_events events = {.text = on_text, .context = ask};

		messages[count] = message_of(ROLE_USER, json_at(prompts, i));
		ask->number = (int64_t)i;
		ask->generation = backend_ask(probe->backend, &request, &events, err);
		if (!ask->generation)
			return -1;
		probe->count++;
	}
	return 0;
}

static void print_done(const struct ask *ask)
{
	static const char *const states[] = {
		[GENERATION_RUNNING] = "running",
		[GENERATION_STOPPED] = "stopped",
		[GENERATION_LENGTH] = "length",
		[GENERATION_FAILED] = "failed",
	};
	const struct generation *generation = ask->generation;
	const struct generation_usage *usage = generation_usage(generation);
	struct json *json = line_of("done", ask->number);
	size_t len;
	const char *text = generation_text(generation, &len);

	json_set_string(json, "state", states[generation_state(generation)]);
	json_set(json, "text", json_new_string(text, len));
	text = generation_reasoning(generation, &len);
	json_set(json, "reasoning", json_new_string(text, len));
	json_set_int(json, "prompt_tokens", (int64_t)usage->prompt_tokens);
	json_set_int(json, "cached_tokens", (int64_t)usage->cached_tokens);
	json_set_int(json, "tokens", (int64_t)usage->tokens);
	json_set(json, "counted", json_new_bool(usage->counted));
	json_set(json, "prompt_cut", json_new_bool(usage->prompt_cut));
	json_set(json, "first_seconds", json_new_double(usage->first_seconds));
	json_set(json, "seconds", json_new_double(usage->seconds));
	json_set_int(json, "retry_ms", generation_retry_ms(generation));
	if (generation_state(generation) == GENERATION_FAILED)
		json_set(json, "error", error_of(generation_error(generation)));
	print(json);
}

static void cancel(struct probe *probe, struct ask *ask)
{
	if (json_get_bool(probe->wish, "drop", false)) {
		backend_free(probe->backend);
		probe->backend = NULL;
		print_done(ask);
		return;
	}
	generation_free(ask->generation);
	ask->generation = NULL;
	print(line_of("cancelled", ask->number));
}

/* What has ended or is to be cancelled. Returns how many still run. */
static size_t look(struct probe *probe)
{
	bool cancels = json_get_bool(probe->wish, "cancel", false) ||
		       json_get_bool(probe->wish, "drop", false);
	size_t running = 0;

	for (size_t i = 0; i < probe->count && probe->backend; i++) {
		struct ask *ask = &probe->asks[i];

		if (!ask->generation)
			continue;
		if (generation_done(ask->generation)) {
			print_done(ask);
			generation_free(ask->generation);
			ask->generation = NULL;
		} else if (cancels && ask->spoke) {
			cancel(probe, ask);
		} else {
			running++;
		}
	}
	return running;
}

static int run(struct probe *probe, struct err *err)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct json *json;

	if (json_get_bool(probe->wish, "context", false)) {
		json = line_of("context", 0);
		json_set_int(json, "tokens", (int64_t)backend_context(probe->backend));
		print(json);
	}
	if (ask_all(probe, err))
		return -1;
	while (look(probe) > 0) {
		int ready = backend_wait(probe->backend, &input, 1, -1, err);

		if (ready < 0)
			return -1;
		if (ready > 0)
			return err_set(err, ERR_GONE, "stdin ended");
	}
	/* Wait until the test has seen what it wants to see of a connection. */
	if (json_get_bool(probe->wish, "linger", false) && probe->backend)
		(void)backend_wait(probe->backend, &input, 1, -1, NULL);
	else if (json_get_bool(probe->wish, "linger", false))
		(void)poll(&input, 1, -1);
	return 0;
}

int main(int argc, char **argv)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *wish = NULL;
	struct probe probe = {0};
	struct json *json;
	int status = 0;

	if (argc == 2)
		wish = json_parse(argv[1], strlen(argv[1]), &JSON_LIMITS, &err);
	if (!wish) {
		fprintf(stderr, "usage: model_probe JSON\n");
		return 2;
	}
	probe.wish = wish;
	probe.backend = make_backend(wish, &err);
	if (!probe.backend)
		return fail(&err);
	json = line_of(backend_kind(probe.backend), 0);
	json_set_string(json, "type", "model");
	json_set_string(json, "kind", backend_kind(probe.backend));
	json_set_string(json, "model", backend_model(probe.backend));
	print(json);
	if (run(&probe, &err))
		status = fail(&err);
	if (probe.count % 2 == 0) /* both orders must do */
		backend_free(mem_take(probe.backend));
	for (size_t i = 0; i < probe.count; i++)
		generation_free(probe.asks[i].generation);
	backend_free(probe.backend);
	return status;
}
