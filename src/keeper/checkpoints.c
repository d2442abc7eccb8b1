/*
 * When a copy is made, and what becomes of it; see checkpoints.h.
 *
 * Numbers come from the engine. What is told: `committed` when an automatic one sleeps, with all
 * that are held then (so one that is dropped for its age needs no line of its own); `checkpoint`
 * for named ones, and for automatic ones that go for another reason.
 */
#include "keeper/checkpoints_internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/home.h"
#include "keeper/monitor.h"
#include "keeper/session.h"
#include "keeper/snapshots.h"

enum {
	CREDIT_US = 100 * 1000, /* delay of cells by copies that is always allowed ... */
	CREDIT_SHARE = 10,      /* ... and what is added to it: a tenth of the time that passes */
	IDLE_MS = 5,            /* without credit a copy is made after a pause of this length */
	MEASURE_MS = 1000,      /* the copies are asked for their size at most so often */
	RELIEF_PERCENT = 85,    /* of the memory limit: older copies are dropped ... */
	LAST_PERCENT = 90,      /* ... and the last one, if it is the reason */
};

struct checkpoints *checkpoints_new(struct session *session)
{
	struct checkpoints *checkpoints = mem_zalloc(sizeof(*checkpoints));

	checkpoints->session = session;
	checkpoints->credit_us = CREDIT_US;
	checkpoints->credit_at_us = clock_monotonic_us();
	checkpoints->timer = mem_zalloc(sizeof(*checkpoints->timer));
	uv_timer_init(session->loop, checkpoints->timer);
	checkpoints->timer->data = checkpoints;
	return checkpoints;
}

void checkpoints_clear(struct checkpoints *checkpoints, const char *reason)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_GONE, "the interpreter has ended before it was copied");
	while (checkpoints->list) {
		checkpoint_refuse_waiter(checkpoints->list, &err);
		checkpoint_drop_telling(checkpoints, checkpoints->list, reason);
	}
}

void checkpoints_useless(struct checkpoints *checkpoints, uint32_t number, const char *reason)
{
	struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);

	if (checkpoint)
		checkpoint_drop_telling(checkpoints, checkpoint, reason);
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle);
}

void checkpoints_stop(struct checkpoints *checkpoints)
{
	if (checkpoints->timer)
		uv_close((uv_handle_t *)checkpoints->timer, timer_closed);
	checkpoints->timer = NULL;
	while (checkpoints->list) {
		struct err err = ERR_INIT;

		err_set(&err, ERR_GONE, "the session is stopping");
		checkpoint_refuse_waiter(checkpoints->list, &err);
		checkpoint_drop(checkpoints, checkpoints->list);
	}
}

void checkpoints_free(struct checkpoints *checkpoints)
{
	if (!checkpoints)
		return;
	free(checkpoints->cells);
	free(checkpoints);
}

/* --- when to copy ------------------------------------------------------------------------------
 */

static void count_credit(struct checkpoints *checkpoints)
{
	int64_t now = clock_monotonic_us();

	checkpoints->credit_us += (now - checkpoints->credit_at_us) / CREDIT_SHARE;
	if (checkpoints->credit_us > CREDIT_US)
		checkpoints->credit_us = CREDIT_US;
	checkpoints->credit_at_us = now;
}

/* The next automatic copy has its place among those of all sessions. A state that goes before it is
 * copied leaves the place to the next one. */
static void book(struct checkpoints *checkpoints)
{
	struct session *session = checkpoints->session;
	struct share *share = &session->home->share;
	int64_t cost_us;

	if (checkpoints->booked_us)
		return;
	cost_us = share_cost(session->engine->ops->memory(session->engine), checkpoints->last_us);
	checkpoints->booked_us = share_book(share, clock_monotonic_us(), cost_us);
}

/* How long from now until a copy may be made; 0: at once. */
static int64_t copy_in_us(const struct checkpoints *checkpoints)
{
	int64_t left = checkpoints->booked_us - clock_monotonic_us();
	int64_t pause = checkpoints->credit_us > 0 ? 0 : IDLE_MS * INT64_C(1000);

	return left > pause ? left : pause;
}

