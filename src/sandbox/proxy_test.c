/*
 * The proxy with real sockets: a server on the loopback that a rule names, and clients. What it
 * carries, what it refuses, and each of its limits.
 */
#include "sandbox/proxy_test_kit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum { BIG = 8 << 20 };

static void test_tunnel(void **state)
{
	struct kit *kit = *state;
	int client, server;

	kit_start(kit, "127.0.0.1:@");
	kit_open_tunnel(kit, &client, &server);
	assert_string_equal(buf_bytes(&kit->log), "connect 127.0.0.1 none [127.0.0.1]\n");
	kit_send_text(kit, client, "hello");
	kit_expect(kit, server, "hello");
	/* Half-close: the server sees the end and can still answer. */
	shutdown(client, SHUT_WR);
	kit_expect_end(kit, server);
	kit_send_text(kit, server, "good bye");
	kit_expect(kit, client, "good bye");
	close(server);
	kit_expect_end(kit, client);
	kit_wait_for_log(kit, "end 127.0.0.1 none in=8 out=5\n");
	assert_int_equal(proxy_counters(kit->proxy)->bytes_out, 5);
	assert_int_equal(proxy_counters(kit->proxy)->allowed, 1);
	close(client);
}

static void test_early_bytes(void **state)
{
	struct kit *kit = *state;
	int client, server;
	char *request;

	kit_start(kit, "127.0.0.1:@");
	request = mem_format("CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\nearly", kit->server_port);
	client = kit_connect(kit->proxy_port);
	kit_send_text(kit, client, request);
	server = kit_take_client(kit);
	kit_expect(kit, server, "early");
	free(request);
	close(client);
	close(server);
}

static void test_socks_and_names(void **state)
{
	static const char hello[] = "\x05\x01\x00\x05\x01\x00\x03\x09localhost";
	struct kit *kit = *state;
	char port[2];
	int client, server;

	kit_start(kit, "localhost:@");
	port[0] = (char)(kit->server_port >> 8);
	port[1] = (char)kit->server_port;
	client = kit_connect(kit->proxy_port);
	kit_send_all(kit, client, hello, sizeof(hello) - 1);
	kit_send_all(kit, client, port, 2);
	server = kit_take_client(kit);
	/* The last byte of the answer and what follows: no NUL is left to stop at. */
	for (size_t i = 0; i < 12; i++) {
		char byte;

		kit_wait_for(kit, client, POLLIN);
		assert_int_equal(read(client, &byte, 1), 1);
		assert_int_equal(byte, "\x05\0\x05\0\0\x01\0\0\0\0\0\0"[i]);
	}
	kit_send_text(kit, server, "hello");
	kit_expect(kit, client, "hello");
	kit_wait_for_log(kit, "socks localhost none [127.0.0.1]\n");
	close(client);
	close(server);
}

