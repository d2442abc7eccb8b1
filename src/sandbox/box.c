/*
 * The keeper's side: start, orders, reports.
 *
 * An order is answered by one INIT_DONE; what comes before it are reports of deaths, which are kept
 * in `exits` until box_next_exit() asks. Waiting is bounded: an init that does not answer is as
 * good as dead.
 *
 * The namespace descriptors are opened through /proc/PID/ns while the child builds its root: its
 * pid cannot be recycled before we reap it.
 */
#include "sandbox/box.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "sandbox/box_private.h"
#include "sandbox/init.h"
#include "sandbox/plan.h"
#include "sandbox/report.h"
#include "sandbox/spawn.h"

/* More than the init's own bound on killing. */
enum { ANSWER_MS_MAX = INIT_KILL_MS_MAX + 3000 };

struct exit_report {
	pid_t pid;
	int status;
};

struct box {
	enum tier tier;
	uid_t uid;
	struct spawned init;
	int namespaces[BOX_NAMESPACES];
	char *workspace;
	struct buf exits; /* of struct exit_report */
};

static_assert((int)BOX_NAMESPACES == (int)PLAN_NAMESPACES, "one descriptor for each namespace");

static int open_namespaces(struct box *box, struct err *err)
{
	for (size_t i = 0; i < BOX_NAMESPACES; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)box->init.pid,
			 PLAN_NAMESPACE[i].name);
		box->namespaces[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (box->namespaces[i] < 0)
			return err_sys(err, "sandbox: %s", path);
	}
	return 0;
}

static void add_limit(struct init_setup *setup, int resource, uint64_t value)
{
	assert(setup->limit_count < INIT_LIMITS_MAX);
	setup->limits[setup->limit_count].resource = resource;
	setup->limits[setup->limit_count].value = (rlim_t)value;
	setup->limit_count++;
}

static void prepare_init(struct init_setup *setup, const struct policy *policy,
			 const struct box *box)
{
	*setup = (struct init_setup){.directory = box->workspace, .boxed = box->tier != TIER_NONE};
	/* A core file would hold everything the session knows. */
	add_limit(setup, RLIMIT_CORE, 0);
	if (policy->processes_max)
		add_limit(setup, RLIMIT_NPROC, policy->processes_max);
	if (policy->files_max)
		add_limit(setup, RLIMIT_NOFILE, policy->files_max);
	if (policy->file_bytes_max)
		add_limit(setup, RLIMIT_FSIZE, policy->file_bytes_max);
}

/* Waits until the init is ready; opens the namespaces meanwhile. */
static int await_ready(struct box *box, const struct plan *plan, struct err *err)
{
	struct err names_err = ERR_INIT;
	struct init_report report;
	int names = plan->namespaces ? open_namespaces(box, &names_err) : 0;

	if (spawn_wait(&box->init, &report) < 0)
		return err_set(err, ERR_SANDBOX, "sandbox: the box did not come up: %s",
			       strerror(errno));
	if (report.type != INIT_READY)
		return report_failure(plan, report.count, report.sys, err);
	if (names < 0) {
		if (err)
			*err = names_err;
		return -1;
	}
	return 0;
}

static int start(struct box *box, const struct plan *plan, const struct policy *policy,
		 struct err *err)
{
	struct init_setup setup;

	box->workspace = mem_string(box->tier == TIER_NONE ? plan->workspace : "/workspace");
	prepare_init(&setup, policy, box);
	if (spawn_plan(plan, &setup, &box->init) < 0)
		return report_refusal(plan->namespaces, errno, err);
	return await_ready(box, plan, err);
}

struct box *box_start_on(const struct host *host, const struct policy *policy, enum tier tier,
			 struct err *err)
{
	struct plan plan = PLAN_INIT;
	struct box *box;

	if (tier != TIER_NONE && tier != TIER_PARTIAL) {
		err_set(err, ERR_UNSUPPORTED,
			"sandbox: tier %s is not in this version; use partial", tier_name(tier));
		return NULL;
	}
	if (tier < policy->floor) {
		err_set(err, ERR_SANDBOX, "sandbox: tier %s is below the policy's floor, %s",
			tier_name(tier), tier_name(policy->floor));
		return NULL;
	}
	box = mem_zalloc(sizeof(*box));
	box->tier = tier;
	box->uid = host->uid;
	box->init = (struct spawned)SPAWNED_INIT;
	for (size_t i = 0; i < BOX_NAMESPACES; i++)
		box->namespaces[i] = -1;
	if (plan_compile(&plan, policy, tier, host, err) < 0 ||
	    start(box, &plan, policy, err) < 0) {
		box_free(box);
		box = NULL;
	}
	plan_release(&plan);
	return box;
}

