/*
 * Words about what is lost: one table of the kinds. A model, or a person, who does not read this
 * would wait for a thread that is no more; so it is short enough to be read, and names things.
 */
#include "digest/loss.h"

#include <string.h>

#include "base/text.h"
#include "digest/figure.h"

static const struct kind {
	const char *member, *one, *many;
} KINDS[] = {
	{"threads", "thread", "threads"},
	{"native_threads", "native thread", "native threads"},
	{"processes", "process", "processes"},
	{"connections", "connection", "connections"}, /* a number */
	{"shared_memory", "shared memory", "shared memory"},
	{"transactions", "open transaction of", "open transactions of"},
	{"notes", NULL, NULL}, /* they say themselves what they are */
};

static void put_name(struct buf *out, const struct json *name)
{
	size_t len = 0;
	const char *text = json_string(name, &len);
	size_t fits = text ? text_prefix(text, len, LOSS_NAME_CHARS_MAX) : 0;

	text_escape(out, text ? text : "?", text ? fits : 1, false, false);
	if (fits < len)
		buf_append_string(out, "...");
}

void loss_names(struct buf *out, const struct json *names)
{
	size_t count = json_length(names);

	for (size_t i = 0; i < count && i < LOSS_NAMES_MAX; i++) {
		if (i > 0)
			buf_append_string(out, i + 1 == count ? " and " : ", ");
		put_name(out, json_at(names, i));
	}
	if (count <= LOSS_NAMES_MAX)
		return;
	buf_append_string(out, " and ");
	figure_count(out, count - LOSS_NAMES_MAX);
	buf_append_string(out, " more");
}

static void put_kind(struct buf *out, const struct kind *kind, const struct json *value)
{
	int64_t count =
		json_type_of(value) == JSON_INT ? json_int(value, 0) : (int64_t)json_length(value);
	const char *word = count == 1 ? kind->one : kind->many;

	if (json_type_of(value) == JSON_INT) {
		figure_count(out, (uint64_t)count);
		buf_append_char(out, ' ');
		buf_append_string(out, word ? word : "notes");
		return;
	}
	if (word) {
		buf_append_string(out, word);
		buf_append_char(out, ' ');
	}
	loss_names(out, value);
}

bool loss_words(struct buf *out, const struct json *lost)
{
	size_t began = out->len;

	for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
		const struct json *value = json_get(lost, KINDS[i].member);

		if (!(json_type_of(value) == JSON_ARRAY && json_length(value) > 0) &&
		    !(json_type_of(value) == JSON_INT && json_int(value, 0) > 0))
			continue;
		if (out->len > began)
			buf_append_string(out, "; ");
		put_kind(out, &KINDS[i], value);
	}
	return out->len > began;
}
