/*
 * The table of settings, and what a single value may be. See settings.h.
 *
 * Values are kept as JSON, in the form that the file has: so a default, a line of the file and a
 * variable go through the same check, and printing needs no second table.
 *
 * There is no key for the tier: that a session runs without a sandbox must be said where it is
 * started (--tier none), not by a file that somebody has forgotten. Defaults of limits are those of
 * the keeper (test/flow/test_config.py compares them); they are here to be shown, and nobody passes
 * them on. The least values are those with which a session still starts.
 */
#include "base/settings_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define YEAR_S (365 * 24 * 3600)
/* Beyond it a double, which is what most JSON is read into, is not exact. */
#define COUNT_MAX ((INT64_C(1) << 53) - 1)

static const char *const DURABILITIES[] = {"process", "power", NULL};
static const char *const ROLLED_BACK[] = {"omit", "keep", NULL};
static const char *const EFFORTS[] = {"low", "medium", "high", NULL};

const struct setting_info SETTINGS[SETTING_COUNT] = {
	[SETTING_PYTHON] =
		{
			.key = "python",
			.kind = SETTING_IS_PYTHON,
			.fallback = "null",
			.variable = "FUMEHOOD_PYTHON",
			.about = "Python of a session: an executable or environment, or a name on "
				 "PATH",
		},
	[SETTING_PRELOAD] =
		{
			.key = "preload",
			.kind = SETTING_IS_MODULES,
			.max = SETTING_MODULES_MAX,
			.fallback = "[\"IPython\",\"numpy\",\"pandas\",\"matplotlib.pyplot\"]",
			.about = "modules that a pool imports before sessions begin",
		},
	[SETTING_TIMEOUT] =
		{
			.key = "timeout",
			.kind = SETTING_IS_SECONDS,
			.max = YEAR_S,
			.fallback = "300",
			.variable = "FUMEHOOD_TIMEOUT",
			.about = "longest time a cell may run, in seconds",
		},
	[SETTING_DURABILITY] =
		{
			.key = "durability",
			.kind = SETTING_IS_CHOICE,
			.fallback = "\"process\"",
			.variable = "FUMEHOOD_DURABILITY",
			.about = "what may fail without loss of what was told: a process, or power",
			.choices = DURABILITIES,
		},
	[SETTING_SPARE] =
		{
			.key = "spare",
			.kind = SETTING_IS_BOOL,
			.fallback = "true",
			.variable = "FUMEHOOD_SPARE",
			.about = "whether a session is kept ready before anybody asks",
		},
	[SETTING_LIMITS_OUTPUT_BYTES] =
		{
			.key = "limits.output_bytes",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = COUNT_MAX,
			.fallback = "67108864",
			.variable = "FUMEHOOD_LIMITS_OUTPUT_BYTES",
			.about = "output of a cell that is kept",
		},
	[SETTING_LIMITS_BACKGROUND_BYTES] =
		{
			.key = "limits.background_bytes",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = COUNT_MAX,
			.fallback = "16777216",
			.variable = "FUMEHOOD_LIMITS_BACKGROUND_BYTES",
			.about = "output of a cell after its end",
		},
	[SETTING_LIMITS_QUEUE] =
		{
			.key = "limits.queue",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = 100000,
			.fallback = "64",
			.variable = "FUMEHOOD_LIMITS_QUEUE",
			.about = "cells that wait",
		},
	[SETTING_LIMITS_RECORD_BYTES] =
		{
			.key = "limits.record_bytes",
			.kind = SETTING_IS_COUNT,
			.min = 1 << 20,
			.max = COUNT_MAX,
			.fallback = "4294967296",
			.variable = "FUMEHOOD_LIMITS_RECORD_BYTES",
			.about = "journal and blobs of a session together",
		},
	[SETTING_LIMITS_PROCESSES] =
		{
			.key = "limits.processes",
			.kind = SETTING_IS_COUNT,
			.min = 16,
			.max = 1 << 22,
			.fallback = "null",
			.variable = "FUMEHOOD_LIMITS_PROCESSES",
			.about = "processes and threads; default: 512 and 4 for each CPU",
		},
	[SETTING_LIMITS_FILES] =
		{
			.key = "limits.files",
			.kind = SETTING_IS_COUNT,
			.min = 128,
			.max = 1 << 20,
			.fallback = "1024",
			.variable = "FUMEHOOD_LIMITS_FILES",
			.about = "open files of a process",
		},
	[SETTING_LIMITS_FILE_BYTES] =
		{
			.key = "limits.file_bytes",
			.kind = SETTING_IS_COUNT,
			.min = 4096,
			.max = COUNT_MAX,
			.fallback = "268435456",
			.variable = "FUMEHOOD_LIMITS_FILE_BYTES",
			.about = "size of a file that a session writes",
		},
	[SETTING_LIMITS_TMP_BYTES] =
		{
			.key = "limits.tmp_bytes",
			.kind = SETTING_IS_COUNT,
			.min = 1 << 20,
			.max = COUNT_MAX,
			.fallback = "1073741824",
			.variable = "FUMEHOOD_LIMITS_TMP_BYTES",
			.about = "size of the private /tmp",
		},
	[SETTING_LIMITS_CHECKPOINTS] =
		{
			.key = "limits.checkpoints",
			.kind = SETTING_IS_COUNT,
			.min = 0,
			.max = 64,
			.fallback = "3",
			.variable = "FUMEHOOD_LIMITS_CHECKPOINTS",
			.about = "states after cells that are held by themselves; 0: none",
		},
	[SETTING_LIMITS_MEMORY_BYTES] =
		{
			.key = "limits.memory_bytes",
			.kind = SETTING_IS_COUNT,
			.or_null = true,
			.min = 64 << 20,
			.max = COUNT_MAX,
			.fallback = "2147483648",
			.variable = "FUMEHOOD_LIMITS_MEMORY_BYTES",
			.about = "memory of all processes of a session together",
		},
	[SETTING_LIMITS_DISK_BYTES] =
		{
			.key = "limits.disk_bytes",
			.kind = SETTING_IS_COUNT,
			.or_null = true,
			.min = 1 << 20,
			.max = COUNT_MAX,
			.fallback = "1073741824",
			.variable = "FUMEHOOD_LIMITS_DISK_BYTES",
			.about = "what a private workspace may take",
		},
	[SETTING_LIMITS_DISK_INODES] =
		{
			.key = "limits.disk_inodes",
			.kind = SETTING_IS_COUNT,
			.or_null = true,
			.min = 16,
			.max = COUNT_MAX,
			.fallback = "200000",
			.variable = "FUMEHOOD_LIMITS_DISK_INODES",
			.about = "files and folders in a private workspace",
		},
	[SETTING_LIMITS_CPUS] =
		{
			.key = "limits.cpus",
			.kind = SETTING_IS_NUMBER,
			.or_null = true,
			.max = 4096,
			.fallback = "null",
			.variable = "FUMEHOOD_LIMITS_CPUS",
			.about = "processors that a session may use at a time, such as 1.5",
		},
	[SETTING_LIMITS_CPU_S] =
		{
			.key = "limits.cpu_s",
			.kind = SETTING_IS_SECONDS,
			.or_null = true,
			.max = YEAR_S,
			.fallback = "null",
			.variable = "FUMEHOOD_LIMITS_CPU_S",
			.about = "processor time of a cell, in seconds",
		},
	[SETTING_POOL_IDLE_S] =
		{
			.key = "pool.idle_s",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = 10 * YEAR_S,
			.fallback = "600",
			.variable = "FUMEHOOD_POOL_IDLE_S",
			.about = "seconds without a session after which a pool ends",
		},
	[SETTING_TEXT_MAX_CHARS] =
		{
			.key = "text.max_chars",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = 1 << 26,
			.fallback = "8000",
			.variable = "FUMEHOOD_TEXT_MAX_CHARS",
			.about = "longest text of a cell for a model, in characters",
		},
	[SETTING_NOTEBOOK_ROLLED_BACK] =
		{
			.key = "notebook.rolled_back",
			.kind = SETTING_IS_CHOICE,
			.fallback = "\"omit\"",
			.variable = "FUMEHOOD_NOTEBOOK_ROLLED_BACK",
			.about = "what notebooks do with cells that were rolled back",
			.choices = ROLLED_BACK,
		},
	[SETTING_ASK_MODEL] =
		{
			.key = "ask.model",
			.kind = SETTING_IS_TEXT,
			.max = SETTING_TEXT_BYTES_MAX,
			.fallback = "null",
			.variable = "FUMEHOOD_ASK_MODEL",
			.about = "model that is asked: a name of fumehood model list, or a file",
		},
	[SETTING_ASK_URL] =
		{
			.key = "ask.url",
			.kind = SETTING_IS_TEXT,
			.max = SETTING_TEXT_BYTES_MAX,
			.fallback = "null",
			.variable = "FUMEHOOD_ASK_URL",
			.about = "OpenAI-compatible endpoint of fumehood ask; its key is in "
				 "OPENAI_API_KEY only",
		},
	[SETTING_ASK_EFFORT] =
		{
			.key = "ask.effort",
			.kind = SETTING_IS_CHOICE,
			.fallback = "\"medium\"",
			.variable = "FUMEHOOD_ASK_EFFORT",
			.about = "how many programs a model writes for fumehood ask at most: 2, 3 "
				 "or 5",
			.choices = EFFORTS,
		},
	[SETTING_LLAMA_SERVER] =
		{
			.key = "llama.server",
			.kind = SETTING_IS_TEXT,
			.max = SETTING_TEXT_BYTES_MAX,
			.fallback = "null",
			.variable = "FUMEHOOD_LLAMA_SERVER",
			.about = "llama-server that runs models: an absolute path or a name on "
				 "PATH",
		},
	[SETTING_LLAMA_CONTEXT] =
		{
			.key = "llama.context",
			.kind = SETTING_IS_COUNT,
			.min = 512,
			.max = 1 << 24,
			.fallback = "8192",
			.variable = "FUMEHOOD_LLAMA_CONTEXT",
			.about = "tokens that a model of this machine sees at once, at most",
		},
	[SETTING_LLAMA_THREADS] =
		{
			.key = "llama.threads",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = 4096,
			.fallback = "null",
			.variable = "FUMEHOOD_LLAMA_THREADS",
			.about = "threads of a model's server; default: one for each processor",
		},
	[SETTING_LLAMA_IDLE_S] =
		{
			.key = "llama.idle_s",
			.kind = SETTING_IS_COUNT,
			.min = 1,
			.max = 10 * YEAR_S,
			.fallback = "300",
			.variable = "FUMEHOOD_LLAMA_IDLE_S",
			.about = "seconds without a question after which a model's server ends",
		},
};

