/* The filter of pipe: our own answers are kept back, everything else passes byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "cli/relay.h"

/* Feeds the text in pieces of `step` bytes. */
static void feed(struct relay *relay, const char *text, size_t len, size_t step, struct buf *out)
{
	for (size_t at = 0; at < len; at += step)
		relay_feed(relay, text + at, len - at < step ? len - at : step, out);
}

static void expect(const char *in, const char *passed)
{
	for (size_t step = 1; step <= strlen(in) + 1; step++) {
		struct relay relay = RELAY_INIT;
		cleanup_buf struct buf out = BUF_INIT;

		feed(&relay, in, strlen(in), step, &out);
		assert_int_equal(out.len, strlen(passed));
		assert_memory_equal(buf_bytes(&out), passed, out.len);
		relay_release(&relay);
	}
}

static void test_filter(void **state)
{
	(void)state;
	expect("{\"type\":\"reply\",\"id\":\"c1\"}\n{\"type\":\"reply\",\"id\":\"fumehood-pipe-"
	       "events\",\"to\":3}\n"
	       "{\"seq\":1,\"type\":\"cell\"}\n",
	       "{\"type\":\"reply\",\"id\":\"c1\"}\n{\"seq\":1,\"type\":\"cell\"}\n");
	expect("{\"type\":\"refused\",\"id\":\"fumehood-pipe-input\",\"code\":\"not_found\","
	       "\"message\":\"m\"}\nx\n",
	       "x\n");
	/* The same words elsewhere are somebody else's. */
	expect("{\"seq\":2,\"type\":\"stream\",\"text\":\"\\\"id\\\":\\\"fumehood-pipe-x\\\"\"}\n",
	       "{\"seq\":2,\"type\":\"stream\",\"text\":\"\\\"id\\\":\\\"fumehood-pipe-x\\\"\"}\n");
	expect("{\"seq\":3,\"type\":\"cell\",\"cell\":\"fumehood-pipe-x\",\"id\":\"fumehood-pipe-"
	       "x\"}\n",
	       "{\"seq\":3,\"type\":\"cell\",\"cell\":\"fumehood-pipe-x\",\"id\":\"fumehood-pipe-"
	       "x\"}\n");
	expect("{\"type\":\"reply\",\"id\":null,\"x\":\"fumehood-pipe-\"}\n",
	       "{\"type\":\"reply\",\"id\":null,\"x\":\"fumehood-pipe-\"}\n");
	expect("\n\nnot json \"fumehood-pipe-\n", "\n\nnot json \"fumehood-pipe-\n");
}

static void test_notes(void **state)
{
	static const char busy[] = "{\"type\":\"reply\",\"id\":\"fumehood-pipe-status\",\"state\":"
				   "\"idle\",\"queue\":[\"c\"]}\n";
	static const char idle[] = "{\"type\":\"reply\",\"id\":\"fumehood-pipe-status\",\"state\":"
				   "\"idle\",\"queue\":[],\"seq\":9}\n";
	static const char finished[] =
		"{\"seq\":4,\"t\":\"x\",\"type\":\"finished\",\"cell\":\"c1\"}\n";
	static const char stopped[] =
		"{\"seq\":5,\"t\":\"x\",\"type\":\"stopped\",\"reason\":\"stop\"}\n";
	static const char prompt[] =
		"{\"seq\":6,\"t\":\"x\",\"type\":\"input_request\",\"cell\":\"c1\"}\n";
	struct relay relay = RELAY_INIT;
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	relay_feed(&relay, busy, sizeof(busy) - 1, &out);
	assert_true(relay.busy && !relay.idle && !relay.finished);
	relay_feed(&relay, idle, sizeof(idle) - 1, &out);
	assert_true(relay.idle);
	assert_int_equal(out.len, 0);
	relay_feed(&relay, finished, sizeof(finished) - 1, &out);
	assert_true(relay.finished && !relay.stopped && !relay.prompted);
	relay_feed(&relay, stopped, sizeof(stopped) - 1, &out);
	relay_feed(&relay, prompt, sizeof(prompt) - 1, &out);
	assert_true(relay.stopped && relay.prompted);
	assert_int_equal(out.len, sizeof(finished) + sizeof(stopped) + sizeof(prompt) - 3);
	relay_release(&relay);
}

/* A line of any length passes, and only its start is ever held. */
static void test_long_line(void **state)
{
	struct relay relay = RELAY_INIT;
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_free char *line = mem_zalloc(1 << 20);

	(void)state;
	memset(line, 'x', 1 << 20);
	memcpy(line, "{\"seq\":1,", 9);
	for (size_t at = 0; at < 1 << 20; at += 1000) {
		relay_feed(&relay, line + at, 1000 < (1 << 20) - at ? 1000 : (1 << 20) - at, &out);
		assert_true(relay.start.len <= RELAY_START_BYTES + 1000);
	}
	assert_int_equal(out.len, 1 << 20);
	relay_feed(&relay, "\n{\"type\":\"reply\",\"id\":\"fumehood-pipe-stop\"}\n", 45, &out);
	assert_int_equal(out.len, (1 << 20) + 1);
	relay_release(&relay);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_long_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