struct box *box_start(const struct policy *policy, enum tier tier, struct err *err)
{
	struct host host;

	host_look(&host);
	return box_start_on(&host, policy, tier, err);
}

/* --- orders --- */

static int gone(struct err *err)
{
	return err_set(err, ERR_GONE, "sandbox: the init of the box is gone");
}

/* Takes one report off the socket: 1 and *report, 0 when there is none within `timeout_ms`, -1 when
 * the init is gone. */
static int take_report(const struct box *box, int timeout_ms, struct init_report *report)
{
	struct pollfd fd = {.fd = box->init.socket, .events = POLLIN};
	int ready = poll(&fd, 1, timeout_ms);

	if (ready < 0)
		return errno == EINTR ? 0 : -1;
	if (ready == 0)
		return 0;
	return recv(box->init.socket, report, sizeof(*report), MSG_DONTWAIT) ==
			       (ssize_t)sizeof(*report)
		       ? 1
		       : -1;
}

static void keep_exit(struct box *box, const struct init_report *report)
{
	struct exit_report entry = {.pid = report->pid, .status = report->status};

	buf_append(&box->exits, &entry, sizeof(entry));
}

/* Sends the order and waits for its INIT_DONE. */
static int give_order(struct box *box, const struct init_order *order, const int *fds,
		      size_t fd_count, struct init_report *done, struct err *err)
{
	int64_t end = clock_monotonic_us() + ANSWER_MS_MAX * INT64_C(1000);

	if (socket_send(box->init.socket, order, sizeof(*order), fds, fd_count) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return gone(err);
		return err_sys(err, "sandbox: order to the init");
	}
	for (;;) {
		int64_t left_us = end - clock_monotonic_us();
		int got = left_us < 0 ? 0 : take_report(box, (int)(left_us / 1000) + 1, done);

		if (got < 0)
			return gone(err);
		if (left_us < 0)
			return err_set(err, ERR_TIMEOUT,
				       "sandbox: the init of the box does not answer");
		if (got > 0 && done->type == INIT_DONE)
			return 0;
		if (got > 0)
			keep_exit(box, done);
	}
}

/* As give_order, and the answer must be success. */
static int give_simple_order(struct box *box, const struct init_order *order, const char *what,
			     struct err *err)
{
	struct init_report done;

	if (give_order(box, order, NULL, 0, &done, err) < 0)
		return -1;
	errno = done.sys;
	return done.sys ? err_sys(err, "sandbox: %s", what) : 0;
}

int box_seal(struct box *box, struct err *err)
{
	struct init_order order = {.type = INIT_SEAL};

	return give_simple_order(box, &order, "seal", err);
}

int box_signal(struct box *box, pid_t pgid, int signal, struct err *err)
{
	struct init_order order = {.type = INIT_SIGNAL, .pid = pgid, .signal = signal};

	return give_simple_order(box, &order, "signal", err);
}

int box_kill_others(struct box *box, const pid_t *keep, size_t keep_count, unsigned *killed,
		    struct err *err)
{
	struct init_order order = {.type = INIT_KILL, .count = (uint32_t)keep_count};
	struct init_report done;

	if (keep_count > INIT_KEEP_MAX)
		return err_set(err, ERR_LIMIT, "sandbox: more than %d processes to spare",
			       INIT_KEEP_MAX);
	for (size_t i = 0; i < keep_count; i++)
		order.pids[i] = keep[i];
	if (give_order(box, &order, NULL, 0, &done, err) < 0)
		return -1;
	errno = done.sys;
	if (done.sys)
		return err_sys(err, "sandbox: clear the box");
	if (killed)
		if (killed)
			*killed = done.count;
	if (done.left)
		return err_set(err, ERR_TIMEOUT, "sandbox: %u processes would not die", done.left);
	return 0;
}