/* Why the present state is not copied: NULL when it is, or will be at once. */
static const char *why_not(const struct checkpoints *checkpoints)
{
	const struct session *session = checkpoints->session;

	if (session->config.limits.checkpoints == 0)
		return "off";
	if (checkpoints->unsupported)
		return "unsupported";
	if (session->spare || session->stop_reason ||
	    (session->draining && cells_queued(session->cells) == 0))
		return "stopping";
	if (copy_in_us(checkpoints) > 0)
		return "busy";
	return NULL;
}

/* No copy is wanted of a state that has one, or has one on its way. */
static bool wants_copy(const struct checkpoints *checkpoints)
{
	const char *reason = why_not(checkpoints);

	return (!reason || strcmp(reason, "busy") == 0) &&
	       !checkpoint_at_depth(checkpoints, checkpoints->depth, false);
}

void checkpoints_describe(struct checkpoints *checkpoints, struct json *body)
{
	bool exact = checkpoints_exact(checkpoints);
	const char *reason;

	if (wants_copy(checkpoints))
		book(checkpoints);
	reason = why_not(checkpoints);

	json_set_string(body, "protected", exact ? "yes" : reason ? "no" : "pending");
	if (!exact && reason)
		json_set_string(body, "protected_reason", reason);
}

/* Orders a copy of the idle interpreter. */
static int order(struct checkpoints *checkpoints, struct err *err)
{
	struct engine *engine = checkpoints->session->engine;
	uint32_t number;

	book(checkpoints); /* also when it is made at once whatever that says */
	if (engine->ops->copy(engine, &number, err) != 0)
		return -1;
	checkpoints->booked_us = 0;
	checkpoint_add(checkpoints, NULL)->number = number;
	return 0;
}

bool checkpoints_wait(const struct checkpoints *checkpoints)
{
	for (const struct checkpoint *c = checkpoints->list; c; c = c->next)
		if (c->takes_files)
			return true;
	return false;
}

static void copy_when_due(struct checkpoints *checkpoints);

static void timer_fired(uv_timer_t *timer)
{
	struct checkpoints *checkpoints = timer->data;

	/* The pause is over, in which another cell could have come. */
	if (checkpoints->booked_us <= clock_monotonic_us()) {
		if (checkpoints->session->state == SESSION_IDLE && wants_copy(checkpoints))
			(void)order(checkpoints, NULL);
	} else {
		copy_when_due(checkpoints); /* the timer is a moment early */
	}
}

static void copy_when_due(struct checkpoints *checkpoints)
{
	int64_t in_us;

	if (checkpoints->session->state != SESSION_IDLE || !wants_copy(checkpoints))
		return;
	book(checkpoints);
	in_us = copy_in_us(checkpoints);
	if (in_us == 0)
		(void)order(checkpoints, NULL);
	else
		uv_timer_start(checkpoints->timer, timer_fired, (uint64_t)(in_us + 999) / 1000, 0);
}

void checkpoints_after_cell(struct checkpoints *checkpoints)
{
	count_credit(checkpoints);
	copy_when_due(checkpoints);
}

void checkpoints_cell_kept(struct checkpoints *checkpoints, const struct cell *cell,
			   int64_t execution_count)
{
	if (checkpoints->depth == checkpoints->room) {
		checkpoints->room = checkpoints->room ? 2 * checkpoints->room : 64;
		checkpoints->cells = mem_resize(checkpoints->cells, checkpoints->room,
						sizeof(*checkpoints->cells));
	}
	checkpoints->cells[checkpoints->depth++] = cell->number;
	checkpoints->execution_count = execution_count;
	checkpoints->why = (struct err)ERR_INIT; /* it was about another state */
}

bool checkpoints_exact(const struct checkpoints *checkpoints)
{
	return checkpoint_at_depth(checkpoints, checkpoints->depth, true) != NULL;
}

bool checkpoints_ready_for(struct checkpoints *checkpoints, struct err *err)
{
	struct err why = ERR_INIT;

	if (checkpoints_exact(checkpoints))
		return true;
	if (checkpoint_at_depth(checkpoints, checkpoints->depth, false))
		return false; /* on its way */
	why = checkpoints->why;
	checkpoints->why = (struct err)ERR_INIT;
	if (checkpoints->unsupported)
		err_set(err, ERR_UNSUPPORTED, "%s", why.text[0] ? why.text : "no copies here");
	else if (why.code != ERR_OK)
		*err = why;
	else
		(void)order(checkpoints, err);
	return false;
}

