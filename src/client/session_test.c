/* Calls, events and runs against a keeper that a thread plays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "client/session.h"

/* --- the keeper that is played
 * ------------------------------------------------------------------ */

struct keeper {
	int fd;
	struct buf in;
	unsigned events_asked; /* how often, and from where the last time */
	uint64_t since;
	struct json *ran;  /* the last request `run`; owned */
	struct json *slow; /* a request that is not answered yet */
};

static void put(int fd, const char *text)
{
	(void)file_write_all(fd, text, strlen(text), NULL);
}

/* The next request, NULL at the end. */
static struct json *next_request(struct keeper *keeper)
{
	for (;;) {
		const char *end = memchr(buf_bytes(&keeper->in), '\n', keeper->in.len);
		ssize_t got;

		if (end) {
			size_t len = (size_t)(end - buf_bytes(&keeper->in));
			struct json *request =
				json_parse(buf_bytes(&keeper->in), len, &JSON_LIMITS, NULL);

			buf_consume(&keeper->in, len + 1);
			return request;
		}
		got = read(keeper->fd, buf_reserve(&keeper->in, 4096), 4096);
		if (got <= 0)
			return NULL;
		buf_added(&keeper->in, (size_t)got);
	}
}

enum { FLOOD = 400, FLOOD_TEXT = 60000 };

/* Stream events after `since`; together they are more than a session keeps while it waits. */
static void put_flood(struct keeper *keeper, uint64_t since)
{
	cleanup_buf struct buf line = BUF_INIT;
	cleanup_free char *text = mem_zalloc(FLOOD_TEXT + 1);

	memset(text, 'x', FLOOD_TEXT);
	for (uint64_t seq = since + 1; seq <= FLOOD; seq++) {
		buf_clear(&line);
		buf_printf(
			&line,
			"{\"seq\":%llu,\"t\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"stream\","
			"\"cell\":\"c0\",\"name\":\"stdout\",\"text\":\"%s\"}\n",
			(unsigned long long)seq, text);
		if (file_write_all(keeper->fd, buf_bytes(&line), line.len, NULL) != 0)
			return;
	}
}

static void put_run(struct keeper *keeper)
{
	static const char *const lines[] = {
		"'seq':1,'type':'started','cell':'c1'",
		"'type':'reply','id':'c1','cell':'c1','queued':0",
		"'seq':2,'type':'stream','cell':'c1','name':'stdout','text':'out'",
		"'seq':3,'type':'stream','cell':'other','name':'stdout','text':'no'",
		"'seq':4,'type':'stream','cell':'c1','name':'stderr','text':'\xc3\xa4\xc3\xa4'",
		"'seq':5,'type':'result','cell':'c1','data':{'text/plain':'42'},'metadata':{}",
		"'seq':6,'type':'error','cell':'c1','ename':'E','evalue':'v','traceback':['a','b']",
		("'seq':7,'type':'finished','cell':'c1','status':'error','state':'recovered','"
		 "recovers_to':'c0','rolled_back':['b'],'lost':{'connections':2},"
		 "'execution_count':3,'duration_us':12,'text':'T'"),
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		cleanup_free char *line =
			mem_format("{%s,'t':'2026-01-01T00:00:00.000000Z'}\n", lines[i]);

		for (char *quote = line; (quote = strchr(quote, '\'')); quote++)
			*quote = '"';
		put(keeper->fd, line);
	}
}

/* Puts a line in which "id":null stands for the id of the request. */
static void answer(struct keeper *keeper, const struct json *request, const char *line)
{
	const char *place = strstr(line, "\"id\":null");
	cleanup_buf struct buf text = BUF_INIT;

	buf_append(&text, line, (size_t)(place - line) + 5);
	json_write(&text, json_get(request, "id"));
	buf_append_string(&text, place + 9);
	put(keeper->fd, buf_bytes(&text));
}

