/*
 * Everything happens on the loop but the count of the workspace, which can take long.
 *
 * The counters of a control group say how often the kernel has killed a process of the box; what
 * has been seen of them last tells whether this death, or this cell, was one of those. A guest that
 * is killed for want of memory is the largest process as a rule, but not always: then the session
 * goes on, and is told that something of it was killed.
 */
#include "keeper/monitor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "keeper/checkpoints.h"
#include "files/disk_use.h"
#include "keeper/home.h"
#include "keeper/session.h"

/* Cells that are over sooner than this can have met no limit that is told of here, and shall not
 * pay for being asked. */
enum { SHORT_CELL_US = 5000, DISK_REST = 20 };

/* How often memory is looked at while a cell runs and copies of the interpreter may have to make
 * room: a cell can touch some 50 MB in the shorter time. Without a control group a look is dear. */
enum { RELIEF_MS = 5, RELIEF_CALM_MS = 25, RELIEF_SOFT_MS = 100 };

struct monitor {
	struct session *session;
	uv_timer_t *timer, *relief_timer;
	int64_t copied_bytes,
		copied_box_bytes; /* of the interpreter, of the box, at the last copy */
	struct box_usage seen;    /* the counters, when they were last looked at */
	int64_t cell_cpu_us;      /* at the start of the cell */
	bool stopped;
	bool box_full;   /* without the interpreter that has died */
	bool change_due; /* a lower memory limit is not in force yet: more is in use */

	/* the workspace: */
	uv_work_t work;
	bool counting;
	bool count_again;    /* wanted while one is under way */
	atomic_bool abandon; /* read by the thread */
	int folder;          /* -1: not open */
	uint64_t inodes_max;
	struct disk_use use, counted; /* known; of the thread */
	int64_t count_started_us, count_next_us;
	uint64_t start_bytes, start_inodes; /* at the start of the cell, if over then; else 0 */
	bool told_over;
};

struct monitor *monitor_new(struct session *session)
{
	struct monitor *monitor = mem_zalloc(sizeof(*monitor));

	monitor->session = session;
	monitor->folder = -1;
	monitor->timer = mem_zalloc(sizeof(*monitor->timer));
	uv_timer_init(session->loop, monitor->timer);
	monitor->timer->data = monitor;
	monitor->relief_timer = mem_zalloc(sizeof(*monitor->relief_timer));
	uv_timer_init(session->loop, monitor->relief_timer);
	monitor->relief_timer->data = monitor;
	return monitor;
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle);
}

bool monitor_stop(struct monitor *monitor)
{
	if (!monitor->stopped) {
		uv_close((uv_handle_t *)monitor->timer, timer_closed);
		uv_close((uv_handle_t *)monitor->relief_timer, timer_closed);
	}
	monitor->stopped = true;
	atomic_store(&monitor->abandon, true);
	return !monitor->counting;
}

void monitor_free(struct monitor *monitor)
{
	if (!monitor)
		return;
	if (monitor->folder >= 0)
		close(monitor->folder);
	free(monitor);
}

static bool has_guest(const struct session *session)
{
	return session->box &&
	       (session->state == SESSION_IDLE || session->state == SESSION_RUNNING ||
		session->state == SESSION_ASKING);
}

/* --- telling ------------------------------------------------------------------------------------
 */

static void put_size(struct buf *out, double bytes)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	while (bytes >= 1024 && unit < 4) {
		bytes /= 1024;
		unit++;
	}
	buf_printf(out, "%.4g %s", bytes, units[unit]);
}

static void put_limit(const struct session *session, const char *name, struct buf *out)
{
	cleanup_json struct json *limit = limits_one(&session->config.limits, name);
	const char *unit = json_get_string(limit, "unit");
	double value = json_get_double(limit, "value", 0);

	buf_printf(out, "limit %s, ", name);
	if (strcmp(unit, "bytes") == 0)
		put_size(out, value);
	else
		buf_printf(out, "%.9g %s", value, unit);
}

void session_limit_reason(const struct session *session, const char *limit, struct buf *out)
{
	if (strcmp(limit, "memory_bytes") == 0)
		buf_append_string(out, "out of memory: ");
	put_limit(session, limit, out);
}

