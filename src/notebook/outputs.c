/*
 * Outputs of a cell and displays with an id; see outputs.h.
 *
 * An update of a display costs the same however many outputs show it: the data is in the shared
 * struct display, and the cells that show it are marked as changed at most once between two
 * printings (`marked` against `generation`). The ids are in a balanced tree, because the guest
 * chooses them and could make a hash table slow.
 */
#include "notebook/outputs.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "notebook/stream.h"

enum output_type { OUTPUT_STREAM, OUTPUT_DISPLAY, OUTPUT_RESULT, OUTPUT_ERROR };

struct display {
	struct json *id; /* a string; NULL: not in the tree, one output only */
	struct json *data;
	struct json *metadata;
	struct output *first; /* the outputs that show it */
	uint64_t marked;      /* generation in which its cells were marked as changed */
};

struct output {
	enum output_type type;
	struct output *next;
	struct outputs *owner;
	/* OUTPUT_STREAM */
	bool is_stderr;
	struct stream stream;
	/* OUTPUT_DISPLAY, OUTPUT_RESULT */
	int64_t count;
	struct display *display;
	struct output *same_next; /* the other outputs of the display */
	struct output *same_previous;
	/* OUTPUT_ERROR: {ename, evalue, traceback} of the right types */
	struct json *error;
};

static int display_compare(const void *a, const void *b)
{
	size_t left_len = 0, right_len = 0;
	const char *left = json_string(((const struct display *)a)->id, &left_len);
	const char *right = json_string(((const struct display *)b)->id, &right_len);
	int order = memcmp(left, right, left_len < right_len ? left_len : right_len);

	return order != 0 ? order : (left_len > right_len) - (left_len < right_len);
}

/* NULL when the id is no string or not known. */
static struct display *display_find(const struct displays *displays, struct json *id)
{
	struct display key = {.id = id};
	struct display **found;

	if (json_type_of(id) != JSON_STRING)
		return NULL;
	found = tfind(&key, &displays->tree, display_compare);
	return found == NULL ? NULL : *found;
}

static struct display *display_new(struct displays *displays, struct json *id)
{
	struct display *display = mem_zalloc(sizeof(*display));

	if (json_type_of(id) != JSON_STRING)
		return display;
	display->id = json_keep(id);
	if (tsearch(display, &displays->tree, display_compare) == NULL)
		abort(); /* out of memory, as in base/mem */
	return display;
}

static void display_free(struct displays *displays, struct display *display)
{
	if (display->id != NULL)
		tdelete(display, &displays->tree, display_compare);
	json_free(display->id);
	json_free(display->data);
	json_free(display->metadata);
	free(display);
}

static void display_show(struct display *display, struct json *data, struct json *metadata)
{
	struct json *old_data = display->data;
	struct json *old_metadata = display->metadata;

	display->data = json_type_of(data) == JSON_OBJECT ? json_keep(data) : NULL;
	display->metadata = json_type_of(metadata) == JSON_OBJECT ? json_keep(metadata) : NULL;
	json_free(old_data);
	json_free(old_metadata);
}

static void display_mark(struct displays *displays, struct display *display)
{
	if (display->marked == displays->generation)
		return;
	display->marked = displays->generation;
	for (struct output *output = display->first; output != NULL; output = output->same_next)
		output->owner->changed = true;
}

static void display_link(struct display *display, struct output *output)
{
	output->display = display;
	output->same_next = display->first;
	if (display->first != NULL)
		display->first->same_previous = output;
	display->first = output;
}

static void display_unlink(struct displays *displays, struct output *output)
{
	struct display *display = output->display;

	if (output->same_previous != NULL)
		output->same_previous->same_next = output->same_next;
	else
		display->first = output->same_next;
	if (output->same_next != NULL)
		output->same_next->same_previous = output->same_previous;
	if (display->first == NULL)
		display_free(displays, display);
}

bool displays_update(struct displays *displays, struct json *display_id, struct json *data,
		     struct json *metadata)
{
	struct display *display = display_find(displays, display_id);

	if (display == NULL)
		return false;
	display_show(display, data, metadata);
	display_mark(displays, display);
	return true;
}

void outputs_init(struct outputs *outputs, struct displays *displays)
{
	*outputs = (struct outputs){.displays = displays};
}

