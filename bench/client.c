/*
 * The product's side of the benchmark: sessions through libfumehood, timed where an application
 * would be.
 *
 *     bench-client PYTHON          orders on stdin, one line of answer each on stdout
 *
 * It times and counts; what is measured, how often, and beside what, bench/works.py decides. The
 * clock runs inside this process, from before the call of the library until it returns, so that the
 * pipe to the Python side is in no figure. Orders act on the session that was started last; earlier
 * ones stay open until `stop` has come for each (a hundred sessions at once are a hundred `start`).
 * CODE is its length in bytes, LF, and then the bytes.
 *
 *     start CODE         starts a session and, if CODE is not empty, runs it as the first cell
 *     spare CODE         the same, with a session that the pool keeps ready, if there is one
 *     bare CODE          the same, in tier none: without any sandbox
 *                        -> start_us both_us keeper_pid directory
 *     run N CODE         N cells, one after the other -> N lines: us bytes_of_stdout events status
 *     interrupt MS CODE  runs the cell, interrupts it MS after it began
 *                        -> us_from_interrupt_to_end status
 *     save               waits until the notebook is on the disk -> us
 *     variables N        the list of at most N variables -> us bytes_of_the_answer
 *     stop               stops the session and removes its directory -> us
 *
 * A failure is answered by `failed` and the sentence of the library, and ends the program: a
 * figure of something that went wrong is worth nothing.
 */
#include <fumehood.h>
#include <inttypes.h>
#include <stdbool.h>

enum {
	SESSIONS_MAX = 512,
	CODE_BYTES_MAX = 1 << 20,
	KEPT_BYTES_MAX = 1 << 20, /* of output; the rest is counted, as the peer counts all */
};

struct bench {
	const char *python;
	struct fh_session *sessions[SESSIONS_MAX];
	size_t count;
	char *code;
	size_t code_len;
};

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int failed(const struct fh_error *error)
{
	printf("failed %s\n", error->text);
	return -1;
}

/* Reads the bytes that follow an order. */
static int read_code(struct bench *bench, size_t len)
{
	struct fh_error error = {FH_USAGE, 0, "the code is cut off or too long"};

	if (len > CODE_BYTES_MAX || fread(bench->code, 1, len, stdin) != len)
		return failed(&error);
	bench->code_len = len;
	return 0;
}

static const char *status_name(enum fh_status status)
{
	static const char *const names[] = {"ok",      "error", "interrupted",
					    "timeout", "died",  "cancelled"};

	return names[status];
}

static struct fh_session *last_session(const struct bench *bench)
{
	return bench->sessions[bench->count - 1];
}

/* Every hello names the keeper's pid, for the measurement of memory. */
static long keeper_pid(const struct fh_session *session)
{
	const char *at = strstr(fh_hello(session), "\"pid\":");

	return at ? strtol(at + 6, NULL, 10) : 0;
}

static int order_start(struct bench *bench, bool spare, enum fh_tier tier)
{
	struct fh_error error = FH_ERROR_INIT;
	struct fh_result result = FH_RESULT_INIT;
	struct fh_start_params params;
	int64_t began = now_us();
	int64_t ready, ended;
	struct fh_session *session;

	fh_start_params_init(&params);
	params.python = bench->python;
	params.without_spare = !spare;
	params.tier = tier;
	session = fh_start(&params, &error);
	if (!session)
		return failed(&error);
	bench->sessions[bench->count++] = session;
	ready = ended = now_us();
	if (bench->code_len > 0) {
		if (fh_run(session, bench->code, bench->code_len, NULL, &result, &error) != 0)
			return failed(&error);
		ended = now_us();
		if (result.status != FH_CELL_OK)
			snprintf(error.text, sizeof(error.text), "the first cell ended as %s: %s",
				 status_name(result.status), result.evalue ? result.evalue : "");
		fh_result_release(&result);
	}
	if (error.text[0])
		return failed(&error);
	printf("%" PRId64 " %" PRId64 " %ld %s\n", ready - began, ended - began,
	       keeper_pid(session), fh_directory(session));
	return 0;
}

static void count_event(void *data, struct fh_session *session, const char *event, size_t len)
{
	(void)session;
	(void)event;
	(void)len;
	++*(size_t *)data;
}

static int order_run(struct bench *bench, long times)
{
	struct fh_run_params params;
	struct fh_error error = FH_ERROR_INIT;
	size_t events;

	fh_run_params_init(&params);
	params.output_bytes_max = KEPT_BYTES_MAX;
	params.on_event = count_event;
	params.data = &events;
	for (long i = 0; i < times; i++) {
		struct fh_result result = FH_RESULT_INIT;
		int64_t began = now_us();
		int64_t ended;

		events = 0;
		if (fh_run(last_session(bench), bench->code, bench->code_len, &params, &result,
			   &error) != 0)
			return failed(&error);
		ended = now_us();
		printf("%" PRId64 " %" PRIu64 " %zu %s\n", ended - began,
		       result.out_len + result.out_dropped, events, status_name(result.status));
		fh_result_release(&result);
	}
	return 0;
}

