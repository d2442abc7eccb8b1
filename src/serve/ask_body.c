/*
 * From a body to words, by a table; see ask_body.h.
 */
#include "serve/ask_body.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

enum kind {
	KIND_TEXT,
	KIND_TEXTS,  /* one, or an array of them */
	KIND_COUNT,  /* a whole number from 1 */
	KIND_SEED,   /* a whole number from 0 */
	KIND_TIME,   /* seconds above 0 */
	KIND_DEGREE, /* 0 to 2 */
	KIND_EFFORT,
	KIND_SHOW,
	KIND_MODEL,
	KIND_URL,
	KIND_HOST, /* a text for peers of our own uid */
	KIND_OWN,  /* not an option: see take_own() */
};

static const struct field {
	const char *name;   /* in the body */
	const char *option; /* of the program */
	enum kind kind;
	int64_t max; /* of a number */
} FIELDS[] = {
	{"instruction", NULL, KIND_OWN, 0},
	{"system", NULL, KIND_OWN, 0},
	{"session", NULL, KIND_OWN, 0},
	{"detach", NULL, KIND_OWN, 0},
	{"model", "model", KIND_MODEL, 0},
	{"url", "url", KIND_URL, 0},
	{"workspace", "workspace", KIND_HOST, 0},
	{"script", "script", KIND_HOST, 0},
	{"effort", "effort", KIND_EFFORT, 0},
	{"programs", "programs", KIND_COUNT, ASK_PROGRAMS_MAX},
	{"tokens", "tokens", KIND_COUNT, 10000000},
	{"seconds", "time", KIND_TIME, 86400},
	{"run_seconds", "timeout", KIND_TIME, 86400},
	{"expect", "expect", KIND_TEXTS, 0},
	{"assert", "assert", KIND_TEXTS, 0},
	{"input", "input", KIND_TEXT, 0},
	{"temperature", "temperature", KIND_DEGREE, 0},
	{"seed", "seed", KIND_SEED, INT32_MAX},
	{"attempts", "attempts", KIND_SHOW, 0},
};

struct reading {
	struct ask_body *ask;
	const struct ask_rules *rules;
	struct err *err;
	bool slash; /* in the model's name */
};

void ask_body_add(struct ask_body *ask, const char *name, const char *text)
{
	assert(ask->word_count + 1 < ASK_WORDS_MAX);
	ask->words[ask->word_count++] =
		text ? mem_format("--%s=%s", name, text) : mem_format("--%s", name);
	ask->words[ask->word_count] = NULL;
}

void ask_body_release(struct ask_body *ask)
{
	for (size_t i = 0; i < ask->word_count; i++)
		free(ask->words[i]);
	ask->word_count = 0;
}

/* --- values ----------------------------------------------------------------------------------- */

/* A text that can be a word; NULL after an error. */
static const char *text_of(const char *name, const struct json *value, struct err *err)
{
	size_t len = 0;
	const char *text = json_string(value, &len);

	if (!text)
		err_set(err, ERR_INVALID, "\"%s\" is a string", name);
	else if (strlen(text) != len)
		err_set(err, ERR_INVALID, "\"%s\" has a NUL character", name);
	else if (len > ASK_TEXT_BYTES_MAX)
		err_set(err, ERR_LIMIT, "\"%s\" has more than %d KiB", name,
			ASK_TEXT_BYTES_MAX >> 10);
	else
		return text;
	return NULL;
}

static int add_text(struct reading *reading, const struct field *field, const struct json *value)
{
	const char *text = text_of(field->name, value, reading->err);

	if (!text)
		return -1;
	ask_body_add(reading->ask, field->option, text);
	return 0;
}

