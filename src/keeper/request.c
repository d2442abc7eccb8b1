/*
 * The table of ops and their fields, and the check against it; see request.h.
 */
#include "keeper/request.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

enum field_kind {
	FIELD_TEXT, /* any string */
	FIELD_ID,   /* 1..64 of [A-Za-z0-9_-] */
	FIELD_BOOL,
	FIELD_COUNT,   /* integer >= 0 */
	FIELD_SECONDS, /* number > 0 */
	FIELD_OBJECT,
	FIELD_PATH,  /* string of 1 to REQUEST_PATH_BYTES_MAX bytes without NUL */
	FIELD_WORDS, /* array of strings without NUL */
	FIELD_NAME,  /* of a checkpoint: see is_checkpoint_name() */
	FIELD_POINT, /* where to go back to: the name of a checkpoint or the id of a cell */
	FIELD_ARRAY,
};

struct field {
	enum request_op op;
	const char *name;
	enum field_kind kind;
	bool required;
};

static const char *const OP_NAMES[REQUEST_OP_COUNT] = {
	[REQUEST_RUN] = "run",
	[REQUEST_INTERRUPT] = "interrupt",
	[REQUEST_INPUT] = "input",
	[REQUEST_TEXT] = "text",
	[REQUEST_NOTEBOOK] = "notebook",
	[REQUEST_SAVE] = "save",
	[REQUEST_EVENTS] = "events",
	[REQUEST_SECTION] = "section",
	[REQUEST_NOTE] = "note",
	[REQUEST_RECORD] = "record",
	[REQUEST_BLOB] = "blob",
	[REQUEST_STATUS] = "status",
	[REQUEST_CHECKPOINT] = "checkpoint",
	[REQUEST_CHECKPOINTS] = "checkpoints",
	[REQUEST_ROLLBACK] = "rollback",
	[REQUEST_RESET] = "reset",
	[REQUEST_FORK] = "fork",
	[REQUEST_RESTART] = "restart",
	[REQUEST_STOP] = "stop",
	[REQUEST_COMPLETE] = "complete",
	[REQUEST_INSPECT] = "inspect",
	[REQUEST_VARIABLES] = "variables",
	[REQUEST_FILES] = "files",
	[REQUEST_IMAGES] = "images",
	[REQUEST_OUTPUTS] = "outputs",
	[REQUEST_LIMITS] = "limits",
	[REQUEST_POLICY] = "policy",
	[REQUEST_LIST_FILES] = "list_files",
	[REQUEST_READ_FILE] = "read_file",
	[REQUEST_WRITE_FILE] = "write_file",
	[REQUEST_REMOVE_FILE] = "remove_file",
	[REQUEST_MAKE_FOLDER] = "make_folder",
};

