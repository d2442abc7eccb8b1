/*
 * The client side of the pool as a command, so that a flow test can use it as keepers do.
 *
 *   pool_probe resolve NAME             the path that NAME stands for
 *   pool_probe default                  the default Python
 *   pool_probe names PYTHON             socket, lock and log file of its pool
 *   pool_probe environment PYTHON [MS]  connects (starting a pool); what the zygote says of itself
 *   pool_probe time PYTHON COUNT        connects COUNT times; first and median, in microseconds
 *   pool_probe list
 *   pool_probe stop [PYTHON]
 *
 * Errors go to stderr as "<code>: <text>", with status 1.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/python.h"
#include "pool/command.h"
#include "pool/pool.h"

enum { ENVIRONMENT_MS = 30 * 1000, CONNECTS_MAX = 100000 };

static int fail(const struct err *err)
{
	fprintf(stderr, "%s: %s\n", err_name(err->code), err->text);
	return 1;
}

static int print_json(struct json *json, const struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (!json)
		return fail(err);
	json_write(&text, json);
	puts(buf_bytes(&text));
	json_free(json);
	return 0;
}

static int print_path(char *path, const struct err *err)
{
	if (!path)
		return fail(err);
	puts(path);
	free(path);
	return 0;
}

static int print_names(const char *python)
{
	struct pool_names names;

	pool_names_init(&names, python);
	printf("%s\n%s\n%s\n", names.socket, names.lock, names.log);
	return 0;
}

static int environment(const char *python, const char *wait_ms)
{
	struct err err = ERR_INIT;
	cleanup_fd int fd = pool_connect(python, &err);
	int ms = wait_ms ? (int)strtol(wait_ms, NULL, 10) : ENVIRONMENT_MS;

	if (fd < 0)
		return fail(&err);
	return print_json(pool_environment(fd, ms, NULL, &err), &err);
}

static int compare(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

static int time_connects(const char *python, const char *count_text)
{
	long count = strtol(count_text, NULL, 10);
	cleanup_free int64_t *times = NULL;
	struct err err = ERR_INIT;

	if (count < 1 || count > CONNECTS_MAX)
		return 2;
	times = mem_resize(NULL, (size_t)count, sizeof(*times));
	for (long i = 0; i < count; i++) {
		int64_t start_us = clock_monotonic_us();
		cleanup_fd int fd = pool_connect(python, &err);

		if (fd < 0)
			return fail(&err);
		times[i] = clock_monotonic_us() - start_us;
	}
	printf("first %lld\n", (long long)times[0]);
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("median %lld\n", (long long)times[count / 2]);
	return 0;
}

static int stop(const char *python)
{
	struct err err = ERR_INIT;
	unsigned stopped;

	if (pool_stop(python, &stopped, &err) < 0)
		return fail(&err);
	printf("%u\n", stopped);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	const char *name = argc > 2 ? argv[2] : NULL;
	struct err err = ERR_INIT;

	if (strcmp(verb, "resolve") == 0 && name)
		return print_path(python_resolve(name, &err), &err);
	if (strcmp(verb, "default") == 0)
		return print_path(python_default(&err), &err);
	if (strcmp(verb, "names") == 0 && name)
		return print_names(name);
	if (strcmp(verb, "environment") == 0 && name)
		return environment(name, argc > 3 ? argv[3] : NULL);
	if (strcmp(verb, "time") == 0 && argc > 3)
		return time_connects(name, argv[3]);
	if (strcmp(verb, "list") == 0)
		return print_json(pool_list(&err), &err);
	if (strcmp(verb, "stop") == 0)
		return stop(name);
	fprintf(stderr,
		"usage: pool_probe resolve|default|names|environment|time|list|stop [...]\n");
	return 2;
}
