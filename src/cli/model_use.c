/*
 * fumehood model use: which model is asked when none is named.
 *
 * That is the setting ask.model, so it is written where settings live: the configuration file is
 * read, changed in this one place and replaced as a whole. What somebody has written there stays,
 * its layout aside.
 */
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/model_verb.h"
#include "cli/say.h"
#include "model/gguf.h"

/* The file's object; an empty one when there is no file. NULL: it cannot be used. */
static struct json *read_config(const char *path, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err why = ERR_INIT;

	if (file_read(AT_FDCWD, path, SETTINGS_BYTES_MAX, &bytes, &why) == 0)
		return json_parse(buf_bytes(&bytes), bytes.len, &JSON_LIMITS, err);
	if (why.code == ERR_NOT_FOUND)
		return json_new_object();
	*err = why;
	return NULL;
}

static int write_config(const char *path, const struct json *config, struct err *err)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *folder = mem_copy(path, (size_t)(slash - path));
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_fd int dirfd = -1;

	if (file_make_dirs(folder[0] ? folder : "/", 0700, err) != 0)
		return -1;
	dirfd = open(folder[0] ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, "cannot open %s", folder);
	json_write_indented(&text, config);
	return file_replace(dirfd, slash + 1, buf_bytes(&text), text.len, 0600, err);
}

static int set_model(const char *path, const char *value, struct err *err)
{
	cleanup_json struct json *config = read_config(path, err);

	if (!config)
		return -1;
	if (json_type_of(json_get(config, "ask")) != JSON_OBJECT)
		json_set(config, "ask", json_new_object());
	json_set_string(json_get(config, "ask"), "model", value);
	return write_config(path, config, err);
}

int model_use(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	const struct catalog_model *model;
	cleanup_free char *path = NULL;
	struct err err = ERR_INIT;
	struct gguf gguf;

	(void)options;
	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	path = catalog_resolve(&house.catalog, name, &err);
	if (!path || gguf_load(path, &gguf, &err) != 0)
		return say_err(&err);
	if (!house.settings.file)
		return say_usage(&COMMAND_MODEL,
				 "there is no configuration file to write to "
				 "(FUMEHOOD_CONFIG is empty): set FUMEHOOD_ASK_MODEL");
	model = catalog_find(&house.catalog, name);
	/* A file of the user's by its path, which must mean the same from everywhere. */
	if (model)
		name = model->name;
	else if (catalog_is_path(name))
		name = path;
	if (set_model(house.settings.file, name, &err) != 0)
		return say_err(&err);
	say("%s is asked from now on (ask.model in %s)", name, house.settings.file);
	if (house.settings.items[SETTING_ASK_MODEL].source == SETTING_FROM_ENVIRONMENT)
		say("but FUMEHOOD_ASK_MODEL is set here, and wins");
	return 0;
}