static const struct field FIELDS[] = {
	{REQUEST_RUN, "code", FIELD_TEXT, true},
	{REQUEST_RUN, "id", FIELD_ID, false},
	{REQUEST_RUN, "timeout", FIELD_SECONDS, false},
	{REQUEST_RUN, "allow_stdin", FIELD_BOOL, false},
	{REQUEST_RUN, "max_chars", FIELD_COUNT, false},
	{REQUEST_RUN, "marks", FIELD_BOOL, false},
	{REQUEST_RUN, "metadata", FIELD_OBJECT, false},
	{REQUEST_RUN, "file", FIELD_PATH, false},
	{REQUEST_RUN, "argv", FIELD_WORDS, false},
	{REQUEST_RUN, "atomic", FIELD_BOOL, false},
	{REQUEST_RUN, "try", FIELD_BOOL, false},
	{REQUEST_RUN, "files", FIELD_BOOL, false},
	{REQUEST_INTERRUPT, "cell", FIELD_ID, false},
	{REQUEST_INTERRUPT, "kill", FIELD_BOOL, false},
	{REQUEST_INPUT, "text", FIELD_TEXT, false},
	{REQUEST_INPUT, "eof", FIELD_BOOL, false},
	{REQUEST_TEXT, "cell", FIELD_ID, true},
	{REQUEST_TEXT, "max_chars", FIELD_COUNT, false},
	{REQUEST_TEXT, "marks", FIELD_BOOL, false},
	{REQUEST_TEXT, "item_chars", FIELD_COUNT, false},
	{REQUEST_NOTEBOOK, "rolled_back", FIELD_TEXT, false},
	{REQUEST_EVENTS, "since", FIELD_COUNT, false},
	{REQUEST_EVENTS, "follow", FIELD_BOOL, false},
	{REQUEST_EVENTS, "lossy", FIELD_BOOL, false},
	{REQUEST_EVENTS, "inline", FIELD_BOOL, false},
	{REQUEST_EVENTS, "cell", FIELD_ID, false},
	{REQUEST_SECTION, "title", FIELD_TEXT, true},
	{REQUEST_SECTION, "level", FIELD_COUNT, false},
	{REQUEST_NOTE, "text", FIELD_TEXT, true},
	{REQUEST_NOTE, "id", FIELD_ID, false},
	{REQUEST_NOTE, "cell_type", FIELD_TEXT, false},
	{REQUEST_NOTE, "metadata", FIELD_OBJECT, false},
	{REQUEST_NOTE, "attachments", FIELD_OBJECT, false},
	{REQUEST_RECORD, "type", FIELD_TEXT, true},
	{REQUEST_BLOB, "sha256", FIELD_TEXT, true},
	{REQUEST_BLOB, "offset", FIELD_COUNT, false},
	{REQUEST_BLOB, "length", FIELD_COUNT, false},
	{REQUEST_STOP, "mode", FIELD_TEXT, false},
	{REQUEST_COMPLETE, "code", FIELD_TEXT, true},
	{REQUEST_COMPLETE, "cursor_pos", FIELD_COUNT, false},
	{REQUEST_INSPECT, "code", FIELD_TEXT, true},
	{REQUEST_INSPECT, "cursor_pos", FIELD_COUNT, false},
	{REQUEST_INSPECT, "detail_level", FIELD_COUNT, false},
	{REQUEST_VARIABLES, "pattern", FIELD_TEXT, false},
	{REQUEST_VARIABLES, "max", FIELD_COUNT, false},
	{REQUEST_FILES, "cell", FIELD_ID, false},
	{REQUEST_FILES, "since", FIELD_COUNT, false},
	{REQUEST_LIST_FILES, "path", FIELD_TEXT, false},
	{REQUEST_LIST_FILES, "path_base64", FIELD_TEXT, false},
	{REQUEST_LIST_FILES, "after", FIELD_TEXT, false},
	{REQUEST_LIST_FILES, "after_base64", FIELD_TEXT, false},
	{REQUEST_LIST_FILES, "max", FIELD_COUNT, false},
	{REQUEST_READ_FILE, "path", FIELD_TEXT, false},
	{REQUEST_READ_FILE, "path_base64", FIELD_TEXT, false},
	{REQUEST_READ_FILE, "offset", FIELD_COUNT, false},
	{REQUEST_READ_FILE, "length", FIELD_COUNT, false},
	{REQUEST_WRITE_FILE, "path", FIELD_TEXT, false},
	{REQUEST_WRITE_FILE, "path_base64", FIELD_TEXT, false},
	{REQUEST_WRITE_FILE, "upload", FIELD_TEXT, true},
	{REQUEST_WRITE_FILE, "data", FIELD_TEXT, true},
	{REQUEST_WRITE_FILE, "offset", FIELD_COUNT, false},
	{REQUEST_WRITE_FILE, "mode", FIELD_COUNT, false},
	{REQUEST_WRITE_FILE, "done", FIELD_BOOL, false},
	{REQUEST_REMOVE_FILE, "path", FIELD_TEXT, false},
	{REQUEST_REMOVE_FILE, "path_base64", FIELD_TEXT, false},
	{REQUEST_REMOVE_FILE, "whole", FIELD_BOOL, false},
	{REQUEST_MAKE_FOLDER, "path", FIELD_TEXT, false},
	{REQUEST_MAKE_FOLDER, "path_base64", FIELD_TEXT, false},
	{REQUEST_IMAGES, "since", FIELD_COUNT, false},
	{REQUEST_IMAGES, "section", FIELD_TEXT, false},
	{REQUEST_OUTPUTS, "section", FIELD_TEXT, false},
	{REQUEST_OUTPUTS, "max_chars", FIELD_COUNT, false},
	{REQUEST_OUTPUTS, "marks", FIELD_BOOL, false},
	{REQUEST_OUTPUTS, "item_chars", FIELD_COUNT, false},
	{REQUEST_LIMITS, "set", FIELD_OBJECT, false},
	{REQUEST_POLICY, "set", FIELD_OBJECT, false},
	{REQUEST_CHECKPOINT, "name", FIELD_NAME, true},
	{REQUEST_CHECKPOINT, "files", FIELD_BOOL, false},
	{REQUEST_CHECKPOINTS, "drop", FIELD_NAME, false},
	{REQUEST_ROLLBACK, "to", FIELD_POINT, false},
	{REQUEST_ROLLBACK, "files", FIELD_BOOL, false},
	{REQUEST_FORK, "name", FIELD_TEXT, false},
	{REQUEST_FORK, "from", FIELD_POINT, false},
};

