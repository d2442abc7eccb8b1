/*
 * Settings of this process: where the file is, and which variables are set. See settings.h.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/settings.h"

int settings_path(char **path, bool *named, struct err *err)
{
	const char *chosen = getenv("FUMEHOOD_CONFIG");
	cleanup_free char *directory = NULL;

	*path = NULL;
	*named = chosen != NULL;
	if (chosen && !*chosen)
		return 0;
	/* Pools and keepers read it too, and they are in another directory. */
	if (chosen && chosen[0] != '/')
		return err_set(err, ERR_INVALID, "FUMEHOOD_CONFIG must be an absolute path, not %s",
			       chosen);
	if (chosen) {
		*path = mem_string(chosen);
		return 0;
	}
	/* Who has no home has no file either: that is no error. */
	directory = paths_config(NULL);
	if (directory)
		*path = mem_format("%s/config.json", directory);
	return 0;
}

static int read_file(struct settings *settings, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err why = ERR_INIT;
	bool named;

	if (settings_path(&settings->file, &named, err) != 0)
		return -1;
	if (!settings->file)
		return 0;
	if (file_read(AT_FDCWD, settings->file, SETTINGS_BYTES_MAX, &bytes, &why) != 0) {
		if (why.code == ERR_NOT_FOUND && !named)
			return 0;
		if (err)
			*err = why;
		return err_wrap(err, named ? "FUMEHOOD_CONFIG" : "the configuration");
	}
	settings->file_read = true;
	return settings_read(settings, buf_bytes(&bytes), bytes.len, settings->file, err);
}

int settings_load(struct settings *settings, struct err *err)
{
	settings_init(settings);
	if (read_file(settings, err) != 0)
		return -1;
	for (enum setting_id id = 0; id < SETTING_COUNT; id++) {
		const char *variable = SETTINGS[id].variable;
		const char *text = variable ? getenv(variable) : NULL;

		if (text && settings_read_variable(settings, id, text, err) != 0)
			return -1;
	}
	return 0;
}
