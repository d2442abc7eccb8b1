/*
 * Running sessions and their main links; see sessions.h. What goes over the links once a session is
 * ready is in sessions_calls.c.
 *
 * What must wait (looking into directories, starting a keeper) is done on the loop's worker
 * threads with the client library's own calls, and its outcome is taken over here.
 */
#include "serve/sessions.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/lookup.h"
#include "serve/sessions_internal.h"

struct waiter {
	struct waiter *next;
	sessions_found *found;
	void *data;
};

static const struct link_events MAIN_EVENTS;

struct sessions *sessions_new(uv_loop_t *loop, int runtime_fd, bool inlined,
			      const struct sessions_events *events)
{
	struct sessions *sessions = mem_zalloc(sizeof(*sessions));

	sessions->loop = loop;
	sessions->runtime_fd = runtime_fd;
	sessions->inlined = inlined;
	sessions->events = *events;
	return sessions;
}

struct live *sessions_first(struct sessions *sessions)
{
	return sessions->lives;
}

size_t sessions_count(const struct sessions *sessions, const struct principal *who)
{
	size_t count = 0;

	for (const struct live *live = sessions->lives; live; live = live->next)
		count += live->state != LIVE_GONE && principal_sees(who, live->name);
	return count;
}

/* --- life ------------------------------------------------------------------------------------- */

static struct live *live_new(struct sessions *sessions, const char *id, const char *name)
{
	struct live *live = mem_zalloc(sizeof(*live));

	live->sessions = sessions;
	live->state = LIVE_OPENING;
	memcpy(live->id, id, HASH_ID_SIZE - 1);
	live->name = mem_string(name);
	live->used_us = clock_monotonic_us();
	live->next = sessions->lives;
	sessions->lives = live;
	return live;
}

static void live_free(struct live *live)
{
	free(live->name);
	free(live);
}

/* Takes it out of the list; it is freed once nobody holds it. */
static void unlink_live(struct live *live)
{
	struct live **at = &live->sessions->lives;

	while (*at != live)
		at = &(*at)->next;
	*at = live->next;
	live->next = NULL;
	if (live->users == 0)
		live_free(live);
}

/* Tells all who wait for the session or for an answer that there is none. */
static void live_fail(struct live *live, const struct err *err)
{
	bool was_ready = live->state == LIVE_READY;

	live->state = LIVE_GONE;
	live_hold(live);
	links_close_idle(live);
	for (struct waiter *waiter = mem_take(live->waiters), *next; waiter; waiter = next) {
		next = waiter->next;
		waiter->found(waiter->data, NULL, err);
		free(waiter);
	}
	calls_fail(live, err);
	if (was_ready)
		live->sessions->events.gone(live->sessions->events.data, live);
	live->users--;
	unlink_live(live);
}

void live_hold(struct live *live)
{
	live->users++;
	live->used_us = clock_monotonic_us();
}

void live_let(struct live *live)
{
	assert(live->users > 0);
	live->users--;
	live->used_us = clock_monotonic_us();
	if (live->users == 0 && live->state == LIVE_GONE)
		live_free(live);
}

/* --- the main link ---------------------------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text ? text : "");
}

/* The hello has come: everything can be asked from now on. */
static void become_ready(struct live *live, const char *hello, size_t len)
{
	cleanup_json struct json *message = json_parse(hello, len, &JSON_LIMITS, NULL);
	const char *name = json_get_string(message, "name");
	cleanup_buf struct buf request = BUF_INIT;

	copy_text(live->tier, sizeof(live->tier), json_get_string(message, "tier"));
	copy_text(live->doing, sizeof(live->doing), json_get_string(message, "state"));
	live->last_seq = (uint64_t)json_get_int(message, "last_seq", 0);
	if (name && !live->name)
		live->name = mem_string(name);
	live->state = LIVE_READY;
	buf_printf(&request, "{\"op\":\"events\",\"since\":%llu,\"follow\":true,\"inline\":%s}\n",
		   (unsigned long long)live->last_seq, live->sessions->inlined ? "true" : "false");
	link_send(live->main, buf_bytes(&request), request.len);
	live_hold(live);
	for (struct waiter *waiter = mem_take(live->waiters), *next; waiter; waiter = next) {
		next = waiter->next;
		waiter->found(waiter->data, live, NULL);
		free(waiter);
	}
	live_let(live);
}

