/*
 * Outputs as they stand in a file, made to fit nbformat.v4.5.schema.json; see document_read.h.
 *
 * Each output becomes a new object that has the keys of its type and no others. Values of a mime
 * bundle are put into form when they are printed (emit_bundle()); here they are only joined, and it
 * is said when one is of a wrong type.
 */
#include <string.h>

#include "base/buf.h"
#include "notebook/document_read.h"

struct reader {
	const char *what; /* "cell 3" */
	size_t number;    /* of the output, from 1 */
	struct document_repairs *repairs;
	struct json *data; /* the bundle that is being made */
};

static void repair(const struct reader *reader, const char *text)
{
	document_repair(reader->repairs, "%s, output %zu: %s", reader->what, reader->number, text);
}

/* A string; the JSON text of anything else. */
static struct json *to_string(const struct reader *reader, const struct json *value,
			      const char *complaint)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct json *string = document_join(value);

	if (string != NULL)
		return string;
	repair(reader, complaint);
	if (value != NULL)
		json_write(&text, value);
	return json_new_string(buf_bytes(&text), text.len);
}

static bool mime_is_json(const char *mime)
{
	size_t len = strlen(mime);

	return strcmp(mime, "application/json") == 0 ||
	       (strncmp(mime, "application/", 12) == 0 && len > 5 &&
		strcmp(mime + len - 5, "+json") == 0);
}

static int take_mime(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reader *reader = data;

	if (strlen(key) != key_len) {
		repair(reader, "a key of data holds NUL: dropped");
		return 0;
	}
	if (mime_is_json(key))
		json_set(reader->data, key, json_keep(value));
	else
		json_set(reader->data, key,
			 to_string(reader, value, "a value of data is no text: made its JSON"));
	return 0;
}

static struct json *read_object(const struct reader *reader, const struct json *output,
				const char *key, const char *complaint)
{
	struct json *value = json_get(output, key);

	if (json_type_of(value) == JSON_OBJECT)
		return json_keep(value);
	repair(reader, complaint);
	return json_new_object();
}

static struct json *read_display(struct reader *reader, const struct json *output, bool is_result)
{
	struct json *made = json_new_object();
	cleanup_json struct json *data =
		read_object(reader, output, "data", "data is no object: made {}");
	const struct json *count = json_get(output, "execution_count");

	reader->data = json_new_object();
	json_each(data, take_mime, reader);
	json_set_string(made, "output_type", is_result ? "execute_result" : "display_data");
	json_set(made, "data", reader->data);
	json_set(made, "metadata",
		 read_object(reader, output, "metadata", "metadata is no object: made {}"));
	if (!is_result)
		return made;
	if (!document_has(output, "execution_count"))
		repair(reader, "execution_count is missing: made null");
	else if (count != NULL && json_int(count, -1) < 0)
		repair(reader, "execution_count is no count: made null");
	json_set(made, "execution_count",
		 json_int(count, -1) >= 0 ? json_new_int(json_int(count, -1)) : NULL);
	return made;
}

static struct json *read_stream(const struct reader *reader, const struct json *output)
{
	struct json *made = json_new_object();
	const char *name = json_get_string(output, "name");

	if (name == NULL)
		repair(reader, "a stream has no name: taken as stdout");
	json_set_string(made, "output_type", "stream");
	json_set_string(made, "name", name != NULL ? name : "stdout");
	json_set(made, "text", to_string(reader, json_get(output, "text"), "text is no text"));
	return made;
}

static struct json *read_error(const struct reader *reader, const struct json *output)
{
	struct json *made = json_new_object();
	struct json *lines = json_new_array();
	const struct json *traceback = json_get(output, "traceback");

	json_set_string(made, "output_type", "error");
	json_set(made, "ename", to_string(reader, json_get(output, "ename"), "ename is no text"));
	json_set(made, "evalue",
		 to_string(reader, json_get(output, "evalue"), "evalue is no text"));
	if (json_type_of(traceback) == JSON_ARRAY) {
		for (size_t i = 0; i < json_length(traceback); i++)
			json_push(lines, to_string(reader, json_at(traceback, i),
						   "a line of the traceback is no text"));
	} else {
		repair(reader, "traceback is no list");
		if (json_type_of(traceback) == JSON_STRING)
			json_push(lines, document_join(traceback));
	}
	json_set(made, "traceback", lines);
	return made;
}

struct kind {
	const char *name;
	const char *keys[5];
};

static const struct kind KINDS[] = {
	{"stream", {"output_type", "name", "text", NULL}},
	{"display_data", {"output_type", "data", "metadata", NULL}},
	{"execute_result", {"output_type", "data", "metadata", "execution_count", NULL}},
	{"error", {"output_type", "ename", "evalue", "traceback", NULL}},
};

/* json_each(): counts the keys that the kind does not know. */
struct key_count {
	const struct kind *kind;
	size_t unknown;
};

static int count_key(const char *key, size_t key_len, struct json *value, void *data)
{
	struct key_count *count = data;

	(void)key_len;
	(void)value;
	for (size_t i = 0; count->kind->keys[i] != NULL; i++)
		if (strcmp(key, count->kind->keys[i]) == 0)
			return 0;
	count->unknown++;
	return 0;
}

/* NULL when the output cannot be kept. */
static struct json *read_output(struct reader *reader, const struct json *output)
{
	const char *type = json_get_string(output, "output_type");
	struct key_count count = {.kind = NULL};
	size_t i = 0;

	while (type != NULL && i < 4 && strcmp(type, KINDS[i].name) != 0)
		i++;
	if (type == NULL || i == 4) {
		repair(reader, "its type is none of nbformat's: dropped");
		return NULL;
	}
	count.kind = &KINDS[i];
	json_each(output, count_key, &count);
	if (count.unknown > 0)
		repair(reader, "keys that its type does not have: dropped");
	if (i == 0)
		return read_stream(reader, output);
	return i == 3 ? read_error(reader, output) : read_display(reader, output, i == 2);
}

struct json *document_read_outputs(const struct json *given, const char *what,
				   struct document_repairs *repairs)
{
	struct reader reader = {.what = what, .repairs = repairs};
	struct json *made = NULL;

	if (json_type_of(given) != JSON_ARRAY) {
		document_repair(repairs, "%s: outputs is no list: made []", what);
		return NULL;
	}
	for (size_t i = 0; i < json_length(given); i++) {
		struct json *output;

		reader.number = i + 1;
		output = read_output(&reader, json_at(given, i));
		if (output == NULL)
			continue;
		if (made == NULL)
			made = json_new_array();
		json_push(made, output);
	}
	return made;
}