/* --- what becomes of copies --------------------------------------------------------------------
 */

/* Automatic ones beyond the limit go, the oldest first. */
static void prune(struct checkpoints *checkpoints)
{
	uint64_t kept = 0, most = checkpoints->session->config.limits.checkpoints;
	const struct back *back = &checkpoints->session->back;
	struct checkpoint *next;

	for (struct checkpoint *c = checkpoints->list; c; c = next) {
		next = c->next;
		if (c->name || !c->held || ++kept <= (most ? most : 1))
			continue;
		/* One that is just being returned to stays until that has been done. */
		if (back->kind == BACK_NONE || back->number != c->number)
			checkpoint_drop(checkpoints, c);
	}
}

/* Cells after which a state is held, the oldest first. */
static struct json *held(const struct checkpoints *checkpoints)
{
	struct json *ids = json_new_array();
	const struct checkpoint *found[CHECKPOINTS_KEPT_MAX + CHECKPOINTS_NAMED_MAX];
	size_t count = 0;

	for (const struct checkpoint *c = checkpoints->list;
	     c && count < sizeof(found) / sizeof(*found); c = c->next)
		if (c->held && c->depth > 0 && checkpoint_is_past(checkpoints, c) &&
		    (count == 0 || found[count - 1]->depth != c->depth))
			found[count++] = c;
	while (count-- > 0) {
		const struct cell *cell = checkpoint_last_cell(checkpoints, found[count]);

		json_push(ids, json_new_string(cell->id, strlen(cell->id)));
	}
	return ids;
}

static void tell_committed(struct checkpoints *checkpoints, const struct checkpoint *checkpoint)
{
	struct session *session = checkpoints->session;
	const struct cell *cell = checkpoint_last_cell(checkpoints, checkpoint);
	struct json *body;

	if (!cell || record_is_closing(session->record))
		return;
	body = json_new_object();
	json_set_int(body, "checkpoint", checkpoint->number);
	json_set_int(body, "copy_us", checkpoint->copy_us);
	json_set(body, "held", held(checkpoints));
	record_body(session->record, EVENT_COMMITTED, cell->id, body);
}

static void answer_waiter(struct checkpoints *checkpoints, struct checkpoint *checkpoint)
{
	struct json *body;

	if (!checkpoint->client)
		return;
	body = json_new_object();
	json_set(body, "checkpoint", checkpoint_describe(checkpoints, checkpoint));
	client_reply(checkpoint->client, checkpoint->id, body);
	client_drop(checkpoint->client);
	checkpoint->client = NULL;
}

/* A named one is whole when its copy sleeps and its files are held. */
static void tell_made(struct checkpoints *checkpoints, struct checkpoint *checkpoint)
{
	if (!checkpoint->held || checkpoint->takes_files)
		return;
	checkpoint_tell(checkpoints, checkpoint, "made", NULL);
	answer_waiter(checkpoints, checkpoint);
}

void checkpoint_files_taken(void *data, struct snapshot *snapshot, const struct err *err)
{
	struct checkpoints *checkpoints = data;
	struct checkpoint *checkpoint = checkpoints->list;

	(void)err; /* without them the checkpoint is one of the interpreter only, and says so */
	while (checkpoint && !checkpoint->takes_files)
		checkpoint = checkpoint->next;
	if (!checkpoint) {
		snapshot_free(snapshot);
		return;
	}
	checkpoint->takes_files = false;
	checkpoint->files = snapshot;
	tell_made(checkpoints, checkpoint);
	session_next(checkpoints->session);
}

/* All are asked for their size now and then: what a copy holds for itself grows as the interpreter
 * goes on. */
