/*
 * The timeline: fates of cells after each way to lose them, damaged journals, and ten thousand
 * random histories against a model that keeps each state as a plain list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/kit.h"
#include "journal/timeline.h"

/* One event: the cell may be NULL, the body is JSON text. */
static bool take(struct timeline *timeline, enum event_type type, const char *cell,
		 const char *body)
{
	struct event event = kit_event(type, cell, body);
	bool changed = timeline_apply(timeline, &event);

	event_release(&event);
	return changed;
}

static void run(struct timeline *timeline, const char *id, const char *finished)
{
	assert_false(take(timeline, EVENT_CELL, id, "{\"code\":\"\"}"));
	assert_int_equal(timeline_find(timeline, id)->fate, TIMELINE_OPEN);
	take(timeline, EVENT_FINISHED, id, finished);
}

#define OK "{\"status\":\"ok\",\"state\":\"kept\"}"

static struct timeline *after(const char *const *ids)
{
	struct timeline *timeline = timeline_new();

	for (; *ids; ids++)
		run(timeline, *ids, OK);
	return timeline;
}

#define AFTER(...) after((const char *const[]){__VA_ARGS__, NULL})

/* The ids of the cells in the state, the last one first. */
static void check_state(const struct timeline *timeline, const char *want)
{
	cleanup_buf struct buf ids = BUF_INIT;

	for (const struct timeline_cell *cell = timeline_last(timeline); cell; cell = cell->before)
		buf_printf(&ids, "%s ", cell->id);
	assert_string_equal(buf_bytes(&ids), want);
}

static void check_fate(const struct timeline *timeline, const char *id, enum timeline_fate fate,
		       const char *by)
{
	const struct timeline_cell *cell = timeline_find(timeline, id);

	assert_non_null(cell);
	assert_int_equal(cell->fate, fate);
	if (by)
		assert_string_equal(cell->by, by);
	else
		assert_null(cell->by);
}

static void test_usual_cells(void **state)
{
	struct timeline *timeline = AFTER("a", "b");

	(void)state;
	run(timeline, "c", "{\"status\":\"error\",\"state\":\"kept\"}");
	run(timeline, "d", "{\"status\":\"cancelled\",\"state\":\"kept\",\"reason\":\"restart\"}");
	run(timeline, "e", "{\"status\":\"interrupted\",\"state\":\"kept\"}");
	check_state(timeline, "e c b a ");
	check_fate(timeline, "d", TIMELINE_NONE, NULL);
	assert_string_equal(timeline_newest(timeline)->id, "e");
	assert_null(timeline_find(timeline, "f"));
	timeline_free(timeline);
	timeline_free(NULL);
}

static void test_rollback(void **state)
{
	struct timeline *timeline = AFTER("a", "b", "c");

	(void)state;
	assert_true(take(timeline, EVENT_ROLLBACK, "a",
			 "{\"to\":\"b\",\"reason\":\"asked\",\"rolled_back\":[\"b\",\"c\"]}"));
	check_state(timeline, "a ");
	check_fate(timeline, "b", TIMELINE_ROLLED_BACK, "rollback");
	run(timeline, "d", OK);
	check_state(timeline, "d a ");
	/* To a checkpoint that was made after c: what was undone is there again. */
	take(timeline, EVENT_ROLLBACK, "c",
	     "{\"to\":\"mark\",\"reason\":\"asked\",\"rolled_back\":[\"d\"]}");
	check_state(timeline, "c b a ");
	check_fate(timeline, "b", TIMELINE_HELD, NULL);
	check_fate(timeline, "d", TIMELINE_ROLLED_BACK, "rollback");
	take(timeline, EVENT_ROLLBACK, NULL,
	     "{\"to\":null,\"reason\":\"asked\",\"reset\":true,\"rolled_back\":[\"a\",\"b\","
	     "\"c\"]}");
	check_state(timeline, "");
	check_fate(timeline, "a", TIMELINE_ROLLED_BACK, "reset");
	timeline_free(timeline);
}

static void test_tried(void **state)
{
	struct timeline *timeline = AFTER("a");

	(void)state;
	run(timeline, "t", "{\"status\":\"ok\",\"state\":\"rolled_back\"}");
	take(timeline, EVENT_ROLLBACK, "a", "{\"reason\":\"try\",\"rolled_back\":[\"t\"]}");
	check_fate(timeline, "t", TIMELINE_ROLLED_BACK, "try");
	run(timeline, "u", "{\"status\":\"error\",\"state\":\"rolled_back\"}");
	take(timeline, EVENT_ROLLBACK, "a", "{\"reason\":\"atomic\",\"rolled_back\":[\"u\"]}");
	check_fate(timeline, "u", TIMELINE_ROLLED_BACK, "atomic");
	/* The other way round, as the keeper may write it as well. */
	take(timeline, EVENT_CELL, "v", NULL);
	take(timeline, EVENT_ROLLBACK, "a", "{\"reason\":\"atomic\",\"rolled_back\":[\"v\"]}");
	take(timeline, EVENT_FINISHED, "v", "{\"status\":\"error\",\"state\":\"rolled_back\"}");
	check_fate(timeline, "v", TIMELINE_ROLLED_BACK, "atomic");
	check_state(timeline, "a ");
	timeline_free(timeline);
}

