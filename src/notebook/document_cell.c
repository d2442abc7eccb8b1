/*
 * Reading one cell of version 4; see document_read.h. The rules are those of
 * nbformat.v4.5.schema.json.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "notebook/document_read.h"
#include "notebook/meta.h"

struct json *document_join(const struct json *value)
{
	cleanup_buf struct buf joined = BUF_INIT;
	size_t len = 0;
	const char *text = json_string(value, &len);

	if (text != NULL)
		return json_new_string(text, len);
	if (json_type_of(value) != JSON_ARRAY)
		return NULL;
	for (size_t i = 0; i < json_length(value); i++) {
		text = json_string(json_at(value, i), &len);
		if (text == NULL)
			return NULL;
		buf_append(&joined, text, len);
	}
	return json_new_string(buf_bytes(&joined), joined.len);
}

static int is_key(const char *key, size_t key_len, struct json *value, void *wanted)
{
	(void)value;
	return strlen(key) == key_len && strcmp(key, wanted) == 0;
}

bool document_has(const struct json *object, const char *key)
{
	return json_each(object, is_key, (void *)(uintptr_t)key) != 0;
}

/* Heading cells were version 3's; some programs went on writing them. */
static enum document_cell_type read_heading(const struct json *json, struct document_cell *cell)
{
	cleanup_buf struct buf text = BUF_INIT;
	int64_t level = json_get_int(json, "level", 1);

	for (int64_t i = 0; i < level && i < 6; i++)
		buf_append_char(&text, '#');
	buf_append_char(&text, ' ');
	buf_append(&text, cell->source, cell->source_len);
	free(cell->source);
	cell->source_len = text.len;
	cell->source = buf_take(&text, NULL);
	return DOCUMENT_MARKDOWN;
}

static int read_type(const struct json *json, size_t number, struct document_repairs *repairs,
		     struct document_cell *cell, struct err *err)
{
	static const char *const names[] = {"code", "markdown", "raw"};
	const char *name = json_get_string(json, "cell_type");

	if (name == NULL)
		return err_set(err, ERR_INVALID, "cell %zu has no cell_type", number);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			cell->type = (enum document_cell_type)i;
			return 0;
		}
	}
	if (strcmp(name, "heading") == 0) {
		document_repair(repairs, "cell %zu: a heading became markdown", number);
		cell->type = read_heading(json, cell);
		return 0;
	}
	cell->type = strcmp(name, "html") == 0 ? DOCUMENT_MARKDOWN : DOCUMENT_RAW;
	document_repair(repairs, "cell %zu: there is no cell_type \"%.40s\": became %s", number,
			name, names[cell->type]);
	return 0;
}

/* A string, or a list of strings that are joined. What is anything else would be run as a guess. */
static int read_source(const struct json *json, size_t number, struct document_repairs *repairs,
		       struct document_cell *cell, struct err *err)
{
	const struct json *source = json_get(json, "source");
	cleanup_json struct json *joined = document_join(source);
	size_t len = 0;
	const char *text = json_string(joined, &len);

	if (source == NULL && !document_has(json, "source"))
		document_repair(repairs, "cell %zu: source is missing: made empty", number);
	else if (text == NULL)
		return err_set(err, ERR_INVALID, "cell %zu: source is no string or list of strings",
			       number);
	cell->source = mem_copy(text, len);
	cell->source_len = len;
	return 0;
}

static void read_id(const struct json *json, size_t number, bool strict_ids,
		    struct document_repairs *repairs, struct document_cell *cell)
{
	const struct json *id = json_get(json, "id");
	size_t len = 0;
	const char *text = json_string(id, &len);

	if (text != NULL && text_is_id(text, len)) {
		memcpy(cell->id, text, len + 1);
		return;
	}
	if (text != NULL)
		document_repair(repairs, "cell %zu: \"%.70s\" is no id: made one", number, text);
	else if (document_has(json, "id"))
		document_repair(repairs, "cell %zu: its id is no string: made one", number);
	else if (strict_ids)
		document_repair(repairs, "cell %zu: id is missing: made one", number);
}

