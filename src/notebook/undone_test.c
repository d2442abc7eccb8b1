/*
 * Cells that were rolled back, in the notebook: left out, kept and marked, brought back.
 *
 * The last test makes random histories and asks two things of each, after every event: that the
 * file which a live session prints again and again is the one that a fold prints at once, and that
 * leaving cells out gives, to the byte, the notebook of a journal in which they never ran.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/kit.h"
#include "notebook/notebook.h"

enum { LINES_MAX = 400, CELLS_MAX = 40, STEPS = 30 };

/* A history: lines of a journal, and the cell that each belongs to. */
struct history {
	char *lines[LINES_MAX];
	int owners[LINES_MAX]; /* -1: of no cell */
	int count;
};

__attribute__((format(printf, 3, 4))) static void add(struct history *history, int owner,
						      const char *format, ...)
{
	cleanup_buf struct buf line = BUF_INIT;
	char fields[600];
	va_list list;

	va_start(list, format);
	vsnprintf(fields, sizeof(fields), format, list);
	va_end(list);
	assert_true(history->count < LINES_MAX);
	buf_printf(&line, "{\"seq\":%d,\"t\":\"2026-11-29T17:%02d:%02d.000001Z\",%s}",
		   history->count + 1, history->count / 60, history->count % 60, fields);
	history->owners[history->count] = owner;
	history->lines[history->count++] = buf_take(&line, NULL);
}

static void history_clear(struct history *history)
{
	for (int i = 0; i < history->count; i++)
		free(history->lines[i]);
	history->count = 0;
}

static void apply(struct notebook *notebook, const char *line)
{
	cleanup_event struct event event = EVENT_INIT;
	struct err err = ERR_INIT;

	if (event_parse(line, strlen(line), &event, &err) != 0)
		fail_msg("%s: %s", err.text, line);
	notebook_apply(notebook, &event);
}

/* The file after the first `count` lines, without those of the cells that `without` marks. */
static void fold(const struct history *history, int count, const bool *without,
		 enum notebook_rolled_back what, struct buf *out)
{
	struct notebook *notebook = notebook_new();

	notebook_set_rolled_back(notebook, what);
	for (int i = 0; i < count; i++) {
		int owner = history->owners[i];

		if (!(without && owner >= 0 && without[owner]))
			apply(notebook, history->lines[i]);
	}
	buf_clear(out);
	notebook_write(notebook, out);
	notebook_free(notebook);
}

static void run(struct history *history, int cell, const char *finished)
{
	add(history, cell, "\"type\":\"cell\",\"cell\":\"c%d\",\"code\":\"x = %d\"", cell, cell);
	add(history, cell, "\"type\":\"started\",\"cell\":\"c%d\"", cell);
	add(history, cell,
	    "\"type\":\"stream\",\"cell\":\"c%d\",\"name\":\"stdout\",\"text\":\"out %d\\n\"", cell,
	    cell);
	add(history, cell, "\"type\":\"finished\",\"cell\":\"c%d\",\"execution_count\":%d,%s", cell,
	    cell, finished);
}

#define OK "\"status\":\"ok\",\"state\":\"kept\""

/* The notebook as JSON, joined. */
static struct json *joined(const struct history *history, enum notebook_rolled_back what)
{
	struct notebook *notebook = notebook_new();
	cleanup_buf struct buf text = BUF_INIT;
	struct json *json;

	for (int i = 0; i < history->count; i++)
		apply(notebook, history->lines[i]);
	notebook_write_joined(notebook, what, &text);
	json = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	assert_non_null(json);
	notebook_free(notebook);
	return json;
}

/* The ids of the cells, each with `!` when it is marked. */
static void check_ids(const struct history *history, enum notebook_rolled_back what,
		      const char *want)
{
	cleanup_json struct json *notebook = joined(history, what);
	const struct json *cells = json_get(notebook, "cells");
	cleanup_buf struct buf ids = BUF_INIT;

	for (size_t i = 0; i < json_length(cells); i++) {
		const struct json *cell = json_at(cells, i);
		const struct json *tags = json_get(json_get(cell, "metadata"), "tags");
		const char *tag = json_string(json_at(tags, 0), NULL);
		bool marked = tag && strcmp(tag, "rolled-back") == 0;

		buf_printf(&ids, "%s%s ", json_get_string(cell, "id"), marked ? "!" : "");
	}
	assert_string_equal(buf_bytes(&ids), want);
}