static void test_deaths(void **state)
{
	struct timeline *timeline = AFTER("a", "b", "c");

	(void)state;
	run(timeline, "d", "{\"status\":\"died\",\"state\":\"recovered\"}");
	check_fate(timeline, "d", TIMELINE_NONE, NULL);
	check_state(timeline, "c b a ");
	run(timeline, "e",
	    "{\"status\":\"timeout\",\"state\":\"recovered\",\"recovers_to\":\"b\","
	    "\"rolled_back\":[\"c\"]}");
	check_fate(timeline, "c", TIMELINE_LOST, NULL);
	check_state(timeline, "b a ");
	/* Between cells; to before the first one, which only the list tells. */
	assert_true(take(timeline, EVENT_DIED, NULL,
			 "{\"state\":\"recovered\",\"rolled_back\":[\"a\",\"b\"]}"));
	check_state(timeline, "");
	check_fate(timeline, "a", TIMELINE_LOST, NULL);
	run(timeline, "f", OK);
	run(timeline, "g", "{\"status\":\"died\",\"state\":\"reset\"}");
	check_fate(timeline, "f", TIMELINE_GONE, NULL);
	check_fate(timeline, "g", TIMELINE_NONE, NULL);
	run(timeline, "h", OK);
	assert_true(take(timeline, EVENT_RESTARTED, NULL, "{\"state\":\"reset\"}"));
	check_fate(timeline, "h", TIMELINE_GONE, NULL);
	check_fate(timeline, "c", TIMELINE_LOST, NULL);
	check_state(timeline, "");
	timeline_free(timeline);
}

static void test_branch(void **state)
{
	struct timeline *timeline = AFTER("a", "b", "c");

	(void)state;
	timeline_begin(timeline, "b");
	check_state(timeline, "b a ");
	check_fate(timeline, "c", TIMELINE_ROLLED_BACK, "rollback");
	run(timeline, "d", OK);
	take(timeline, EVENT_ROLLBACK, NULL, "{\"reason\":\"asked\",\"rolled_back\":[\"d\"]}");
	check_state(timeline, "b a ");
	run(timeline, "e", OK);
	run(timeline, "f", "{\"status\":\"died\",\"state\":\"recovered\",\"rolled_back\":[\"e\"]}");
	check_state(timeline, "b a ");
	take(timeline, EVENT_ROLLBACK, NULL, "{\"reason\":\"asked\",\"reset\":true}");
	check_state(timeline, "");
	timeline_begin(timeline, "nobody");
	check_state(timeline, "");
	timeline_free(timeline);
}

static void test_damage(void **state)
{
	struct timeline *timeline = AFTER("a", "b", "c");

	(void)state;
	take(timeline, EVENT_FINISHED, "unknown", OK);
	take(timeline, EVENT_FINISHED, NULL, OK);
	take(timeline, EVENT_FINISHED, "a", "{\"status\":\"died\",\"state\":\"reset\"}");
	take(timeline, EVENT_CELL, "a", NULL);
	take(timeline, EVENT_CELL, NULL, NULL);
	take(timeline, EVENT_DIED, NULL, NULL);
	take(timeline, EVENT_DIED, NULL, "{\"state\":7,\"rolled_back\":\"a\"}");
	take(timeline, EVENT_DIED, NULL, "{\"state\":\"recovered\",\"rolled_back\":[1,null,{}]}");
	check_state(timeline, "c b a ");
	/* A cell that is not there: the list says how far it went back. */
	take(timeline, EVENT_ROLLBACK, "lost", "{\"rolled_back\":[\"c\",\"x\"]}");
	check_state(timeline, "b a ");
	take(timeline, EVENT_CELL, "o", NULL);
	take(timeline, EVENT_ROLLBACK, "o", "{\"rolled_back\":[\"b\"]}");
	check_state(timeline, "a ");
	take(timeline, EVENT_ROLLBACK, NULL, NULL);
	check_state(timeline, "");
	timeline_free(timeline);
}

/* --- random histories ------------------------------------------------------------------------- */

enum { CELLS_MAX = 40, MARKS = 3 };

struct line {
	int cells[CELLS_MAX];
	int count;
};

struct model {
	struct timeline *timeline;
	struct line now;
	struct line marks[MARKS]; /* named checkpoints */
	enum timeline_fate fates[CELLS_MAX];
	int made;
	uint64_t random;
};

static unsigned pick(struct model *model, unsigned below)
{
	return (unsigned)(kit_random(&model->random) >> 33) % below;
}

static bool in_line(const struct line *line, int cell)
{
	for (int i = 0; i < line->count; i++)
		if (line->cells[i] == cell)
			return true;
	return false;
}

