/*
 * The pool's part of the configuration; see tuning.h.
 */
#include "pool/tuning.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/python.h"
#include "base/settings.h"
#include "pool/log.h"

struct choice {
	const char *python;
	const struct json *modules;
};

static int find_environment(const char *key, size_t key_len, struct json *value, void *data)
{
	struct choice *choice = data;

	(void)key_len;
	if (key[0] != '/' || !python_is(choice->python, key))
		return 0;
	choice->modules = value;
	return 1;
}

/* The list for this pool's Python as JSON text, owned by the caller; NULL: none was chosen. */
static char *chosen_modules(const struct settings *settings, const char *python)
{
	const struct json *preload = settings_json(settings, SETTING_PRELOAD);
	struct choice choice = {python, NULL};
	cleanup_buf struct buf text = BUF_INIT;

	if (!settings_given(settings, SETTING_PRELOAD))
		return NULL;
	if (json_type_of(preload) == JSON_ARRAY)
		choice.modules = preload;
	else if (json_each(preload, find_environment, &choice) == 0)
		choice.modules = json_get(preload, "default");
	if (!choice.modules)
		return NULL;
	json_write(&text, choice.modules);
	return buf_take(&text, NULL);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* A spare has the default box, so nobody can use it whose sessions have another one. */
static bool box_is_default(const struct settings *settings)
{
	return !settings_given(settings, SETTING_LIMITS_PROCESSES) &&
	       !settings_given(settings, SETTING_LIMITS_FILES) &&
	       !settings_given(settings, SETTING_LIMITS_FILE_BYTES) &&
	       !settings_given(settings, SETTING_LIMITS_TMP_BYTES);
}

static void take(struct tuning *tuning, const struct settings *settings)
{
	cleanup_free char *modules = chosen_modules(settings, tuning->python);

	if (!same(modules, tuning->modules)) {
		free(tuning->modules);
		tuning->modules = mem_take(modules);
		tuning->generation++;
	}
	tuning->idle_s = tuning->idle_s_chosen > 0 ? tuning->idle_s_chosen
						   : settings_count(settings, SETTING_POOL_IDLE_S);
	tuning->spare = settings_bool(settings, SETTING_SPARE) && box_is_default(settings);
}

/* Watches the file as it is now, then reads it: a change in between is seen the next time. */
static void look(struct tuning *tuning)
{
	cleanup_settings struct settings settings = {.file = NULL};
	cleanup_free char *path = NULL;
	struct err err = ERR_INIT;
	bool named;

	fingerprint_release(&tuning->print);
	if (settings_path(&path, &named, NULL) == 0 && path)
		fingerprint_add(&tuning->print, path);
	if (settings_load(&settings, &err) == 0)
		take(tuning, &settings);
	else
		pool_log("the configuration is not used: %s", err.text);
}

void tuning_init(struct tuning *tuning, const char *python, int64_t idle_s)
{
	cleanup_settings struct settings defaults = {.file = NULL};

	*tuning = (struct tuning){.python = python, .idle_s_chosen = idle_s};
	fingerprint_init(&tuning->print);
	settings_init(&defaults);
	take(tuning, &defaults);
	look(tuning);
}

void tuning_release(struct tuning *tuning)
{
	fingerprint_release(&tuning->print);
	free(tuning->modules);
	tuning->modules = NULL;
}

void tuning_refresh(struct tuning *tuning)
{
	if (fingerprint_changed(&tuning->print))
		look(tuning);
}