static void warn(struct session *session, const struct cell *cell, const char *code,
		 const char *what)
{
	cleanup_buf struct buf message = BUF_INIT;
	struct json *body;

	if (!session->opened)
		return;
	body = json_new_object();
	put_limit(session, code, &message);
	buf_printf(&message, ": %s", what);
	json_set_string(body, "code", code);
	json_set_string(body, "message", buf_bytes(&message));
	json_set(body, "limit", limits_one(&session->config.limits, code));
	record_body(session->record, EVENT_WARNING, cell ? cell->id : NULL, body);
}

/* --- the workspace ------------------------------------------------------------------------------
 */

static bool is_over(const struct monitor *monitor, const char **limit)
{
	const struct limits *limits = &monitor->session->config.limits;

	*limit = NULL;
	if (limits->disk_bytes && monitor->use.bytes > limits->disk_bytes)
		*limit = "disk_bytes";
	else if (limits->disk_inodes && monitor->use.inodes > limits->disk_inodes)
		*limit = "disk_inodes";
	return *limit;
}

static void tell_count(struct monitor *monitor)
{
	struct session *session = monitor->session;
	const char *limit;
	bool grown;

	if (!is_over(monitor, &limit)) {
		monitor->told_over = false;
		return;
	}
	grown = monitor->use.bytes > monitor->start_bytes ||
		monitor->use.inodes > monitor->start_inodes;
	if (session->running && grown)
		session_cell_over(session, limit);
	else if (!session->running && !monitor->told_over)
		warn(session, NULL, limit,
		     "the workspace holds more; delete something, else a cell that adds to it is "
		     "stopped");
	monitor->told_over = !session->running || monitor->told_over;
}

static void count_work(uv_work_t *work)
{
	struct monitor *monitor = work->data;

	disk_use_read(monitor->folder, monitor->inodes_max, &monitor->abandon, &monitor->counted);
}

static void count_workspace(struct monitor *monitor);

static void count_ended(uv_work_t *work, int status)
{
	struct monitor *monitor = work->data;
	int64_t now = clock_monotonic_us();
	int64_t rest = DISK_REST * (now - monitor->count_started_us);

	(void)status; /* nobody cancels it */
	monitor->counting = false;
	if (monitor->stopped) {
		session_later(monitor->session); /* which waited for this */
		return;
	}
	monitor->count_next_us =
		now +
		(rest > MONITOR_DISK_MS * INT64_C(1000) ? rest : MONITOR_DISK_MS * INT64_C(1000));
	monitor->use = monitor->counted;
	tell_count(monitor);
	if (monitor->count_again && !monitor->session->running)
		count_workspace(monitor);
}

