/*
 * The keeper's side: the fork, and one function for each order; see spawner.h.
 *
 * An order is answered at once or, where a pool must be started or a box ends, after what that
 * takes; the keeper waits, as it did when it still did these things itself.
 */
#include "keeper/spawner.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "keeper/session.h"
#include "keeper/spare.h"
#include "keeper/spawner_protocol.h"
#include "sandbox/box_elsewhere.h"

/* More than starting a pool, or ending a box, may take. */
enum { ANSWER_MS_MAX = 45 * 1000, KEPT_MAX = 8 };

struct spawner {
	pid_t pid;
	int socket;      /* -1: it is gone */
	struct box *box; /* of the last build; borrowed */
	uv_poll_t *poll;
	void (*gone)(void *data);
	void *data;
};

/* --- the fork ----------------------------------------------------------------------------------
 */

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes all but the first three and these (-1: none): the client's connection and the lock of a
 * spare are the keeper's. */
static void close_others(int *kept, size_t count)
{
	unsigned next = STDERR_FILENO + 1;

	qsort(kept, count, sizeof(*kept), compare_fds);
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < (int)next)
			continue;
		if (kept[i] > (int)next)
			(void)close_range(next, (unsigned)kept[i] - 1, 0);
		next = (unsigned)kept[i] + 1;
	}
	(void)close_range(next, ~0U, 0);
}

static void __attribute__((noreturn))
become_spawner(int socket, const struct session *session, char *title, size_t title_len)
{
	static const char name[] = "fumehood-spawner";
	static struct session own;
	int kept[] = {socket, session->dirfd,
		      session->spare ? spare_sessions_fd(session->spare) : -1};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	close_others(kept, sizeof(kept) / sizeof(*kept));
	memset(title, 0, title_len);
	memcpy(title, name, title_len < sizeof(name) ? title_len - 1 : sizeof(name));
	prctl(PR_SET_NAME, name, 0, 0, 0);
	own.dirfd = session->dirfd;
	own.config = session->config;
	own.spare = session->spare;
	own.family = own.pool_fd = -1;
	spawner_serve(socket, &own);
	_exit(0);
}

struct spawner *spawner_new(const struct session *session, char *title, size_t title_len,
			    struct err *err)
{
	struct spawner *spawner;
	int pair[2];
	pid_t pid;

	if (socket_pair(SOCK_SEQPACKET, pair, err) != 0)
		return NULL;
	pid = fork();
	if (pid == 0)
		become_spawner(pair[1], session, title, title_len);
	close(pair[1]);
	if (pid < 0) {
		err_sys(err, "a spawner cannot be started");
		close(pair[0]);
		return NULL;
	}
	spawner = mem_zalloc(sizeof(*spawner));
	spawner->pid = pid;
	spawner->socket = pair[0];
	return spawner;
}

/* --- its end ------------------------------------------------------------------------------------
 */

static void handle_closed(uv_handle_t *handle)
{
	free(handle);
}

static void let_go(struct spawner *spawner)
{
	if (spawner->poll)
		uv_close((uv_handle_t *)spawner->poll, handle_closed);
	spawner->poll = NULL;
	if (spawner->socket >= 0)
		close(spawner->socket);
	spawner->socket = -1;
}

/* Between orders it says nothing: this is its end of file, or it is out of step, which is as bad.
 */
static void socket_ready(uv_poll_t *poll, int status, int events)
{
	struct spawner *spawner = poll->data;

	(void)status;
	(void)events;
	let_go(spawner);
	spawner->gone(spawner->data);
}

void spawner_watch(struct spawner *spawner, uv_loop_t *loop, void (*gone)(void *data), void *data)
{
	int failed;

	spawner->gone = gone;
	spawner->data = data;
	spawner->poll = mem_zalloc(sizeof(*spawner->poll));
	failed = uv_poll_init(loop, spawner->poll, spawner->socket);
	assert(!failed); /* a socket can be polled */
	spawner->poll->data = spawner;
	failed = uv_poll_start(spawner->poll, UV_READABLE, socket_ready);
	assert(!failed);
	(void)failed;
	/* The loop does not live for its sake. */
	uv_unref((uv_handle_t *)spawner->poll);
}