static void *play(void *data)
{
	struct keeper *keeper = data;

	for (;;) {
		cleanup_json struct json *request = next_request(keeper);
		const char *op = json_get_string(request, "op");

		if (!op)
			return NULL;
		if (strcmp(op, "events") == 0) {
			keeper->events_asked++;
			keeper->since = (uint64_t)json_get_int(request, "since", 0);
			answer(keeper, request, "{\"type\":\"reply\",\"id\":null,\"to\":400}\n");
			if (json_get_bool(request, "follow", false) && keeper->since)
				put_flood(keeper, keeper->since);
		} else if (strcmp(op, "flood") == 0) {
			put_flood(keeper, 0);
			answer(keeper, request,
			       "{\"type\":\"reply\",\"id\":null,\"flooded\":true}\n");
		} else if (strcmp(op, "run") == 0) {
			json_free(keeper->ran);
			keeper->ran = json_keep(request);
			put_run(keeper);
		} else if (strcmp(op, "bad") == 0) {
			answer(keeper, request,
			       "{\"type\":\"refused\",\"id\":null,\"code\":\"not_found\","
			       "\"message\":\"no\"}\n");
		} else if (strcmp(op, "failed") == 0) { /* a sync has, before the answer */
			answer(keeper, request,
			       "{\"type\":\"warning\",\"code\":\"sync\","
			       "\"message\":\"the disk\"}\n"
			       "{\"type\":\"reply\",\"id\":null,\"late\":1}\n");
		} else if (strcmp(op, "limits") == 0) {
			cleanup_buf struct buf set = BUF_INIT;

			json_write(&set, json_get(request, "set"));
			buf_append_string(&set, "}\n");
			answer(keeper, request, "{\"type\":\"reply\",\"id\":null,\"limits\":");
			put(keeper->fd, buf_bytes(&set));
		} else if (strcmp(op, "slow") == 0) { /* done only behind the next one */
			json_free(keeper->slow);
			keeper->slow = json_keep(request);
		} else if (strcmp(op, "garbage") == 0) {
			put(keeper->fd, "this is no JSON\n");
		} else if (strcmp(op, "silent") != 0) {
			answer(keeper, request,
			       "{\"type\":\"reply\",\"id\":null,\"ok\":1,\"seq\":9}\n");
			if (keeper->slow)
				answer(keeper, keeper->slow,
				       "{\"type\":\"reply\",\"id\":null,\"slow\":1}\n");
			json_free(keeper->slow);
			keeper->slow = NULL;
		}
	}
}

struct pair {
	struct fh_session *session;
	struct keeper keeper;
	pthread_t thread;
};

static int set_up(void **state)
{
	struct pair *pair = mem_zalloc(sizeof(*pair));
	int fds[2];

	assert_int_equal(socket_pair(SOCK_STREAM, fds, NULL), 0);
	pair->session = mem_zalloc(sizeof(*pair->session));
	wire_init(&pair->session->wire, fds[0]);
	pair->session->timeout_ms = -1;
	pair->keeper.fd = fds[1];
	assert_int_equal(pthread_create(&pair->thread, NULL, play, &pair->keeper), 0);
	*state = pair;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *pair = *state;

	fh_close(pair->session);
	pthread_join(pair->thread, NULL);
	close(pair->keeper.fd);
	buf_release(&pair->keeper.in);
	json_free(pair->keeper.ran);
	json_free(pair->keeper.slow);
	free(pair);
	return 0;
}

/* --- tests
 * -------------------------------------------------------------------------------------- */