/* --- what is allowed -------------------------------------------------------------------------- */

/* A string without NUL; NULL when it is none. */
static const char *whole_string(const struct json *value)
{
	size_t len = 0;
	const char *text = json_string(value, &len);

	return text && strlen(text) == len ? text : NULL;
}

/* SETTING_PYTHON_PATTERN. A relative path would mean another file in each directory, and '~' is
 * expanded by no one. */
static bool is_python(const struct json *value)
{
	const char *text = whole_string(value);

	return text && (text[0] == '/' || (text[0] && text[0] != '~' && !strchr(text, '/')));
}

/* SETTING_MODULE_PATTERN: identifiers with dots between them. Python would take letters of other
 * alphabets as well; nobody has such a module. */
static bool is_module(const struct json *value)
{
	const char *text = whole_string(value);
	bool start = true;

	if (!text || strlen(text) > SETTING_MODULE_BYTES_MAX)
		return false;
	for (; *text; text++) {
		bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			      *text == '_';
		bool digit = *text >= '0' && *text <= '9';

		if (!letter && (start || (!digit && *text != '.')))
			return false;
		start = *text == '.';
	}
	return !start;
}

static bool is_modules(const struct json *value)
{
	size_t count = json_length(value);

	if (json_type_of(value) != JSON_ARRAY || count > SETTING_MODULES_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!is_module(json_at(value, i)))
			return false;
		for (size_t k = 0; k < i; k++)
			if (json_equal(json_at(value, i), json_at(value, k)))
				return false;
	}
	return true;
}