static int add_texts(struct reading *reading, const struct field *field, const struct json *value)
{
	size_t count = json_length(value);

	if (json_type_of(value) != JSON_ARRAY)
		return add_text(reading, field, value);
	if (count > ASK_CHECKS_MAX)
		return err_set(reading->err, ERR_INVALID, "\"%s\" has more than %d items",
			       field->name, ASK_CHECKS_MAX);
	for (size_t i = 0; i < count; i++)
		if (add_text(reading, field, json_at(value, i)) != 0)
			return -1;
	return 0;
}

static int add_whole(struct reading *reading, const struct field *field, const struct json *value,
		     int64_t min)
{
	int64_t number = json_type_of(value) == JSON_INT ? json_int(value, -1) : -1;
	cleanup_free char *text = mem_format("%lld", (long long)number);

	if (number < min || number > field->max)
		return err_set(reading->err, ERR_INVALID,
			       "\"%s\" is a whole number from %lld to %lld", field->name,
			       (long long)min, (long long)field->max);
	ask_body_add(reading->ask, field->option, text);
	return 0;
}

static int add_number(struct reading *reading, const struct field *field, const struct json *value,
		      bool zero, double max)
{
	double number = json_double(value, -1);
	cleanup_free char *text = mem_format("%.6f", number);

	if (number < 0 || (!zero && number < 0.001) || number > max)
		return err_set(reading->err, ERR_INVALID, "\"%s\" is a number from %s to %g",
			       field->name, zero ? "0" : "0.001", max);
	ask_body_add(reading->ask, field->option, text);
	return 0;
}

static int add_choice(struct reading *reading, const struct field *field, const struct json *value,
		      const char *const *choices, const char *shown)
{
	const char *text = json_string(value, NULL);

	for (; text && *choices; choices++) {
		if (strcmp(text, *choices) != 0)
			continue;
		ask_body_add(reading->ask, field->option, text);
		return 0;
	}
	return err_set(reading->err, ERR_INVALID, "\"%s\" is %s", field->name, shown);
}

/* --- what reaches into the host --------------------------------------------------------------- */

static int add_model(struct reading *reading, const struct field *field, const struct json *value)
{
	const char *text = text_of(field->name, value, reading->err);
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return -1;
	reading->slash = strchr(text, '/') != NULL;
	if (!reading->rules->trusted && (text[0] == '/' || text[0] == '.' || text[0] == '~' ||
					 (len >= 5 && strcmp(text + len - 5, ".gguf") == 0)))
		return err_set(reading->err, ERR_DENIED,
			       "a file as \"model\" can be named over the Unix socket only: give "
			       "a name of fumehood model list");
	ask_body_add(reading->ask, field->option, text);
	return 0;
}

static int add_url(struct reading *reading, const struct field *field, const struct json *value)
{
	const struct ask_rules *rules = reading->rules;
	const char *text = text_of(field->name, value, reading->err);
	bool allowed = rules->trusted;

	if (!text)
		return -1;
	for (size_t i = 0; i < rules->url_count; i++)
		allowed |= strcmp(rules->urls[i], text) == 0;
	if (!allowed)
		return err_set(reading->err, ERR_DENIED,
			       "this daemon asks no such server for a token: it is told which by "
			       "fumehood serve --ask-url");
	ask_body_add(reading->ask, field->option, text);
	return 0;
}

static int add_host(struct reading *reading, const struct field *field, const struct json *value)
{
	if (!reading->rules->trusted)
		return err_set(reading->err, ERR_DENIED,
			       "\"%s\" reaches into the host: it can be chosen over the Unix "
			       "socket only",
			       field->name);
	return add_text(reading, field, value);
}

/* --- all -------------------------------------------------------------------------------------- */

