/*
 * Whether cells came out as they did before. See replay.h.
 *
 * What is compared is what a notebook shows: streams as they are merged there, however they came
 * in pieces; images by the hash of their bytes; results, displays and errors. Not compared are
 * counts and times. An address, as in <object at 0x7f3a...>, is as good as any other.
 */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/fold.h"
#include "cli/replay.h"

enum aspect {
	ASPECT_STDOUT,
	ASPECT_STDERR,
	ASPECT_RESULT,
	ASPECT_DISPLAY,
	ASPECT_IMAGE,
	ASPECT_ERROR,
	ASPECTS
};

static const char *const NAMES[ASPECTS] = {
	[ASPECT_STDOUT] = "stdout",   [ASPECT_STDERR] = "stderr", [ASPECT_RESULT] = "result",
	[ASPECT_DISPLAY] = "display", [ASPECT_IMAGE] = "image",   [ASPECT_ERROR] = "error",
};

/* Appends the text with each address of 6 and more hex digits made the same. */
static void put_plain(struct buf *out, const char *text, size_t len)
{
	static const char hex[] = "0123456789abcdefABCDEF";

	for (size_t i = 0; i < len; i++) {
		size_t digits = 0;

		if (text[i] == '0' && i + 1 < len && text[i + 1] == 'x')
			while (i + 2 + digits < len && text[i + 2 + digits] &&
			       strchr(hex, text[i + 2 + digits]))
				digits++;
		if (digits >= 6) {
			buf_append_string(out, "0x?");
			i += 1 + digits;
		} else {
			buf_append_char(out, text[i]);
		}
	}
}

static struct json *plain_string(const struct json *value)
{
	size_t len = 0;
	const char *text = json_string(value, &len);
	cleanup_buf struct buf plain = BUF_INIT;

	if (text)
		put_plain(&plain, text, len);
	else
		json_write(&plain, value);
	return json_new_string(buf_bytes(&plain), plain.len);
}

/* What is compared of a cell: an array for each aspect. */
struct shown {
	struct json *aspects[ASPECTS];
};

static void shown_release(struct shown *shown)
{
	for (size_t i = 0; i < ASPECTS; i++)
		json_free(shown->aspects[i]);
}

/* A mime bundle that goes into the aspect, its images into theirs. */
struct bundle {
	struct shown *shown;
	struct json *rest;
};

static int take_mime(const char *mime, size_t len, struct json *value, void *data)
{
	struct bundle *bundle = data;
	char hash[HASH_HEX_SIZE];
	size_t bytes = 0;
	const char *text = json_string(value, &bytes);

	(void)len;
	if (strncmp(mime, "image/", 6) == 0 && text) {
		hash_sha256(text, bytes, hash);
		json_push(bundle->shown->aspects[ASPECT_IMAGE],
			  json_new_string(hash, strlen(hash)));
	} else {
		json_set(bundle->rest, mime, plain_string(value));
	}
	return 0;
}

static void take_bundle(struct shown *shown, enum aspect aspect, const struct json *output)
{
	struct bundle bundle = {.shown = shown, .rest = json_new_object()};

	json_each(json_get(output, "data"), take_mime, &bundle);
	json_push(shown->aspects[aspect], bundle.rest);
}

static void take_error(struct shown *shown, const struct json *output)
{
	static const char *const names[] = {"ename", "evalue", "traceback"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		json_push(shown->aspects[ASPECT_ERROR], plain_string(json_get(output, names[i])));
}

static void take_output(struct shown *shown, const struct json *output)
{
	const char *type = json_get_string(output, "output_type");
	const char *name = json_get_string(output, "name");

	if (!type)
		return;
	if (strcmp(type, "stream") == 0)
		json_push(shown->aspects[name && strcmp(name, "stderr") == 0 ? ASPECT_STDERR
									     : ASPECT_STDOUT],
			  plain_string(json_get(output, "text")));
	else if (strcmp(type, "execute_result") == 0)
		take_bundle(shown, ASPECT_RESULT, output);
	else if (strcmp(type, "display_data") == 0)
		take_bundle(shown, ASPECT_DISPLAY, output);
	else if (strcmp(type, "error") == 0)
		take_error(shown, output);
}

/* What the notebook shows of the cell. */
static int show(struct notebook *notebook, const char *cell, struct shown *shown, struct err *err)
{
	static const struct json_limits limits = {.bytes_max = SIZE_MAX,
						  .depth_max = 1000,
						  .keys_unique = false,
						  .nan_as_text = false};
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *outputs = NULL;

	for (size_t i = 0; i < ASPECTS; i++)
		shown->aspects[i] = json_new_array();
	if (!notebook_write_outputs(notebook, cell, &text))
		return 0;
	outputs = json_parse(buf_bytes(&text), text.len, &limits, err);
	if (!outputs)
		return -1;
	for (size_t i = 0; i < json_length(outputs); i++)
		take_output(shown, json_at(outputs, i));
	return 0;
}

static int compare_cell(struct notebook *before, struct notebook *now, struct replay_step *step,
			struct err *err)
{
	__attribute__((cleanup(shown_release))) struct shown then = {.aspects = {NULL}};
	__attribute__((cleanup(shown_release))) struct shown again = {.aspects = {NULL}};

	if (show(before, step->id, &then, err) != 0 || show(now, step->id, &again, err) != 0)
		return -1;
	step->differs = json_new_array();
	if (!step->status || !step->again || strcmp(step->status, step->again) != 0)
		json_push(step->differs, json_new_string("status", strlen("status")));
	for (size_t i = 0; i < ASPECTS; i++)
		if (!json_equal(then.aspects[i], again.aspects[i]))
			json_push(step->differs, json_new_string(NAMES[i], strlen(NAMES[i])));
	return json_length(step->differs) > 0;
}

static void notebook_cleanup(struct notebook **notebook)
{
	notebook_free(*notebook);
}

static int fold(struct notebook *notebook, int dirfd, struct err *err)
{
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;
	int got = 1;

	if (fold_open(&reader, dirfd, err) != 0)
		return -1;
	while (got > 0) {
		cleanup_event struct event event = EVENT_INIT;

		got = fold_next(&reader, &event, err);
		if (got > 0)
			notebook_apply(notebook, &event);
	}
	return got;
}

int replay_compare(struct replay *replay, int dirfd, struct err *err)
{
	__attribute__((cleanup(notebook_cleanup))) struct notebook *now = notebook_new();
	int count = 0;

	if (fold(now, dirfd, err) != 0)
		return -1;
	for (size_t i = 0; i < replay->count; i++) {
		int differs;

		if (replay->steps[i].kind != REPLAY_RUN)
			continue;
		differs = compare_cell(replay->notebook, now, &replay->steps[i], err);
		if (differs < 0)
			return -1;
		count += differs;
	}
	return count;
}