static bool is_choice(const struct setting_info *info, const struct json *value)
{
	const char *text = whole_string(value);

	for (size_t i = 0; text && info->choices[i]; i++)
		if (strcmp(info->choices[i], text) == 0)
			return true;
	return false;
}

static bool is_text(const struct setting_info *info, const struct json *value)
{
	const char *text = whole_string(value);
	size_t len = text ? strlen(text) : 0;

	if (len == 0 || len > (size_t)info->max)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return true;
}

static int check_environment(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)data;
	if (strlen(key) != key_len || (key[0] != '/' && strcmp(key, "default") != 0))
		return -1;
	return is_modules(value) ? 0 : -1;
}

bool setting_fits(enum setting_id id, const struct json *value)
{
	const struct setting_info *info = &SETTINGS[id];
	enum json_type type = json_type_of(value);

	if (type == JSON_NULL)
		return info->or_null;
	switch (info->kind) {
	case SETTING_IS_PYTHON:
		return is_python(value);
	case SETTING_IS_MODULES:
		return is_modules(value) ||
		       (type == JSON_OBJECT && json_each(value, check_environment, NULL) == 0);
	case SETTING_IS_SECONDS:
	case SETTING_IS_NUMBER:
		return (type == JSON_INT || type == JSON_DOUBLE) && json_double(value, 0) > 0 &&
		       json_double(value, 0) <= (double)info->max;
	case SETTING_IS_COUNT:
		return type == JSON_INT && json_int(value, info->min - 1) >= info->min &&
		       json_int(value, info->min - 1) <= info->max;
	case SETTING_IS_BOOL:
		return type == JSON_BOOL;
	case SETTING_IS_CHOICE:
		return is_choice(info, value);
	case SETTING_IS_TEXT:
		return is_text(info, value);
	}
	return false;
}