static void main_ready(void *data, struct link *link, const char *hello, size_t len)
{
	(void)link;
	become_ready(data, hello, len);
}

/* What an event says of the session's doing. */
static void follow_event(struct live *live, const struct scan *scan)
{
	live->last_seq = scan->seq;
	live->used_us = clock_monotonic_us();
	if (slice_is(&scan->type, "cell")) {
		live->queue++;
	} else if (slice_is(&scan->type, "started")) {
		live->queue -= live->queue > 0;
		copy_text(live->doing, sizeof(live->doing), "running");
		snprintf(live->cell, sizeof(live->cell), "%.*s", (int)scan->cell.len,
			 scan->cell.at);
		live->cell_began_us = live->used_us;
	} else if (slice_is(&scan->type, "finished")) {
		/* One that ran when we came is not known by its name. */
		if (!live->cell[0] || slice_is(&scan->cell, live->cell)) {
			live->cell[0] = '\0';
			copy_text(live->doing, sizeof(live->doing), "idle");
		} else {
			live->queue -= live->queue > 0; /* it was cancelled */
		}
	}
}

static void main_line(void *data, struct link *link, const char *line, size_t len)
{
	struct live *live = data;
	struct scan scan;

	(void)link;
	scan_line(line, len, &scan);
	if (scan.kind == SCAN_EVENT) {
		follow_event(live, &scan);
		live->sessions->events.event(live->sessions->events.data, live, &scan, line, len);
		return;
	}
	calls_answer(live, &scan, line, len);
}

static void main_end(void *data, struct link *link, const struct err *err);

static const struct link_events MAIN_EVENTS = {
	.ready = main_ready, .line = main_line, .end = main_end};

/* --- finding ---------------------------------------------------------------------------------- */

static void start_ended(void *data, struct lookup *lookup);

/* Nobody listens: a keeper is started on the session's directory. */
static void start_keeper(struct live *live)
{
	struct lookup *lookup = lookup_new(live->id);

	lookup->start = true;
	live_hold(live);
	lookup_queue(live->sessions->loop, lookup, start_ended, live);
}

static void start_ended(void *data, struct lookup *lookup)
{
	struct live *live = data;

	if (live->state == LIVE_OPENING && lookup->fd >= 0) {
		live->main = link_adopt(live->sessions->loop, fd_take(&lookup->fd), &lookup->rest,
					&MAIN_EVENTS, live);
		become_ready(live, lookup->hello, strlen(lookup->hello));
	} else if (live->state == LIVE_OPENING) {
		live_fail(live, &lookup->err);
	}
	live_let(live);
}

static void main_end(void *data, struct link *link, const struct err *err)
{
	struct live *live = data;
	struct err stopped = ERR_INIT;
	bool wants_start = false;

	(void)link;
	live->main = NULL;
	for (struct waiter *waiter = live->waiters; waiter; waiter = waiter->next)
		wants_start = true;
	if (live->state == LIVE_OPENING && err->code == ERR_NOT_FOUND && wants_start) {
		start_keeper(live);
		return;
	}
	if (err->code == ERR_NOT_FOUND) {
		err_set(&stopped, ERR_GONE, "the session is stopped");
		err = &stopped;
	}
	live_fail(live, err);
}

void live_ended(struct live *live, const struct err *err)
{
	if (live->state != LIVE_READY)
		return;
	link_close(live->main);
	live->main = NULL;
	live_fail(live, err);
}

static struct live *find_live(struct sessions *sessions, const char *word)
{
	for (struct live *live = sessions->lives; live; live = live->next)
		if (live->state != LIVE_GONE && strcmp(live->id, word) == 0)
			return live;
	for (struct live *live = sessions->lives; live; live = live->next)
		if (live->state != LIVE_GONE && live->name && strcmp(live->name, word) == 0)
			return live;
	return NULL;
}

static void wait_for(struct live *live, sessions_found *found, void *data)
{
	struct waiter *waiter;
	struct waiter **at = &live->waiters;

	if (live->state == LIVE_READY) {
		live_hold(live);
		found(data, live, NULL);
		live_let(live);
		return;
	}
	waiter = mem_zalloc(sizeof(*waiter));
	waiter->found = found;
	waiter->data = data;
	while (*at)
		at = &(*at)->next;
	*at = waiter;
}