/* What is no option of the command line. */
static int take_own(struct reading *reading, const char *name, const struct json *value)
{
	struct ask_body *ask = reading->ask;
	struct err *err = reading->err;

	if (strcmp(name, "detach") == 0) {
		if (json_type_of(value) != JSON_BOOL)
			return err_set(err, ERR_INVALID, "\"detach\" is true or false");
		ask->detach = json_bool(value, false);
		return 0;
	}
	if (strcmp(name, "session") == 0) {
		ask->session = text_of(name, value, err);
		return ask->session ? 0 : -1;
	}
	if (strcmp(name, "system") == 0) {
		ask->system = json_string(value, &ask->system_len);
		if (!ask->system || ask->system_len > ASK_INSTRUCTION_BYTES_MAX)
			return err_set(err, ERR_INVALID,
				       "\"system\" is a string of at most %d bytes",
				       ASK_INSTRUCTION_BYTES_MAX);
		return 0;
	}
	ask->instruction = json_string(value, &ask->instruction_len);
	if (!ask->instruction || ask->instruction_len == 0 ||
	    ask->instruction_len > ASK_INSTRUCTION_BYTES_MAX)
		return err_set(err, ERR_INVALID, "\"instruction\" is a string of 1 to %d bytes",
			       ASK_INSTRUCTION_BYTES_MAX);
	return 0;
}

static int take_field(struct reading *reading, const struct field *field, const struct json *value)
{
	static const char *const efforts[] = {"low", "medium", "high", NULL};
	static const char *const shows[] = {"show", "hide", NULL};

	switch (field->kind) {
	case KIND_TEXT:
		return add_text(reading, field, value);
	case KIND_TEXTS:
		return add_texts(reading, field, value);
	case KIND_COUNT:
		return add_whole(reading, field, value, 1);
	case KIND_SEED:
		return add_whole(reading, field, value, 0);
	case KIND_TIME:
		return add_number(reading, field, value, false, (double)field->max);
	case KIND_DEGREE:
		return add_number(reading, field, value, true, 2);
	case KIND_EFFORT:
		return add_choice(reading, field, value, efforts, "low, medium or high");
	case KIND_SHOW:
		return add_choice(reading, field, value, shows, "show or hide");
	case KIND_MODEL:
		return add_model(reading, field, value);
	case KIND_URL:
		return add_url(reading, field, value);
	case KIND_HOST:
		return add_host(reading, field, value);
	case KIND_OWN:
		return take_own(reading, field->name, value);
	}
	return -1;
}

static int take_member(const char *key, size_t len, struct json *value, void *data)
{
	struct reading *reading = data;

	for (size_t i = 0; i < sizeof(FIELDS) / sizeof(FIELDS[0]); i++)
		if (strlen(FIELDS[i].name) == len && memcmp(FIELDS[i].name, key, len) == 0)
			return take_field(reading, &FIELDS[i], value);
	return err_set(reading->err, ERR_INVALID, "an ask has no member \"%.40s\"", key);
}

static int check_size(const struct ask_body *ask, struct err *err)
{
	size_t bytes = 0;

	for (size_t i = 0; i < ask->word_count; i++)
		bytes += strlen(ask->words[i]) + 1;
	if (bytes > ASK_TEXTS_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "the options of an ask have more than %d KiB in all",
			       ASK_TEXTS_BYTES_MAX >> 10);
	return 0;
}

int ask_body_read(const struct json *body, const struct ask_rules *rules, struct ask_body *ask,
		  struct err *err)
{
	struct reading reading = {.ask = ask, .rules = rules, .err = err};

	*ask = (struct ask_body)ASK_BODY_INIT;
	if (json_each(body, take_member, &reading) != 0)
		return -1;
	if (!ask->instruction)
		return err_set(err, ERR_INVALID, "an ask needs \"instruction\": a string");
	/* To a server it is a name ("org/model"), to us a path. */
	if (reading.slash && !rules->trusted && !json_has(body, "url"))
		return err_set(err, ERR_DENIED,
			       "a path as \"model\" can be named over the Unix socket only");
	if (ask->session && json_has(body, "workspace"))
		return err_set(err, ERR_INVALID,
			       "a session has its workspace: give \"session\" or \"workspace\"");
	return check_size(ask, err);
}
