/*
 * Passes over the journal; see past.h.
 */
#include "keeper/past.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "digest/digest.h"
#include "journal/cursor.h"
#include "journal/journal.h"

enum { HEAD_BYTES_MAX = 80, INLINE_BYTES_MAX = 16 << 20 };

/* A pass: calls `take` with each event of a type that it asked for (bits), values not inline. */
struct pass {
	unsigned types;
	/* Without parsing: whether the event of this cell is wanted. NULL: all. */
	bool (*wants)(void *data, const char *cell, size_t len);
	void (*take)(void *data, struct event *event);
	void *data;
};

#define BIT(type) (1u << (type))
static_assert(EVENT_TYPE_COUNT <= 32, "a type is a bit");

/* The text behind `mark`, up to the next quote, or NULL. All lines begin
 * {"seq":N,"t":"...","type":"...","cell":"...". */
static const char *quoted(const char *from, size_t len, const char *mark, size_t *text_len)
{
	const char *at = memmem(from, len, mark, strlen(mark));
	const char *end;

	if (!at)
		return NULL;
	at += strlen(mark);
	end = memchr(at, '"', len - (size_t)(at - from));
	*text_len = end ? (size_t)(end - at) : 0;
	return end ? at : NULL;
}

static bool is_wanted(const struct pass *pass, const char *line, size_t len)
{
	size_t type_len, cell_len;
	const char *type =
		quoted(line, len < HEAD_BYTES_MAX ? len : HEAD_BYTES_MAX, "\"type\":\"", &type_len);
	const char *cell;
	char name[32];

	if (!type || type_len >= sizeof(name))
		return false;
	memcpy(name, type, type_len);
	name[type_len] = '\0';
	if (!(pass->types & BIT(event_type_from_name(name))))
		return false;
	if (!pass->wants)
		return true;
	cell = type + type_len;
	if (len - (size_t)(cell - line) < 10 || memcmp(cell, "\",\"cell\":\"", 10) != 0)
		return false;
	cell = quoted(cell, len - (size_t)(cell - line), "\"cell\":\"", &cell_len);
	return cell && pass->wants(pass->data, cell, cell_len);
}

static int pass_run(const struct pass *pass, int dirfd, uint64_t since, struct err *err)
{
	struct cursor *cursor = cursor_open(dirfd, since, err);
	enum cursor_step step = CURSOR_EVENT;

	if (!cursor)
		return -1;
	while (step == CURSOR_EVENT || step == CURSOR_DAMAGED) {
		cleanup_event struct event event = EVENT_INIT;
		const char *line;
		size_t len;
		uint64_t seq;

		step = cursor_next_line(cursor, &line, &len, &seq, err);
		if (step == CURSOR_EVENT && is_wanted(pass, line, len) &&
		    event_parse(line, len - 1, &event, NULL) ==
			    0) /* one line that is damage costs that line */
			pass->take(pass->data, &event);
	}
	cursor_free(cursor);
	return step == CURSOR_ERROR ? -1 : 0;
}

/* --- files
 * -------------------------------------------------------------------------------------- */

static void copy_member(struct json *to, const struct json *from, const char *name)
{
	if (json_get(from, name))
		json_set(to, name, json_keep(json_get(from, name)));
}

struct one_cell {
	const char *cell;
	struct json *body;
	bool found;
};

static bool wants_one(void *data, const char *cell, size_t len)
{
	const struct one_cell *one = data;

	return strlen(one->cell) == len && memcmp(one->cell, cell, len) == 0;
}

static void take_one(void *data, struct event *event)
{
	struct one_cell *one = data;

	one->found = true;
	copy_member(one->body, event->body, "files");
	copy_member(one->body, event->body, "files_more");
	copy_member(one->body, event->body, "files_incomplete");
}

