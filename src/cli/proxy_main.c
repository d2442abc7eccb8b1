/*
 * fumehood-proxy RULE...: carries the bytes of a program that runs alone to the hosts that the
 * rules name (sandbox/hosts.h), for `fumehood sandbox run --allow-net`.
 *
 * It accepts on descriptor 3, a socket that listens inside the box. It says what it refuses; a
 * refusal that happens again is said once. It is a program of its own because of libuv, which the
 * start of every other command would pay for.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "cli/say.h"
#include "sandbox/proxy.h"

enum { LISTENER = 3 };
enum { SAID_MAX = 64 }; /* different refusals; what comes after them is not said */

struct said {
	char *texts[SAID_MAX];
	size_t count;
};

static bool is_new(struct said *said, const struct proxy_decision *decision)
{
	cleanup_free char *text = mem_format("%s:%u %s", decision->host, decision->port,
					     refusal_name(decision->refusal));

	for (size_t i = 0; i < said->count; i++) {
		if (strcmp(said->texts[i], text) == 0)
			return false;
	}
	if (said->count == SAID_MAX)
		return false;
	said->texts[said->count++] = mem_take(text);
	return true;
}

static void decided(void *data, const struct proxy_decision *decision)
{
	if (decision->refusal != REFUSAL_NONE && is_new(data, decision))
		say("network: %s:%u %s", decision->host, decision->port,
		    refusal_text(decision->refusal));
}

int main(int argc, char **argv)
{
	cleanup_hosts struct hosts hosts = HOSTS_INIT;
	struct said said = {.count = 0};
	struct err err = ERR_INIT;
	uv_loop_t loop;

	if (argc < 2 || hosts_add_all(&hosts, (const char *const *)argv + 1, &err) != 0 ||
	    fcntl(LISTENER, F_SETFL, O_NONBLOCK) < 0) {
		say("fumehood-proxy is started by fumehood sandbox run: %s", err.text);
		return EXIT_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	uv_loop_init(&loop);
	if (!proxy_new(&(struct proxy_params){.loop = &loop,
					      .listener = LISTENER,
					      .hosts = &hosts,
					      .decided = decided,
					      .data = &said},
		       &err))
		return say_err(&err);
	return uv_run(&loop, UV_RUN_DEFAULT);
}
