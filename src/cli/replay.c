/*
 * Reading what is to be done again. See replay.h.
 *
 * One pass over the journal: everything that might be wanted is gathered, the timeline says at the
 * end what is. Sections and notes are done again as well, so that the notebook has its headings.
 * The journal of a branch begins where that of its parent was then; so that one is read first.
 */
#include "cli/replay.h"

#include <string.h>

#include "base/mem.h"
#include "cli/fold.h"
#include "client/store.h"
#include "journal/timeline.h"

enum { BRANCH_DEPTH_MAX = 64 };

static void step_release(struct replay_step *step)
{
	free(step->id);
	free(step->status);
	free(step->again);
	json_free(step->body);
	json_free(step->inputs);
	json_free(step->differs);
}

void replay_release(struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++)
		step_release(&replay->steps[i]);
	free(replay->steps);
	notebook_free(replay->notebook);
	json_free(replay->made);
	json_free(replay->touched);
}

/* What is known while the journal is read. */
struct reading {
	struct replay *replay;
	struct timeline *timeline;
	struct json *index;  /* {cell: its place among the steps} */
	struct json *marks;  /* {name of a checkpoint: the last cell in it, or null} */
	struct json *makers; /* {path: the cell whose event named it first, "" if it was there} */
	struct json *makes;  /* {cell: true}: what these make is not there when the steps begin */
};

static void reading_release(struct reading *reading)
{
	timeline_free(reading->timeline);
	json_free(reading->index);
	json_free(reading->marks);
	json_free(reading->makers);
	json_free(reading->makes);
}

static void add_step(struct replay *replay, enum replay_kind kind, const struct event *event)
{
	struct replay_step *step;

	replay->steps = mem_resize(replay->steps, replay->count + 1, sizeof(*replay->steps));
	step = &replay->steps[replay->count++];
	*step = (struct replay_step){
		.kind = kind, .id = mem_string(event->cell), .body = json_keep(event->body)};
}

static struct replay_step *step_of(const struct reading *reading, const char *cell)
{
	int64_t place = cell ? json_get_int(reading->index, cell, -1) : -1;

	return place < 0 ? NULL : &reading->replay->steps[place];
}

/* Who named each path first; what was not made by a cell was there, or came from outside. */
static void note_files(struct reading *reading, const struct event *event)
{
	const struct json *files = json_get(event->body, "files");

	for (size_t i = 0; i < json_length(files); i++) {
		const struct json *file = json_at(files, i);
		const char *path = json_get_string(file, "path");
		const char *change = json_get_string(file, "change");
		bool made = change && strcmp(change, "created") == 0 && !json_has(file, "origin");

		if (path && !json_has(reading->makers, path))
			json_set_string(reading->makers, path, made ? event->cell : "");
	}
}

static void note_finished(struct reading *reading, const struct event *event)
{
	struct replay_step *step = step_of(reading, event->cell);

	if (!step)
		return;
	free(step->status);
	step->status = mem_string(json_get_string(event->body, "status"));
	note_files(reading, event);
}

static void note_input(struct reading *reading, const struct event *event)
{
	struct replay_step *step = step_of(reading, event->cell);

	if (!step)
		return;
	if (!step->inputs)
		step->inputs = json_new_array();
	json_push(step->inputs, json_keep(event->body));
}

static void note_checkpoint(struct reading *reading, const struct event *event)
{
	const char *name = json_get_string(event->body, "name");
	const char *action = json_get_string(event->body, "action");

	if (!name || !action)
		return;
	if (strcmp(action, "made") == 0)
		json_set(reading->marks, name,
			 event->cell ? json_new_string(event->cell, strlen(event->cell)) : NULL);
	else
		json_remove(reading->marks, name);
}

static void take(struct reading *reading, const struct event *event)
{
	struct replay *replay = reading->replay;

	timeline_apply(reading->timeline, event);
	notebook_apply(replay->notebook, event);
	if (event->type == EVENT_CELL && event->cell && !json_has(reading->index, event->cell)) {
		json_set_int(reading->index, event->cell, (int64_t)replay->count);
		add_step(replay, REPLAY_RUN, event);
	} else if (event->type == EVENT_SECTION) {
		add_step(replay, REPLAY_SECTION, event);
	} else if (event->type == EVENT_NOTE) {
		add_step(replay, REPLAY_NOTE, event);
	} else if (event->type == EVENT_FINISHED) {
		note_finished(reading, event);
	} else if (event->type == EVENT_INPUT) {
		note_input(reading, event);
	} else if (event->type == EVENT_CHECKPOINT) {
		note_checkpoint(reading, event);
	}
}

static int read_journal(struct reading *reading, int dirfd, uint64_t until, unsigned depth,
			struct err *err);

/* The past of a branch: its parent's journal up to the fork, and the state that it began with. */
static int read_parent(struct reading *reading, const struct json *parent, unsigned depth,
		       struct err *err)
{
	const char *id = json_get_string(parent, "session");
	cleanup_store struct store store = STORE_INIT;
	cleanup_fd int dirfd = -1;