/* `"cN"`, or the words for none. */
static void name(struct buf *out, const struct line *line, int at)
{
	if (at >= 0)
		buf_printf(out, "\"c%d\"", line->cells[at]);
	else
		buf_append_string(out, "null");
}

/* Goes to another line; appends the list of cells that are no longer there. */
static void go(struct model *model, const struct line *to, enum timeline_fate fate, struct buf *out)
{
	const char *between = "";

	buf_append_string(out, "\"rolled_back\":[");
	for (int i = 0; i < model->now.count; i++) {
		int cell = model->now.cells[i];

		if (in_line(to, cell))
			continue;
		model->fates[cell] = fate;
		buf_printf(out, "%s\"c%d\"", between, cell);
		between = ",";
	}
	buf_append_string(out, "]}");
	model->now = *to;
	for (int i = 0; i < to->count; i++)
		model->fates[to->cells[i]] = TIMELINE_HELD;
}

static struct line shorter(const struct model *model, unsigned by)
{
	struct line line = model->now;

	line.count = line.count > (int)by ? line.count - (int)by : 0;
	return line;
}

static void roll_back(struct model *model, const struct line *to, bool reset)
{
	cleanup_buf struct buf body = BUF_INIT;
	char cell[16];
	bool empty = to->count == 0;

	if (!empty)
		snprintf(cell, sizeof(cell), "c%d", to->cells[to->count - 1]);
	buf_printf(&body, "{\"reason\":\"asked\",\"reset\":%s,", reset ? "true" : "false");
	go(model, to, TIMELINE_ROLLED_BACK, &body);
	take(model->timeline, EVENT_ROLLBACK, empty ? NULL : cell, buf_bytes(&body));
}

static void run_any(struct model *model)
{
	cleanup_buf struct buf body = BUF_INIT;
	int cell = model->made;
	unsigned way = pick(model, 8);
	struct line to = shorter(model, pick(model, 3));
	char id[16];

	if (cell == CELLS_MAX)
		return;
	model->made++;
	snprintf(id, sizeof(id), "c%d", cell);
	model->fates[cell] = TIMELINE_NONE;
	if (way < 4) {
		buf_append_string(&body, way ? OK : "{\"status\":\"error\",\"state\":\"kept\"}");
		model->fates[cell] = TIMELINE_HELD;
		model->now.cells[model->now.count++] = cell;
	} else if (way == 4) {
		buf_append_string(&body, "{\"status\":\"ok\",\"state\":\"rolled_back\"}");
		model->fates[cell] = TIMELINE_ROLLED_BACK;
	} else if (way == 5) {
		buf_append_string(&body, "{\"status\":\"cancelled\",\"state\":\"kept\"}");
	} else {
		buf_append_string(&body, "{\"status\":\"died\",\"state\":\"recovered\",");
		if (to.count != model->now.count) {
			buf_append_string(&body, "\"recovers_to\":");
			name(&body, &to, to.count - 1);
			buf_append_char(&body, ',');
		}
		go(model, &to, TIMELINE_LOST, &body);
	}
	run(model->timeline, id, buf_bytes(&body));
}

static void step(struct model *model)
{
	cleanup_buf struct buf body = BUF_INIT;
	const struct line empty = {.count = 0};
	unsigned mark = pick(model, MARKS);
	struct line to;

	switch (pick(model, 10)) {
	case 0:
		model->marks[mark] = model->now;
		break;
	case 1:
		roll_back(model, &model->marks[mark], false);
		break;
	case 2:
		to = shorter(model, 1 + pick(model, 3));
		roll_back(model, &to, false);
		break;
	case 3:
		if (pick(model, 4) == 0)
			roll_back(model, &empty, true);
		break;
	case 4:
		if (pick(model, 4) != 0)
			break;
		go(model, &empty, TIMELINE_GONE, &body);
		take(model->timeline, EVENT_RESTARTED, NULL, "{\"state\":\"reset\"}");
		break;
	default:
		run_any(model);
	}
}

static void check_model(const struct model *model)
{
	const struct timeline_cell *cell = timeline_last(model->timeline);
	char id[16];

	for (int i = model->now.count - 1; i >= 0; i--, cell = cell->before) {
		assert_non_null(cell);
		snprintf(id, sizeof(id), "c%d", model->now.cells[i]);
		assert_string_equal(cell->id, id);
	}
	assert_null(cell);
	for (int i = 0; i < model->made; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		if (timeline_find(model->timeline, id)->fate != model->fates[i])
			fail_msg("%s: fate %d, not %d", id,
				 timeline_find(model->timeline, id)->fate, model->fates[i]);
	}
}

static void test_random_histories(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10000; seed++) {
		struct model model = {.timeline = timeline_new(),
				      .random = seed * 0x9e3779b97f4a7c15ULL};

		for (int i = 0; i < 60; i++) {
			step(&model);
			check_model(&model);
		}
		timeline_free(model.timeline);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usual_cells),
		cmocka_unit_test(test_rollback),
		cmocka_unit_test(test_tried),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_branch),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_random_histories),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
