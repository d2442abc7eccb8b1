/*
 * fumehood config: every setting with its value and where that comes from.
 *
 * It reads the settings just as the other commands do, so what it prints is what they will use, and
 * what they would refuse it refuses with the same words. Defaults that depend on the machine (the
 * Python, the number of processes) are looked up to be shown.
 */
#include "base/mem.h"
#include "base/settings.h"
#include "base/text.h"
#include "cli/begin.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/table.h"
#include "sandbox/policy.h"

enum { KEY_WIDTH = 23, SOURCE_WIDTH = 11, VALUE_CHARS_MAX = 60 };

/* The value in effect, owned by the caller. */
static struct json *effective(const struct settings *settings, enum setting_id id)
{
	const struct json *value = settings_json(settings, id);
	cleanup_free char *python = NULL;
	struct policy policy;

	if (id == SETTING_LIMITS_PROCESSES && !value) {
		policy_init(&policy);
		return json_new_int((int64_t)policy.processes_max);
	}
	if (id == SETTING_PYTHON && !value) {
		python = begin_python(NULL, settings, NULL);
		return python ? json_new_string(python, strlen(python)) : NULL;
	}
	return json_copy(value);
}

/* The file or the variable that has said it; NULL: nobody has. */
static const char *place(const struct settings *settings, enum setting_id id)
{
	switch (settings->items[id].source) {
	case SETTING_FROM_FILE:
		return settings->file;
	case SETTING_FROM_ENVIRONMENT:
		return SETTINGS[id].variable;
	case SETTING_FROM_DEFAULT:
		break;
	}
	return NULL;
}

static void set_text(struct json *object, const char *key, const char *text)
{
	json_set(object, key, text ? json_new_string(text, strlen(text)) : NULL);
}

static void put_json(struct buf *out, const struct settings *settings, enum setting_id id)
{
	cleanup_json struct json *line = json_new_object();
	cleanup_buf struct buf allowed = BUF_INIT;

	setting_write_allowed(&allowed, id);
	set_text(line, "key", SETTINGS[id].key);
	json_set(line, "value", effective(settings, id));
	set_text(line, "from", setting_source_name(settings->items[id].source));
	set_text(line, "where", place(settings, id));
	set_text(line, "variable", SETTINGS[id].variable);
	set_text(line, "allowed", buf_bytes(&allowed));
	set_text(line, "about", SETTINGS[id].about);
	json_write(out, line);
	buf_append_char(out, '\n');
}

/* What is shown where there is no value. */
static const char *nothing(enum setting_id id)
{
	if (SETTINGS[id].or_null)
		return "no limit";
	return id == SETTING_PYTHON ? "(none is found)" : "(not set)";
}

static void put_line(struct buf *out, const struct settings *settings, enum setting_id id)
{
	cleanup_json struct json *value = effective(settings, id);
	cleanup_buf struct buf text = BUF_INIT;
	const char *string = json_string(value, NULL);
	size_t cut;

	if (string)
		buf_append_string(&text, string);
	else if (value)
		json_write(&text, value);
	else
		buf_append_string(&text, nothing(id));
	cut = text_prefix(buf_bytes(&text), text.len, VALUE_CHARS_MAX);
	if (cut < text.len) {
		buf_truncate(&text, cut);
		buf_append_string(&text, "...");
	}
	table_cell(out, SETTINGS[id].key, KEY_WIDTH);
	table_cell(out, setting_source_name(settings->items[id].source), SOURCE_WIDTH);
	text_escape(out, buf_bytes(&text), text.len, false, false);
	buf_append_char(out, '\n');
}

static void put_file(struct buf *out, const struct settings *settings)
{
	if (!settings->file) {
		buf_append_string(out, "\nno file is read\n");
		return;
	}
	buf_append_string(out, settings->file_read ? "\nthe file is " : "\nthere is no file ");
	text_escape(out, settings->file, strlen(settings->file), false, false);
	buf_append_char(out, '\n');
}

static int print_settings(bool json)
{
	cleanup_settings struct settings settings = {.file = NULL};
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	if (settings_load(&settings, &err) != 0)
		return say_err(&err);
	if (!json)
		buf_printf(&out, "%-*s  %-*s  %s\n", KEY_WIDTH, "KEY", SOURCE_WIDTH, "FROM",
			   "VALUE");
	for (enum setting_id id = 0; id < SETTING_COUNT; id++)
		(json ? put_json : put_line)(&out, &settings, id);
	if (!json)
		put_file(&out, &settings);
	return say_out(buf_bytes(&out), out.len);
}

static int command_config(const struct command *command, int argc, char **argv)
{
	bool json = false, schema = false;
	const struct option table[] = {
		{"json", 'j', OPTION_FLAG, &json},
		{"schema", '\0', OPTION_FLAG, &schema},
	};
	cleanup_options struct options options = {.words = NULL};
	cleanup_buf struct buf out = BUF_INIT;
	int status = command_begin(command, &options, table, 2, argc, argv, 0, 0);

	if (status >= 0)
		return status;
	if (json && schema)
		return say_usage(command, "--json and --schema exclude each other");
	if (!schema)
		return print_settings(json);
	settings_write_schema(&out);
	return say_out(buf_bytes(&out), out.len);
}

const struct command COMMAND_CONFIG = {
	.name = "config",
	.summary = "show the settings and where each comes from",
	.example = "fumehood config",
	.help = "Usage: fumehood config [--json | --schema]\n"
		"\n"
		"Prints every setting, its value, and what has set it: the file, a variable of "
		"the\n"
		"environment, or nothing. A file that is wrong is an error, which says where and "
		"why.\n"
		"fumehood-config(5) describes the file.\n"
		"\n"
		"  fumehood config\n"
		"  fumehood config --json | jq -r 'select(.from!=\"default\").key'\n"
		"\n"
		"Options:\n"
		"  -j, --json           one JSON object a setting\n"
		"      --schema         the JSON Schema of the file, for editors\n"
		"\n"
		"Exit status: 0, 125 if the settings are wrong.\n",
	.run = command_config,
};
