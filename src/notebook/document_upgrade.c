/*
 * Cells of nbformat 3 (IPython 0.13 to 2) as cells of version 4; see document_read.h.
 *
 * The same steps as nbformat.v4.convert.upgrade_cell(), and the joining of lines of
 * nbformat.v3.rwbase: version 3 was written with and without line ends, so a list whose first
 * line has none gets them.
 */
#include <string.h>

#include "base/buf.h"
#include "notebook/document_read.h"
#include "notebook/emit.h"

/* A member as version 4 has it: a list of lines joined, anything else as it is. */
static struct json *join_lines(const struct json *object, const char *key)
{
	struct json *value = json_get(object, key);
	cleanup_buf struct buf joined = BUF_INIT;
	size_t len = 0;
	const char *text = json_string(json_at(value, 0), &len);
	bool ended = len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r');

	if (json_type_of(value) != JSON_ARRAY)
		return json_keep(value);
	for (size_t i = 0; i < json_length(value); i++) {
		text = json_string(json_at(value, i), &len);
		if (text == NULL)
			return json_keep(value); /* for document_read_cell() to refuse */
		if (i > 0 && !ended)
			buf_append_char(&joined, '\n');
		buf_append(&joined, text, len);
	}
	return json_new_string(buf_bytes(&joined), joined.len);
}

static const struct {
	const char *name, *mime;
} MIMES[] = {
	{"text", "text/plain"},       {"html", "text/html"},
	{"svg", "image/svg+xml"},     {"png", "image/png"},
	{"jpeg", "image/jpeg"},       {"latex", "text/latex"},
	{"json", "application/json"}, {"javascript", "application/javascript"},
};

/* What goes where when a bundle is made. */
struct bundle {
	const struct json *output;
	struct json *made;
};

static const char *mime_of(const char *key)
{
	for (size_t i = 0; i < sizeof(MIMES) / sizeof(MIMES[0]); i++)
		if (strcmp(key, MIMES[i].name) == 0)
			return MIMES[i].mime;
	return key;
}

static int take_datum(const char *key, size_t key_len, struct json *value, void *data)
{
	static const char *const others[] = {"output_type", "execution_count", "metadata",
					     "prompt_number"};
	struct bundle *bundle = data;

	(void)value;
	if (strlen(key) != key_len)
		return 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(key, others[i]) == 0)
			return 0;
	json_set(bundle->made, mime_of(key), join_lines(bundle->output, key));
	return 0;
}

static int take_meta(const char *key, size_t key_len, struct json *value, void *data)
{
	if (strlen(key) == key_len)
		json_set(data, mime_of(key), json_keep(value));
	return 0;
}

/* In version 3 a JSON value was a string of its text. */
static void parse_json(struct json *data)
{
	size_t len = 0;
	const char *text = json_string(json_get(data, "application/json"), &len);
	struct json *value;

	if (text == NULL)
		return;
	value = json_parse(text, len, &JSON_LIMITS, NULL);
	if (value != NULL)
		json_set(data, "application/json", value);
}

static struct json *upgrade_display(const struct json *output, bool is_result)
{
	struct json *made = json_new_object();
	struct json *metadata = json_new_object();
	struct bundle bundle = {.output = output, .made = json_new_object()};

	json_each(output, take_datum, &bundle);
	parse_json(bundle.made);
	json_each(json_get(output, "metadata"), take_meta, metadata);
	json_set_string(made, "output_type", is_result ? "execute_result" : "display_data");
	json_set(made, "data", bundle.made);
	json_set(made, "metadata", metadata);
	if (is_result)
		json_set(made, "execution_count", json_keep(json_get(output, "prompt_number")));
	return made;
}

static struct json *upgrade_output(struct json *output)
{
	const char *type = json_get_string(output, "output_type");
	struct json *made;

	if (type == NULL)
		return json_keep(output);
	if (strcmp(type, "pyout") == 0 || strcmp(type, "display_data") == 0)
		return upgrade_display(output, type[0] == 'p');
	made = json_copy(output);
	json_remove(made, "metadata"); /* version 3 wrote it into every output */
	if (strcmp(type, "pyerr") == 0) {
		json_set_string(made, "output_type", "error");
	} else if (strcmp(type, "stream") == 0) {
		const char *name = json_get_string(output, "stream");

		json_set_string(made, "name", name != NULL ? name : "stdout");
		json_set(made, "text", join_lines(output, "text"));
		json_remove(made, "stream");
	}
	return made;
}

static void upgrade_code(const struct json *cell, struct json *made)
{
	const struct json *outputs = json_get(cell, "outputs");
	const struct json *collapsed = json_get(cell, "collapsed");
	struct json *list = json_new_array();

	for (size_t i = 0; i < json_length(outputs); i++)
		json_push(list, upgrade_output(json_at(outputs, i)));
	json_set(made, "outputs", list);
	json_set(made, "execution_count", json_keep(json_get(cell, "prompt_number")));
	json_set(made, "source",
		 json_get(cell, "input") != NULL ? join_lines(cell, "input")
						 : json_new_string("", 0));
	if (collapsed != NULL)
		json_set(json_get(made, "metadata"), "collapsed", json_copy(collapsed));
}

/* Length of a line without the break at its end. */
static size_t without_break(const char *line, size_t len)
{
	static const char *const breaks[] = {"\r\n",     "\n",           "\r",          "\v",
					     "\f",       "\x1c",         "\x1d",        "\x1e",
					     "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};

	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		size_t size = strlen(breaks[i]);

		if (len >= size && memcmp(line + len - size, breaks[i], size) == 0)
			return len - size;
	}
	return len;
}

/* "## " and the lines in one: str.splitlines() joined by spaces. */
static void upgrade_heading(const struct json *cell, struct json *made)
{
	enum { LEVEL_MAX = 6 };
	cleanup_json struct json *source = join_lines(cell, "source");
	cleanup_buf struct buf heading = BUF_INIT;
	int64_t level = json_get_int(cell, "level", 1);
	size_t left = 0;
	const char *text = json_string(source, &left);

	for (int64_t i = 0; i < level && i < LEVEL_MAX; i++)
		buf_append_char(&heading, '#');
	if (left == 0)
		buf_append_char(&heading, ' ');
	while (left > 0) {
		size_t line = emit_line_length(text, left);

		buf_append_char(&heading, ' ');
		buf_append(&heading, text, without_break(text, line));
		text += line;
		left -= line;
	}
	json_set_string(made, "cell_type", "markdown");
	json_set(made, "source", json_new_string(buf_bytes(&heading), heading.len));
}

struct json *document_upgrade_cell(const struct json *cell)
{
	const char *type = json_get_string(cell, "cell_type");
	const struct json *metadata = json_get(cell, "metadata");
	struct json *made = json_new_object();

	if (json_type_of(cell) != JSON_OBJECT || type == NULL)
		return made;
	json_set_string(made, "cell_type", strcmp(type, "html") == 0 ? "markdown" : type);
	json_set(made, "metadata",
		 json_type_of(metadata) == JSON_OBJECT ? json_copy(metadata) : json_new_object());
	if (strcmp(type, "code") == 0)
		upgrade_code(cell, made);
	else if (strcmp(type, "heading") == 0)
		upgrade_heading(cell, made);
	else
		json_set(made, "source", join_lines(cell, "source"));
	return made;
}