static size_t count_strings(const char *const *strings)
{
	size_t count = 0;

	while (strings && strings[count])
		count++;
	return count;
}

/* A memfd of struct init_strings; the pointers are the child's to fill in. */
static int pack_strings(const char *const *argv, const char *const *envp, uint64_t *bytes,
			struct err *err)
{
	struct init_strings head = {.argc = count_strings(argv), .envc = count_strings(envp)};
	size_t pointers = (size_t)(head.argc + head.envc + 2) * sizeof(char *);
	cleanup_fd int fd = memfd_create("exec", MFD_CLOEXEC);
	cleanup_buf struct buf buf = BUF_INIT;

	if (fd < 0)
		return err_sys(err, "sandbox: memfd");
	buf_append(&buf, &head, sizeof(head));
	memset(buf_reserve(&buf, pointers), 0, pointers);
	buf_added(&buf, pointers);
	for (size_t i = 0; i < head.argc; i++)
		buf_append(&buf, argv[i], strlen(argv[i]) + 1);
	for (size_t i = 0; i < head.envc; i++)
		buf_append(&buf, envp[i], strlen(envp[i]) + 1);
	*bytes = buf.len;
	if (file_write_all(fd, buf_bytes(&buf), buf.len, err) < 0)
		return -1;
	return fd_take(&fd);
}

int box_exec(struct box *box, const char *const *argv, const char *const *envp, const int *fds,
	     size_t fd_count, pid_t *pid, struct err *err)
{
	struct init_order order = {.type = INIT_EXEC};
	int sent[INIT_FDS_MAX + 1];
	struct init_report done;
	cleanup_fd int strings = -1;
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert(argv && argv[0]);
	if (fd_count > INIT_FDS_MAX)
		return err_set(err, ERR_LIMIT, "sandbox: more than %d descriptors", INIT_FDS_MAX);
	if (null < 0)
		return err_sys(err, "sandbox: /dev/null");
	strings = pack_strings(argv, envp, &order.bytes, err);
	if (strings < 0)
		return -1;
	sent[0] = strings;
	for (size_t i = 0; i < fd_count; i++)
		sent[i + 1] = fds[i] < 0 ? null : fds[i];
	if (give_order(box, &order, sent, fd_count + 1, &done, err) < 0)
		return -1;
	errno = done.sys;
	if (done.sys)
		return err_sys(err, "sandbox: start %.150s", argv[0]);
	*pid = done.pid;
	return 0;
}

int box_next_exit(struct box *box, pid_t *pid, int *status, struct err *err)
{
	struct init_report report;
	struct exit_report entry;

	while (box->exits.len < sizeof(entry)) {
		int got = take_report(box, 0, &report);

		if (got < 0)
			return gone(err);
		if (got == 0)
			return 0;
		if (report.type == INIT_EXITED)
			keep_exit(box, &report);
	}
	memcpy(&entry, buf_bytes(&box->exits), sizeof(entry));
	buf_consume(&box->exits, sizeof(entry));
	*pid = entry.pid;
	*status = entry.status;
	return 1;
}

/* --- the rest --- */

/* Without a pid namespace the kernel kills nothing but the init: it is asked to clear up first. */
static void end_init(struct box *box)
{
	if (box->tier == TIER_NONE && box->init.pidfd >= 0)
		(void)box_kill_others(box, NULL, 0, NULL, NULL);
	spawn_end(&box->init);
}

void box_free(struct box *box)
{
	if (!box)
		return;
	end_init(box);
	for (size_t i = 0; i < BOX_NAMESPACES; i++) {
		if (box->namespaces[i] >= 0)
			close(box->namespaces[i]);
	}
	buf_release(&box->exits);
	free(box->workspace);
	free(box);
}

enum tier box_tier(const struct box *box)
{
	return box->tier;
}

struct json *box_layers(const struct box *box)
{
	return report_layers(box->tier, box->uid);
}

int box_pidfd(const struct box *box)
{
	return box->init.pidfd;
}

pid_t box_pid(const struct box *box)
{
	return box->init.pid;
}

int box_socket(const struct box *box)
{
	return box->init.socket;
}

const int *box_namespaces(const struct box *box)
{
	return box->tier == TIER_NONE ? NULL : box->namespaces;
}

const char *box_workspace(const struct box *box)
{
	return box->workspace;
}