struct interruption {
	long delay_ms;
	int64_t began_us; /* 0: not yet interrupted */
};

/* Interrupts the cell some time after its `started`. */
static void interrupt_when_started(void *data, struct fh_session *session, const char *event,
				   size_t len)
{
	struct interruption *plan = data;
	struct timespec pause = {.tv_sec = plan->delay_ms / 1000,
				 .tv_nsec = plan->delay_ms % 1000 * 1000000};

	if (plan->began_us || !memmem(event, len, "\"type\":\"started\"", 16))
		return;
	nanosleep(&pause, NULL);
	plan->began_us = now_us();
	fh_interrupt(session, NULL, NULL);
}

static int order_interrupt(struct bench *bench, long delay_ms)
{
	struct interruption plan = {.delay_ms = delay_ms};
	struct fh_error error = FH_ERROR_INIT;
	struct fh_result result = FH_RESULT_INIT;
	struct fh_run_params params;

	fh_run_params_init(&params);
	params.on_event = interrupt_when_started;
	params.data = &plan;
	if (fh_run(last_session(bench), bench->code, bench->code_len, &params, &result, &error) !=
	    0)
		return failed(&error);
	printf("%" PRId64 " %s\n", now_us() - plan.began_us, status_name(result.status));
	fh_result_release(&result);
	return 0;
}

/* Prints how long an answer of the library took, and its length, and frees it. */
static int told(int64_t began, char *answer, const struct fh_error *error)
{
	if (!answer)
		return failed(error);
	printf("%" PRId64 " %zu\n", now_us() - began, strlen(answer));
	fh_free(answer);
	return 0;
}

static int order_save(struct bench *bench)
{
	struct fh_error error = FH_ERROR_INIT;
	int64_t began = now_us();

	return told(began, fh_save(last_session(bench), &error), &error);
}

static int order_variables(struct bench *bench, size_t most)
{
	struct fh_error error = FH_ERROR_INIT;
	int64_t began = now_us();

	return told(began, fh_variables(last_session(bench), NULL, most, &error), &error);
}

static int order_stop(struct bench *bench)
{
	struct fh_session *session = bench->sessions[--bench->count];
	struct fh_error error = FH_ERROR_INIT;
	int64_t began = now_us();
	char id[64];

	snprintf(id, sizeof(id), "%s", fh_id(session));
	if (fh_stop(session, false, &error) != 0) {
		fh_close(session);
		return failed(&error);
	}
	fh_close(session);
	printf("%" PRId64 "\n", now_us() - began);
	fh_remove(id, NULL);
	return 0;
}

/* One order and its answer; -1 ends the program. */
static int obey(struct bench *bench, const char *line)
{
	struct fh_error unknown = {FH_USAGE, 0, "no such order, or no session to do it with"};
	long number;
	size_t len;

	if (sscanf(line, "start %zu", &len) == 1 && bench->count < SESSIONS_MAX)
		return read_code(bench, len) == 0 ? order_start(bench, false, FH_TIER_SANDBOX) : -1;
	if (sscanf(line, "spare %zu", &len) == 1 && bench->count < SESSIONS_MAX)
		return read_code(bench, len) == 0 ? order_start(bench, true, FH_TIER_SANDBOX) : -1;
	if (sscanf(line, "bare %zu", &len) == 1 && bench->count < SESSIONS_MAX)
		return read_code(bench, len) == 0 ? order_start(bench, false, FH_TIER_NONE) : -1;
	if (bench->count > 0 && sscanf(line, "run %ld %zu", &number, &len) == 2)
		return read_code(bench, len) == 0 ? order_run(bench, number) : -1;
	if (bench->count > 0 && sscanf(line, "interrupt %ld %zu", &number, &len) == 2)
		return read_code(bench, len) == 0 ? order_interrupt(bench, number) : -1;
	if (bench->count > 0 && strcmp(line, "save\n") == 0)
		return order_save(bench);
	if (bench->count > 0 && sscanf(line, "variables %zu", &len) == 1)
		return order_variables(bench, len);
	if (bench->count > 0 && strcmp(line, "stop\n") == 0)
		return order_stop(bench);
	return failed(&unknown);
}

int main(int argc, char **argv)
{
	struct bench bench = {.count = 0};
	char line[128];
	int status = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: bench-client PYTHON\nStarted by bench/run.\n");
		return 2;
	}
	bench.python = argv[1];
	bench.code = malloc(CODE_BYTES_MAX);
	while (bench.code && status == 0 && fgets(line, sizeof(line), stdin)) {
		status = obey(&bench, line);
		fflush(stdout);
	}
	while (bench.count > 0)
		fh_close(bench.sessions[--bench.count]); /* the sessions end with their client */
	free(bench.code);
	return status ? 1 : 0;
}
