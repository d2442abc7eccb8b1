/* The server: answers in order, slow readers that lose nothing, lossy ones that are told, lines too
 * long. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/socket.h"
#include "keeper/kit.h"
#include "keeper/request.h"
#include "keeper/server.h"

struct scene {
	struct kit kit;
	struct server *server;
	struct journal *journal;
	uv_prepare_t turn;
	int peer;       /* the client's own end */
	int server_end;
	struct buf got; /* what the client has read */
	unsigned lines; /* lines that came from it */
	unsigned too_long;
	bool deserted, closed;
	bool (*answer)(struct scene *scene, struct client *client, const char *line, size_t len);
};

static void on_line(void *data, struct client *client, const char *line, size_t len)
{
	struct scene *scene = data;

	scene->lines++;
	if (!scene->answer || !scene->answer(scene, client, line, len)) {
		cleanup_json struct json *id = json_new_string(line, len < 20 ? len : 20);

		client_reply(client, id, NULL);
	}
}

static void on_too_long(void *data, struct client *client)
{
	struct scene *scene = data;

	(void)client;
	scene->too_long++;
}

static void on_hello(void *data, struct buf *out)
{
	(void)data;
	buf_append_string(out, "hello\n");
}

static void on_deserted(void *data)
{
	((struct scene *)data)->deserted = true;
}

static const struct server_events EVENTS = {
	.hello = on_hello, .line = on_line, .too_long = on_too_long, .deserted = on_deserted};

static void turn_ends(uv_prepare_t *prepare)
{
	server_flush(prepare->data);
}

/* A server with one client, which is not greeted yet. */
static void scene_make(struct scene *scene, bool hold)
{
	struct event first = EVENT_INIT;
	int pair[2];

	*scene = (struct scene){.peer = -1};
	kit_open(&scene->kit, "server_test");
	scene->journal = journal_open(scene->kit.fd, JOURNAL_BYTES_MAX, NULL, NULL);
	assert_non_null(scene->journal);
	first.type = EVENT_SESSION;
	first.body = json_new_object();
	json_set_int(first.body, "format", EVENT_FORMAT);
	assert_int_equal(journal_append(scene->journal, &first, NULL), 0);
	event_release(&first);
	scene->server = server_new(&scene->kit.loop, scene->kit.fd, &EVENTS, scene);
	server_set_journal(scene->server, scene->journal);
	uv_prepare_init(&scene->kit.loop, &scene->turn);
	scene->turn.data = scene->server;
	uv_prepare_start(&scene->turn, turn_ends);
	assert_int_equal(socket_pair(SOCK_STREAM, pair, NULL), 0);
	scene->peer = pair[0];
	assert_int_equal(fcntl(scene->peer, F_SETFL, O_NONBLOCK), 0);
	scene->server_end = pair[1];
	server_adopt(scene->server, pair[1]);
	if (hold)
		server_hold(scene->server);
}

static void scene_open(struct scene *scene)
{
	scene_make(scene, false);
	server_open(scene->server);
}

static void on_closed(void *data)
{
	((struct scene *)data)->closed = true;
}

static bool is_closed(void *data)
{
	return ((struct scene *)data)->closed;
}

static void scene_end(struct scene *scene)
{
	uv_close((uv_handle_t *)&scene->turn, NULL);
	server_free(scene->server);
	journal_free(scene->journal);
	if (scene->peer >= 0)
		close(scene->peer);
	buf_release(&scene->got);
	kit_close(&scene->kit);
}

static void scene_close(struct scene *scene)
{
	server_close(scene->server, on_closed, scene);
	kit_run_until(&scene->kit, is_closed, scene);
	scene_end(scene);
}

/* Takes what has come; the client is a slow one if this is not called. */
static void peer_read(struct scene *scene)
{
	ssize_t got;

	while ((got = read(scene->peer, buf_reserve(&scene->got, 65536), 65536)) > 0)
		buf_added(&scene->got, (size_t)got);
}

static void peer_write(struct scene *scene, const char *text)
{
	assert_int_equal(write(scene->peer, text, strlen(text)), strlen(text));
}

static void append_stream(struct scene *scene, size_t len)
{
	struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.cell = mem_string("c1");
	event.text = mem_zalloc(len + 1);
	memset(event.text, 'x', len);
	event.text_len = len;
	assert_int_equal(journal_append(scene->journal, &event, NULL), 0);
	event_release(&event);
	server_poke(scene->server);
}

