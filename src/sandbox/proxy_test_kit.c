/* Sockets of a test that wait by turning the proxy's loop: proxy_test_kit.h says the rest. */
#include "sandbox/proxy_test_kit.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { WAIT_US_MAX = 20 * 1000000 };

int kit_listen(int backlog, uint16_t *port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

int kit_connect(uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&in, sizeof(in)) < 0)
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

static void on_decided(void *data, const struct proxy_decision *decision)
{
	struct kit *kit = data;

	buf_printf(&kit->log, "%s %s %s [%s]\n", proxy_kind_name(decision->kind), decision->host,
		   refusal_name(decision->refusal), decision->address);
}

static void on_ended(void *data, const struct proxy_ending *ending)
{
	struct kit *kit = data;

	buf_printf(&kit->log, "end %s %s in=%llu out=%llu\n", ending->host,
		   refusal_name(ending->refusal), (unsigned long long)ending->bytes_in,
		   (unsigned long long)ending->bytes_out);
}

int kit_set_up(void **state)
{
	struct kit *kit = mem_zalloc(sizeof(*kit));

	uv_loop_init(&kit->loop);
	kit->server = kit_listen(16, &kit->server_port);
	kit->params = (struct proxy_params){
		.loop = &kit->loop, .decided = on_decided, .ended = on_ended, .data = kit};
	*state = kit;
	return 0;
}

struct hosts kit_rules(const char *list)
{
	struct hosts hosts = HOSTS_INIT;

	if (*list)
		assert_int_equal(hosts_add_list(&hosts, list, strlen(list), NULL), 0);
	return hosts;
}

/* Starts the proxy; %u in the rules is the server's port. */
void kit_start(struct kit *kit, const char *format)
{
	char *list = mem_format("%.*s%u%s", (int)strcspn(format, "@"), format, kit->server_port,
				strchr(format, '@') + 1);
	struct hosts hosts = kit_rules(list);

	kit->params.listener = kit_listen(64, &kit->proxy_port);
	kit->params.hosts = &hosts;
	kit->proxy = proxy_new(&kit->params, NULL);
	assert_non_null(kit->proxy);
	assert_null(hosts.rules);
	free(list);
}

void kit_on_closed(void *data)
{
	struct kit *kit = data;

	kit->closed = true;
}

int kit_tear_down(void **state)
{
	struct kit *kit = *state;

	if (kit->proxy && !kit->closed) {
		proxy_close(kit->proxy, kit_on_closed, kit);
		uv_run(&kit->loop, UV_RUN_DEFAULT);
	}
	assert_int_equal(uv_loop_close(&kit->loop), 0);
	close(kit->server);
	buf_release(&kit->log);
	free(kit);
	return 0;
}

/* Turns the loop until the descriptor is ready. */
void kit_wait_for(struct kit *kit, int fd, short events)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};
	int64_t end = clock_monotonic_us() + WAIT_US_MAX;

	while (poll(&poll_fd, 1, 1) == 0) {
		uv_run(&kit->loop, UV_RUN_NOWAIT);
		assert_true(clock_monotonic_us() < end);
	}
}

/* Turns the loop until the log has the text. */
void kit_wait_for_log(struct kit *kit, const char *text)
{
	int64_t end = clock_monotonic_us() + WAIT_US_MAX;

	while (!strstr(buf_bytes(&kit->log), text)) {
		uv_run(&kit->loop, UV_RUN_NOWAIT);
		if (clock_monotonic_us() > end)
			fail_msg("no \"%s\" in: %s", text, buf_bytes(&kit->log));
	}
}

int kit_take_client(struct kit *kit)
{
	int fd;

	kit_wait_for(kit, kit->server, POLLIN);
	fd = accept4(kit->server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(fd >= 0);
	return fd;
}

void kit_send_all(struct kit *kit, int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t put;

		kit_wait_for(kit, fd, POLLOUT);
		put = send(fd, bytes, len, MSG_NOSIGNAL);
		assert_true(put > 0);
		bytes += put;
		len -= (size_t)put;
	}
}

void kit_send_text(struct kit *kit, int fd, const char *text)
{
	kit_send_all(kit, fd, text, strlen(text));
}

/* Reads until the text ends with `end`, or to the end of the stream for NULL. */
char *kit_receive(struct kit *kit, int fd, const char *end)
{
	struct buf text = BUF_INIT;

	for (;;) {
		size_t end_len = end ? strlen(end) : 0;
		ssize_t got;

		if (end && text.len >= end_len &&
		    strcmp(buf_bytes(&text) + text.len - end_len, end) == 0)
			break;
		kit_wait_for(kit, fd, POLLIN);
		got = read(fd, buf_reserve(&text, 65536), 65536);
		if (got <= 0) {
			if (end)
				fail_msg("ended before \"%s\": %s", end, buf_bytes(&text));
			break;
		}
		buf_added(&text, (size_t)got);
	}
	return buf_take(&text, NULL);
}

void kit_expect(struct kit *kit, int fd, const char *whole)
{
	char *text = kit_receive(kit, fd, whole);

	assert_string_equal(text, whole);
	free(text);
}

void kit_expect_end(struct kit *kit, int fd)
{
	char *text = kit_receive(kit, fd, NULL);

	assert_true(!text || !*text);
	free(text);
}

static char *ask(struct kit *kit, const char *request)
{
	int fd = kit_connect(kit->proxy_port);
	char *answer;

	kit_send_text(kit, fd, request);
	answer = kit_receive(kit, fd, NULL);
	close(fd);
	return answer;
}

void kit_expect_answer(struct kit *kit, const char *request, const char *status, const char *log)
{
	char *answer = ask(kit, request);

	if (!answer || !strstr(answer, status))
		fail_msg("no \"%s\" in: %s", status, answer ? answer : "nothing");
	free(answer);
	kit_wait_for_log(kit, log);
}

/* A tunnel to the server: the client's end and the server's. */
void kit_open_tunnel(struct kit *kit, int *client, int *server)
{
	char *request = mem_format("CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", kit->server_port);

	*client = kit_connect(kit->proxy_port);
	kit_send_text(kit, *client, request);
	*server = kit_take_client(kit);
	kit_expect(kit, *client, "HTTP/1.1 200 Connection established\r\n\r\n");
	free(request);
}