	if (!id || !config_is_id(id) || depth >= BRANCH_DEPTH_MAX)
		return err_set(err, ERR_CORRUPT, "the journal does not say whose branch this is");
	if (store_open(&store, err) != 0)
		return -1;
	dirfd = store_open_directory(&store, id, err);
	if (dirfd < 0)
		return err_wrap(err, "the session whose branch this is cannot be read");
	if (read_journal(reading, dirfd, (uint64_t)json_get_int(parent, "seq", 0), depth + 1,
			 err) != 0)
		return -1;
	timeline_begin(reading->timeline, json_get_string(parent, "cell"));
	return 0;
}

static int read_journal(struct reading *reading, int dirfd, uint64_t until, unsigned depth,
			struct err *err)
{
	cleanup_fold struct fold_reader reader = FOLD_READER_INIT;

	bool branch = false;

	if (fold_open(&reader, dirfd, err) != 0)
		return -1;
	for (;;) {
		cleanup_event struct event event = EVENT_INIT;
		int got = fold_next(&reader, &event, err);
		const struct json *parent;

		if (got <= 0 || event.seq > until)
			return got < 0 ? -1 : 0;
		parent = event.type == EVENT_SESSION ? json_get(event.body, "parent") : NULL;
		if (parent && read_parent(reading, parent, depth, err) != 0)
			return -1;
		branch = branch || parent;
		if (branch && event.type == EVENT_NOTE && event.seq == 2)
			continue; /* which says that it is one */
		take(reading, &event);
	}
}

/* Finds the last cell that is wanted; NULL in *last: none is. */
static int find_last(const struct reading *reading, const char *from,
		     const struct timeline_cell **last, struct err *err)
{
	const struct timeline_cell *cell = from ? timeline_find(reading->timeline, from) : NULL;

	*last = timeline_last(reading->timeline);
	if (!from)
		return 0;
	if (json_has(reading->marks, from)) {
		const char *id = json_get_string(reading->marks, from);

		*last = id ? timeline_find(reading->timeline, id) : NULL;
		return 0;
	}
	if (!cell)
		return err_set(err, ERR_NOT_FOUND,
			       "the session has no checkpoint and no cell \"%.70s\"", from);
	if (cell->fate != TIMELINE_HELD)
		return err_set(err, ERR_NOT_FOUND,
			       "cell %.70s is not in the state of the session: name one that is",
			       from);
	*last = cell->before;
	return 0;
}

/* Leaves the steps that are wanted: the cells of the chain, and up to the last of them (with
 * `from`) what stands between. */
static void choose(struct reading *reading, const struct timeline_cell *last, bool all)
{
	struct replay *replay = reading->replay;
	bool *wanted = mem_zalloc((replay->count + 1) * sizeof(*wanted));
	/* The place of the last one: journals of branches number their events anew. */
	int64_t until = all ? INT64_MAX : last ? json_get_int(reading->index, last->id, -1) : -1;
	size_t left = 0;

	for (const struct timeline_cell *cell = last; cell; cell = cell->before) {
		int64_t place = json_get_int(reading->index, cell->id, -1);

		if (place < 0)
			continue;
		wanted[place] = true;
		json_set(reading->makes, cell->id, json_new_bool(true));
	}
	for (size_t i = 0; i < replay->count; i++) {
		struct replay_step step = replay->steps[i];

		if (wanted[i] || (step.kind != REPLAY_RUN && (int64_t)i < until)) {
			replay->cells += step.kind == REPLAY_RUN;
			replay->steps[left++] = step;
		} else {
			if (step.kind == REPLAY_RUN && (int64_t)i > until)
				json_set(reading->makes, step.id, json_new_bool(true));
			step_release(&step);
		}
	}
	replay->count = left;
	free(wanted);
}

static int keep_made(const char *path, size_t len, struct json *cell, void *data)
{
	struct reading *reading = data;
	const char *maker = json_string(cell, NULL);

	(void)len;
	if (maker && json_has(reading->makes, maker))
		json_set(reading->replay->made, path, json_new_bool(true));
	return 0;
}

int replay_read(struct replay *replay, int dirfd, const char *from, struct err *err)
{
	__attribute__((cleanup(reading_release))) struct reading reading = {
		.replay = replay,
		.timeline = timeline_new(),
		.index = json_new_object(),
		.marks = json_new_object(),
		.makers = json_new_object(),
		.makes = json_new_object(),
	};
	const struct timeline_cell *last;

	replay->notebook = notebook_new();
	replay->made = json_new_object();
	replay->touched = json_new_object();
	if (read_journal(&reading, dirfd, UINT64_MAX, 0, err) != 0 ||
	    find_last(&reading, from, &last, err) != 0)
		return -1;
	choose(&reading, last, from == NULL);
	json_each(reading.makers, keep_made, &reading);
	return 0;
}
