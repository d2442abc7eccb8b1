/*
 * Fuzzes settings: any bytes as a configuration file, and as the value of each variable. What is
 * taken is what the key allows, and what is refused is said in UTF-8 with the file's or the
 * variable's name.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/settings_impl.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(const struct settings *settings)
{
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		enum setting_source source = settings->items[id].source;

		/* The variable of the Python may be a relative path. */
		if (source == SETTING_FROM_DEFAULT ||
		    (source == SETTING_FROM_ENVIRONMENT && id == SETTING_PYTHON))
			continue;
		assert(setting_fits(id, settings_json(settings, id)));
	}
}

static void check_error(const struct err *err, const char *name)
{
	assert(err->code == ERR_INVALID || err->code == ERR_LIMIT);
	assert(strncmp(err->text, name, strlen(name)) == 0);
	assert(text_is_utf8(err->text, strlen(err->text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = mem_copy(data, size);
	cleanup_settings struct settings settings;
	struct err err = ERR_INIT;

	settings_init(&settings);
	if (settings_read(&settings, text, size, "/f.json", &err) != 0)
		check_error(&err, "/f.json:");
	check_values(&settings);
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		if (!SETTINGS[id].variable)
			continue;
		err = (struct err)ERR_INIT;
		if (settings_read_variable(&settings, id, text, &err) != 0)
			check_error(&err, SETTINGS[id].variable);
	}
	check_values(&settings);
	return 0;
}