void setting_write_allowed(struct buf *out, enum setting_id id)
{
	const struct setting_info *info = &SETTINGS[id];

	switch (info->kind) {
	case SETTING_IS_PYTHON:
		buf_append_string(out, "an absolute path, or a name on PATH");
		break;
	case SETTING_IS_MODULES:
		buf_printf(out,
			   "an array of up to %d different names of modules, or an object that has "
			   "such arrays for \"default\" and for absolute paths of Pythons",
			   SETTING_MODULES_MAX);
		break;
	case SETTING_IS_SECONDS:
		buf_printf(out, "a number of seconds above 0, at most %lld", (long long)info->max);
		break;
	case SETTING_IS_NUMBER:
		buf_printf(out, "a number above 0, at most %lld", (long long)info->max);
		break;
	case SETTING_IS_COUNT:
		buf_printf(out, "a whole number from %lld to %lld", (long long)info->min,
			   (long long)info->max);
		break;
	case SETTING_IS_BOOL:
		buf_append_string(out, "true or false");
		break;
	case SETTING_IS_CHOICE:
		for (size_t i = 0; info->choices[i]; i++)
			buf_printf(out, "%s%s", i ? " or " : "", info->choices[i]);
		break;
	case SETTING_IS_TEXT:
		buf_printf(out, "a text of at most %lld bytes, without control characters",
			   (long long)info->max);
		break;
	}
	if (info->or_null)
		buf_append_string(out, ", or null for no limit");
}

/* --- values ----------------------------------------------------------------------------------- */

void setting_put(struct settings *settings, enum setting_id id, struct json *value,
		 enum setting_source source)
{
	json_free(settings->items[id].value);
	settings->items[id] = (struct setting){.value = value, .source = source};
}

void settings_init(struct settings *settings)
{
	*settings = (struct settings){.file = NULL};
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		const char *text = SETTINGS[id].fallback;
		struct json *value = json_parse(text, strlen(text), &JSON_LIMITS, NULL);

		assert(!value || setting_fits(id, value));
		setting_put(settings, id, value, SETTING_FROM_DEFAULT);
	}
}

