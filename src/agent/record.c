/*
 * Lines of an ask. See record.h.
 *
 * A keeper takes no record above a mebibyte, and its refusal of one that is only posted is heard by
 * nobody. So a line that is longer (a program full of control characters, each of which is six
 * bytes in JSON) is written with its long texts cut.
 */
#include "agent/record.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum {
	CALL_TIMEOUT_MS = 30000,
	JOURNAL_LINE_BYTES_MAX = (1 << 20) - 4096, /* the request has a few members more */
	CUT_POINTS_MAX = 64 << 10,                 /* of each text, at first */
};

static int put_member(const char *key, size_t len, struct json *value, void *data)
{
	(void)len; /* our own keys */
	json_set(data, key, json_keep(value));
	return 0;
}

static void tell(const struct record *record, const struct json *line)
{
	if (record->line)
		record->line(record->context, line);
}

/* --- what is too long for the journal --------------------------------------------------------- */

struct cutting {
	size_t points; /* code points that a text may have */
	struct json *to;
};

static struct json *cut(const struct json *value, size_t points);

static int cut_member(const char *key, size_t len, struct json *value, void *data)
{
	struct cutting *cutting = data;

	(void)len; /* our own keys */
	json_set(cutting->to, key, cut(value, cutting->points));
	return 0;
}

/* A copy whose texts have at most so many code points. Our own lines are a few levels deep. */
static struct json *cut(const struct json *value, size_t points)
{
	struct cutting cutting = {.points = points};
	const char *text;
	size_t len;

	switch ((int)json_type_of(value)) {
	case JSON_STRING:
		text = json_string(value, &len);
		return json_new_string(text, text_prefix(text, len, points));
	case JSON_ARRAY:
		cutting.to = json_new_array();
		for (size_t i = 0; i < json_length(value); i++)
			json_push(cutting.to, cut(json_at(value, i), points));
		return cutting.to;
	case JSON_OBJECT:
		cutting.to = json_new_object();
		json_each(value, cut_member, &cutting);
		return cutting.to;
	default:
		return json_copy(value);
	}
}

/* Appends the line as it fits into the journal. */
static void write_line(struct buf *text, const struct json *line)
{
	json_write(text, line);
	for (size_t points = CUT_POINTS_MAX; text->len > JOURNAL_LINE_BYTES_MAX && points > 0;
	     points /= 4) {
		cleanup_json struct json *shorter = cut(line, points);

		json_set(shorter, "cut", json_new_bool(true));
		buf_clear(text);
		json_write(text, shorter);
	}
}

/* --- lines ------------------------------------------------------------------------------------ */

int record_begin(struct record *record, struct json *ask, struct err *err)
{
	cleanup_json struct json *members = ask, *line = json_new_object(), *reply = NULL;
	cleanup_buf struct buf text = BUF_INIT;
	struct fh_error error = FH_ERROR_INIT;
	char *answer = NULL;
	const char *id;

	json_set_string(line, "type", "ask");
	json_each(members, put_member, line);
	write_line(&text, line);
	fh_set_timeout(record->session, CALL_TIMEOUT_MS);
	if (fh_record(record->session, buf_bytes(&text), text.len, &answer, &error) != 0)
		return err_set(err, (enum err_code)error.code, "%s", error.text);
	reply = json_parse(answer, strlen(answer), &JSON_LIMITS, NULL);
	fh_free(answer);
	id = json_get_string(reply, "ask");
	if (!id)
		return err_set(err, ERR_CORRUPT, "the keeper's reply names no ask");
	snprintf(record->ask, sizeof(record->ask), "%s", id);
	json_set_string(line, "ask", record->ask);
	tell(record, line);
	return 0;
}

void record_line(struct record *record, const char *type, struct json *members, bool journal)
{
	cleanup_json struct json *taken = members, *line = json_new_object();
	struct fh_error error = FH_ERROR_INIT;

	json_set_string(line, "type", type);
	json_set_string(line, "ask", record->ask);
	json_each(taken, put_member, line);
	if (journal && !record->gone) {
		cleanup_buf struct buf text = BUF_INIT;

		write_line(&text, line);
		if (fh_record(record->session, buf_bytes(&text), text.len, NULL, &error) != 0 &&
		    error.code == FH_GONE) {
			record->gone = true;
			err_set(&record->fault, ERR_GONE, "the session has gone: %s", error.text);
		}
	}
	tell(record, line);
}