static struct live *link_to(struct sessions *sessions, const char *id, const char *name)
{
	struct live *live = live_new(sessions, id, name);

	live->main = link_connect(sessions->loop, sessions->runtime_fd, id, &MAIN_EVENTS, live);
	return live;
}

struct search {
	struct sessions *sessions;
	struct principal who;
	enum open_mode mode;
	sessions_found *found;
	void *data;
};

static void search_ended(void *data, struct lookup *lookup)
{
	struct search *search = data;
	struct sessions *sessions = search->sessions;
	struct err err = lookup->err;
	struct live *live = NULL;

	if (err.code == ERR_OK && !principal_sees(&search->who, lookup->name))
		err_set(&err, ERR_NOT_FOUND, "there is no session %s", lookup->word);
	else if (err.code == ERR_OK && lookup->ends_with_client)
		err_set(&err, ERR_DENIED, "the session belongs to the program that has started it");
	else if (err.code == ERR_OK && !lookup->running && search->mode == OPEN_RUNNING)
		err_set(&err, ERR_GONE,
			"the session is stopped; POST /v1/sessions/%s/open runs it again",
			lookup->id);
	else if (err.code == ERR_OK && sessions->closing)
		err_set(&err, ERR_BUSY, "the daemon is about to end");
	if (err.code == ERR_OK) {
		live = find_live(sessions, lookup->id);
		if (!live)
			live = link_to(sessions, lookup->id, lookup->name);
		wait_for(live, search->found, search->data);
	} else {
		search->found(search->data, NULL, &err);
	}
	free(search);
}

void sessions_find(struct sessions *sessions, const char *word, const struct principal *who,
		   enum open_mode mode, sessions_found *found, void *data)
{
	struct live *live = find_live(sessions, word);
	struct search *search;

	if (live && principal_sees(who, live->name)) {
		wait_for(live, found, data);
		return;
	}
	if (live || strlen(word) >= LOOKUP_WORD_SIZE) {
		struct err err = ERR_INIT;

		err_set(&err, ERR_NOT_FOUND, "there is no session %.64s", word);
		found(data, NULL, &err);
		return;
	}
	search = mem_zalloc(sizeof(*search));
	*search = (struct search){
		.sessions = sessions, .who = *who, .mode = mode, .found = found, .data = data};
	lookup_queue(sessions->loop, lookup_new(word), search_ended, search);
}

struct live *sessions_take(struct sessions *sessions, int fd, const struct buf *rest,
			   const char *hello)
{
	cleanup_json struct json *message = json_parse(hello, strlen(hello), &JSON_LIMITS, NULL);
	const char *id = json_get_string(message, "session");
	struct live *live = id ? find_live(sessions, id) : NULL;

	if (!id || strlen(id) != HASH_ID_SIZE - 1 || live) {
		close(fd); /* it was found in the meantime */
		return live;
	}
	live = live_new(sessions, id, json_get_string(message, "name"));
	live->main = link_adopt(sessions->loop, fd, rest, &MAIN_EVENTS, live);
	become_ready(live, hello, strlen(hello));
	return live;
}

/* --- adopting --------------------------------------------------------------------------------- */

static void adopt_listed(void *data, struct lookup *lookup)
{
	struct sessions *sessions = data;

	for (size_t i = 0; i < json_length(lookup->list) && !sessions->closing; i++) {
		const struct json *entry = json_at(lookup->list, i);
		const char *id = json_get_string(entry, "id");

		if (json_get_bool(entry, "running", false) &&
		    !json_get_bool(entry, "ends_with_client", true) && !find_live(sessions, id))
			link_to(sessions, id, json_get_string(entry, "name"));
	}
}

void sessions_adopt_all(struct sessions *sessions, bool clean)
{
	struct lookup *lookup = lookup_new("");

	lookup->all = true;
	lookup->clean = clean;
	lookup_queue(sessions->loop, lookup, adopt_listed, sessions);
}

void sessions_close(struct sessions *sessions)
{
	struct err err = ERR_INIT;
	struct live *next;

	err_set(&err, ERR_BUSY, "the daemon is about to end");
	sessions->closing = true;
	for (struct live *live = sessions->lives; live; live = next) {
		next = live->next;
		link_close(live->main);
		live->main = NULL;
		live_fail(live, &err);
	}
}

void sessions_free(struct sessions *sessions)
{
	free(sessions);
}