static void measure(struct checkpoints *checkpoints)
{
	struct engine *engine = checkpoints->session->engine;
	int64_t now = clock_monotonic_us();

	if (now - checkpoints->measured_us < MEASURE_MS * INT64_C(1000))
		return;
	checkpoints->measured_us = now;
	for (const struct checkpoint *c = checkpoints->list; c; c = c->next)
		if (c->held)
			(void)engine->ops->measure(engine, c->number, NULL);
}

/* A cell that had to wait for the copy has used some of the credit. */
static void charge(struct checkpoints *checkpoints, int64_t copy_us)
{
	const struct cell *running = checkpoints->session->running;
	int64_t now = clock_monotonic_us();
	int64_t delay_us;

	count_credit(checkpoints);
	if (!running || running->state != CELL_RUNNING)
		return;
	delay_us = now - running->started_us;
	checkpoints->credit_us -= delay_us < copy_us ? delay_us : copy_us;
}

void checkpoints_copied(struct checkpoints *checkpoints, uint32_t number, int64_t copy_us,
			struct json *info)
{
	struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);

	if (!checkpoint) {
		json_free(info);
		return;
	}
	checkpoint->held = true;
	checkpoint->copy_us = checkpoints->last_us = copy_us;
	checkpoint->info = info;
	checkpoints->why = (struct err)ERR_INIT;
	charge(checkpoints, copy_us);
	monitor_copied(checkpoints->session->monitor);
	prune(checkpoints);
	/* It may be late, and gone already: newer ones have come before it. */
	checkpoint = checkpoint_by_number(checkpoints, number);
	if (checkpoint && !checkpoint->name)
		tell_committed(checkpoints, checkpoint);
	else if (checkpoint)
		tell_made(checkpoints, checkpoint);
	measure(checkpoints);
	session_next(checkpoints->session);
}

void checkpoints_failed(struct checkpoints *checkpoints, uint32_t number, bool came,
			const struct err *err)
{
	struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);

	if (!checkpoint)
		return;
	if (!came) {
		checkpoints->why = *err;
		if (err->code == ERR_UNSUPPORTED)
			checkpoints->unsupported = true;
		checkpoint_refuse_waiter(checkpoint, err);
		checkpoint_tell(checkpoints, checkpoint, "failed", err->text);
	}
	checkpoint_drop_telling(checkpoints, checkpoint, "died");
	session_next(checkpoints->session);
}

/* What the copies hold for themselves is bounded by half of the session's memory. */
void checkpoints_measured(struct checkpoints *checkpoints, uint32_t number, int64_t private_bytes)
{
	uint64_t limit = checkpoints->session->config.limits.memory_bytes / 2, sum = 0;
	struct checkpoint *checkpoint = checkpoint_by_number(checkpoints, number);
	struct checkpoint *oldest = NULL;

	if (checkpoint)
		checkpoint->private_bytes = private_bytes;
	for (struct checkpoint *c = checkpoints->list; c; c = c->next) {
		sum += c->private_bytes > 0 ? (uint64_t)c->private_bytes : 0;
		if (c->held && !c->name)
			oldest = c;
	}
	if (limit && sum > limit && oldest && oldest != checkpoint_newest(checkpoints, true))
		checkpoint_drop_telling(checkpoints, oldest, "memory");
}

bool checkpoints_any(const struct checkpoints *checkpoints)
{
	return checkpoints->list != NULL;
}

void checkpoints_relieve(struct checkpoints *checkpoints, uint64_t used, uint64_t limit,
			 const struct checkpoints_growth *growth)
{
	int64_t others = growth->box - growth->own; /* what a copy keeps, or children have */
	const struct cell *running = checkpoints->session->running;
	struct checkpoint *last = checkpoint_newest(checkpoints, true), *next;

	if (used < limit / 100 * RELIEF_PERCENT)
		return;
	for (struct checkpoint *c = checkpoints->list; c; c = next) {
		next = c->next;
		if (c->held && !c->name && c != last)
			checkpoint_drop_telling(checkpoints, c, "memory");
	}
	/* The net is given up only if that is what takes the memory, and nobody was promised it. */
	if (last && !last->name && used >= limit / 100 * LAST_PERCENT && growth->box > 0 &&
	    others > growth->box / 2 && others <= growth->shared && !(running && running->returns))
		checkpoint_drop_telling(checkpoints, last, "memory");
}