static int not_string(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)key;
	(void)key_len;
	(void)data;
	return json_type_of(value) != JSON_STRING;
}

/* `execution` tells of the run that made the outputs, and is kept as they are. */
static void read_metadata(const struct json *json, size_t number, struct document_repairs *repairs,
			  struct document_cell *cell)
{
	const struct json *given = json_get(json, "metadata");
	const struct json *execution = json_get(given, "execution");
	cleanup_json struct json *expected = NULL;

	cell->metadata = meta_cell(given, cell->type == DOCUMENT_CODE);
	if (json_type_of(given) != JSON_OBJECT) {
		document_repair(repairs, "cell %zu: metadata is no object: made {}", number);
		return;
	}
	expected = json_copy(given);
	json_remove(expected, "trusted"); /* nbformat drops it without a word */
	if (execution != NULL && cell->type == DOCUMENT_CODE) {
		if (json_type_of(execution) == JSON_OBJECT &&
		    json_each(execution, not_string, NULL) == 0)
			json_set(cell->metadata, "execution", json_copy(execution));
	}
	if (!json_equal(expected, cell->metadata))
		document_repair(repairs, "cell %zu: metadata does not fit the schema: corrected",
				number);
}

static void read_attachments(const struct json *json, size_t number,
			     struct document_repairs *repairs, struct document_cell *cell)
{
	struct json *attachments = json_get(json, "attachments");

	if (attachments == NULL && !document_has(json, "attachments"))
		return;
	if (cell->type == DOCUMENT_CODE)
		document_repair(repairs, "cell %zu: code has no attachments: dropped", number);
	else if (json_type_of(attachments) != JSON_OBJECT)
		document_repair(repairs, "cell %zu: attachments is no object: dropped", number);
	else
		cell->attachments = json_keep(attachments);
}

static void read_count(const struct json *json, size_t number, struct document_repairs *repairs,
		       struct document_cell *cell)
{
	const struct json *count = json_get(json, "execution_count");

	cell->execution_count = json_int(count, -1);
	if (count != NULL && cell->execution_count < 0) {
		document_repair(repairs, "cell %zu: execution_count is no count: made null",
				number);
		cell->execution_count = -1;
	}
}

struct key_check {
	size_t number;
	bool is_code;
	struct document_repairs *repairs;
};

/* json_each(): whether the key is one of a cell's. */
static int check_key(const char *key, size_t key_len, struct json *value, void *data)
{
	static const char *const common[] = {"cell_type", "id", "metadata", "source",
					     "attachments"};
	struct key_check *check = data;

	(void)key_len;
	(void)value;
	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
		if (strcmp(key, common[i]) == 0)
			return 0;
	if (check->is_code && (strcmp(key, "outputs") == 0 || strcmp(key, "execution_count") == 0))
		return 0;
	document_repair(check->repairs, "cell %zu: there is no key \"%.60s\": dropped",
			check->number, key);
	return 0;
}

int document_read_cell(const struct json *json, size_t number, bool strict_ids,
		       struct document_repairs *repairs, struct document_cell *cell,
		       struct err *err)
{
	struct key_check check = {.number = number, .repairs = repairs};
	char what[40];

	if (json_type_of(json) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "cell %zu is no object", number);
	if (read_source(json, number, repairs, cell, err) < 0 ||
	    read_type(json, number, repairs, cell, err) < 0)
		return -1;
	check.is_code = cell->type == DOCUMENT_CODE;
	read_id(json, number, strict_ids, repairs, cell);
	read_metadata(json, number, repairs, cell);
	read_attachments(json, number, repairs, cell);
	json_each(json, check_key, &check);
	if (!check.is_code)
		return 0;
	if (!document_has(json, "outputs"))
		document_repair(repairs, "cell %zu: outputs is missing: made []", number);
	if (!document_has(json, "execution_count"))
		document_repair(repairs, "cell %zu: execution_count is missing: made null", number);
	read_count(json, number, repairs, cell);
	snprintf(what, sizeof(what), "cell %zu", number);
	if (document_has(json, "outputs"))
		cell->outputs = document_read_outputs(json_get(json, "outputs"), what, repairs);
	return 0;
}