/* --- tests ---------------------------------------------------------------------------------------
 */

static bool has_two_answers(void *data)
{
	struct scene *scene = data;

	peer_read(scene);
	return strstr(buf_bytes(&scene->got), "\"two\"") != NULL;
}

static void answers_in_order(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	peer_write(&scene, "one\n\ntwo\n");
	kit_run_until(&scene.kit, has_two_answers, &scene);
	assert_string_equal(buf_bytes(&scene.got), "hello\n{\"type\":\"reply\",\"id\":\"one\"}\n"
						   "{\"type\":\"reply\",\"id\":\"two\"}\n");
	scene_close(&scene);
}

static bool is_deserted(void *data)
{
	return ((struct scene *)data)->deserted;
}

/* The rest without LF at the end of the stream is a line too; then nobody is left. */
static void end_of_stream(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	peer_write(&scene, "last");
	assert_int_equal(shutdown(scene.peer, SHUT_WR), 0);
	kit_run_until(&scene.kit, is_deserted, &scene);
	peer_read(&scene);
	assert_non_null(strstr(buf_bytes(&scene.got), "\"last\""));
	scene_close(&scene);
}

static bool has_read_long_line(void *data)
{
	struct scene *scene = data;

	return scene->too_long == 1 && scene->lines == 1;
}

static bool long_line_goes_on(void *data)
{
	static char chunk[1 << 20];
	struct scene *scene = data;
	static size_t sent;

	if (chunk[0] != 'x')
		memset(chunk, 'x', sizeof(chunk));
	while (sent < REQUEST_LINE_BYTES_MAX + sizeof(chunk)) {
		ssize_t wrote = write(scene->peer, chunk, sizeof(chunk));

		if (wrote < 0)
			return false;
		sent += (size_t)wrote;
	}
	return true;
}

static void too_long_lines_are_skipped(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	kit_run_until(&scene.kit, long_line_goes_on, &scene);
	assert_int_equal(fcntl(scene.peer, F_SETFL, 0), 0);
	peer_write(&scene, "\nnext\n");
	kit_run_until(&scene.kit, has_read_long_line, &scene);
	scene_close(&scene);
}

static bool subscribe(struct scene *scene, struct client *client, const char *line, size_t len)
{
	struct subscription subscription = {
		.since = 0, .to = UINT64_MAX, .lossy = line[0] == 'l', .inlined = true};

	(void)scene;
	(void)len;
	client_subscribe(client, &subscription);
	return true;
}

static bool line_came(void *data)
{
	return ((struct scene *)data)->lines == 1;
}

static uint64_t count_lines(const struct buf *bytes)
{
	uint64_t count = 0;
	const char *at = buf_bytes(bytes), *end = at + bytes->len;

	while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		at++;
		count++;
	}
	return count;
}

static bool has_all_events(void *data)
{
	struct scene *scene = data;

	peer_read(scene);
	return count_lines(&scene->got) >= journal_seq(scene->journal) + 1;
}

/* A reader that stops reading while 40 MB are written gets every event in the end, and costs no
 * memory meanwhile. */
static void slow_reader_loses_nothing(void **state)
{
	struct scene scene;
	const char *at;

	(void)state;
	scene_open(&scene);
	scene.answer = subscribe;
	peer_write(&scene, "s\n");
	kit_run_until(&scene.kit, line_came, &scene);
	for (int i = 0; i < 700; i++) {
		append_stream(&scene, 60000);
		uv_run(&scene.kit.loop, UV_RUN_NOWAIT);
	}
	kit_run_until(&scene.kit, has_all_events, &scene);
	at = buf_bytes(&scene.got) + 6;
	for (uint64_t seq = 1; seq <= 701; seq++) {
		char head[40];
		int len = snprintf(head, sizeof(head), "{\"seq\":%llu,", (unsigned long long)seq);

		assert_memory_equal(at, head, (size_t)len);
		at = strchr(at, '\n') + 1;
	}
	scene_close(&scene);
}

/* Room in the socket for everything: no write has to wait. */
static bool widen(int fd)
{
	int room = 32 << 20;

	return setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) == 0;
}

static void stalled(uv_timer_t *timer)
{
	(void)timer;
	fail_msg("the events wait for something else to happen");
}