int past_files_of_cell(int dirfd, const char *cell, uint64_t since, struct json *body,
		       struct err *err)
{
	struct one_cell one = {.cell = cell, .body = body, .found = false};
	const struct pass pass = {
		.types = BIT(EVENT_FINISHED), .wants = wants_one, .take = take_one, .data = &one};

	if (pass_run(&pass, dirfd, since, err) != 0)
		return -1;
	return one.found ? 0 : err_set(err, ERR_BUSY, "the cell \"%s\" has not ended yet", cell);
}

/* What is different, by path. */
struct net {
	struct json *by_path; /* object; its keys tell paths apart that differ only in bytes that
				 are no UTF-8 */
	uint64_t more;
};

/* The change that two in a row come to; NULL: none. */
static const char *change_of_both(const char *first, const char *then)
{
	bool deleted = strcmp(then, "deleted") == 0;

	if (strcmp(first, "created") == 0)
		return deleted ? NULL : "created";
	if (strcmp(first, "deleted") == 0)
		return deleted ? "deleted" : "changed";
	return then;
}

static void net_add(struct net *net, const struct json *item, const char *cell, const char *section)
{
	const char *change = json_get_string(item, "change"), *path = json_get_string(item, "path");
	const char *bytes = json_get_string(item, "path_base64");
	cleanup_free char *key = mem_format("%c%s", bytes ? 'b' : 'p',
					    bytes  ? bytes
					    : path ? path
						   : "");
	const struct json *old = json_get(net->by_path, key);
	struct json *made;

	if (!change || !path)
		return;
	if (old)
		change = change_of_both(json_get_string(old, "change"), change);
	if (!change) {
		json_remove(net->by_path, key);
		return;
	}
	if (!old && json_length(net->by_path) >= PAST_ITEMS_MAX) {
		net->more++;
		return;
	}
	made = json_copy(item);
	json_set_string(made, "change", change);
	json_remove(made, "origin");
	json_set(made, "cell", cell ? json_new_string(cell, strlen(cell)) : NULL);
	if (section)
		json_set_string(made, "section", section);
	json_set(net->by_path, key, made);
}

static void net_add_all(struct net *net, const struct json *items, const char *cell,
			const char *section)
{
	for (size_t i = 0; i < json_length(items); i++)
		net_add(net, json_at(items, i), cell, section);
}

static void take_files(void *data, struct event *event)
{
	struct net *net = data;

	net->more += (uint64_t)json_get_int(event->body, "files_more", 0);
	net_add_all(net, json_get(event->body, "files"), event->cell, NULL);
}

static int push_value(const char *key, size_t key_len, struct json *value, void *data)
{
	(void)key;
	(void)key_len;
	json_push(data, json_keep(value));
	return 0;
}

int past_files(int dirfd, uint64_t since, const struct json *between, struct json *body,
	       struct err *err)
{
	struct net net = {.by_path = json_new_object(), .more = 0};
	const struct pass pass = {.types = BIT(EVENT_FINISHED), .take = take_files, .data = &net};
	int status = pass_run(&pass, dirfd, since, err);

	if (status == 0) {
		struct json *files = json_new_array();

		net_add_all(&net, between, NULL, NULL);
		json_each(net.by_path, push_value, files);
		json_set(body, "files", files);
		if (net.more > 0)
			json_set_int(body, "files_more", (int64_t)net.more);
	}
	json_free(net.by_path);
	return status;
}

/* --- images
 * ------------------------------------------------------------------------------------- */

struct images {
	int dirfd;
	uint64_t since;
	const char *section;   /* NULL: all */
	struct json *sections; /* cell -> title or null */
	struct json *counts;   /* cell -> images so far */
	struct json *shown;    /* the answer */
	struct net net;
	uint64_t more;
};

static bool is_in_section(const struct images *images, const char *section)
{
	return !images->section || (section && strcmp(images->section, section) == 0);
}

