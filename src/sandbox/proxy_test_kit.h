/*
 * For the tests of the proxy: a server on the loopback, clients, and the proxy between them, all in
 * one thread; whoever waits turns the proxy's loop meanwhile, for at most 20 s.
 */
#ifndef FH_SANDBOX_PROXY_TEST_KIT_H
#define FH_SANDBOX_PROXY_TEST_KIT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "base/buf.h"
#include "sandbox/proxy.h"

struct kit {
	uv_loop_t loop;
	struct proxy *proxy;
	struct proxy_params params;
	int server;
	uint16_t server_port, proxy_port;
	struct buf log; /* of decisions and endings */
	bool closed;
};

int kit_set_up(void **state);
int kit_tear_down(void **state);

/* A listening socket on a port of the loopback that the kernel chooses. */
int kit_listen(int backlog, uint16_t *port);

/* A non-blocking socket that connects to the port. */
int kit_connect(uint16_t port);

/* The rules of a list; "" is none. */
struct hosts kit_rules(const char *list);

/* Starts the proxy with kit->params; @ in the rules is the server's port. */
void kit_start(struct kit *kit, const char *format);

/* For proxy_close(): sets kit->closed. */
void kit_on_closed(void *data);

/* Wait until the descriptor is ready; until the log has the text. */
void kit_wait_for(struct kit *kit, int fd, short events);
void kit_wait_for_log(struct kit *kit, const char *text);

/* The next client of the server. */
int kit_take_client(struct kit *kit);

void kit_send_all(struct kit *kit, int fd, const char *bytes, size_t len);
void kit_send_text(struct kit *kit, int fd, const char *text);

/* Reads until the text ends with `end`, or to the end of the stream for NULL; free() it. */
char *kit_receive(struct kit *kit, int fd, const char *end);

/* Reads exactly this text; the end. */
void kit_expect(struct kit *kit, int fd, const char *whole);
void kit_expect_end(struct kit *kit, int fd);

/* Asks the proxy and checks that the answer has `status` and the log then has `log`. */
void kit_expect_answer(struct kit *kit, const char *request, const char *status, const char *log);

/* A tunnel to the server: the client's end and the server's. */
void kit_open_tunnel(struct kit *kit, int *client, int *server);

#endif