static void test_plain_request(void **state)
{
	struct kit *kit = *state;
	int client, server;
	char *text, *expected;

	kit_start(kit, "127.0.0.1:@");
	client = kit_connect(kit->proxy_port);
	text = mem_format("POST http://127.0.0.1:%u/x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
			  "Content-Length: 4\r\nProxy-Connection: keep-alive\r\n\r\nbodyGET "
			  "http://evil.example/ HTTP/1.1\r\n\r\n",
			  kit->server_port, kit->server_port);
	kit_send_text(kit, client, text);
	server = kit_take_client(kit);
	free(text);
	expected = mem_format("POST /x HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 4\r\n"
			      "Via: 1.1 fumehood\r\nConnection: close\r\n\r\nbody",
			      kit->server_port);
	kit_expect(kit, server, expected);
	free(expected);
	kit_send_text(kit, server, "HTTP/1.1 200 OK\r\n\r\nanswer");
	kit_expect(kit, client, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nanswer");
	/* Whoever asks again on this connection is cut off and reaches nobody. */
	kit_send_text(kit, client, "GET http://evil.example/ HTTP/1.1\r\n\r\n");
	kit_expect_end(kit, client);
	kit_expect_end(kit, server);
	kit_wait_for_log(kit, "end 127.0.0.1 none");
	assert_null(strstr(buf_bytes(&kit->log), "evil"));
	close(client);
	close(server);
}

static void test_chunks_end(void **state)
{
	struct kit *kit = *state;
	int client, server;
	char *text;

	kit_start(kit, "127.0.0.1:@");
	client = kit_connect(kit->proxy_port);
	text = mem_format("POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
			  "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			  kit->server_port, kit->server_port);
	kit_send_text(kit, client, text);
	free(text);
	server = kit_take_client(kit);
	text = kit_receive(kit, server, "3\r\nabc\r\n");
	free(text);
	kit_send_text(kit, client, "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n");
	kit_expect(kit, server, "0\r\n\r\n");
	kit_send_text(kit, server, "done"); /* not HTTP: passed on as it is */
	close(server);
	kit_expect(kit, client, "done");
	kit_expect_end(kit, client);
	close(client);

	/* A chunk that does not end where it said: the connection is cut. */
	client = kit_connect(kit->proxy_port);
	text = mem_format("POST http://127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
			  "Transfer-Encoding: chunked\r\n\r\n",
			  kit->server_port, kit->server_port);
	kit_send_text(kit, client, text);
	free(text);
	server = kit_take_client(kit);
	text = kit_receive(kit, server, "\r\n\r\n");
	free(text);
	kit_send_text(kit, client, "3\r\nabcd");
	kit_expect(kit, server, "3\r\nabc");
	kit_expect_end(kit, server);
	kit_expect_end(kit, client);
	close(client);
	close(server);
}

static void test_refused(void **state)
{
	struct kit *kit = *state;

	kit_start(kit, "127.0.0.1:@,allowed.example:*");
	kit_expect_answer(kit, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n", "403 Forbidden",
			  "connect evil.example not_allowed []\n");
	kit_expect_answer(kit, "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n", "403 Forbidden",
			  "connect 127.0.0.1 port_not_allowed []\n");
	kit_expect_answer(kit, "CONNECT allowed.example.:443 HTTP/1.1\r\n\r\n", "400 Bad Request",
			  "connect allowed.example.:443 host_trailing_dot []\n");
	kit_expect_answer(kit, "CONNECT \x1b[31m:443 HTTP/1.1\r\n\r\n", "400 Bad Request",
			  "http  request_nul []\n");
	kit_expect_answer(kit, "CONNECT \xc3\xa4\xff.example:443 HTTP/1.1\r\n\r\n",
			  "400 Bad Request", "connect \xc3\xa4\\xff.example:443 host_bytes []\n");
	kit_expect_answer(kit, "\x16\x03\x01\x02\n", "400 Bad Request",
			  "http  request_line_end []\n");
	assert_int_equal(proxy_counters(kit->proxy)->refused, 6);
	assert_int_equal(proxy_counters(kit->proxy)->allowed, 0);
}

/* This machine's own name leads to an address of its own, or nowhere: without a mark never on. */
static void test_name_to_own_address(void **state)
{
	struct kit *kit = *state;
	char name[256] = "";
	struct hosts_target target;
	struct hosts hosts;
	char *text;

	kit_start(kit, "localhost:@");
	gethostname(name, sizeof(name) - 1);
	if (hosts_read_name(name, strlen(name), &target) != REFUSAL_NONE ||
	    strcmp(name, "localhost") == 0)
		snprintf(name, sizeof(name), "ip6-localhost");
	text = mem_format("%s:*", name);
	hosts = kit_rules(text);
	proxy_set_rules(kit->proxy, &hosts);
	free(text);
	text = mem_format("CONNECT %s:%u HTTP/1.1\r\n\r\n", name, kit->server_port);
	kit_expect_answer(kit, text, "HTTP/1.1 ", "connect ");
	assert_null(strstr(buf_bytes(&kit->log), " none "));
	free(text);
}

static void test_unreachable(void **state)
{
	struct kit *kit = *state;
	uint16_t port;
	char *text;

	kit_start(kit, "127.0.0.1:*,127.0.0.1:@");
	close(kit_listen(1, &port));
	text = mem_format("CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", port);
	kit_expect_answer(kit, text, "502 Bad Gateway", "end 127.0.0.1 unreachable in=0 out=0\n");
	assert_memory_equal(buf_bytes(&kit->log), "connect 127.0.0.1 none [127.0.0.1]\n", 34);
	free(text);
}

static void test_connect_timeout(void **state)
{
	struct kit *kit = *state;
	int waiting[4];
	uint16_t port;
	int full = kit_listen(0, &port);
	char *text = mem_format("CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", port);

	/* Its queue is full, so the kernel drops what else comes. */
	for (size_t i = 0; i < 4; i++)
		waiting[i] = kit_connect(port);
	kit->params.connect_ms_max = 20;
	kit_start(kit, "127.0.0.1:*,127.0.0.1:@");
	kit_expect_answer(kit, text, "504 Gateway Timeout", "end 127.0.0.1 connect_timeout");
	for (size_t i = 0; i < 4; i++)
		close(waiting[i]);
	close(full);
	free(text);
}

static void test_rules_change(void **state)
{
	struct kit *kit = *state;
	struct hosts none = HOSTS_INIT;
	struct hosts again;
	int client, server, kept_client, kept_server;
	char *text;

	kit_start(kit, "127.0.0.1:@");
	kit_open_tunnel(kit, &kept_client, &kept_server);
	text = mem_format("127.0.0.1:%u,other.example", kit->server_port);
	again = kit_rules(text);
	proxy_set_rules(kit->proxy, &again);
	free(text);
	assert_int_equal(proxy_rules(kit->proxy)->count, 2);
	kit_send_text(kit, kept_client, "still there");
	kit_expect(kit, kept_server, "still there");
	kit_open_tunnel(kit, &client, &server);
	proxy_set_rules(kit->proxy, &none);
	kit_expect_end(kit, client);
	kit_expect_end(kit, server);
	kit_expect_end(kit, kept_client);
	kit_wait_for_log(kit, "end 127.0.0.1 rules_changed in=0 out=11\n");
	text = mem_format("CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", kit->server_port);
	kit_expect_answer(kit, text, "403 Forbidden", "connect 127.0.0.1 not_allowed []\n");
	free(text);
	close(client);
	close(server);
	close(kept_client);
	close(kept_server);
}

static void test_full(void **state)
{
	struct kit *kit = *state;
	int held[2];
	int client, server;

	kit->params.connections_max = 3;
	kit_start(kit, "127.0.0.1:@");
	kit_open_tunnel(kit, &client, &server);
	for (size_t i = 0; i < 2; i++)
		held[i] = kit_connect(kit->proxy_port);
	while (proxy_counters(kit->proxy)->open < 3)
		uv_run(&kit->loop, UV_RUN_NOWAIT);
	for (size_t i = 0; i < 100; i++) {
		int fd = kit_connect(kit->proxy_port);
		char *answer = kit_receive(kit, fd, NULL);

		assert_non_null(strstr(answer, "503 Service Unavailable"));
		free(answer);
		close(fd);
	}
	assert_int_equal(proxy_counters(kit->proxy)->full, 100);
	assert_int_equal(proxy_counters(kit->proxy)->open, 3);
	/* Those who are in go on, and a place that is free is given again. */
	kit_send_text(kit, client, "on");
	kit_expect(kit, server, "on");
	close(held[0]);
	close(held[1]);
	while (proxy_counters(kit->proxy)->open > 1)
		uv_run(&kit->loop, UV_RUN_NOWAIT);
	kit_expect_answer(kit, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n", "403 Forbidden",
			  "not_allowed");
	close(client);
	close(server);
}

static void test_time_limits(void **state)
{
	struct kit *kit = *state;
	char *answer;
	int client, server;
	int slow;

	kit->params.handshake_ms_max = 30;
	kit->params.idle_ms_max = 30;
	kit_start(kit, "127.0.0.1:@");
	slow = kit_connect(kit->proxy_port);
	kit_send_text(kit, slow, "CONNECT 127.0.0.1");
	answer = kit_receive(kit, slow, NULL);
	assert_non_null(strstr(answer, "408 Request Timeout"));
	free(answer);
	kit_wait_for_log(kit, "http  request_timeout []\n");
	kit_open_tunnel(kit, &client, &server);
	kit_expect_end(kit, client);
	kit_wait_for_log(kit, "end 127.0.0.1 idle");
	close(slow);
	close(client);
	close(server);
}

/* Eight megabytes to a server that does not read: the proxy stops reading, and nothing is lost. */
static void test_back_pressure(void **state)
{
	struct kit *kit = *state;
	char *bytes = mem_zalloc(BIG);
	char *back = mem_zalloc(BIG);
	size_t put = 0, got = 0;
	int client, server;

	for (size_t i = 0; i < BIG; i++)
		bytes[i] = (char)(i * 2654435761U >> 13);
	kit_start(kit, "127.0.0.1:@");
	kit_open_tunnel(kit, &client, &server);
	while (got < BIG) {
		struct pollfd fds[2] = {{.fd = client, .events = put < BIG ? POLLOUT : 0},
					{.fd = server, .events = POLLIN}};
		ssize_t moved = put < BIG ? send(client, bytes + put, BIG - put, MSG_NOSIGNAL) : -1;
		size_t stuck = 0;

		put += moved > 0 ? (size_t)moved : 0;
		/* The server reads only when the client is stuck. */
		while (moved < 0 && stuck++ < 100)
			uv_run(&kit->loop, UV_RUN_NOWAIT);
		if (moved < 0) {
			moved = read(server, back + got, BIG - got);
			got += moved > 0 ? (size_t)moved : 0;
		}
		uv_run(&kit->loop, UV_RUN_NOWAIT);
		(void)poll(fds, 2, 0);
	}
	assert_memory_equal(bytes, back, BIG);
	assert_int_equal(proxy_counters(kit->proxy)->bytes_out, BIG);
	free(bytes);
	free(back);
	close(client);
	close(server);
}

/* A reset from the host after its last words: they arrive all the same. */
static void test_reset(void **state)
{
	const struct linger hard = {.l_onoff = 1, .l_linger = 0};
	struct kit *kit = *state;
	int client, server;

	kit_start(kit, "127.0.0.1:@");
	kit_open_tunnel(kit, &client, &server);
	kit_send_text(kit, server, "last words");
	kit_expect(kit, client, "last words");
	setsockopt(server, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(server);
	kit_expect_end(kit, client);
	close(client);
	kit_wait_for_log(kit, "end 127.0.0.1 none in=10 out=0\n");
	kit_open_tunnel(kit, &client, &server);
	setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(client);
	kit_expect_end(kit, server);
	close(server);
	kit_wait_for_log(kit, "end 127.0.0.1 none in=0 out=0\n");
}

static void test_close(void **state)
{
	struct kit *kit = *state;
	int client, server, half;

	kit_start(kit, "127.0.0.1:@");
	kit_open_tunnel(kit, &client, &server);
	half = kit_connect(kit->proxy_port);
	while (proxy_counters(kit->proxy)->open < 2)
		uv_run(&kit->loop, UV_RUN_NOWAIT);
	proxy_close(kit->proxy, kit_on_closed, kit);
	uv_run(&kit->loop, UV_RUN_DEFAULT);
	assert_true(kit->closed);
	kit_wait_for_log(kit, "end 127.0.0.1 closing");
	kit_expect_end(kit, client);
	kit_expect_end(kit, half);
	close(client);
	close(server);
	close(half);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_set_up, kit_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_tunnel),
		TEST(test_early_bytes),
		TEST(test_socks_and_names),
		TEST(test_plain_request),
		TEST(test_chunks_end),
		TEST(test_refused),
		TEST(test_unreachable),
		TEST(test_name_to_own_address),
		TEST(test_connect_timeout),
		TEST(test_rules_change),
		TEST(test_full),
		TEST(test_time_limits),
		TEST(test_back_pressure),
		TEST(test_reset),
		TEST(test_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