static void count_workspace(struct monitor *monitor)
{
	struct session *session = monitor->session;
	const struct limits *limits = &session->config.limits;

	if (!session->config.workspace_private || monitor->stopped ||
	    (!limits->disk_bytes && !limits->disk_inodes))
		return;
	monitor->count_again = monitor->counting;
	if (monitor->counting)
		return;
	if (monitor->folder < 0)
		monitor->folder =
			open(session->config.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (monitor->folder < 0)
		return;
	monitor->inodes_max = limits->disk_inodes;
	monitor->count_started_us = clock_monotonic_us();
	monitor->work.data = monitor;
	monitor->counting =
		uv_queue_work(session->loop, &monitor->work, count_work, count_ended) == 0;
}

/* --- looking ------------------------------------------------------------------------------------
 */

static void kill_for_memory(struct session *session)
{
	if (session->kill_reason)
		return;
	session->kill_reason = "memory_bytes";
	session->engine->ops->kill(session->engine);
}

/* Where several share the box, the largest has to go, as the kernel chooses. */
static struct session *largest(struct session *session)
{
	struct session *found = session;
	int64_t most = -1;

	for (struct session *s = session->home->sessions; s; s = s->next_in_home) {
		int64_t bytes = has_guest(s) ? s->engine->ops->memory(s->engine) : -1;

		if (bytes > most) {
			most = bytes;
			found = s;
		}
	}
	return found;
}

/* Seconds of processor time are those of the box, or where that is shared the interpreter's. */
static uint64_t used_us(const struct monitor *monitor, const struct box_usage *usage)
{
	struct engine *engine = monitor->session->engine;
	int64_t own = 0, peak;

	if (!home_is_shared(monitor->session))
		return usage->cpu_us - (uint64_t)monitor->cell_cpu_us;
	engine->ops->usage(engine, &own, &peak);
	return (uint64_t)own;
}

static void look(struct monitor *monitor)
{
	struct session *session = monitor->session;
	const struct limits *limits = &session->config.limits;
	bool hard = box_limit_how(session->box, BOX_MEMORY) != NULL;
	struct box_usage usage;

	if (monitor->change_due)
		session_take_limits(session);
	if (hard && !monitor->change_due && (!session->running || limits->cpu_s <= 0))
		return;
	box_read_usage(session->box, &usage);
	if ((!hard || monitor->change_due) && limits->memory_bytes &&
	    usage.memory_bytes > limits->memory_bytes)
		kill_for_memory(largest(session));
	else if (session->running && limits->cpu_s > 0 &&
		 (double)used_us(monitor, &usage) > limits->cpu_s * 1e6)
		session_cell_over(session, "cpu_s");
}

static void timer_fired(uv_timer_t *timer);

static void look_again(struct monitor *monitor)
{
	const struct session *session = monitor->session;

	if (session->running)
		uv_timer_start(monitor->timer, timer_fired, MONITOR_RUNNING_MS, 0);
	else if (has_guest(session) &&
		 (monitor->change_due || !box_limit_how(session->box, BOX_MEMORY)))
		uv_timer_start(monitor->timer, timer_fired, MONITOR_IDLE_MS, 0);
}

static void timer_fired(uv_timer_t *timer)
{
	struct monitor *monitor = timer->data;

	if (has_guest(monitor->session))
		look(monitor);
	if (monitor->session->running && clock_monotonic_us() >= monitor->count_next_us)
		count_workspace(monitor);
	look_again(monitor);
}

/* --- room for a cell that changes what copies share with it --------------------------------------
 */

/* Of the other sessions in the box: what they can do without. Their last copy is their net. */
static void relieve_others(struct session *session, uint64_t used, uint64_t limit)
{
	static const struct checkpoints_growth none;

	for (struct session *s = session->home->sessions; s; s = s->next_in_home)
		if (s != session && !s->left_home)
			checkpoints_relieve(s->checkpoints, used, limit, &none);
}

static void relief_fired(uv_timer_t *timer)
{
	struct monitor *monitor = timer->data;
	struct session *session = monitor->session;
	uint64_t limit = session->config.limits.memory_bytes;
	bool hard = session->box && box_limit_how(session->box, BOX_MEMORY);
	struct checkpoints_growth growth = {.shared = monitor->copied_bytes};
	struct box_usage usage;
	int64_t own;

	if (!session->running || !session->box || !limit || !checkpoints_any(session->checkpoints))
		return;
	box_read_usage(session->box, &usage);
	own = session->engine->ops->memory(session->engine);
	growth.own = own - monitor->copied_bytes;
	growth.box = (int64_t)usage.memory_bytes - monitor->copied_box_bytes;
	relieve_others(session, usage.memory_bytes, limit);
	if (own > 0) /* else it is ending */
		checkpoints_relieve(session->checkpoints, usage.memory_bytes, limit, &growth);
	uv_timer_start(timer, relief_fired,
		       !hard                            ? RELIEF_SOFT_MS
		       : usage.memory_bytes > limit / 2 ? RELIEF_MS
							: RELIEF_CALM_MS,
		       0);
}

void monitor_copied(struct monitor *monitor)
{
	struct session *session = monitor->session;
	struct box_usage usage;

	box_read_usage(session->box, &usage);
	monitor->copied_box_bytes = (int64_t)usage.memory_bytes;
	monitor->copied_bytes = session->engine->ops->memory(session->engine);
}

void monitor_began(struct monitor *monitor)
{
	monitor->box_full = false;
	if (monitor->session->box && box_limit_how(monitor->session->box, BOX_MEMORY))
		box_read_usage(monitor->session->box, &monitor->seen);
	look_again(monitor);
}

void monitor_cell_started(struct monitor *monitor)
{
	struct session *session = monitor->session;
	const char *limit;
	bool over = is_over(monitor, &limit);

	monitor->start_bytes = over ? monitor->use.bytes : 0;
	monitor->start_inodes = over ? monitor->use.inodes : 0;
	monitor->count_next_us = clock_monotonic_us() + MONITOR_DISK_MS * INT64_C(1000);
	if (session->config.limits.cpu_s > 0 && session->box) {
		struct box_usage usage;

		box_read_usage(session->box, &usage);
		monitor->cell_cpu_us = (int64_t)usage.cpu_us;
	}
	uv_timer_start(monitor->timer, timer_fired, MONITOR_RUNNING_MS, 0);
	if (checkpoints_any(session->checkpoints))
		uv_timer_start(monitor->relief_timer, relief_fired, RELIEF_MS, 0);
}

void monitor_cell_ended(struct monitor *monitor, struct cell *cell)
{
	struct session *session = monitor->session;
	struct box_usage usage;

	if (!monitor->stopped)
		uv_timer_stop(monitor->relief_timer);
	if (clock_monotonic_us() - cell->started_us < SHORT_CELL_US || monitor->stopped)
		return;
	count_workspace(monitor);
	if (!session->box || !box_limit_how(session->box, BOX_MEMORY))
		return;
	box_read_usage(session->box, &usage);
	if (usage.memory_kills > monitor->seen.memory_kills && !cell->limit) {
		warn(session, cell, "memory_bytes",
		     "a process that the code had started was killed for want of memory; the "
		     "interpreter goes on, and its variables are kept");
		cell->hint = "memory_bytes";
	} else if (usage.refusals > monitor->seen.refusals) {
		cell->hint = "processes";
	}
	monitor->seen = usage;
}

static void see_full(struct monitor *monitor)
{
	monitor->box_full =
		monitor->seen.memory_bytes > monitor->session->config.limits.memory_bytes / 2;
}

const char *monitor_cause(struct monitor *monitor, const struct engine_death *death)
{
	struct session *session = monitor->session;
	uint64_t before = monitor->seen.memory_kills;

	if (session->kill_reason && strcmp(session->kill_reason, "memory_bytes") == 0) {
		if (session->box) {
			box_read_usage(session->box, &monitor->seen);
			see_full(monitor);
		}
		return "memory_bytes";
	}
	if (!session->box || death->by_keeper || death->signal != SIGKILL ||
	    !box_limit_how(session->box, BOX_MEMORY))
		return NULL;
	box_read_usage(session->box, &monitor->seen);
	if (monitor->seen.memory_kills == before)
		return NULL;
	/* The others have not lost anything. */
	for (struct session *s = session->home->sessions; s; s = s->next_in_home)
		s->monitor->seen.memory_kills = monitor->seen.memory_kills;
	see_full(monitor);
	return "memory_bytes";
}

bool monitor_box_is_full(const struct monitor *monitor)
{
	return monitor->box_full;
}

/* --- limits -------------------------------------------------------------------------------------
 */

void session_take_limits(struct session *session)
{
	const struct limits *limits = &session->config.limits;
	struct err err = ERR_INIT;

	session->policy.memory_bytes_max = limits->memory_bytes;
	session->policy.disk_bytes_max = limits->disk_bytes;
	session->policy.disk_inodes_max = limits->disk_inodes;
	session->policy.cpus = limits->cpus;
	session->policy.cpu_s_max = limits->cpu_s;
	/* Version 1 refuses a limit below what is in use: then it is watched, as without a group.
	 */
	if (session->box)
		(void)box_change_limits(session->box, &session->policy, &err);
	if (session->monitor) {
		session->monitor->change_due = err.code != ERR_OK;
		if (!session->monitor->stopped)
			look_again(session->monitor);
	}
}

struct json *session_limits_how(const struct session *session)
{
	static const char *const ours[] = {"wall_s",     "output_bytes", "background_bytes",
					   "queue",      "record_bytes", "files",
					   "file_bytes", "checkpoints"};
	const struct limits *limits = &session->config.limits;
	const struct box *box = session->box;
	bool counted = session->config.workspace_private;
	bool root = getuid() == 0;
	struct json *how = json_new_object();
	const char *memory = box_limit_how(box, BOX_MEMORY);
	const char *processes = box_limit_how(box, BOX_PROCESSES);
	const char *cpus = box_limit_how(box, BOX_CPUS);

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		json_set_string(how, ours[i], "hard");
	/* The kernel does not hold root to it, and root runs the code in tier none only. */
	json_set_string(how, "processes",
			processes                            ? processes
			: box_tier(box) == TIER_NONE && root ? "none"
							     : "hard");
	json_set_string(how, "tmp_bytes", box_tier(box) == TIER_FULL ? "hard" : "none");
	json_set_string(how, "memory_bytes",
			!limits->memory_bytes ? "none"
			: memory              ? memory
					      : "soft");
	json_set_string(how, "disk_bytes", limits->disk_bytes && counted ? "soft" : "none");
	json_set_string(how, "disk_inodes", limits->disk_inodes && counted ? "soft" : "none");
	json_set_string(how, "cpus", limits->cpus > 0 && cpus ? cpus : "none");
	json_set_string(how, "cpu_s", limits->cpu_s > 0 ? "soft" : "none");
	return how;
}
