/*
 * Prompts. See prompt.h.
 */
#include "agent/prompt.h"

#include <assert.h>
#include <string.h>

#include "agent/prompt_default.h"
#include "base/json.h"
#include "base/mem.h"

static void variant_release(struct prompt_variant *variant)
{
	free(variant->system);
	for (size_t i = 0; i < variant->example_count; i++) {
		free(variant->examples[i].user);
		free(variant->examples[i].assistant);
	}
	*variant = (struct prompt_variant){.system = NULL};
}

static void variants_release(struct prompts *prompts)
{
	for (size_t i = 0; i < prompts->count; i++)
		variant_release(&prompts->variants[i]);
	prompts->count = 0;
}

void prompts_release(struct prompts *prompts)
{
	variants_release(prompts);
	free(prompts->task);
	free(prompts->repair);
	free(prompts->no_code);
	*prompts = (struct prompts){.count = 0};
}

void prompts_init(struct prompts *prompts)
{
	struct err err = ERR_INIT;
	int read;

	*prompts = (struct prompts){.count = 0};
	read = prompts_read(prompts, PROMPT_DEFAULT, strlen(PROMPT_DEFAULT), "built in", &err);
	assert(read == 0);
	(void)read;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int read_examples(struct prompt_variant *variant, const struct json *examples,
			 const char *file, struct err *err)
{
	if (json_type_of(examples) != JSON_ARRAY || json_length(examples) > PROMPT_EXAMPLES_MAX)
		return err_set(err, ERR_INVALID, "%s: \"examples\" is an array of at most %d", file,
			       PROMPT_EXAMPLES_MAX);
	for (size_t i = 0; i < json_length(examples); i++) {
		const char *user = json_get_string(json_at(examples, i), "user");
		const char *assistant = json_get_string(json_at(examples, i), "assistant");

		if (!user || !assistant || json_length(json_at(examples, i)) != 2)
			return err_set(err, ERR_INVALID,
				       "%s: an example is an object of two texts, \"user\" and "
				       "\"assistant\"",
				       file);
		variant->examples[variant->example_count++] = (struct prompt_example){
			.user = mem_string(user), .assistant = mem_string(assistant)};
	}
	return 0;
}

static int read_variant(struct prompts *prompts, const struct json *json, const char *file,
			struct err *err)
{
	struct prompt_variant *variant = &prompts->variants[prompts->count];
	const char *system = json_get_string(json, "system");
	bool more = json_has(json, "examples");

	if (!system || json_length(json) != 1 + (size_t)more)
		return err_set(err, ERR_INVALID,
			       "%s: a variant is an object of \"system\", a text, and perhaps "
			       "\"examples\"",
			       file);
	*variant = (struct prompt_variant){.system = mem_string(system)};
	prompts->count++;
	return more ? read_examples(variant, json_get(json, "examples"), file, err) : 0;
}

static int read_variants(struct prompts *prompts, const struct json *variants, const char *file,
			 struct err *err)
{
	size_t count = json_length(variants);

	if (json_type_of(variants) != JSON_ARRAY || count == 0 || count > PROMPT_VARIANTS_MAX)
		return err_set(err, ERR_INVALID, "%s: \"variants\" is an array of 1 to %d", file,
			       PROMPT_VARIANTS_MAX);
	for (size_t i = 0; i < count; i++)
		if (read_variant(prompts, json_at(variants, i), file, err) != 0)
			return -1;
	return 0;
}

struct reading {
	struct prompts *into;
	const char *file;
	struct err *err;
};

static int read_member(const char *key, size_t len, struct json *value, void *data)
{
	struct reading *reading = data;
	struct prompts *into = reading->into;
	const struct {
		const char *key;
		char **text;
	} texts[] = {{"task", &into->task}, {"repair", &into->repair}, {"no_code", &into->no_code}};

	(void)len;
	if (strcmp(key, "variants") == 0)
		return read_variants(into, value, reading->file, reading->err);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *text = json_string(value, NULL);

		if (strcmp(key, texts[i].key) != 0)
			continue;
		if (!text)
			return err_set(reading->err, ERR_INVALID, "%s: \"%s\" is a text",
				       reading->file, key);
		*texts[i].text = mem_string(text);
		return 0;
	}
	return err_set(reading->err, ERR_INVALID,
		       "%s: \"%.40s\" is no member; they are variants, task, repair, no_code",
		       reading->file, key);
}

/* Moves what was read over what there was. */
static void take_over(struct prompts *prompts, struct prompts *read)
{
	char **to[] = {&prompts->task, &prompts->repair, &prompts->no_code};
	char **from[] = {&read->task, &read->repair, &read->no_code};

	for (size_t i = 0; i < 3; i++) {
		if (!*from[i])
			continue;
		free(*to[i]);
		*to[i] = mem_take(*from[i]);
	}
	if (read->count == 0)
		return;
	variants_release(prompts);
	memcpy(prompts->variants, read->variants, sizeof(read->variants));
	prompts->count = read->count;
	read->count = 0;
}

int prompts_read(struct prompts *prompts, const char *bytes, size_t len, const char *file,
		 struct err *err)
{
	__attribute__((cleanup(prompts_release))) struct prompts read = {.count = 0};
	const struct json_limits limits = {
		.bytes_max = PROMPT_BYTES_MAX, .depth_max = 8, .keys_unique = true};
	cleanup_json struct json *json = json_parse(bytes, len, &limits, err);
	struct reading reading = {&read, file, err};

	if (!json)
		return err_wrap(err, "%s", file);
	if (json_type_of(json) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "%s: prompts are a JSON object", file);
	if (json_each(json, read_member, &reading) != 0)
		return -1;
	if (read.task && !strstr(read.task, "{instruction}"))
		return err_set(err, ERR_INVALID, "%s: \"task\" must have {instruction} in it",
			       file);
	take_over(prompts, &read);
	return 0;
}

void prompts_set_system(struct prompts *prompts, const char *text)
{
	variants_release(prompts);
	prompts->variants[0] = (struct prompt_variant){.system = mem_string(text)};
	prompts->count = 1;
}

/* --- filling ---------------------------------------------------------------------------------- */

void prompt_fill(struct buf *out, const char *frame, const struct prompt_values *values)
{
	const struct {
		const char *name, *value;
	} names[] = {
		{"{instruction}", values->instruction},
		{"{workspace}", values->workspace},
		{"{variables}", values->variables},
		{"{earlier}", values->earlier},
		{"{input}", values->input},
		{"{checks}", values->checks},
		{"{failure}", values->failure},
		{"{advice}", values->advice},
		{"{code}", values->code},
	};

	while (*frame) {
		size_t plain = strcspn(frame, "{"), i = 0;

		buf_append(out, frame, plain);
		frame += plain;
		if (!*frame)
			break;
		while (i < sizeof(names) / sizeof(names[0]) &&
		       strncmp(frame, names[i].name, strlen(names[i].name)) != 0)
			i++;
		if (i == sizeof(names) / sizeof(names[0])) {
			buf_append_char(out, *frame++);
			continue;
		}
		if (names[i].value)
			buf_append_string(out, names[i].value);
		frame += strlen(names[i].name);
	}
}