static void check_text(const struct json *value, const char *want)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, value);
	assert_string_equal(buf_bytes(&text), want);
}

static void test_omit_and_keep(void **state)
{
	struct history history = {.count = 0};
	cleanup_json struct json *kept = NULL;
	const struct json *cell;

	(void)state;
	for (int i = 1; i <= 3; i++)
		run(&history, i, OK);
	add(&history, -1, "\"type\":\"note\",\"id\":\"n\",\"text\":\"between\"");
	add(&history, -1,
	    "\"type\":\"rollback\",\"cell\":\"c1\",\"to\":\"c2\",\"reason\":\"asked\","
	    "\"rolled_back\":[\"c2\",\"c3\"]");
	run(&history, 4, OK);
	check_ids(&history, NOTEBOOK_AS_SAID, "c1 n c4 ");
	check_ids(&history, NOTEBOOK_OMIT, "c1 n c4 ");
	check_ids(&history, NOTEBOOK_KEEP, "c1 c2! c3! n c4 ");
	kept = joined(&history, NOTEBOOK_KEEP);
	cell = json_at(json_get(kept, "cells"), 1);
	check_text(json_get(json_get(cell, "metadata"), "fumehood"),
		   "{\"rolled_back\":{\"by\":\"rollback\"}}");
	check_text(json_at(json_get(cell, "outputs"), 1),
		   "{\"name\":\"stderr\",\"output_type\":\"stream\",\"text\":\"[fumehood: rolled "
		   "back: what this cell did is not in the variables any more]\\n\"}");
	/* Back to a checkpoint of after c3: its cells are there again, c4 is not. */
	add(&history, -1,
	    "\"type\":\"rollback\",\"cell\":\"c3\",\"to\":\"mark\",\"reason\":\"asked\","
	    "\"rolled_back\":[\"c4\"]");
	check_ids(&history, NOTEBOOK_OMIT, "c1 c2 c3 n ");
	check_ids(&history, NOTEBOOK_KEEP, "c1 c2 c3 n c4! ");
	history_clear(&history);
}

static void test_wish_of_the_session(void **state)
{
	struct history history = {.count = 0};

	(void)state;
	add(&history, -1,
	    "\"type\":\"session\",\"id\":\"s\",\"notebook\":{\"rolled_back\":\"keep\"}");
	run(&history, 1, "\"status\":\"ok\",\"state\":\"rolled_back\"");
	check_ids(&history, NOTEBOOK_AS_SAID, "c1! ");
	check_ids(&history, NOTEBOOK_OMIT, "");
	history_clear(&history);
	assert_int_equal(notebook_rolled_back_from_name("omit"), NOTEBOOK_OMIT);
	assert_int_equal(notebook_rolled_back_from_name("KEEP"), NOTEBOOK_AS_SAID);
	assert_int_equal(notebook_rolled_back_from_name(NULL), NOTEBOOK_AS_SAID);
}

static void test_deaths(void **state)
{
	struct history history = {.count = 0};

	(void)state;
	run(&history, 1, OK);
	run(&history, 2, OK);
	run(&history, 3, "\"status\":\"died\",\"reason\":\"signal 11\",\"state\":\"recovered\"");
	check_ids(&history, NOTEBOOK_OMIT, "c1 c2 c3 ");
	/* What nobody asked to lose stays, in either way. */
	run(&history, 4,
	    "\"status\":\"died\",\"state\":\"recovered\",\"recovers_to\":\"c1\","
	    "\"rolled_back\":[\"c2\"]");
	check_ids(&history, NOTEBOOK_OMIT, "c1 c2! c3 c4 ");
	check_ids(&history, NOTEBOOK_KEEP, "c1 c2! c3 c4 ");
	/* All is lost: nothing tells one cell from another. */
	run(&history, 5, "\"status\":\"died\",\"state\":\"reset\"");
	check_ids(&history, NOTEBOOK_OMIT, "c1 c2! c3 c4 c5 ");
	history_clear(&history);
}