/* Of a record, by its type. */
struct record_field {
	enum event_type type;
	const char *name;
	enum field_kind kind;
	bool required;
};

static const struct record_field RECORD_FIELDS[] = {
	{EVENT_ASK, "instruction", FIELD_TEXT, true},
	{EVENT_ASK, "model", FIELD_TEXT, false},
	{EVENT_ASK, "backend", FIELD_TEXT, false},
	{EVENT_ASK, "effort", FIELD_TEXT, false},
	{EVENT_ASK, "limits", FIELD_OBJECT, false},
	{EVENT_ASK, "checks", FIELD_ARRAY, false},
	{EVENT_ASK, "input", FIELD_TEXT, false},
	{EVENT_ASK, "notebook_attempts", FIELD_TEXT, false},
	{EVENT_ATTEMPT, "ask", FIELD_ID, true},
	{EVENT_ATTEMPT, "attempt", FIELD_COUNT, true},
	{EVENT_ATTEMPT, "state", FIELD_TEXT, true},
	{EVENT_ATTEMPT, "kind", FIELD_TEXT, false},
	{EVENT_ATTEMPT, "of", FIELD_COUNT, false},
	{EVENT_ATTEMPT, "status", FIELD_TEXT, false},
	{EVENT_ATTEMPT, "message", FIELD_TEXT, false},
	{EVENT_ATTEMPT, "stdout", FIELD_TEXT, false},
	{EVENT_ATTEMPT, "stderr", FIELD_TEXT, false},
	{EVENT_ATTEMPT, "error", FIELD_OBJECT, false},
	{EVENT_ATTEMPT, "files", FIELD_ARRAY, false},
	{EVENT_ATTEMPT, "tokens", FIELD_COUNT, false},
	{EVENT_TOKEN, "ask", FIELD_ID, true},
	{EVENT_TOKEN, "attempt", FIELD_COUNT, true},
	{EVENT_TOKEN, "text", FIELD_TEXT, true},
	{EVENT_TOKEN, "reasoning", FIELD_BOOL, false},
	{EVENT_CODE, "ask", FIELD_ID, true},
	{EVENT_CODE, "attempt", FIELD_COUNT, true},
	{EVENT_CODE, "code", FIELD_TEXT, true},
	{EVENT_CODE, "fence", FIELD_TEXT, false},
	{EVENT_VERDICT, "ask", FIELD_ID, true},
	{EVENT_VERDICT, "success", FIELD_BOOL, true},
	{EVENT_VERDICT, "confidence", FIELD_TEXT, false},
	{EVENT_VERDICT, "agreement", FIELD_OBJECT, false},
	{EVENT_VERDICT, "attempt", FIELD_COUNT, false},
	{EVENT_VERDICT, "cell", FIELD_ID, false},
	{EVENT_VERDICT, "message", FIELD_TEXT, false},
};

