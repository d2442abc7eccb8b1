/*
 * fumehood pool: the processes that keep Python environments warm.
 */
#include "base/mem.h"
#include "base/python.h"
#include "base/text.h"
#include "cli/find.h"
#include "cli/say.h"
#include "pool/pool.h"

static int list_pools(bool json)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *pools = pool_list(&err);
	cleanup_buf struct buf out = BUF_INIT;

	if (!pools)
		return say_err(&err);
	if (!json && json_length(pools))
		buf_append_string(&out, "    PID  GUESTS  IDLE(s)  SPARE     PYTHON\n");
	for (size_t i = 0; i < json_length(pools); i++) {
		const struct json *pool = json_at(pools, i);
		const char *python = json_get_string(pool, "python");
		const char *spare = json_get_string(pool, "spare");

		if (json) {
			json_write(&out, pool);
		} else {
			buf_printf(&out, "%7lld  %6lld  %7lld  %-8.8s  ",
				   (long long)json_get_int(pool, "pid", 0),
				   (long long)json_get_int(pool, "guests", 0),
				   (long long)json_get_int(pool, "idle_s", 0), spare ? spare : "?");
			text_escape(&out, python ? python : "?", python ? strlen(python) : 1, false,
				    false);
		}
		buf_append_char(&out, '\n');
	}
	return say_out(buf_bytes(&out), out.len);
}

static int stop_pools(const char *name)
{
	struct err err = ERR_INIT;
	cleanup_free char *python = name ? python_resolve(name, &err) : NULL;
	unsigned stopped = 0;

	if ((name && !python) || pool_stop(python, &stopped, &err) != 0)
		return say_err(&err);
	say("%u %s stopped", stopped, stopped == 1 ? "pool" : "pools");
	return 0;
}

static int command_pool(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	int status = command_begin(command, &options, table, 1, argc, argv, 0, 2);
	const char *verb;

	if (status >= 0)
		return status;
	verb = options.words[0];
	if (!verb || (strcmp(verb, "list") == 0 && options.word_count == 1))
		return list_pools(json);
	if (strcmp(verb, "stop") == 0)
		return stop_pools(options.words[1]);
	return say_usage(command, "pool does list and stop, not %s", verb);
}

const struct command COMMAND_POOL = {
	.name = "pool",
	.summary = "show or stop the warm Python environments",
	.example = "fumehood pool list",
	.help = "Usage: fumehood pool [list | stop [PYTHON]] [--json]\n"
		"\n"
		"A pool keeps one Python environment imported, so that sessions start in "
		"milliseconds. It is\n"
		"started when needed and ends by itself after 10 minutes. Sessions survive its "
		"end.\n"
		"\n"
		"  fumehood pool list\n"
		"  fumehood pool stop                          after packages were installed\n"
		"  fumehood pool stop ~/venv                   only this environment's\n"
		"\n"
		"Options:\n"
		"  -j, --json           list: one JSON object a pool\n",
	.run = command_pool,
};