static void outputs_empty(struct outputs *outputs)
{
	struct output *next;

	for (struct output *output = outputs->first; output != NULL; output = next) {
		next = output->next;
		if (output->display != NULL)
			display_unlink(outputs->displays, output);
		stream_release(&output->stream);
		json_free(output->error);
		free(output);
	}
	outputs->first = NULL;
	outputs->last = NULL;
}

void outputs_release(struct outputs *outputs)
{
	outputs_empty(outputs);
}

static struct output *outputs_append(struct outputs *outputs, enum output_type type)
{
	struct output *output = mem_zalloc(sizeof(*output));

	output->type = type;
	output->owner = outputs;
	output->count = -1;
	if (outputs->last == NULL)
		outputs->first = output;
	else
		outputs->last->next = output;
	outputs->last = output;
	outputs->changed = true;
	return output;
}

/* What comes before the guest's next output. */
static void outputs_settle(struct outputs *outputs)
{
	if (!outputs->clear_pending)
		return;
	outputs->clear_pending = false;
	outputs_empty(outputs);
}

static struct output *outputs_stream_output(struct outputs *outputs, bool is_stderr)
{
	struct output *output = outputs->last;

	if (output != NULL && output->type == OUTPUT_STREAM && output->is_stderr == is_stderr)
		return output;
	output = outputs_append(outputs, OUTPUT_STREAM);
	output->is_stderr = is_stderr;
	return output;
}

void outputs_stream(struct outputs *outputs, bool is_stderr, const char *text, size_t len)
{
	if (len == 0)
		return;
	outputs_settle(outputs);
	stream_add(&outputs_stream_output(outputs, is_stderr)->stream, text, len);
	outputs->changed = true;
}

void outputs_remark(struct outputs *outputs, const char *line)
{
	struct stream *stream = &outputs_stream_output(outputs, true)->stream;

	if (!stream_at_line_start(stream))
		stream_add(stream, "\n", 1);
	stream_add(stream, line, strlen(line));
	stream_add(stream, "\n", 1);
	outputs->changed = true;
}

void outputs_display(struct outputs *outputs, bool is_result, struct json *data,
		     struct json *metadata, struct json *display_id, int64_t count)
{
	struct displays *displays = outputs->displays;
	struct output *output;
	struct display *display;

	outputs_settle(outputs);
	output = outputs_append(outputs, is_result ? OUTPUT_RESULT : OUTPUT_DISPLAY);
	output->count = count;
	display = display_find(displays, display_id);
	if (display == NULL)
		display = display_new(displays, display_id);
	display_show(display, data, metadata);
	display_mark(displays, display);
	display_link(display, output);
}

/* A new string: the value itself, "" for null, else its JSON text. */
static struct json *to_string(const struct json *value)
{
	cleanup_buf struct buf text = BUF_INIT;
	size_t len = 0;
	const char *string = json_string(value, &len);

	if (string != NULL)
		return json_new_string(string, len);
	if (json_type_of(value) != JSON_NULL)
		json_write(&text, value);
	return json_new_string(buf_bytes(&text), text.len);
}

static struct json *to_traceback(const struct json *value)
{
	struct json *list = json_new_array();

	if (json_type_of(value) == JSON_ARRAY)
		for (size_t i = 0; i < json_length(value); i++)
			json_push(list, to_string(json_at(value, i)));
	else if (json_type_of(value) != JSON_NULL)
		json_push(list, to_string(value));
	return list;
}

void outputs_error(struct outputs *outputs, const struct json *body)
{
	struct json *error = json_new_object();

	json_set(error, "ename", to_string(json_get(body, "ename")));
	json_set(error, "evalue", to_string(json_get(body, "evalue")));
	json_set(error, "traceback", to_traceback(json_get(body, "traceback")));
	outputs_settle(outputs);
	outputs_append(outputs, OUTPUT_ERROR)->error = error;
}

void outputs_failure(struct outputs *outputs, const char *ename, const char *evalue)
{
	struct json *error = json_new_object();
	struct json *traceback = json_new_array();
	cleanup_free char *line = mem_format("%s: %s", ename, evalue);

	/* Readers show the traceback and nothing else when there is one: nbconvert shows nothing
	 * without. */
	json_push(traceback, json_new_string(line, strlen(line)));
	json_set_string(error, "ename", ename);
	json_set_string(error, "evalue", evalue);
	json_set(error, "traceback", traceback);
	outputs->clear_pending = false;
	outputs_append(outputs, OUTPUT_ERROR)->error = error;
}