static void test_kinds(void **state)
{
	static const struct {
		const char *line;
		enum message_kind kind;
		uint64_t seq;
	} lines[] = {
		{"{\"seq\":17,\"t\":\"x\",\"type\":\"stream\"}", MESSAGE_EVENT, 17},
		{"{\"type\":\"stream\",\"seq\":18}", MESSAGE_EVENT, 18},
		{"{\"type\":\"gap\",\"from\":1,\"to\":2}", MESSAGE_EVENT, 0},
		{"{\"type\":\"reply\",\"id\":null,\"seq\":4}", MESSAGE_REPLY, 4},
		{"{\"type\":\"refused\",\"id\":1}", MESSAGE_REFUSED, 0},
		{"{\"type\":\"hello\",\"protocol\":1,\"seq\":5}", MESSAGE_HELLO, 5},
		{"{\"type\":7}", MESSAGE_BAD, 0},
		{"{}", MESSAGE_BAD, 0},
		{"", MESSAGE_BAD, 0},
		{"nonsense", MESSAGE_BAD, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		cleanup_json struct json *message = NULL;
		size_t len = strlen(lines[i].line);

		assert_int_equal(message_kind(lines[i].line, len, &message), lines[i].kind);
		assert_int_equal(message_seq(lines[i].line, len), lines[i].seq);
	}
}

static int call(struct pair *pair, const char *request, char **reply, struct fh_error *error)
{
	return fh_call(pair->session, request, strlen(request), reply, error);
}

static void test_call(void **state)
{
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;
	char *reply = NULL;

	assert_int_equal(call(pair, "{\"op\":\"status\"}", &reply, &error), 0);
	assert_non_null(strstr(reply, "\"ok\":1"));
	fh_free(reply);
	assert_int_equal(call(pair, "{\"op\":\"bad\"}", NULL, &error), -1);
	assert_int_equal(error.code, FH_NOT_FOUND);
	assert_string_equal(error.text, "no");
	assert_int_equal(call(pair, "{\n}", NULL, &error), -1);
	assert_int_equal(error.code, FH_INVALID);
	/* The answers of what was posted are passed over, also a refusal. */
	assert_int_equal(fh_post(pair->session, "{\"op\":\"bad\"}", 12, &error), 0);
	assert_int_equal(fh_interrupt(pair->session, "c1", &error), 0);
	assert_int_equal(call(pair, "{\"op\":\"status\"}", NULL, &error), 0);
	/* Also one that comes behind that of a later request. */
	assert_int_equal(fh_post(pair->session, "{\"op\":\"slow\"}", 13, &error), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(call(pair, "{\"op\":\"status\"}", &reply, &error), 0);
		assert_non_null(strstr(reply, "\"ok\":1"));
		fh_free(reply);
	}
	assert_int_equal(fh_post(pair->session, "[]", 2, &error), -1);
	assert_int_equal(error.code, FH_INVALID);
	assert_int_equal(call(pair, "{\"op\":\"garbage\"}", NULL, &error), -1);
	assert_int_equal(error.code, FH_CORRUPT);
}

/* The disk has failed: the wait that it was for ends with that, its answer is passed over. */
static void test_failed_sync(void **state)
{
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;
	char *reply = NULL;
	const char *event;
	size_t len;

	assert_int_equal(call(pair, "{\"op\":\"failed\"}", NULL, &error), -1);
	assert_int_equal(error.code, FH_IO);
	assert_string_equal(error.text, "the disk");
	assert_int_equal(call(pair, "{\"op\":\"status\"}", &reply, &error), 0);
	assert_non_null(strstr(reply, "\"ok\":1")); /* not the late one */
	fh_free(reply);
	assert_int_equal(fh_post(pair->session, "{\"op\":\"failed\"}", 15, &error), 0);
	error = (struct fh_error)FH_ERROR_INIT;
	assert_int_equal(fh_next(pair->session, -1, &event, &len, &error), -1);
	assert_int_equal(error.code, FH_IO);
	assert_int_equal(call(pair, "{\"op\":\"status\"}", NULL, &error), 0);
}

static void test_limits(void **state)
{
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;
	char *limits = fh_limits(pair->session, "{ \"queue\": 7 }", &error);

	assert_string_equal(limits, "{\"queue\":7}");
	fh_free(limits);
	limits = fh_limits(pair->session, NULL, &error);
	assert_string_equal(limits, "{}");
	fh_free(limits);
	assert_null(fh_limits(pair->session, "[]", &error));
	assert_int_equal(error.code, FH_INVALID);
	assert_null(fh_limits(pair->session, "{", &error));
	assert_int_equal(error.code, FH_INVALID);
}

static void test_late_answer(void **state)
{
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;

	fh_set_timeout(pair->session, 1);
	assert_int_equal(call(pair, "{\"op\":\"silent\"}", NULL, &error), -1);
	assert_int_equal(error.code, FH_TIMEOUT);
	fh_set_timeout(pair->session, -1);
	put(pair->keeper.fd, "{\"type\":\"reply\",\"id\":null,\"late\":true}\n");
	assert_int_equal(call(pair, "{\"op\":\"bad\"}", NULL, &error), -1);
	assert_int_equal(error.code, FH_NOT_FOUND); /* not the late one */
}

/* More events than are kept while a call waits: each is given once and in order all the same. */
static void test_overflow(void **state)
{
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;
	const char *event;
	size_t len;

	assert_int_equal(fh_events(pair->session, 0, &error), 0);
	assert_int_equal(call(pair, "{\"op\":\"flood\"}", NULL, &error), 0);
	assert_true(pair->session->overflow);
	assert_true(pair->session->waiting.len <= SESSION_WAITING_BYTES_MAX + FLOOD_TEXT);
	for (uint64_t seq = 1; seq <= FLOOD; seq++) {
		assert_int_equal(fh_next(pair->session, -1, &event, &len, &error), 1);
		assert_int_equal(message_seq(event, len), seq);
	}
	assert_int_equal(fh_next(pair->session, 0, &event, &len, &error), 0);
	assert_int_equal(pair->keeper.events_asked, 2);
	assert_true(pair->keeper.since > 0 && pair->keeper.since < FLOOD);
}

static void count_event(void *data, struct fh_session *session, const char *event, size_t len)
{
	unsigned *count = data;

	(void)session;
	assert_int_equal(event[len], '\0');
	(*count)++;
}

static void test_run(void **state)
{
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;
	struct fh_result result = FH_RESULT_INIT;
	struct fh_run_params params;
	unsigned count = 0;
	cleanup_buf struct buf ran = BUF_INIT;

	fh_run_params_init(&params);
	params.file = "lib/a.py";
	params.argv = (const char *const[]){"-x", "\"", NULL};
	params.atomic = true;
	params.files = FH_FILES_STAY;
	params.on_event = count_event;
	params.data = &count;
	params.output_bytes_max = 3;
	assert_int_equal(fh_run(pair->session, "1", 1, &params, &result, &error), 0);
	assert_int_equal(count, 7);
	json_write(&ran, pair->keeper.ran);
	assert_string_equal(buf_bytes(&ran),
			    "{\"op\":\"run\",\"file\":\"lib/a.py\",\"argv\":[\"-x\",\"\\\"\"],"
			    "\"atomic\":true,\"files\":false,\"code\":\"1\"}");
	assert_string_equal(result.cell, "c1");
	assert_int_equal(result.status, FH_CELL_ERROR);
	assert_string_equal(result.state, "recovered");
	assert_string_equal(result.recovers_to, "c0");
	assert_string_equal(result.rolled_back, "[\"b\"]");
	assert_string_equal(result.lost, "{\"connections\":2}");
	assert_int_equal(result.execution_count, 3);
	assert_string_equal(result.out, "out");
	assert_string_equal(result.err,
			    "\xc3\xa4"); /* 4 bytes; 3 may be kept; no half a character */
	assert_int_equal(result.err_dropped, 2);
	assert_string_equal(result.result, "42");
	assert_string_equal(result.result_data, "{\"text/plain\":\"42\"}");
	assert_string_equal(result.ename, "E");
	assert_string_equal(result.traceback, "a\nb");
	assert_string_equal(result.text, "T");
	fh_result_release(&result);
	assert_null(result.out);
	assert_int_equal(fh_run(pair->session, "\xff", 1, NULL, &result, &error), -1);
	assert_int_equal(error.code, FH_INVALID);
}

static void test_start_params(void **state)
{
	struct fh_start_params params;
	struct fh_error error = FH_ERROR_INIT;

	(void)state;
	fh_start_params_init(&params);
	assert_true(params.ends_with_client);
	assert_int_equal(params.cancel_fd, -1);
	params.wall_s_max = 0;
	assert_null(fh_start(&params, &error));
	assert_int_equal(error.code, FH_USAGE);
	fh_start_params_init(&params);
	params.python = "python3";
	assert_null(fh_start(&params, &error));
	assert_int_equal(error.code, FH_USAGE);
	fh_start_params_init(&params);
	params.workspace = "/no such directory";
	assert_null(fh_start(&params, &error));
	assert_int_equal(error.code, FH_NOT_FOUND);
	fh_start_params_init(&params);
	params.notebook_metadata = "[]";
	assert_null(fh_start(&params, &error));
	assert_int_equal(error.code, FH_USAGE);
	assert_string_equal(fh_code_name(FH_NOT_FOUND), "not_found");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test_setup_teardown(test_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failed_sync, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_answer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_overflow, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_run, set_up, tear_down),
		cmocka_unit_test(test_start_params),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