/* A notebook that was kept with its marks and is run again: they tell of another run. */
static void test_marks_of_another_run(void **state)
{
	struct history history = {.count = 0};
	cleanup_json struct json *notebook = NULL;

	(void)state;
	add(&history, 1,
	    "\"type\":\"cell\",\"cell\":\"c1\",\"code\":\"\",\"metadata\":{\"tags\":[\"a\","
	    "\"rolled-back\"],\"fumehood\":{\"rolled_back\":{\"by\":\"try\"}}}");
	add(&history, 2,
	    "\"type\":\"cell\",\"cell\":\"c2\",\"code\":\"\",\"metadata\":{\"tags\":["
	    "\"rolled-back\"],\"fumehood\":{\"rolled_back\":{},\"x\":1}}");
	add(&history, 3,
	    "\"type\":\"cell\",\"cell\":\"c3\",\"code\":\"\",\"metadata\":{\"tags\":["
	    "\"rolled-back\"],\"fumehood\":7}");
	notebook = joined(&history, NOTEBOOK_KEEP);
	check_text(json_get(json_at(json_get(notebook, "cells"), 0), "metadata"),
		   "{\"tags\":[\"a\"]}");
	check_text(json_get(json_at(json_get(notebook, "cells"), 1), "metadata"),
		   "{\"fumehood\":{\"x\":1}}");
	check_text(json_get(json_at(json_get(notebook, "cells"), 2), "metadata"),
		   "{\"fumehood\":7,\"tags\":[\"rolled-back\"]}");
	history_clear(&history);
}

/* Cells of a file that is run are the file's: neither left out nor marked. */
static void test_cells_of_a_file(void **state)
{
	struct notebook *notebook = notebook_new();
	struct document_cell given = {.type = DOCUMENT_CODE, .id = "c1", .source = (char[]){"x"}};
	struct history history = {.count = 0};
	cleanup_buf struct buf form = BUF_INIT;

	(void)state;
	given.source_len = 1;
	given.metadata = json_new_object();
	given.execution_count = -1;
	notebook_take(notebook, &given, false);
	run(&history, 1, "\"status\":\"error\",\"state\":\"rolled_back\"");
	for (int i = 0; i < history.count; i++)
		apply(notebook, history.lines[i]);
	notebook_write(notebook, &form);
	assert_non_null(strstr(buf_bytes(&form), "\"id\": \"c1\""));
	assert_null(strstr(buf_bytes(&form), "rolled"));
	assert_int_equal(notebook_cell_count(notebook), 1);
	json_free(given.metadata);
	notebook_free(notebook);
	history_clear(&history);
}

/* --- random histories ------------------------------------------------------------------------- */

struct model {
	struct history history;
	uint64_t random;
	int now[CELLS_MAX], now_count;
	int mark[CELLS_MAX], mark_count; /* a named checkpoint */
	bool undone[CELLS_MAX];
	int made;
};

static int pick(struct model *model, int below)
{
	return (int)((kit_random(&model->random) >> 33) % (uint64_t)below);
}

/* The state becomes the first `count` of `cells`. */
static void go(struct model *model, const int *cells, int count, const char *rest)
{
	cleanup_buf struct buf list = BUF_INIT;
	const char *between = "";
	char cell[24] = "null";

	if (count > 0)
		snprintf(cell, sizeof(cell), "\"c%d\"", cells[count - 1]);
	for (int i = 0; i < model->now_count; i++) {
		bool stays = false;

		for (int k = 0; k < count; k++)
			stays = stays || cells[k] == model->now[i];
		if (stays)
			continue;
		model->undone[model->now[i]] = true;
		buf_printf(&list, "%s\"c%d\"", between, model->now[i]);
		between = ",";
	}
	for (int i = 0; i < count; i++)
		model->undone[cells[i]] = false;
	memmove(model->now, cells, (size_t)count * sizeof(*cells));
	model->now_count = count;
	add(&model->history, -1, "\"type\":\"rollback\",\"cell\":%s,%s,\"rolled_back\":[%s]", cell,
	    rest, buf_bytes(&list));
}

static void run_any(struct model *model)
{
	static const char *const ways[] = {
		OK,
		"\"status\":\"error\",\"state\":\"kept\"",
		"\"status\":\"ok\",\"state\":\"rolled_back\"",
		"\"status\":\"cancelled\",\"state\":\"kept\"",
		"\"status\":\"died\",\"state\":\"recovered\"",
	};
	int cell = model->made++;
	int way = pick(model, 5);

	run(&model->history, cell, ways[way]);
	if (way == 2)
		add(&model->history, -1,
		    "\"type\":\"rollback\",\"cell\":%s%d%s,\"reason\":\"%s\",\"rolled_back\":[\"c%"
		    "d\"]",
		    model->now_count ? "\"c" : "null,\"x\":",
		    model->now_count ? model->now[model->now_count - 1] : 0,
		    model->now_count ? "\"" : "", pick(model, 2) ? "atomic" : "try", cell);
	if (way < 2)
		model->now[model->now_count++] = cell;
	model->undone[cell] = way == 2;
}