/* A reader as fast as the keeper leaves no write in flight whose end would bring the next events;
 * with no timer and no other client, nothing else turns the loop. */
static void quick_reader_waits_for_nothing(void **state)
{
	enum { STALL_MS = 10000 };
	struct scene scene;
	uv_timer_t timer;

	(void)state;
	scene_open(&scene);
	if (!widen(scene.server_end)) {
		scene_close(&scene);
		print_message("skipped: a socket of that size needs root\n");
		skip();
	}
	for (int i = 0; i < 100; i++)
		append_stream(&scene, 60000);
	scene.answer = subscribe;
	peer_write(&scene, "s\n");
	uv_timer_init(&scene.kit.loop, &timer);
	uv_timer_start(&timer, stalled, STALL_MS, 0);
	while (!has_all_events(&scene))
		uv_run(&scene.kit.loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	scene_close(&scene);
}

static void peer_sips(uv_timer_t *timer)
{
	struct scene *scene = timer->data;
	char bytes[256 << 10];
	ssize_t got = read(scene->peer, bytes, sizeof(bytes));

	if (got > 0)
		buf_append(&scene->got, bytes, (size_t)got);
}

/* The session ends while a client still reads, a little at a time: it gets everything. */
static void slow_reader_outlives_the_session(void **state)
{
	enum { EVENTS_COUNT = 100, SIP_MS = 50 };
	struct scene scene;
	uv_timer_t timer;

	(void)state;
	scene_open(&scene);
	for (int i = 0; i < EVENTS_COUNT; i++)
		append_stream(&scene, 60000);
	scene.answer = subscribe;
	peer_write(&scene, "s\n");
	kit_run_until(&scene.kit, line_came, &scene);
	uv_timer_init(&scene.kit.loop, &timer);
	timer.data = &scene;
	uv_timer_start(&timer, peer_sips, SIP_MS, SIP_MS);
	server_close(scene.server, on_closed, &scene);
	kit_run_until(&scene.kit, is_closed, &scene);
	uv_close((uv_handle_t *)&timer, NULL);
	assert_true(has_all_events(&scene));
	scene_end(&scene);
}

static bool has_last_event(void *data)
{
	struct scene *scene = data;

	peer_read(scene);
	return strstr(buf_bytes(&scene->got), "{\"seq\":702,") != NULL;
}

static void lossy_reader_is_told(void **state)
{
	struct scene scene;

	(void)state;
	scene_open(&scene);
	scene.answer = subscribe;
	peer_write(&scene, "l\n");
	kit_run_until(&scene.kit, line_came, &scene);
	for (int i = 0; i < 700; i++) {
		append_stream(&scene, 60000);
		uv_run(&scene.kit.loop, UV_RUN_NOWAIT);
	}
	for (int i = 0; i < 50; i++) { /* it has time to catch up */
		peer_read(&scene);
		uv_run(&scene.kit.loop, UV_RUN_NOWAIT);
	}
	append_stream(&scene, 10);
	kit_run_until(&scene.kit, has_last_event, &scene);
	assert_non_null(strstr(buf_bytes(&scene.got), "{\"type\":\"gap\",\"from\":"));
	assert_true(count_lines(&scene.got) < 700);
	scene_close(&scene);
}

static bool has_got(struct scene *scene, const char *text)
{
	peer_read(scene);
	return strstr(buf_bytes(&scene->got), text) != NULL;
}

static bool hello_came(void *data)
{
	return has_got(data, "hello\n");
}

static bool second_event_came(void *data)
{
	return has_got(data, "{\"seq\":2,");
}

static bool two_lines_came(void *data)
{
	return ((struct scene *)data)->lines == 2;
}

static bool notice_came(void *data)
{
	return has_got(data, "notice\n");
}

/* Some turns, in which whatever may leave leaves. */
static void turn(struct scene *scene)
{
	for (int i = 0; i < 5; i++)
		uv_run(&scene->kit.loop, UV_RUN_NOWAIT);
	peer_read(scene);
}

/* Nothing leaves before a sync that began behind it has ended. */
static void held_until_synced(void **state)
{
	struct scene scene;

	(void)state;
	scene_make(&scene, true);
	server_open(scene.server);
	turn(&scene);
	assert_int_equal(scene.got.len, 0); /* the greeting tells of the first event */
	assert_true(server_awaits_sync(scene.server));
	server_sync_began(scene.server);
	assert_false(server_awaits_sync(scene.server));
	turn(&scene);
	assert_int_equal(scene.got.len, 0);
	server_sync_ended(scene.server, NULL);
	kit_run_until(&scene.kit, hello_came, &scene);

	scene.answer = subscribe; /* all is on the disk: told at once */
	peer_write(&scene, "s\n");
	kit_run_until(&scene.kit, line_came, &scene);
	turn(&scene);
	assert_non_null(strstr(buf_bytes(&scene.got), "{\"seq\":1,"));
	append_stream(&scene, 10);
	server_sync_began(scene.server);
	append_stream(&scene, 10); /* too late for this one */
	scene.answer = NULL;
	peer_write(&scene, "q\n");
	kit_run_until(&scene.kit, two_lines_came, &scene);
	turn(&scene);
	assert_null(strstr(buf_bytes(&scene.got), "{\"seq\":2,"));
	server_sync_ended(scene.server, NULL);
	kit_run_until(&scene.kit, second_event_came, &scene);
	assert_null(strstr(buf_bytes(&scene.got), "{\"seq\":3,"));
	assert_null(strstr(buf_bytes(&scene.got), "reply"));
	assert_true(server_awaits_sync(scene.server));
	server_sync_began(scene.server);
	server_sync_ended(scene.server, "notice\n"); /* it failed: said before what it was for */
	kit_run_until(&scene.kit, notice_came, &scene);
	turn(&scene);
	assert_non_null(strstr(buf_bytes(&scene.got), "notice\n{\"seq\":3,"));
	assert_non_null(strstr(buf_bytes(&scene.got), "\"id\":\"q\""));
	append_stream(&scene, 10); /* nothing is promised any more */
	turn(&scene);
	assert_non_null(strstr(buf_bytes(&scene.got), "{\"seq\":4,"));
	assert_false(server_awaits_sync(scene.server));
	scene_close(&scene);
}

/* A reader for whom too much is held is sent the rest from the file, nothing twice. */
static void held_flood(void **state)
{
	struct scene scene;

	(void)state;
	scene_make(&scene, true);
	server_open(scene.server);
	server_sync_began(scene.server);
	server_sync_ended(scene.server, NULL);
	scene.answer = subscribe;
	peer_write(&scene, "s\n");
	kit_run_until(&scene.kit, line_came, &scene);
	for (int i = 0; i < 100; i++) {
		append_stream(&scene, 60000);
		if (i % 30 == 29) {
			server_sync_began(scene.server);
			turn(&scene);
			server_sync_ended(scene.server, NULL);
		}
	}
	while (count_lines(&scene.got) < 102) {
		server_sync_began(scene.server);
		server_sync_ended(scene.server, NULL);
		turn(&scene);
	}
	assert_int_equal(count_lines(&scene.got), 102);
	scene_close(&scene);
}

/* Before the session is ready: what is said waits for the greeting, and who goes is noticed. */
static void early_clients(void **state)
{
	struct scene scene;

	(void)state;
	scene_make(&scene, false);
	peer_write(&scene, "one\ntwo");
	turn(&scene);
	assert_int_equal(shutdown(scene.peer, SHUT_WR), 0);
	turn(&scene);
	assert_int_equal(scene.lines, 0);
	assert_false(scene.deserted);
	server_open(scene.server);
	kit_run_until(&scene.kit, is_deserted, &scene);
	peer_read(&scene);
	assert_string_equal(buf_bytes(&scene.got), "hello\n{\"type\":\"reply\",\"id\":\"one\"}\n"
						   "{\"type\":\"reply\",\"id\":\"two\"}\n");
	scene_close(&scene);

	scene_make(&scene, false);
	peer_write(&scene, "one\n");
	close(scene.peer);
	scene.peer = -1;
	kit_run_until(&scene.kit, is_deserted, &scene);
	assert_int_equal(scene.lines, 0);
	scene_close(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_in_order),
		cmocka_unit_test(end_of_stream),
		cmocka_unit_test(too_long_lines_are_skipped),
		cmocka_unit_test(slow_reader_loses_nothing),
		cmocka_unit_test(quick_reader_waits_for_nothing),
		cmocka_unit_test(slow_reader_outlives_the_session),
		cmocka_unit_test(lossy_reader_is_told),
		cmocka_unit_test(held_until_synced),
		cmocka_unit_test(held_flood),
		cmocka_unit_test(early_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
