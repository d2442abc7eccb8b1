/*
 * Getting a guest: warm, from the zygote, or cold, started by the box's init.
 *
 * The guest's end of every descriptor exists only in the guest: ours are closed right after the
 * hand-over, so that an end of file means what it says. The pid comes from the pidfd that the guest
 * sends (box_meet()), never from its words.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/socket.h"
#include "engine/python/enter.h"
#include "engine/python/internal.h"

enum { START_TIMEOUT_WARM_MS = 20 * 1000, START_TIMEOUT_COLD_MS = 120 * 1000 };
enum { WAKE_TIMEOUT_MS = 10 * 1000 };
enum { PIPE_BYTES = 256 << 10, START_TRIES_MAX = 3 };

/* The descriptors of a guest while they are still ours. */
struct guest_ends {
	int control, out, err;
};

static void guest_ends_release(struct guest_ends *ends)
{
	if (ends->control >= 0)
		close(ends->control);
	if (ends->out >= 0)
		close(ends->out);
	if (ends->err >= 0)
		close(ends->err);
}

static int pipe_open(struct python_pipe *ours, int *theirs, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_sys(err, "pipe");
	ours->fd = ends[0];
	ours->decoder = (struct text_decoder)TEXT_DECODER_INIT;
	*theirs = ends[1];
	/* Per-user limit: with hundreds of sessions the default size has to do. */
	(void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		return err_sys(err, "pipe");
	return 0;
}

static int descriptors_open(struct python *python, struct guest_ends *ends, struct err *err)
{
	int pair[2];

	if (pipe_open(&python->pipes[0], &ends->out, err) != 0 ||
	    pipe_open(&python->pipes[1], &ends->err, err) != 0)
		return -1;
	if (socket_pair(SOCK_SEQPACKET, pair, err) != 0)
		return -1;
	python->control = pair[0];
	ends->control = pair[1];
	if (fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0)
		return err_sys(err, "socketpair");
	return 0;
}

static int enter_send(struct python *python, const struct guest_ends *ends, struct err *err)
{
	const struct policy *policy = python->params.policy;
	struct zygote_enter enter = {
		.header = {.type = ZYGOTE_ENTER},
		.processes_max = policy->processes_max,
		.files_max = policy->files_max,
		.file_bytes_max = policy->file_bytes_max,
	};
	int fds[ZYGOTE_FDS] = {
		[ZYGOTE_FD_CONTROL] = ends->control,
		[ZYGOTE_FD_STDOUT] = ends->out,
		[ZYGOTE_FD_STDERR] = ends->err,
		[ZYGOTE_FD_WORD] = python->word_fd,
	};

	/* Whoever has built the box adds what is the box's to the order. */
	if (!box_namespaces(python->params.box)) {
		if (socket_send(python->params.pool_fd, &enter, sizeof(enter), fds,
				ZYGOTE_FD_NAMESPACE) != 0)
			return err_sys(err, "asking the pool for a guest");
		return 0;
	}
	enter_add_box(python->params.box, &enter, fds);
	box_give(python->params.box, ends->out);
	box_give(python->params.box, ends->err);
	if (socket_send(python->params.pool_fd, &enter, sizeof(enter), fds, ZYGOTE_FDS) != 0)
		return err_sys(err, "asking the pool for a guest");
	return 0;
}

static int start_warm(struct python *python, const struct guest_ends *ends, struct err *err)
{
	if (enter_send(python, ends, err) != 0)
		return -1;
	if (!python->watchers[WATCH_POOL])
		return python_watch(python, WATCH_POOL, python->params.pool_fd, err);
	return 0;
}

static int start_cold(struct python *python, const struct guest_ends *ends, struct err *err)
{
	const char *argv[] = {python->params.python,      "-I", "-X", "utf8", "-u",
			      python->params.cold_script, NULL};
	const char *tmp = python->params.policy->tmp;
	cleanup_free char *tmp_variable = mem_format("TMPDIR=%s", tmp ? tmp : "/tmp");
	const char *const envp[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"OPENBLAS_NUM_THREADS=1",
		"OMP_NUM_THREADS=1",
		tmp_variable,
		NULL,
	};
	int fds[] = {-1, ends->out, ends->err, ends->control, python->word_fd};
	pid_t pid;

	return box_exec(python->params.box, argv, envp, fds, sizeof(fds) / sizeof(*fds), &pid, err);
}

/* Gives the order to whoever starts guests here. */
static int order_guest(struct python *python, struct err *err)
{
	struct guest_ends ends = {.control = -1, .out = -1, .err = -1};
	bool warm = python->params.pool_want != NULL;
	int status = -1;

	if (descriptors_open(python, &ends, err) == 0)
		status = warm ? start_warm(python, &ends, err) : start_cold(python, &ends, err);
	guest_ends_release(&ends);
	if (status == 0)
		status = python_watch(python, WATCH_CONTROL, python->control, err);
	if (status != 0) {
		python_close_guest(python);
		return -1;
	}
	python_arm_timer(python, warm ? START_TIMEOUT_WARM_MS : START_TIMEOUT_COLD_MS);
	return 0;
}

/* A pool that has died meanwhile is replaced once; the waiting for it is the session's. */
static int start(struct python *python, struct err *err)
{
	bool warm = python->params.pool_want != NULL;

	python->tries++;
	python->state = PYTHON_STARTING;
	if (!warm || python->params.pool_fd >= 0) {
		if (order_guest(python, warm ? NULL : err) == 0)
			return 0;
		if (!warm) {
			python->state = PYTHON_OFF;
			return -1;
		}
		python_close_pool(python);
	}
	uv_timer_stop(python->timer);
	python->wants_pool = true;
	if (python->params.pool_want(python->params.data, err) == 0)
		return 0;
	python->wants_pool = false;
	python->state = PYTHON_OFF;
	return -1;
}

bool python_wants_pool(const struct engine *engine)
{
	return ((const struct python *)engine)->wants_pool;
}

void python_pool_given(struct engine *engine, int pool_fd, const struct err *err)
{
	struct python *python = (struct python *)engine;
	bool wanted = python->wants_pool;
	struct err why = ERR_INIT;

	python->wants_pool = false;
	if (pool_fd >= 0 && python->params.pool_fd >= 0)
		close(pool_fd);
	else if (pool_fd >= 0)
		python->params.pool_fd = pool_fd;
	if (!wanted) /* killed while it waited: the next start has it */
		return;
	if (pool_fd < 0)
		python_start_failed(python, err);
	else if (order_guest(python, &why) != 0)
		python_start_failed(python, &why);
}

void python_start_again(struct python *python, const struct err *err)
{
	struct err why = *err;

	if (!python->params.pool_want || python->tries >= START_TRIES_MAX || python->kill_asked) {
		python_start_failed(python, err);
		return;
	}
	python_clear_box(python);
	python_close_guest(python);
	python_close_pool(python);
	python->state = PYTHON_OFF;
	if (start(python, &why) != 0)
		python_start_failed(python, &why);
}

int python_wake(struct engine *engine, uint32_t number, struct err *err)
{
	struct python *python = (struct python *)engine;
	struct sleeper *sleeper = guests_find(python->params.guests, number);
	struct guest_ends ends = {.control = -1, .out = -1, .err = -1};
	int status = -1;

	if (python->state != PYTHON_OFF)
		return err_set(err, ERR_BUSY, "the interpreter is running already");
	if (!sleeper)
		return err_set(err, ERR_NOT_FOUND, "the copy has ended");
	python->kill_asked = false;
	*python->word = 0;
	if (descriptors_open(python, &ends, err) == 0) {
		const int fds[GUEST_WAKE_FDS] = {
			[GUEST_WAKE_CONTROL] = ends.control,
			[GUEST_WAKE_STDOUT] = ends.out,
			[GUEST_WAKE_STDERR] = ends.err,
			[GUEST_WAKE_WORD] = python->word_fd,
		};

		box_give(python->params.box, ends.out);
		box_give(python->params.box, ends.err);
		status = sleeper_wake(sleeper, python, fds, err);
	}
	guest_ends_release(&ends);
	if (status == 0)
		status = python_watch(python, WATCH_CONTROL, python->control, err);
	if (status != 0) {
		python_close_guest(python);
		return -1;
	}
	python->waking = number;
	python->state = PYTHON_STARTING;
	python_arm_timer(python, WAKE_TIMEOUT_MS);
	return 0;
}

int python_start(struct engine *engine, struct err *err)
{
	struct python *python = (struct python *)engine;

	if (python->state != PYTHON_OFF)
		return err_set(err, ERR_BUSY, "the interpreter is running already");
	python->kill_asked = false;
	python->tries = 0;
	python->cell = 0;
	*python->word = 0;
	return start(python, err);
}

/* Takes what the hello brought: the pidfd, and the words in *json. */
static int hello_take(struct python *python, struct json **json, struct err *err)
{
	struct channel_message *message = &python->message;
	struct box_guest guest;

	*json = json_parse(message->body, message->body_len, &JSON_LIMITS, err);
	if (!*json)
		return err_wrap(err, "the guest's hello");
	if (json_get_int(*json, "protocol", 0) != GUEST_PROTOCOL)
		return err_set(err, ERR_ENGINE,
			       "the guest speaks another protocol; stop the pool "
			       "(fumehood pool stop) and try again");
	if (message->fd < 0)
		return err_set(err, ERR_ENGINE, "the guest sent no pidfd");
	if (box_meet(python->params.box, message->fd, &guest, err) != 0)
		return -1;
	python->pidfd = fd_take(&message->fd);
	python->pid = guest.pid;
	python->host_pid = guest.host_pid;
	python->status_fd = guest.status;
	if (clock_getcpuclockid(python->host_pid, &python->clock) != 0)
		return err_set(err, ERR_ENGINE, "the guest ended while it started");
	return 0;
}

void python_hello(struct python *python)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *hello = NULL;

	if (hello_take(python, &hello, &err) != 0 ||
	    (python->params.brand &&
	     box_brand(python->params.box, python->pid, python->params.brand, &err) != 0) ||
	    python_watch(python, WATCH_PIDFD, python->pidfd, &err) != 0 ||
	    python_watch(python, WATCH_OUT, python->pipes[0].fd, &err) != 0 ||
	    python_watch(python, WATCH_ERR, python->pipes[1].fd, &err) != 0 ||
	    (!python->sealed && box_seal(python->params.box, &err) != 0)) {
		python_start_failed(python, &err);
		return;
	}
	python->sealed = true;
	uv_timer_stop(python->timer);
	python->state = PYTHON_IDLE;
	python->waking = 0;
	python->rss_peak = 0;
	python->engine.events->ready(python->engine.data, hello);
}