/* The image's file; the record may have been unable to write it. */
static void add_file(const struct images *images, struct json *item, const char *cell,
		     int64_t number, const char *extension)
{
	cleanup_free char *path =
		mem_format("images/%s-%lld.%s", cell, (long long)number, extension);
	struct stat st;

	if (fstatat(images->dirfd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	json_set_string(item, "path", path);
	json_set_int(item, "bytes", st.st_size);
}

static void take_shown(struct images *images, const struct event *event, const char *section)
{
	const char *extension = NULL, *mime = event_image(event, &extension);
	int64_t number = json_get_int(images->counts, event->cell, 0) + 1;
	struct json *item;

	if (!mime)
		return;
	json_set_int(images->counts, event->cell, number);
	if (event->seq <= images->since || !is_in_section(images, section))
		return;
	if (json_length(images->shown) >= PAST_ITEMS_MAX) {
		images->more++;
		return;
	}
	item = json_new_object();
	json_set_string(item, "cell", event->cell);
	json_set_int(item, "n", number);
	add_file(images, item, event->cell, number, extension);
	json_set_string(item, "mime", mime);
	json_set(item, "section", section ? json_new_string(section, strlen(section)) : NULL);
	json_set_string(item, "place", "session");
	json_push(images->shown, item);
}

static void take_image(void *data, struct event *event)
{
	struct images *images = data;
	const char *section;

	if (!event->cell)
		return;
	if (event->type == EVENT_CELL) {
		json_set(images->sections, event->cell,
			 json_keep(json_get(event->body, "section")));
		return;
	}
	section = json_get_string(images->sections, event->cell);
	if (event->type != EVENT_FINISHED)
		take_shown(images, event, section);
	else if (event->seq > images->since)
		net_add_all(&images->net, json_get(event->body, "files"), event->cell, section);
}

static int push_image_file(const char *key, size_t key_len, struct json *value, void *data)
{
	struct images *images = data;
	const char *mime = json_get_string(value, "mime"),
		   *section = json_get_string(value, "section");

	(void)key;
	(void)key_len;
	if (!mime || strncmp(mime, "image/", 6) != 0 || !is_in_section(images, section) ||
	    strcmp(json_get_string(value, "change"), "deleted") == 0)
		return 0;
	if (!section)
		json_set(value, "section", NULL);
	json_set_string(value, "place", "workspace");
	json_push(images->shown, json_keep(value));
	return 0;
}

int past_images(int dirfd, uint64_t since, const char *section, struct json *body, struct err *err)
{
	struct images images = {.dirfd = dirfd,
				.since = since,
				.section = section,
				.sections = json_new_object(),
				.counts = json_new_object(),
				.shown = json_new_array(),
				.net = {.by_path = json_new_object(), .more = 0}};
	/* From the beginning: images are counted by cell, and a cell may begin long before its last
	 * one. */
	const struct pass pass = {.types = BIT(EVENT_CELL) | BIT(EVENT_DISPLAY) |
					   BIT(EVENT_UPDATE_DISPLAY) | BIT(EVENT_RESULT) |
					   BIT(EVENT_FINISHED),
				  .take = take_image,
				  .data = &images};
	int status = pass_run(&pass, dirfd, 0, err);

	if (status == 0) {
		json_each(images.net.by_path, push_image_file, &images);
		json_set(body, "images", json_keep(images.shown));
		if (images.more > 0)
			json_set_int(body, "images_more", (int64_t)images.more);
	}
	json_free(images.sections);
	json_free(images.counts);
	json_free(images.shown);
	json_free(images.net.by_path);
	return status;
}

/* --- texts
 * -------------------------------------------------------------------------------------- */

struct text_of {
	char cell[65];
	struct digest *digest;
};

struct outputs {
	int dirfd;
	const char *session, *section;
	const struct notebook *notebook; /* may be NULL */
	const struct digest_params *form;
	struct text_of *texts;
	size_t count, cap;
	struct json *index; /* cell -> its place in texts */
};

static struct text_of *text_find(const struct outputs *outputs, const char *cell)
{
	int64_t at = json_get_int(outputs->index, cell, -1);

	return at < 0 ? NULL : &outputs->texts[at];
}

static void text_add(struct outputs *outputs, const char *cell)
{
	cleanup_free char *whole = mem_format("fumehood log %s --cell %s", outputs->session, cell);
	struct digest_params params = *outputs->form;
	struct text_of *text;

	params.whole = whole;
	if (outputs->count == outputs->cap) {
		outputs->cap = outputs->cap ? 2 * outputs->cap : 16;
		outputs->texts = mem_resize(outputs->texts, outputs->cap, sizeof(*outputs->texts));
	}
	json_set_int(outputs->index, cell, (int64_t)outputs->count);
	text = &outputs->texts[outputs->count++];
	snprintf(text->cell, sizeof(text->cell), "%s", cell);
	text->digest = digest_new(&params);
}

/* Of a cell that is not known yet only its `cell` event can come: it is parsed to see its
 * section. */
static void take_output(void *data, struct event *event)
{
	struct outputs *outputs = data;
	const char *section = json_get_string(event->body, "section");
	struct text_of *text;

	if (!event->cell)
		return;
	if (event->type == EVENT_CELL &&
	    (!outputs->section || (section && strcmp(section, outputs->section) == 0)))
		text_add(outputs, event->cell);
	text = text_find(outputs, event->cell);
	if (text && event_inline(outputs->dirfd, event, INLINE_BYTES_MAX, NULL, NULL) == 0)
		digest_apply(text->digest, event);
}

static bool wants_output(void *data, const char *cell, size_t len)
{
	char id[65];

	if (len >= sizeof(id))
		return false;
	memcpy(id, cell, len);
	id[len] = '\0';
	return text_find(data, id) != NULL;
}

/* All texts, the first PAST_TEXT_BYTES_MAX of them. */
static void outputs_tell(struct outputs *outputs, struct json *body)
{
	struct json *cells = json_new_array();
	size_t bytes = 0, told = 0;

	for (; told < outputs->count && bytes < PAST_TEXT_BYTES_MAX; told++) {
		struct json *item = json_new_object();
		cleanup_buf struct buf text = BUF_INIT;

		if (outputs->notebook)
			digest_set_fate(
				outputs->texts[told].digest,
				notebook_fate(outputs->notebook, outputs->texts[told].cell));
		digest_text(outputs->texts[told].digest, &text);
		json_set_string(item, "cell", outputs->texts[told].cell);
		json_set(item, "text", json_new_string(buf_bytes(&text), text.len));
		json_push(cells, item);
		bytes += text.len;
	}
	json_set(body, "cells", cells);
	if (told < outputs->count)
		json_set_int(body, "cells_more", (int64_t)(outputs->count - told));
}

/* The first pass finds the cells of the section, the second one their events: so nothing else is
 * parsed. */
int past_outputs(int dirfd, const char *session, const struct notebook *notebook,
		 const char *section, const struct digest_params *form, struct json *body,
		 struct err *err)
{
	struct outputs outputs = {.dirfd = dirfd,
				  .session = session,
				  .notebook = notebook,
				  .section = section,
				  .form = form,
				  .index = json_new_object()};
	const struct pass cells = {.types = BIT(EVENT_CELL), .take = take_output, .data = &outputs};
	const struct pass rest = {.types = ~BIT(EVENT_CELL),
				  .wants = wants_output,
				  .take = take_output,
				  .data = &outputs};
	int status = pass_run(&cells, dirfd, 0, err);

	if (status == 0 && outputs.count > 0)
		status = pass_run(&rest, dirfd, 0, err);
	if (status == 0)
		outputs_tell(&outputs, body);
	for (size_t i = 0; i < outputs.count; i++)
		digest_free(outputs.texts[i].digest);
	free(outputs.texts);
	json_free(outputs.index);
	return status;
}
