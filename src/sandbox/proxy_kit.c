/*
 * The proxy on its own, for test/flow/test_proxy.py: `proxy_kit RULES` listens on a port of the
 * loopback and says what happens, a JSON object a line:
 *
 *	{"port":4711}
 *	{"kind":"connect","host":"pypi.org","port":443,"refusal":"none","address":"151.101.0.223"}
 *	{"ended":"pypi.org","refusal":"none","in":5120,"out":517}
 *	{"counters":{"accepted":3,"allowed":2,"refused":1,"full":0,"open":1}}
 *
 * A line on stdin is a list of new rules; an empty line asks for the counters; its end ends the
 * program. With `--time MS` the request must be there in so many milliseconds.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "base/file.h"
#include "base/mem.h"
#include "sandbox/proxy.h"

enum { INPUT_MAX = 65536 };

struct program {
	uv_loop_t loop;
	uv_poll_t input;
	struct proxy *proxy;
	struct buf line;
};

static void say(struct json *line)
{
	cleanup_buf struct buf text = BUF_INIT;

	json_write(&text, line);
	buf_append_char(&text, '\n');
	json_free(line);
	(void)file_write_all(STDOUT_FILENO, buf_bytes(&text), text.len, NULL);
}

static struct json *text_json(const char *text)
{
	return json_new_string(text, strlen(text));
}

static void on_decided(void *data, const struct proxy_decision *decision)
{
	struct json *line = json_new_object();

	(void)data;
	json_set(line, "kind", text_json(proxy_kind_name(decision->kind)));
	json_set(line, "host", text_json(decision->host));
	json_set(line, "port", json_new_int(decision->port));
	json_set(line, "refusal", text_json(refusal_name(decision->refusal)));
	json_set(line, "address", text_json(decision->address));
	say(line);
}

static void on_ended(void *data, const struct proxy_ending *ending)
{
	struct json *line = json_new_object();

	(void)data;
	json_set(line, "ended", text_json(ending->host));
	json_set(line, "refusal", text_json(refusal_name(ending->refusal)));
	json_set(line, "in", json_new_int((int64_t)ending->bytes_in));
	json_set(line, "out", json_new_int((int64_t)ending->bytes_out));
	say(line);
}

static void say_counters(const struct program *program)
{
	const struct proxy_counters *counters = proxy_counters(program->proxy);
	struct json *values = json_new_object();
	struct json *line = json_new_object();

	json_set(values, "accepted", json_new_int((int64_t)counters->accepted));
	json_set(values, "allowed", json_new_int((int64_t)counters->allowed));
	json_set(values, "refused", json_new_int((int64_t)counters->refused));
	json_set(values, "full", json_new_int((int64_t)counters->full));
	json_set(values, "open", json_new_int(counters->open));
	json_set(line, "counters", values);
	say(line);
}

static int read_rules(struct hosts *hosts, const char *text, size_t len)
{
	struct err err = ERR_INIT;

	if (strcmp(text, "none") == 0 || hosts_add_list(hosts, text, len, &err) == 0)
		return 0;
	fprintf(stderr, "%s\n", err.text);
	return -1;
}

static void take_line(struct program *program, const char *text, size_t len)
{
	struct hosts hosts = HOSTS_INIT;

	if (len > 0 && read_rules(&hosts, text, len) == 0)
		proxy_set_rules(program->proxy, &hosts);
	else
		hosts_release(&hosts);
	say_counters(program);
}

static void on_input(uv_poll_t *poll, int status, int events)
{
	struct program *program = poll->data;
	struct buf *line = &program->line;
	ssize_t got = status < 0 ? 0 : read(STDIN_FILENO, buf_reserve(line, 4096), 4096);
	const char *end;

	(void)events;
	if (got <= 0 || line->len > INPUT_MAX) {
		uv_close((uv_handle_t *)poll, NULL);
		proxy_close(program->proxy, NULL, NULL);
		return;
	}
	buf_added(line, (size_t)got);
	while ((end = memchr(buf_bytes(line), '\n', line->len)) != NULL) {
		size_t len = (size_t)(end - buf_bytes(line));
		cleanup_free char *text = mem_copy(buf_bytes(line), len);

		take_line(program, text, len);
		buf_consume(line, len + 1);
	}
}

static int listen_on_loopback(uint16_t *port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(in);
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 ||
	    listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&in, &size) < 0)
		return -1;
	*port = ntohs(in.sin_port);
	return fd_take(&fd);
}

int main(int argc, char **argv)
{
	struct program program = {.line = BUF_INIT};
	struct hosts hosts = HOSTS_INIT;
	struct proxy_params params = {.loop = &program.loop,
				      .hosts = &hosts,
				      .decided = on_decided,
				      .ended = on_ended,
				      .data = &program};
	struct json *line = json_new_object();
	uint16_t port = 0;

	if (argc == 4 && strcmp(argv[2], "--time") == 0)
		params.handshake_ms_max = (unsigned)strtoul(argv[3], NULL, 10);
	else if (argc != 2)
		return 2;
	if (read_rules(&hosts, argv[1], strlen(argv[1])) < 0)
		return 1;
	uv_loop_init(&program.loop);
	params.listener = listen_on_loopback(&port);
	program.proxy = proxy_new(&params, NULL);
	if (!program.proxy || uv_poll_init(&program.loop, &program.input, STDIN_FILENO) < 0)
		return 1;
	program.input.data = &program;
	uv_poll_start(&program.input, UV_READABLE, on_input);
	json_set(line, "port", json_new_int(port));
	say(line);
	uv_run(&program.loop, UV_RUN_DEFAULT);
	uv_loop_close(&program.loop);
	buf_release(&program.line);
	return 0;
}
