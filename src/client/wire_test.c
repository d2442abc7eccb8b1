/* Lines over a socket pair: pieces, long lines, ends, time-outs, sending into a full socket. */
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
#include "client/wire.h"

struct ends {
	struct wire wire;
	int peer;
};

static int set_up(void **state)
{
	struct ends *ends = mem_zalloc(sizeof(*ends));
	int pair[2];

	assert_int_equal(socket_pair(SOCK_STREAM, pair, NULL), 0);
	wire_init(&ends->wire, pair[0]);
	ends->peer = pair[1];
	*state = ends;
	return 0;
}

static int tear_down(void **state)
{
	struct ends *ends = *state;

	wire_release(&ends->wire);
	if (ends->peer >= 0)
		close(ends->peer);
	free(ends);
	return 0;
}

static void put(int fd, const char *text)
{
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

static void expect_line(struct wire *wire, const char *text)
{
	struct err err = ERR_INIT;
	const char *line;
	size_t len;

	assert_int_equal(wire_line(wire, -1, &line, &len, &err), 1);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(line, text, len);
}

static void test_pieces(void **state)
{
	struct ends *ends = *state;
	struct err err = ERR_INIT;
	const char *line;
	size_t len;

	put(ends->peer, "one\ntwo\n\nthr");
	expect_line(&ends->wire, "one");
	expect_line(&ends->wire, "two");
	expect_line(&ends->wire, "");
	assert_int_equal(wire_line(&ends->wire, 0, &line, &len, &err), 0);
	put(ends->peer, "ee\nrest");
	expect_line(&ends->wire, "three");
	close(ends->peer);
	ends->peer = -1;
	assert_int_equal(wire_line(&ends->wire, -1, &line, &len, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
}

static void test_cancel(void **state)
{
	struct ends *ends = *state;
	struct err err = ERR_INIT;
	const char *line;
	size_t len;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	put(fds[1], "x");
	ends->wire.cancel_fd = fds[0];
	assert_int_equal(wire_line(&ends->wire, -1, &line, &len, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	/* What is there is taken all the same. */
	put(ends->peer, "line\n");
	expect_line(&ends->wire, "line");
	close(fds[0]);
	close(fds[1]);
}

enum { BIG_BYTES = 8 << 20 };

/* A keeper that first sends a lot and only then reads: both sides would wait for ever if sending
 * did not read. */
static void *talk_before_listening(void *data)
{
	struct ends *ends = data;
	cleanup_free char *big = mem_zalloc(BIG_BYTES);
	size_t got = 0;

	memset(big, 'e', BIG_BYTES);
	big[BIG_BYTES - 1] = '\n';
	file_write_all(ends->peer, big, BIG_BYTES, NULL);
	while (got < BIG_BYTES) {
		ssize_t some = read(ends->peer, big, BIG_BYTES);

		if (some <= 0)
			break;
		got += (size_t)some;
	}
	return got == BIG_BYTES ? data : NULL;
}

static void test_both_send(void **state)
{
	struct ends *ends = *state;
	cleanup_free char *big = mem_zalloc(BIG_BYTES);
	struct err err = ERR_INIT;
	pthread_t thread;
	const char *line;
	void *outcome;
	size_t len;

	memset(big, 'r', BIG_BYTES);
	assert_int_equal(pthread_create(&thread, NULL, talk_before_listening, ends), 0);
	assert_int_equal(wire_send(&ends->wire, big, BIG_BYTES, -1, &err), 0);
	assert_int_equal(pthread_join(thread, &outcome), 0);
	assert_non_null(outcome);
	assert_int_equal(wire_line(&ends->wire, -1, &line, &len, &err), 1);
	assert_int_equal(len, BIG_BYTES - 1);
}

static void test_send_times_out(void **state)
{
	struct ends *ends = *state;
	cleanup_free char *big = mem_zalloc(BIG_BYTES);
	struct err err = ERR_INIT;

	assert_int_equal(wire_send(&ends->wire, big, BIG_BYTES, 0, &err), -1);
	assert_int_equal(err.code, ERR_TIMEOUT);
	close(ends->peer);
	ends->peer = -1;
	assert_int_equal(wire_send(&ends->wire, big, BIG_BYTES, 0, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_both_send, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_send_times_out, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