void settings_release(struct settings *settings)
{
	for (enum setting_id id = 0; id < SETTING_COUNT; id++)
		json_free(settings->items[id].value);
	free(settings->file);
	*settings = (struct settings){.file = NULL};
}

/* A variable's text as the value that the file would have, which can be null. -1: none such. */
static int read_value(enum setting_id id, const char *text, struct json **value)
{
	struct err why = ERR_INIT;

	switch (SETTINGS[id].kind) {
	case SETTING_IS_PYTHON: /* typed where it is used: here a relative path is one */
		if (!text_is_utf8(text, strlen(text)))
			return -1;
		*value = json_new_string(text, strlen(text));
		return 0;
	case SETTING_IS_CHOICE:
	case SETTING_IS_TEXT:
		if (!text_is_utf8(text, strlen(text)))
			return -1;
		*value = json_new_string(text, strlen(text));
		return 0;
	case SETTING_IS_BOOL:
		if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
			break;
		*value = json_new_bool(text[0] == '1');
		return 0;
	case SETTING_IS_MODULES:
	case SETTING_IS_SECONDS:
	case SETTING_IS_NUMBER:
	case SETTING_IS_COUNT:
		break;
	}
	*value = json_parse(text, strlen(text), &JSON_LIMITS, &why);
	return why.code == ERR_OK ? 0 : -1;
}

int settings_read_variable(struct settings *settings, enum setting_id id, const char *text,
			   struct err *err)
{
	cleanup_json struct json *value = NULL;
	cleanup_buf struct buf allowed = BUF_INIT;

	assert(SETTINGS[id].variable);
	if (!*text)
		return 0;
	if (read_value(id, text, &value) == 0 &&
	    (SETTINGS[id].kind == SETTING_IS_PYTHON || setting_fits(id, value))) {
		setting_put(settings, id, mem_take(value), SETTING_FROM_ENVIRONMENT);
		return 0;
	}
	setting_write_allowed(&allowed, id);
	return err_set(err, ERR_INVALID, "%s must be %s, not %.*s", SETTINGS[id].variable,
		       SETTINGS[id].kind == SETTING_IS_PYTHON ? "UTF-8" : buf_bytes(&allowed),
		       (int)text_prefix(text, strlen(text), 40), text);
}

int64_t settings_count(const struct settings *settings, enum setting_id id)
{
	assert(SETTINGS[id].kind == SETTING_IS_COUNT);
	return json_int(settings->items[id].value, 0);
}

double settings_seconds(const struct settings *settings, enum setting_id id)
{
	assert(SETTINGS[id].kind == SETTING_IS_SECONDS);
	return json_double(settings->items[id].value, 0);
}

double settings_number(const struct settings *settings, enum setting_id id)
{
	assert(SETTINGS[id].kind == SETTING_IS_NUMBER || SETTINGS[id].kind == SETTING_IS_SECONDS);
	return json_double(settings->items[id].value, 0);
}

bool settings_bool(const struct settings *settings, enum setting_id id)
{
	assert(SETTINGS[id].kind == SETTING_IS_BOOL);
	return json_bool(settings->items[id].value, false);
}

const char *settings_text(const struct settings *settings, enum setting_id id)
{
	assert(SETTINGS[id].kind == SETTING_IS_PYTHON || SETTINGS[id].kind == SETTING_IS_CHOICE ||
	       SETTINGS[id].kind == SETTING_IS_TEXT);
	return json_string(settings->items[id].value, NULL);
}

const struct json *settings_json(const struct settings *settings, enum setting_id id)
{
	return settings->items[id].value;
}

bool settings_given(const struct settings *settings, enum setting_id id)
{
	return settings->items[id].source != SETTING_FROM_DEFAULT;
}

const char *setting_source_name(enum setting_source source)
{
	static const char *const names[] = {
		[SETTING_FROM_DEFAULT] = "default",
		[SETTING_FROM_FILE] = "file",
		[SETTING_FROM_ENVIRONMENT] = "environment",
	};

	return names[source];
}