static bool is_words(const struct json *value)
{
	if (json_type_of(value) != JSON_ARRAY)
		return false;
	for (size_t i = 0; i < json_length(value); i++) {
		size_t len = 0;
		const char *word = json_string(json_at(value, i), &len);

		if (!word || memchr(word, '\0', len))
			return false;
	}
	return true;
}

/* A name is told from an option by its first character and from the number of a checkpoint by not
 * being one. */
static bool is_checkpoint_name(const char *name, size_t len)
{
	bool other = false;

	if (len < 1 || len > REQUEST_CHECKPOINT_NAME_BYTES_MAX || name[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		bool digit = name[i] >= '0' && name[i] <= '9';

		if (name[i] != '.' && !text_is_id(name + i, 1))
			return false;
		other = other || !digit;
	}
	return other;
}

static bool is_kind(const struct json *value, enum field_kind kind, const char **want)
{
	size_t len = 0;
	const char *text = json_string(value, &len);
	double number = json_double(value, NAN);

	switch (kind) {
	case FIELD_TEXT:
		*want = "a string";
		return text != NULL;
	case FIELD_ID:
		*want = "1 to 64 characters of A-Z a-z 0-9 _ -";
		return text && text_is_id(text, len);
	case FIELD_BOOL:
		*want = "true or false";
		return json_type_of(value) == JSON_BOOL;
	case FIELD_COUNT:
		*want = "a whole number, 0 or more";
		return json_type_of(value) == JSON_INT && json_int(value, -1) >= 0;
	case FIELD_SECONDS:
		*want = "a number of seconds above 0";
		return isfinite(number) && number > 0;
	case FIELD_OBJECT:
		*want = "an object";
		return json_type_of(value) == JSON_OBJECT;
	case FIELD_PATH:
		*want = "a path of at most 4096 bytes";
		return text && len > 0 && len <= REQUEST_PATH_BYTES_MAX && !memchr(text, '\0', len);
	case FIELD_WORDS:
		*want = "an array of strings without NUL";
		return is_words(value);
	case FIELD_NAME:
		*want = "1 to 64 characters of A-Z a-z 0-9 . _ -, no \"-\" first, not digits only";
		return text && is_checkpoint_name(text, len);
	case FIELD_POINT:
		*want = "the name of a checkpoint or the id of a cell";
		return text && (is_checkpoint_name(text, len) || text_is_id(text, len));
	case FIELD_ARRAY:
		*want = "an array";
		return json_type_of(value) == JSON_ARRAY;
	}
	return false;
}

static int check_fields(const struct request *request, struct err *err)
{
	const char *op = OP_NAMES[request->op];

	for (size_t i = 0; i < sizeof(FIELDS) / sizeof(*FIELDS); i++) {
		const struct field *field = &FIELDS[i];
		struct json *value;
		const char *want = "";

		if (field->op != request->op)
			continue;
		value = json_get(request->json, field->name);
		if (!value && !field->required)
			continue;
		if (!value || !is_kind(value, field->kind, &want))
			return err_set(err, ERR_INVALID, "\"%s\" needs \"%s\": %s", op, field->name,
				       value ? want : "it is missing");
	}
	return 0;
}

static int check_code(const struct request *request, struct err *err)
{
	size_t len = 0;

	json_string(json_get(request->json, "code"), &len);
	if (len > REQUEST_CODE_BYTES_MAX)
		return err_set(err, ERR_LIMIT,
			       "the code has %zu bytes; at most %d are taken: put "
			       "the data into a file of the workspace",
			       len, REQUEST_CODE_BYTES_MAX);
	return 0;
}

/* --- records of asks ---------------------------------------------------------------------------
 */

enum event_type request_record_type(const struct request *request)
{
	const char *type = json_get_string(request->json, "type");

	return type ? event_type_from_name(type) : EVENT_OTHER;
}

static int is_record_key(const char *key, size_t len, struct json *value, void *data)
{
	struct err *err = data;

	(void)value;
	if (strlen(key) != len)
		return err_set(err, ERR_INVALID, "a record has no member with NUL in its name");
	if (strcmp(key, "seq") == 0 || strcmp(key, "t") == 0)
		return err_set(err, ERR_INVALID, "a record has no \"%s\": it is given here", key);
	return 0;
}

/* Members that are not in the table are taken as they come: a reader passes over what it does not
 * know. */
static int check_record(const struct request *request, struct err *err)
{
	enum event_type type = request_record_type(request);
	const char *name = event_type_name(type);
	bool known = false;

	for (size_t i = 0; i < sizeof(RECORD_FIELDS) / sizeof(*RECORD_FIELDS); i++) {
		const struct record_field *field = &RECORD_FIELDS[i];
		const struct json *value = json_get(request->json, field->name);
		const char *want = "";

		known = known || field->type == type;
		if (field->type != type || (!value && !field->required))
			continue;
		if (!value || !is_kind(value, field->kind, &want))
			return err_set(err, ERR_INVALID, "a record \"%s\" needs \"%s\": %s", name,
				       field->name, value ? want : "it is missing");
	}
	if (!known)
		return err_set(err, ERR_INVALID,
			       "a record is of type \"ask\", \"attempt\", \"token\", \"code\" or "
			       "\"verdict\"");
	if (type == EVENT_ASK && json_has(request->json, "ask"))
		return err_set(err, ERR_INVALID, "the id of an ask is given here");
	if (type != EVENT_VERDICT && json_has(request->json, "cell"))
		return err_set(err, ERR_INVALID, "only a \"verdict\" names a cell");
	return json_each(request->json, is_record_key, err) != 0 ? -1 : 0;
}

/* The values of a record that are words, and numbers that count from 1. */
static int check_record_values(const struct json *json, struct err *err)
{
	const char *shown = json_get_string(json, "notebook_attempts");
	const char *state = json_get_string(json, "state");

	if (shown && strcmp(shown, "show") != 0 && strcmp(shown, "hide") != 0)
		return err_set(err, ERR_INVALID,
			       "\"notebook_attempts\" must be \"show\" or \"hide\"");
	if (state && strcmp(state, "started") != 0 && strcmp(state, "finished") != 0)
		return err_set(err, ERR_INVALID, "\"state\" must be \"started\" or \"finished\"");
	if (json_get_int(json, "attempt", 1) < 1)
		return err_set(err, ERR_INVALID, "\"attempt\" counts from 1");
	return 0;
}

/* What a table of types cannot say. */
static int check_values(const struct request *request, struct err *err)
{
	const struct json *json = request->json;
	const char *text;

	switch (request->op) {
	case REQUEST_RUN:
		if (json_get_bool(json, "atomic", false) && json_get_bool(json, "try", false))
			return err_set(err, ERR_INVALID,
				       "\"atomic\" and \"try\" exclude each other: \"try\" goes "
				       "back always, \"atomic\" when the cell fails");
		return check_code(request, err);
	case REQUEST_COMPLETE:
		return check_code(request, err);
	case REQUEST_INSPECT:
		if (json_get_int(json, "detail_level", 0) > 1)
			return err_set(err, ERR_INVALID, "\"detail_level\" must be 0 or 1");
		return check_code(request, err);
	case REQUEST_VARIABLES:
		if (json_get_int(json, "max", 0) > REQUEST_VARIABLES_MAX)
			return err_set(err, ERR_LIMIT,
				       "\"max\" is at most %d; \"pattern\" narrows it down",
				       REQUEST_VARIABLES_MAX);
		return 0;
	case REQUEST_INPUT:
		if (!json_get(json, "text") && !json_get_bool(json, "eof", false))
			return err_set(err, ERR_INVALID,
				       "\"input\" needs \"text\" or \"eof\":true");
		return 0;
	case REQUEST_SECTION:
		if (json_get_int(json, "level", 2) < 1 || json_get_int(json, "level", 2) > 6)
			return err_set(err, ERR_INVALID, "\"level\" must be 1 to 6");
		return 0;
	case REQUEST_NOTE:
		text = json_get_string(json, "cell_type");
		if (text && strcmp(text, "markdown") != 0 && strcmp(text, "raw") != 0 &&
		    strcmp(text, "code") != 0)
			return err_set(err, ERR_INVALID,
				       "\"cell_type\" must be \"markdown\", \"raw\" or \"code\"");
		return 0;
	case REQUEST_RECORD:
		return check_record(request, err) != 0 ? -1 : check_record_values(json, err);
	case REQUEST_NOTEBOOK:
		text = json_get_string(json, "rolled_back");
		if (text && strcmp(text, "omit") != 0 && strcmp(text, "keep") != 0)
			return err_set(err, ERR_INVALID,
				       "\"rolled_back\" must be \"omit\" or \"keep\"");
		return 0;
	case REQUEST_STOP:
		text = json_get_string(json, "mode");
		if (text && strcmp(text, "now") != 0 && strcmp(text, "drain") != 0)
			return err_set(err, ERR_INVALID, "\"mode\" must be \"now\" or \"drain\"");
		return 0;
	case REQUEST_INTERRUPT:
	case REQUEST_TEXT:
	case REQUEST_SAVE:
	case REQUEST_EVENTS:
	case REQUEST_BLOB:
	case REQUEST_STATUS:
	case REQUEST_RESTART:
	case REQUEST_FILES:
	case REQUEST_LIST_FILES:
	case REQUEST_READ_FILE:
	case REQUEST_WRITE_FILE:
	case REQUEST_REMOVE_FILE:
	case REQUEST_MAKE_FOLDER:
	case REQUEST_IMAGES:
	case REQUEST_OUTPUTS:
	case REQUEST_LIMITS:
	case REQUEST_POLICY:
	case REQUEST_CHECKPOINT:
	case REQUEST_CHECKPOINTS:
	case REQUEST_ROLLBACK:
	case REQUEST_RESET:
	case REQUEST_FORK:
	case REQUEST_OP_COUNT:
		break;
	}
	return 0;
}

int request_parse(const char *line, size_t len, struct request *request, struct err *err)
{
	static const struct json_limits limits = {.bytes_max = REQUEST_LINE_BYTES_MAX,
						  .depth_max = REQUEST_DEPTH_MAX,
						  .keys_unique = true,
						  .nan_as_text = false};
	struct err why = ERR_INIT;
	const char *op;

	*request = (struct request)REQUEST_INIT;
	request->json = json_parse(line, len, &limits, &why);
	if (!request->json && why.code != ERR_OK) /* else it is null */
		return err_set(err, why.code, "the line is no JSON request: %s", why.text);
	if (json_type_of(request->json) != JSON_OBJECT)
		return err_set(err, ERR_INVALID,
			       "a request is a JSON object, such as {\"op\":\"status\"}");
	request->id = json_get(request->json, "id");
	if (json_type_of(request->id) != JSON_STRING && json_type_of(request->id) != JSON_INT &&
	    json_type_of(request->id) != JSON_NULL) {
		request->id = NULL;
		return err_set(err, ERR_INVALID, "\"id\" must be a string or a whole number");
	}
	op = json_get_string(request->json, "op");
	if (!op)
		return err_set(err, ERR_INVALID, "the request has no \"op\"");
	for (int i = 0; i < REQUEST_OP_COUNT; i++) {
		if (strcmp(op, OP_NAMES[i]) != 0)
			continue;
		request->op = (enum request_op)i;
		if (request->op == REQUEST_RECORD && len > REQUEST_RECORD_BYTES_MAX)
			return err_set(
				err, ERR_LIMIT,
				"the record has %zu bytes; at most %d are taken: cut what is "
				"long",
				len, REQUEST_RECORD_BYTES_MAX);
		return check_fields(request, err) != 0 ? -1 : check_values(request, err);
	}
	return err_set(err, ERR_INVALID, "there is no op \"%.40s\"", op);
}

void request_release(struct request *request)
{
	json_free(request->json);
	*request = (struct request)REQUEST_INIT;
}