void outputs_clear(struct outputs *outputs, bool wait)
{
	if (wait) {
		outputs->clear_pending = true;
		return;
	}
	outputs->clear_pending = false;
	if (outputs->first == NULL)
		return;
	outputs_empty(outputs);
	outputs->changed = true;
}

static void output_emit_stream(const struct output *output, struct emit *emit)
{
	cleanup_buf struct buf scratch = BUF_INIT;
	const char *text = stream_text(&output->stream, &scratch);

	emit_key(emit, "name");
	emit_string(emit, output->is_stderr ? "stderr" : "stdout", 6);
	emit_key(emit, "output_type");
	emit_string(emit, "stream", 6);
	emit_key(emit, "text");
	emit_lines(emit, text, stream_length(&output->stream));
}

static void output_emit_display(const struct output *output, struct emit *emit)
{
	emit_key(emit, "data");
	emit_bundle(emit, output->display->data);
	if (output->type == OUTPUT_RESULT) {
		emit_key(emit, "execution_count");
		if (output->count >= 0)
			emit_int(emit, output->count);
		else
			emit_null(emit);
	}
	emit_key(emit, "metadata");
	if (output->display->metadata != NULL) {
		emit_value(emit, output->display->metadata);
	} else {
		emit_open(emit, '{');
		emit_close(emit, '}');
	}
	emit_key(emit, "output_type");
	if (output->type == OUTPUT_RESULT)
		emit_string(emit, "execute_result", strlen("execute_result"));
	else
		emit_string(emit, "display_data", strlen("display_data"));
}

static void output_emit_error(const struct output *output, struct emit *emit)
{
	emit_key(emit, "ename");
	emit_value(emit, json_get(output->error, "ename"));
	emit_key(emit, "evalue");
	emit_value(emit, json_get(output->error, "evalue"));
	emit_key(emit, "output_type");
	emit_string(emit, "error", 5);
	emit_key(emit, "traceback");
	emit_value(emit, json_get(output->error, "traceback"));
}

/* An output of a file: its members in the order of their names, texts as lines. */
static void given_emit(const struct json *output, struct emit *emit)
{
	static const char *const keys[] = {"data",     "ename", "evalue",      "execution_count",
					   "metadata", "name",  "output_type", "text",
					   "traceback"};
	const char *type = json_get_string(output, "output_type");
	bool is_result = type != NULL && strcmp(type, "execute_result") == 0;

	emit_open(emit, '{');
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct json *value = json_get(output, keys[i]);
		size_t len = 0;

		if (value == NULL && !(is_result && strcmp(keys[i], "execution_count") == 0))
			continue;
		emit_key(emit, keys[i]);
		if (strcmp(keys[i], "data") == 0) {
			emit_bundle(emit, value);
		} else if (strcmp(keys[i], "text") == 0) {
			const char *text = json_string(value, &len);

			emit_lines(emit, text != NULL ? text : "", len);
		} else {
			emit_value(emit, value);
		}
	}
	emit_close(emit, '}');
}

static void remark_emit(const char *remark, struct emit *emit)
{
	cleanup_free char *line = mem_format("%s\n", remark);

	emit_open(emit, '{');
	emit_key(emit, "name");
	emit_string(emit, "stderr", 6);
	emit_key(emit, "output_type");
	emit_string(emit, "stream", 6);
	emit_key(emit, "text");
	emit_lines(emit, line, strlen(line));
	emit_close(emit, '}');
}

void outputs_emit(const struct outputs *outputs, const struct json *before, const char *remark,
		  struct emit *emit)
{
	emit_open(emit, '[');
	for (size_t i = 0; i < json_length(before); i++) {
		emit_item(emit);
		given_emit(json_at(before, i), emit);
	}
	for (const struct output *output = outputs->first; output != NULL; output = output->next) {
		emit_item(emit);
		emit_open(emit, '{');
		switch (output->type) {
		case OUTPUT_STREAM:
			output_emit_stream(output, emit);
			break;
		case OUTPUT_DISPLAY:
		case OUTPUT_RESULT:
			output_emit_display(output, emit);
			break;
		case OUTPUT_ERROR:
			output_emit_error(output, emit);
			break;
		}
		emit_close(emit, '}');
	}
	if (remark != NULL) {
		emit_item(emit);
		remark_emit(remark, emit);
	}
	emit_close(emit, ']');
}