static void step(struct model *model)
{
	int way = pick(model, 10);

	if (way == 0) {
		memcpy(model->mark, model->now, sizeof(model->now));
		model->mark_count = model->now_count;
	} else if (way == 1) {
		go(model, model->mark, model->mark_count, "\"reason\":\"asked\"");
	} else if (way == 2 && model->now_count > 0) {
		go(model, model->now, pick(model, model->now_count), "\"reason\":\"asked\"");
	} else if (way == 3 && pick(model, 3) == 0) {
		go(model, model->now, 0, "\"reason\":\"asked\",\"reset\":true");
	} else if (way == 4 && model->made > 0) { /* late output of any cell */
		int cell = pick(model, model->made);

		add(&model->history, cell,
		    "\"type\":\"stream\",\"cell\":\"c%d\",\"name\":\"stderr\",\"text\":\"late\"",
		    cell);
	} else if (model->made < CELLS_MAX) {
		run_any(model);
	}
}

/* Says where two files differ: they are too long for assert_string_equal() to show. */
static void check_same(const struct buf *a, const struct buf *b, uint64_t seed, int step,
		       const char *what)
{
	size_t at = 0;

	while (at < a->len && at < b->len && buf_bytes(a)[at] == buf_bytes(b)[at])
		at++;
	if (at < a->len || at < b->len)
		fail_msg("seed %llu, step %d, %s: %.200s ... not %.200s", (unsigned long long)seed,
			 step, what, buf_bytes(a) + at, buf_bytes(b) + at);
}

static void test_random_histories(void **state)
{
	cleanup_buf struct buf live_form = BUF_INIT, once = BUF_INIT, without = BUF_INIT;

	(void)state;
	for (uint64_t seed = 1; seed <= 120; seed++) {
		struct model model = {.random = seed * 0x9e3779b97f4a7c15ULL};
		struct notebook *live = notebook_new();
		struct notebook *keeping = notebook_new();

		notebook_set_rolled_back(keeping, NOTEBOOK_KEEP);
		for (int i = 0; i < STEPS; i++) {
			int before = model.history.count;

			step(&model);
			for (int at = before; at < model.history.count; at++) {
				apply(live, model.history.lines[at]);
				buf_clear(&live_form);
				notebook_write(live, &live_form);
				fold(&model.history, at + 1, NULL, NOTEBOOK_AS_SAID, &once);
				check_same(&live_form, &once, seed, i, "printed often");
				apply(keeping, model.history.lines[at]);
				buf_clear(&live_form);
				notebook_write(keeping, &live_form);
				fold(&model.history, at + 1, NULL, NOTEBOOK_KEEP, &once);
				check_same(&live_form, &once, seed, i, "kept, printed often");
			}
			fold(&model.history, model.history.count, model.undone, NOTEBOOK_OMIT,
			     &without);
			buf_clear(&live_form);
			notebook_write(live, &live_form);
			check_same(&live_form, &without, seed, i, "without them");
			/* The wish can change at any time, and back. */
			notebook_set_rolled_back(live, NOTEBOOK_KEEP);
			buf_clear(&live_form);
			notebook_write(live, &live_form);
			fold(&model.history, model.history.count, NULL, NOTEBOOK_KEEP, &once);
			check_same(&live_form, &once, seed, i, "kept");
			notebook_set_rolled_back(live, NOTEBOOK_AS_SAID);
		}
		notebook_free(live);
		notebook_free(keeping);
		history_clear(&model.history);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_omit_and_keep),   cmocka_unit_test(test_wish_of_the_session),
		cmocka_unit_test(test_deaths),          cmocka_unit_test(test_marks_of_another_run),
		cmocka_unit_test(test_cells_of_a_file), cmocka_unit_test(test_random_histories),
	};

	return cmocka_run_group_tests_name("undone", tests, NULL, NULL);
}
