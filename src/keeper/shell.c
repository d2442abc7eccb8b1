/* The parts of one session; see shell.h. */
#include "keeper/shell.h"

#include <unistd.h>

#include "base/mem.h"
#include "keeper/checkpoints.h"
#include "keeper/home.h"
#include "keeper/monitor.h"
#include "keeper/snapshots.h"

enum { AWAIT_US = 200, AWAIT_ROUNDS = 4 };

/* --- what clients do ---------------------------------------------------------------------------
 */

static void on_line(void *data, struct client *client, const char *line, size_t len)
{
	session_line(data, client, line, len);
}

static void on_too_long(void *data, struct client *client)
{
	struct err err = ERR_INIT;

	(void)data;
	err_set(&err, ERR_LIMIT, "the line is longer than 64 MiB; it was skipped");
	client_refuse(client, NULL, &err);
}

static void on_hello(void *data, struct buf *out)
{
	session_hello(data, out);
}

/* Also the branches that nobody has come for: their makers have gone. */
static void on_deserted(void *data)
{
	struct session *session = data;

	if (!session->config.ends_with_client)
		return;
	for (struct session *s = session->home->sessions; s; s = s->next_in_home)
		if (s->config.ends_with_client && s->state != SESSION_STOPPING &&
		    server_clients(s->server) == 0)
			session_stop(s, "client");
}

static const struct server_events SERVER_EVENTS = {
	.hello = on_hello, .line = on_line, .too_long = on_too_long, .deserted = on_deserted};

/* --- the parts ---------------------------------------------------------------------------------
 */

static uv_timer_t *timer_new(struct session *session)
{
	uv_timer_t *timer = mem_zalloc(sizeof(*timer));

	uv_timer_init(session->loop, timer);
	timer->data = session;
	return timer;
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle);
}

static void timer_close(uv_timer_t *timer)
{
	uv_close((uv_handle_t *)timer, timer_closed);
}

void shell_open(struct session *session)
{
	session->state = SESSION_STARTING;
	session->cells = cells_new();
	session->cell_timer = timer_new(session);
	session->ask_timer = timer_new(session);
	session->later_timer = timer_new(session);
	session->guard_timer = timer_new(session);
	session->monitor = monitor_new(session);
	session->checkpoints = checkpoints_new(session);
	session->snapshots = snapshots_new(session);
	session->server = server_new(session->loop, session->dirfd, &SERVER_EVENTS, session);
}

int shell_record(struct session *session, int above, struct err *err)
{
	struct journal_report report;

	session->record =
		record_open(session->loop, session->dirfd, session->config.limits.record_bytes,
			    &SESSION_RECORD_EVENTS, session, &report, err);
	if (!session->record) {
		close(above);
		return -1;
	}
	journal_take_above(record_journal(session->record), above);
	server_set_journal(session->server, record_journal(session->record));
	return 0;
}

void shell_close(struct session *session)
{
	timer_close(session->cell_timer);
	timer_close(session->ask_timer);
	timer_close(session->later_timer);
	timer_close(session->guard_timer);
	json_free(session->environment);
	if (session->family >= 0)
		close(session->family);
	json_free(session->hello);
	free(session->packages);
	free(session->section);
	free(session->python);
	free(session->cold_script);
	free(session->guest_folder);
	free(session->tmp);
	free(session->tier_reason);
	free(session->read_paths);
	watch_close(session->watch);
	monitor_free(session->monitor);
	checkpoints_free(session->checkpoints);
	snapshot_free(session->before);
	snapshots_free(session->snapshots);
	cells_free(session->cells);
	record_free(session->record);
	server_free(session->server);
	config_release(&session->config);
}

/* --- the loop ----------------------------------------------------------------------------------
 */

static void turn_ends(struct session *session)
{
	if (!session->record) /* it never was one */
		return;
	/* Most cells of an agent end within this time. To sleep and be woken by another processor
	 * would take as long, and the client would be woken twice: for `started`, and for the end
	 * (x=1 from the C client: 0.13 ms so, 0.095 ms with the wait). */
	for (int round = 0; session->just_started && round < AWAIT_ROUNDS; round++) {
		session->just_started = false;
		session->engine->ops->await(session->engine, AWAIT_US);
	}
	record_flush(session->record);
	server_flush(session->server);
	if (server_awaits_sync(session->server))
		record_sync_now(session->record);
}

void shell_turn(struct home *home)
{
	for (struct session *s = home->sessions, *next; s; s = next) {
		next = s->next_in_home;
		turn_ends(s);
	}
}
