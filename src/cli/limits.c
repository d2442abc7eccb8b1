/*
 * fumehood limits: what a session may use, and changing it while it lives.
 *
 * Which limits there are is the keeper's to say. Here only the form of a value is known, by the end
 * of its name: _s is a time, _bytes a size, anything else a number; "none" is no limit.
 */
#include "base/mem.h"
#include "cli/ask.h"
#include "cli/say.h"
#include "cli/table.h"

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* Puts NAME=VALUE into the object. */
static int read_word(const char *word, struct json *set, struct err *err)
{
	const char *equals = strchr(word, '=');
	cleanup_free char *name = NULL;
	const char *value;
	uint64_t number;
	double seconds;

	if (!equals || equals == word)
		return err_set(err, ERR_USAGE, "a limit is changed by NAME=VALUE, not by %s", word);
	name = mem_copy(word, (size_t)(equals - word));
	value = equals + 1;
	if (json_get(set, name))
		return err_set(err, ERR_USAGE, "%s is named twice", name);
	if (strcmp(value, "none") == 0) {
		json_set(set, name, NULL);
		return 0;
	}
	if (strcmp(name, "cpus") == 0) {
		char *end;

		seconds = strtod(value, &end);
		if (*end || !(seconds > 0))
			return err_set(err, ERR_USAGE,
				       "cpus takes a number above 0, such as 1.5, not %s", value);
		json_set(set, name, json_new_double(seconds));
		return 0;
	}
	if (ends_with(name, "_s")) {
		if (options_seconds(value, &seconds) != 0 || seconds <= 0)
			return err_set(err, ERR_USAGE,
				       "%s takes a time above 0, such as 30, 0.5, 2m, not %s", name,
				       value);
		json_set(set, name, json_new_double(seconds));
		return 0;
	}
	if (options_size(value, &number) != 0 || number > INT64_MAX ||
	    (!ends_with(name, "_bytes") && strspn(value, "0123456789") != strlen(value)))
		return err_set(err, ERR_USAGE, "%s takes a %s, not %s", name,
			       ends_with(name, "_bytes") ? "size, such as 500M or 2G" : "number",
			       value);
	json_set_int(set, name, (int64_t)number);
	return 0;
}

static void put_value(struct buf *out, const char *name, const struct json *value)
{
	if (json_type_of(value) == JSON_NULL)
		buf_append_string(out, "none");
	else if (ends_with(name, "_s"))
		buf_printf(out, "%gs", json_double(value, 0));
	else if (json_type_of(value) == JSON_DOUBLE)
		buf_printf(out, "%g", json_double(value, 0));
	else if (ends_with(name, "_bytes"))
		table_size(out, json_int(value, 0));
	else
		buf_printf(out, "%lld", (long long)json_int(value, 0));
}

static int put_row(const char *name, size_t len, struct json *about, void *data)
{
	struct buf *out = data;
	const char *changes = json_get_string(about, "changes");
	const struct json *next = json_get(about, "next");
	size_t start;

	(void)len;
	table_cell(out, name, 16);
	start = out->len;
	put_value(out, name, json_get(about, "value"));
	table_pad(out, start, 8);
	if (next) {
		put_value(out, name, next);
		buf_append_string(out, " from the next restart");
	} else if (changes && strcmp(changes, "lower") == 0) {
		buf_append_string(out, "lowered at once, raised at the next restart");
	} else {
		buf_append_string(out, changes && strcmp(changes, "now") == 0
					       ? "at once"
					       : "at the next restart");
	}
	buf_append_char(out, '\n');
	return 0;
}

static int print_table(const struct json *limits)
{
	cleanup_buf struct buf out = BUF_INIT;

	buf_append_string(&out, "LIMIT             VALUE     CHANGES\n");
	json_each(limits, put_row, &out);
	return say_out(buf_bytes(&out), out.len);
}

static int command_limits(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_ask struct ask ask = ASK_INIT;
	cleanup_json struct json *set = json_new_object();
	cleanup_buf struct buf text = BUF_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &options, table, 1, argc, argv, 1, 64);

	if (status >= 0)
		return status;
	for (size_t i = 1; i < options.word_count; i++)
		if (read_word(options.words[i], set, &err) != 0)
			return say_usage(command, "%s", err.text);
	if (ask_open(&ask, options.words[0], options.word_count > 1, &err) != 0)
		return say_err(&err);
	json_write(&text, set);
	status = ask_take(&ask, fh_limits(ask.session, buf_bytes(&text), &error), &error, json);
	return status >= 0 ? status : print_table(ask.answer);
}

const struct command COMMAND_LIMITS = {
	.name = "limits",
	.summary = "show or change what a session may use",
	.example = "fumehood limits work wall_s=10m",
	.help = "Usage: fumehood limits SESSION [NAME=VALUE...] [--json]\n"
		"\n"
		"Shows the limits of a running session, or changes them, all that are named or "
		"none. The\n"
		"changes are kept for later starts. Those of time, output, queue and record hold "
		"at once, for\n"
		"the running cell too; processes, files and file_bytes are lowered at once; "
		"whatever else is\n"
		"changed holds from the next restart. With changes, a session that is not running "
		"is started.\n"
		"\n"
		"  fumehood limits work\n"
		"  fumehood limits work wall_s=10m output_bytes=256M\n"
		"  fumehood limits work tmp_bytes=4G && fumehood restart work\n"
		"\n"
		"Options:\n"
		"  -j, --json           print {\"NAME\":{\"value\":...,\"changes\":...},...}\n",
	.run = command_limits,
};