enum refusal { REFUSED, REFUSED_NOW, REFUSED_STRANGER };

/*
 * ZYGOTE_REFUSED or ZYGOTE_FAILED in the zygote's own words. REFUSED_NOW when the zygote died over
 * the request (errno EAGAIN): asking again, with new descriptors, can help. REFUSED_STRANGER: it is
 * another one than the box was made for, since the first has died; only another box helps.
 */
static enum refusal refusal_read(struct err *err, const char *body, size_t len)
{
	cleanup_json struct json *json = json_parse(body, len, &JSON_LIMITS, NULL);
	const char *message = json_get_string(json, "message");
	const char *step = json_get_string(json, "step");
	int64_t sys = json_get_int(json, "errno", 0);

	err_set(err, ERR_ENGINE, "no interpreter could be started: %s",
		message ? message : "no reason was given");
	if (sys == EPERM && step && strcmp(step, "setns user") == 0)
		return REFUSED_STRANGER;
	return sys == EAGAIN ? REFUSED_NOW : REFUSED;
}

void python_pool_ready(struct python *python)
{
	struct err err = ERR_INIT;
	enum channel_outcome outcome = channel_receive(python->params.pool_fd, &python->message);

	if (outcome == CHANNEL_EMPTY)
		return;
	if (outcome == CHANNEL_END) { /* guests outlive their pool; the next start connects anew */
		python_close_pool(python);
		if (python->state != PYTHON_STARTING)
			return;
		err_set(&err, ERR_ENGINE,
			"the pool ended while it was asked for a guest; try again");
		python_start_again(python, &err);
		return;
	}
	if (outcome != CHANNEL_MESSAGE || python->state != PYTHON_STARTING)
		return;
	if (python->message.header.type != ZYGOTE_REFUSED &&
	    python->message.header.type != ZYGOTE_FAILED)
		return;
	switch (refusal_read(&err, python->message.body, python->message.body_len)) {
	case REFUSED_STRANGER:
		python_close_pool(python); /* by the new connection comes what a new box needs */
		python_start_again(python, &err);
		break;
	case REFUSED_NOW:
		python_start_again(python, &err);
		break;
	case REFUSED:
		python_start_failed(python, &err);
		break;
	}
}