void spawner_free(struct spawner *spawner)
{
	if (!spawner)
		return;
	let_go(spawner);
	while (waitpid(spawner->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(spawner);
}

pid_t spawner_pid(const struct spawner *spawner)
{
	return spawner->pid;
}

/* --- orders -------------------------------------------------------------------------------------
 */

static int gone(struct err *err)
{
	return err_set(err, ERR_GONE,
		       "the process that builds boxes for this session (fumehood-spawner) has "
		       "ended; start the session again");
}

/* Waits for the answer. -1: there will be none. */
static int await_answer(const struct spawner *spawner)
{
	struct pollfd answer = {.fd = spawner->socket, .events = POLLIN};
	int64_t until_us = clock_monotonic_us() + ANSWER_MS_MAX * INT64_C(1000);
	int ready;

	do {
		int64_t left_us = until_us - clock_monotonic_us();

		ready = poll(&answer, 1, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
	} while (ready < 0 && errno == EINTR);
	return ready > 0 ? 0 : -1;
}

/* Gives an order with one descriptor (-1: none), takes its answer with up to *count of them. */
static int call(struct spawner *spawner, const struct spawner_order *order, int fd,
		struct spawner_answer *answer, int *fds, size_t *count, struct err *err)
{
	ssize_t got = -1;

	if (spawner->socket < 0)
		return gone(err);
	if (socket_send(spawner->socket, order, sizeof(*order), &fd, fd >= 0) == 0 &&
	    await_answer(spawner) == 0)
		got = socket_receive(spawner->socket, answer, sizeof(*answer), fds, count, NULL, 0);
	if (got != (ssize_t)sizeof(*answer)) {
		/* Its watcher ends the session. One that hangs does no more for us. */
		shutdown(spawner->socket, SHUT_RDWR);
		return gone(err);
	}
	if (answer->err.code == ERR_OK)
		return 0;
	if (err)
		*err = answer->err;
	return -1;
}

/* One that is answered without descriptors. */
static int call_simple(struct spawner *spawner, const struct spawner_order *order, int fd,
		       struct spawner_answer *answer, struct err *err)
{
	size_t none = 0;

	return call(spawner, order, fd, answer, NULL, &none, err);
}

/* One that is answered by a descriptor. *fd is -1 when there is none. */
static int call_for_fd(struct spawner *spawner, const struct spawner_order *order, int sent,
		       struct spawner_answer *answer, int *fd, struct err *err)
{
	size_t count = 1;
	int status;

	*fd = -1;
	status = call(spawner, order, sent, answer, fd, &count, err);
	if (count == 0)
		*fd = -1;
	return status;
}

void spawner_prepare(struct spawner *spawner)
{
	struct spawner_order order = {.op = SPAWNER_PREPARE};

	(void)socket_send(spawner->socket, &order, sizeof(order), NULL, 0);
}

int spawner_pool(struct spawner *spawner, bool join, struct err *err)
{
	struct spawner_order order = {.op = SPAWNER_POOL, .join = join};
	struct spawner_answer answer;
	int fd;

	if (call_for_fd(spawner, &order, -1, &answer, &fd, err) != 0)
		return -1;
	return fd >= 0 ? fd : gone(err);
}

void spawner_release(struct spawner *spawner, bool unborn)
{
	struct spawner_order order = {.op = SPAWNER_RELEASE, .unborn = unborn};
	struct spawner_answer answer;

	(void)call_simple(spawner, &order, -1, &answer, NULL);
}

static struct spawner_order branch_order(uint32_t op, const char *id, const char *name)
{
	struct spawner_order order = {.op = op};

	snprintf(order.id, sizeof(order.id), "%s", id);
	snprintf(order.name, sizeof(order.name), "%s", name ? name : "");
	return order;
}

int spawner_branch(struct spawner *spawner, const char *id, const char *name, struct err *err)
{
	struct spawner_order order = branch_order(SPAWNER_BRANCH, id, name);
	struct spawner_answer answer;
	int fd;

	if (call_for_fd(spawner, &order, -1, &answer, &fd, err) != 0)
		return -1;
	return fd >= 0 ? fd : gone(err);
}

void spawner_part(struct spawner *spawner, const char *id, const char *name, bool unborn)
{
	struct spawner_order order = branch_order(SPAWNER_PART, id, name);
	struct spawner_answer answer;

	order.unborn = unborn;
	(void)call_simple(spawner, &order, -1, &answer, NULL);
}

/* --- the box ------------------------------------------------------------------------------------
 */

static const char *const HOW[] = {[SPAWNER_NOBODY] = NULL,
				  [SPAWNER_CGROUP_V1] = "hard: cgroup v1",
				  [SPAWNER_CGROUP_V2] = "hard: cgroup v2"};

static void take_how(const struct spawner_answer *answer, const char *how[BOX_LIMITS])
{
	for (size_t i = 0; i < BOX_LIMITS; i++)
		how[i] = answer->how[i] < sizeof(HOW) / sizeof(*HOW) ? HOW[answer->how[i]] : NULL;
}

static struct spawner_limits limits_of(const struct policy *policy)
{
	return (struct spawner_limits){.processes = policy->processes_max,
				       .files = policy->files_max,
				       .file_bytes = policy->file_bytes_max,
				       .tmp_bytes = policy->tmp_bytes_max,
				       .memory_bytes = policy->memory_bytes_max,
				       .disk_bytes = policy->disk_bytes_max,
				       .disk_inodes = policy->disk_inodes_max,
				       .cpus = policy->cpus,
				       .cpu_s = policy->cpu_s_max};
}

static int meet(void *data, int pidfd, struct box_guest *guest, struct err *err)
{
	struct spawner *spawner = data;
	struct spawner_order order = {.op = SPAWNER_MEET};
	struct spawner_answer answer;
	const char *how[BOX_LIMITS];
	int status;

	if (call_for_fd(spawner, &order, pidfd, &answer, &status, err) != 0)
		return -1;
	*guest = answer.guest;
	guest->status = status;
	take_how(&answer, how);
	box_take_how(spawner->box, how);
	return 0;
}

static void read_usage(void *data, struct box_usage *usage)
{
	struct spawner_order order = {.op = SPAWNER_USAGE};
	struct spawner_answer answer;

	if (call_simple(data, &order, -1, &answer, NULL) == 0)
		*usage = answer.usage;
}

static int change_limits(void *data, const struct policy *policy, struct err *err)
{
	struct spawner_order order = {.op = SPAWNER_LIMITS, .limits = limits_of(policy)};
	struct spawner_answer answer;

	return call_simple(data, &order, -1, &answer, err);
}

static void end_box(void *data)
{
	struct spawner *spawner = data;
	struct spawner_order order = {.op = SPAWNER_END};
	struct spawner_answer answer;

	spawner->box = NULL;
	(void)call_simple(spawner, &order, -1, &answer, NULL);
}

static const struct box_elsewhere ELSEWHERE = {
	.meet = meet, .read_usage = read_usage, .change_limits = change_limits, .end = end_box};

static struct box *take_box(struct spawner *spawner, const struct spawner_answer *answer,
			    const int fds[static SPAWNER_BOX_FDS])
{
	const struct spawner_built *built = &answer->built;
	struct box_parts parts = {.tier = (enum tier)built->tier,
				  .uid = built->uid,
				  .box_uid = built->box_uid,
				  .layers = built->layers,
				  .memory_bytes_max = built->memory_bytes_max,
				  .init_pid = built->init_pid,
				  .socket = fds[SPAWNER_FD_SOCKET],
				  .pidfd = fds[SPAWNER_FD_PIDFD],
				  .overlay = built->overlay ? fds[SPAWNER_FD_OVERLAY] : -1,
				  .workspace = built->workspace,
				  .elsewhere = &ELSEWHERE,
				  .data = spawner};

	if (!built->overlay)
		close(fds[SPAWNER_FD_OVERLAY]);
	take_how(answer, parts.how);
	spawner->box = box_take_parts(&parts);
	return spawner->box;
}

struct box *spawner_build(struct spawner *spawner, struct session *session, struct err *err)
{
	struct spawner_order order = {.op = SPAWNER_BUILD,
				      .packages = session->packages != NULL,
				      .limits = limits_of(&session->policy)};
	struct spawner_answer answer;
	int fds[SPAWNER_BOX_FDS];
	size_t count = SPAWNER_BOX_FDS;

	free(session->tier_reason);
	session->tier_reason = NULL;
	if (call(spawner, &order, -1, &answer, fds, &count, err) != 0)
		return NULL;
	if (count != SPAWNER_BOX_FDS) {
		for (size_t i = 0; i < count; i++)
			close(fds[i]);
		gone(err);
		return NULL;
	}
	if (answer.built.degraded_for)
		session->tier_reason = mem_string(answer.built.reason);
	return take_box(spawner, &answer, fds);
}

/* --- the network --------------------------------------------------------------------------------
 */

int spawner_listen(struct spawner *spawner, uint16_t *port, struct err *err)
{
	struct spawner_order order = {.op = SPAWNER_LISTEN, .port = *port};
	struct spawner_answer answer;
	int fd;

	if (call_for_fd(spawner, &order, -1, &answer, &fd, err) != 0)
		return -1;
	*port = answer.port;
	return fd >= 0 ? fd : gone(err);
}

int spawner_rules(struct spawner *spawner, const struct hosts *hosts, struct err *err)
{
	struct spawner_order order = {.op = SPAWNER_RULES};
	struct spawner_answer answer;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_fd int fd = memfd_create("rules", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(err, "rules for the network");
	for (size_t i = 0; i < hosts->count; i++) {
		hosts_write_rule(&hosts->rules[i], &text);
		buf_append(&text, "", 1);
	}
	if (file_write_all(fd, buf_bytes(&text), text.len, err) != 0)
		return -1;
	return call_simple(spawner, &order, fd, &answer, err);
}

static enum refusal refusal_of(const struct spawner_answer *answer)
{
	return answer->refusal < REFUSAL_COUNT ? (enum refusal)answer->refusal
					       : REFUSAL_UNREACHABLE;
}

static void put_address(struct spawner_order *order, const struct hosts_target *target,
			const struct sockaddr *address)
{
	size_t size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						    : sizeof(struct sockaddr_in6);

	order->target = *target;
	memcpy(&order->address, address, size);
}

static enum refusal dialer_check(void *data, const struct hosts_target *target,
				 const struct sockaddr *address)
{
	struct spawner_order order = {.op = SPAWNER_CHECK};
	struct spawner_answer answer;

	put_address(&order, target, address);
	if (call_simple(data, &order, -1, &answer, NULL) != 0)
		return REFUSAL_UNREACHABLE;
	return refusal_of(&answer);
}

static enum refusal dialer_dial(void *data, const struct hosts_target *target,
				const struct sockaddr *address, int *fd)
{
	struct spawner_order order = {.op = SPAWNER_DIAL};
	struct spawner_answer answer;

	put_address(&order, target, address);
	if (call_for_fd(data, &order, -1, &answer, fd, NULL) != 0 ||
	    (refusal_of(&answer) == REFUSAL_NONE && *fd < 0))
		return REFUSAL_UNREACHABLE;
	return refusal_of(&answer);
}

static int dialer_look_up(void *data, const struct hosts_target *target)
{
	struct spawner_order order = {.op = SPAWNER_LOOKUP, .target = *target};
	struct spawner_answer answer;
	int fd;

	if (call_for_fd(data, &order, -1, &answer, &fd, NULL) != 0)
		return -1;
	return fd;
}

static size_t dialer_read(int fd, struct sockaddr_storage *addresses, size_t max)
{
	struct spawner_found found;
	ssize_t got = recv(fd, &found, sizeof(found), MSG_DONTWAIT);
	size_t count = got == (ssize_t)sizeof(found) ? found.count : 0;

	if (count > SPAWNER_ADDRESSES_MAX)
		return 0;
	if (count > max)
		count = max;
	memcpy(addresses, found.addresses, count * sizeof(*addresses));
	return count;
}

const struct proxy_dialer SPAWNER_DIALER = {.check = dialer_check,
					    .dial = dialer_dial,
					    .look_up = dialer_look_up,
					    .read_found = dialer_read};
